package shard

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// After a doubt the same owner's ledger time goes on by its own clock; the next
// owner's goes on from what was stored, and the gap earns it nothing.
func TestLedgerTimeOverDoubtAndFailover(t *testing.T) {
	r := newRig(t)
	r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 10})
	began, base := r.now.Mono, r.shard.now
	r.pass(time.Hour)
	r.shard.doubt(r.shard.newBatch(), ErrUncertain)
	r.settle()
	if passed, ledger := r.now.Mono-began, r.shard.now.Sub(base); ledger > passed || passed-ledger > 10*time.Millisecond {
		t.Errorf("after a doubt: %v of ledger time in %v", ledger, passed)
	}
	stored := func() lease.Time {
		t.Helper()
		kvs, err := r.store.Range(t.Context(), store.RangeRequest{Key: layout.Head(0), End: layout.Head(0) + "\x00"})
		if err != nil || len(kvs.KVs) != 1 {
			t.Fatalf("no head: %v", err)
		}
		head, err := record.Decode[record.Head](kvs.KVs[0])
		if err != nil {
			t.Fatal(err)
		}
		return lease.Time(head.ClockNs)
	}
	last := stored()
	if lost := r.shard.now.Sub(last); lost > beatEvery+beatEvery/2 {
		t.Errorf("an idle owner has left %v unstored", lost)
	}
	r.now.Mono += 24 * time.Hour // nobody owns the shard
	next := New(Config{Generation: 1, Layout: layout, OwnerRevision: r.shard.OwnerRevision()})
	r.shard = next
	before := r.now.Mono
	r.settle()
	if got := next.now.Sub(last); got < 0 || got > r.now.Mono-before {
		t.Errorf("the next owner starts %v after what was stored", got)
	}
}
