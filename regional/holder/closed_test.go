package holder

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// An answer that was made before the broker ended a grant, and arrives after it
// has confirmed the end, does not revive it (found by simulation: two requests
// on their way, their answers out of order).
func TestLateAnswerDoesNotReviveClosedGrant(t *testing.T) {
	const grant = "g1-000-00000001"
	key := lease.Key{Account: "acme", Operation: "report.create"}
	signals := NewSignals()
	m := New(Config{
		Holder: lease.Holder{Region: "eu", Instance: "a"}, Epoch: 1, Shards: 1,
		Journal: JournalOff, Jitter: func() float64 { return 0 }, Clocks: func() Clocks { return Clocks{} },
	}, signals)
	now := time.Second
	step := func() *pb.SyncRequest {
		t.Helper()
		now += 10 * time.Millisecond
		syncs := m.Step(now).Syncs
		if len(syncs) != 1 {
			t.Fatalf("%d requests, want one", len(syncs))
		}
		return syncs[0].Request
	}
	answer := func(req *pb.SyncRequest, issued int64) *pb.SyncResponse {
		return &pb.SyncResponse{Budgets: []*pb.BudgetAnswer{{
			Key: req.GetBudgets()[0].GetKey(), Sequence: req.GetBudgets()[0].GetSequence(),
			GrantId: grant, IssuedTokens: issued, LevelTokens: issued,
		}}}
	}

	b := NewBudget(key, signals)
	if _, ok := b.Wait(1); !ok {
		t.Fatal("the budget is retired")
	}
	b.Signal()
	m.Synced(1, answer(step(), 2), nil, now)
	b.Leave(1)
	if _, ok := b.Spend(2); !ok {
		t.Fatal("the credit did not arrive")
	}
	k := m.key(b)
	m.ask(k, 0, false)
	late := answer(step(), 5) // the broker answers this one first
	m.closeGrant(k)
	closing := step()
	if len(closing.GetCloses()) != 1 {
		t.Fatalf("want a close, got %v", closing)
	}
	m.Synced(3, &pb.SyncResponse{Closes: []*pb.CloseAnswer{{GrantId: grant}}}, nil, now)
	m.Synced(2, late, nil, now)
	if id, unspent := m.Held(key); id != "" || unspent != 0 || b.Credit() != 0 {
		t.Errorf("%d of the closed grant %q came back to life, %d can be spent", unspent, id, b.Credit())
	}
	if n := len(m.shards[0].closed) + len(m.shards[0].ended); n != 0 {
		t.Errorf("%d closed grants are remembered for ever", n)
	}
}
