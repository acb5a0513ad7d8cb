package shard

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// inParts is the final account of eu's first epoch, of a grant of ten slots that are
// in use, by the holder itself or by its journal: first a part that names the grant,
// then the last part, which does not.
func inParts(r *rig, grantID string, journal bool) []*pb.SyncRequest {
	named := &pb.GrantAccount{GrantId: grantID, HeldTokens: 10}
	epoch, source := uint64(1), pb.AccountSource_ACCOUNT_SOURCE_HOLDER
	if journal {
		r.register(eu, 2)
		named = &pb.GrantAccount{GrantId: grantID, SpentTokens: 10}
		epoch, source = 2, pb.AccountSource_ACCOUNT_SOURCE_JOURNAL
	}
	part := func(a *pb.EpochAccount) *pb.SyncRequest {
		return &pb.SyncRequest{Holder: wire(eu), Epoch: epoch, Accounts: []*pb.EpochAccount{a}}
	}
	return []*pb.SyncRequest{
		part(&pb.EpochAccount{Epoch: 1, Source: source, Partial: true, Grants: []*pb.GrantAccount{named}}),
		part(&pb.EpochAccount{Epoch: 1, Source: source}),
	}
}

// Slots that one part of a final account leaves reserved are not freed by a later part
// that does not name their grant.
func TestAccountInPartsKeepsSlots(t *testing.T) {
	for _, journal := range []bool{false, true} {
		r := newRig(t)
		r.govern(lease.Rule{Kind: lease.Concurrency, Version: 1, Capacity: 10})
		a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 10})
		for _, req := range inParts(r, a.GetGrantId(), journal) {
			r.sync(req)
		}
		if b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 10}); b.GetIssuedTokens() != 0 {
			t.Errorf("by a journal %v: %d of ten slots in use are handed out", journal, b.GetIssuedTokens())
		}
		if got := r.budget(); got == nil || got.Reserved != 10 {
			t.Errorf("by a journal %v: recorded %+v", journal, got)
		}
	}
}

// A budget whose kind changes and changes back finds what was spent before, though the
// rule in between had forgotten it and the ledger was idle.
func TestKindsInBetweenForgetNothing(t *testing.T) {
	bucket := func(version int64) lease.Rule {
		return lease.Rule{Kind: lease.TokenBucket, Version: version, Capacity: 10, Refill: lease.Rate{Tokens: 10, Interval: time.Hour}}
	}
	for _, between := range []lease.Rule{
		{Kind: lease.Concurrency, Version: 2, Capacity: 10},
		{Kind: lease.RollingWindow, Version: 2, Capacity: 10, Window: time.Second},
		{Kind: lease.FixedWindow, Version: 2, Capacity: 10, Period: lease.Minute, Zone: "UTC"},
	} {
		r := newRig(t)
		r.wallAt(time.Date(2026, 12, 1, 8, 30, 30, 0, time.UTC))
		r.govern(bucket(1))
		a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 10, NeedTokens: 10})
		r.sync(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{{
			GrantId: a.GetGrantId(), SpentTokens: 10, Key: &pb.BudgetKey{Account: "acme", Operation: operation},
		}}})
		r.govern(between)
		for range 90 {
			r.now.UnixMs += 1000
			r.pass(time.Second)
		}
		r.govern(bucket(3))
		if b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 10}); b.GetIssuedTokens() > 0 {
			t.Errorf("%s in between: %d more within two minutes of ten an hour", between.Kind, b.GetIssuedTokens())
		}
	}
}

// A final account that comes to a ledger which was not in memory is applied under the
// policy in force, not under the one that the record has.
func TestAccountUnderThePolicyInForce(t *testing.T) {
	for _, closes := range []bool{false, true} {
		r := newRig(t)
		r.govern(lease.Rule{Kind: lease.Concurrency, Version: 1, Capacity: 10})
		a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 5})
		r.govern(lease.Rule{Kind: lease.TokenBucket, Version: 2, Capacity: 10}) // eu does not hear of it
		for range 60 {
			r.pass(time.Second)
		}
		r.govern(lease.Rule{Kind: lease.Concurrency, Version: 3, Capacity: 10})
		// Work has begun in eu's five slots, which it gives up by an old word, or by stopping.
		named := &pb.GrantAccount{GrantId: a.GetGrantId(), HeldTokens: 5, Key: &pb.BudgetKey{Account: "acme", Operation: operation}}
		req := &pb.SyncRequest{Holder: wire(eu), Epoch: 1, Accounts: []*pb.EpochAccount{{
			Epoch: 1, Source: pb.AccountSource_ACCOUNT_SOURCE_HOLDER, Grants: []*pb.GrantAccount{named},
		}}}
		if closes {
			req = &pb.SyncRequest{Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{named}}
		}
		r.sync(req)
		if b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 10}); b.GetIssuedTokens() > 5 {
			t.Errorf("closed %v: %d of ten slots beside five in use", closes, b.GetIssuedTokens())
		}
		if !closes {
			continue
		}
		if b := r.ask(eu, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 1}); b.GetGrantId() == a.GetGrantId() {
			t.Errorf("the grant that was closed is topped up: %v", b)
		}
		named.HeldTokens = 0 // as of a holder that has forgotten it
		r.sync(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{named}})
		if got := r.budget(); got == nil || got.Reserved < 10 {
			t.Errorf("slots in use are freed by a second close: %+v", got)
		}
	}
}

// While a clock is behind one that was used before it, the wait for the end of a period
// is longer by as much: guidance is never early.
func TestFixedWindowWaitsForTheLatestClock(t *testing.T) {
	r := newRig(t)
	at := time.Date(2026, 12, 1, 8, 30, 50, 0, time.UTC)
	r.wallAt(at)
	r.govern(lease.Rule{Kind: lease.FixedWindow, Version: 1, Capacity: 10, Period: lease.Minute, Zone: "UTC"})
	a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 10})
	r.ask(eu, 1, &pb.BudgetReport{Sequence: 2, GrantId: a.GetGrantId(), SpentTokens: 10})
	r.own()
	r.settle()
	r.wallAt(at.Add(-5 * time.Second))
	b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 1, NeedTokens: 1})
	if got := time.Duration(b.GetRetryInNs()); got != 15*time.Second {
		t.Errorf("told %v, want 15s", got)
	}
	r.now.UnixMs += 15_000
	r.pass(15 * time.Second)
	if b = r.ask(us, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 1, NeedTokens: 1}); b.GetIssuedTokens() != 1 {
		t.Errorf("after that: %v", b)
	}
}

// What an idle limiter once wanted does not stand in the way of one whose callers wait,
// and neither does what it holds.
func TestIdleWantsGiveWay(t *testing.T) {
	for _, holds := range []int64{0, 9} {
		r := newRig(t)
		r.rule(40, 20, 100)
		a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 40})
		r.ask(eu, 1, &pb.BudgetReport{Sequence: 2, GrantId: a.GetGrantId(), SpentTokens: 40 - holds, WantTokens: 40})
		if b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 40, NeedTokens: 36}); b.GetIssuedTokens() > 0 {
			t.Fatalf("at once, while eu may be using it: %v", b)
		}
		r.pass(3 * time.Second)
		b := r.ask(us, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 40, NeedTokens: 36})
		switch {
		case holds == 0 && b.GetIssuedTokens() < 36:
			t.Errorf("nothing is out: %v", b)
		case holds > 0 && b.GetShortage() != pb.Shortage_SHORTAGE_RECALLING:
			t.Errorf("nine are idle with eu: %v", b)
		}
	}
}
