package shard

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// govern puts a rule in force.
func (r *rig) govern(rule lease.Rule) {
	r.t.Helper()
	rule.MaxSharePercent = 100
	r.put(layout.Policy(operation), lease.Policy{Operation: operation, DefaultCost: 1, Rule: rule})
	r.shard.PoliciesChanged()
	r.settle()
}

// budget is the stored record of the budget of "acme", or nil.
func (r *rig) budget() *record.Budget {
	r.t.Helper()
	key := layout.Budget(0, lease.Key{Account: "acme", Operation: operation})
	res, err := r.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpGet, Key: key}}})
	if err != nil {
		r.t.Fatal(err)
	}
	if len(res.Results[0].KVs) == 0 {
		return nil
	}
	b, err := record.Decode[record.Budget](res.Results[0].KVs[0])
	if err != nil {
		r.t.Fatal(err)
	}
	return &b
}

// to sets both clocks: what the test calls t, and the wall clock with it.
func (r *rig) to(t time.Duration) {
	r.t.Helper()
	r.pass(t - r.now.Mono)
}

// wallAt sets the wall clock.
func (r *rig) wallAt(t time.Time) { r.now.UnixMs = t.UnixMilli() }

// A rolling window remembers what was settled over a fail-over, tells the wait for
// the need, and its record goes when the window has passed.
func TestRollingWindow(t *testing.T) {
	r := newRig(t)
	r.govern(lease.Rule{Kind: lease.RollingWindow, Version: 1, Capacity: 3, Window: time.Minute})
	a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 3})
	if a.GetIssuedTokens() != 3 {
		t.Fatalf("%v", a)
	}
	settled := r.now.Mono
	r.ask(eu, 1, &pb.BudgetReport{Sequence: 2, GrantId: a.GetGrantId(), SpentTokens: 2, WantTokens: 1})
	r.to(settled + 30*time.Second)
	if b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 2, NeedTokens: 2}); b.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || !b.GetHasRetry() ||
		time.Duration(b.GetRetryInNs()) > 30*time.Second+10*time.Millisecond || time.Duration(b.GetRetryInNs()) < 30*time.Second-10*time.Millisecond {
		t.Errorf("at 30 s: %v", b)
	}
	r.own()
	r.settle() // the next owner's ledger time runs on from what was stored
	b := r.ask(us, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 2, NeedTokens: 2})
	if b.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || time.Duration(b.GetRetryInNs()) < 29*time.Second {
		t.Errorf("after a fail-over: %v", b)
	}
	r.pass(40 * time.Second)
	if b = r.ask(us, 1, &pb.BudgetReport{Sequence: 3, WantTokens: 2, NeedTokens: 2}); b.GetIssuedTokens() != 2 {
		t.Errorf("after the window: %v", b)
	}
	// Given back unspent, and closed: nothing counts any more.
	r.sync(&pb.SyncRequest{Holder: wire(us), Epoch: 1, Closes: []*pb.GrantAccount{{GrantId: b.GetGrantId(), Key: &pb.BudgetKey{Account: "acme", Operation: operation}}}})
	r.sync(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{{GrantId: a.GetGrantId(), SpentTokens: 3, Key: &pb.BudgetKey{Account: "acme", Operation: operation}}}})
	if got := r.budget(); got == nil || len(got.Recovering) != 1 || got.Recovering[0].Tokens != 1 {
		t.Errorf("recorded: %+v", got)
	}
	r.pass(2 * time.Minute)
	if got := r.budget(); got != nil {
		t.Errorf("the record of a full window stays: %+v", got)
	}
}

// A period ends by the clock of its zone; what is out counts against the next one.
// A clock that is set back, here or at the next owner, opens no period twice.
func TestFixedWindow(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	midnight := time.Date(2026, 12, 1, 0, 0, 0, 0, berlin)
	r := newRig(t)
	r.wallAt(midnight.Add(-10 * time.Second))
	r.govern(lease.Rule{Kind: lease.FixedWindow, Version: 1, Capacity: 10, Period: lease.Day, Zone: "Europe/Berlin"})
	a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 8})
	r.ask(eu, 1, &pb.BudgetReport{Sequence: 2, GrantId: a.GetGrantId(), SpentTokens: 5, WantTokens: 3})
	b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 6, NeedTokens: 6})
	if b.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || time.Duration(b.GetRetryInNs()) != 10*time.Second {
		t.Errorf("ten seconds before midnight: %v", b)
	}
	r.wallAt(midnight.Add(-time.Millisecond))
	if b = r.ask(us, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 6, NeedTokens: 6}); b.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED {
		t.Errorf("a millisecond before midnight: %v", b)
	}
	r.wallAt(midnight)
	if b = r.ask(us, 1, &pb.BudgetReport{Sequence: 3, WantTokens: 6, NeedTokens: 6}); b.GetIssuedTokens() != 6 {
		t.Errorf("at midnight: %v", b)
	}
	// 3 of the day before are out with eu, and 6 with us: 1 is left of 10.
	if c := r.ask(eu, 1, &pb.BudgetReport{Sequence: 3, GrantId: a.GetGrantId(), SpentTokens: 5, WantTokens: 9}); c.GetIssuedTokens() != 9 {
		t.Errorf("what is out at midnight does not count against the new day: %v", c)
	}
	r.ask(us, 1, &pb.BudgetReport{Sequence: 4, GrantId: b.GetGrantId(), SpentTokens: 6})
	r.wallAt(midnight.Add(-time.Hour))
	if c := r.ask(us, 1, &pb.BudgetReport{Sequence: 5, GrantId: b.GetGrantId(), SpentTokens: 6, WantTokens: 1, NeedTokens: 1}); c.GetIssuedTokens() != 6 || c.GetShortage() == pb.Shortage_SHORTAGE_UNSPECIFIED {
		t.Errorf("a clock that is set back opens the day before again: %v", c)
	}
	r.own()
	if c := r.ask(us, 1, &pb.BudgetReport{Sequence: 6, GrantId: b.GetGrantId(), SpentTokens: 6, WantTokens: 1, NeedTokens: 1}); c.GetIssuedTokens() != 6 || c.GetShortage() == pb.Shortage_SHORTAGE_UNSPECIFIED {
		t.Errorf("the next owner's clock, which is behind, opens the day before again: %v", c)
	}
	r.wallAt(midnight.AddDate(0, 0, 1))
	if c := r.ask(us, 1, &pb.BudgetReport{Sequence: 7, GrantId: b.GetGrantId(), SpentTokens: 6, WantTokens: 6, NeedTokens: 6}); c.GetIssuedTokens() != 12 {
		t.Errorf("a day later: %v", c)
	}
}

// Slots that are in use are reserved, and no one's to share: levels are of free
// ones. A final account keeps those that may still be in use until an operator
// attests that their work has ended, and a journal those that were drawn.
func TestSlots(t *testing.T) {
	r := newRig(t)
	r.govern(lease.Rule{Kind: lease.Concurrency, Version: 1, Capacity: 10})
	a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 6})
	if a.GetIssuedTokens() != 6 {
		t.Fatalf("%v", a)
	}
	// Five of six in use: us wants all, and eu's free one is shared.
	r.ask(eu, 1, &pb.BudgetReport{Sequence: 2, GrantId: a.GetGrantId(), HeldTokens: 5, WantTokens: 1})
	b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 10, NeedTokens: 1})
	if b.GetIssuedTokens() != 4 || b.GetLevelTokens() != 4 {
		t.Errorf("us wants all: %v", b)
	}
	// All are in use: one more waits, and nobody knows how long.
	r.ask(eu, 1, &pb.BudgetReport{Sequence: 3, GrantId: a.GetGrantId(), HeldTokens: 6})
	b = r.ask(us, 1, &pb.BudgetReport{Sequence: 2, GrantId: b.GetGrantId(), HeldTokens: 4, WantTokens: 1, NeedTokens: 1})
	if b.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || b.GetHasRetry() {
		t.Errorf("all slots are in use: %v", b)
	}
	// Two are done and given back: us gets them.
	r.ask(eu, 1, &pb.BudgetReport{Sequence: 4, GrantId: a.GetGrantId(), ReturnedTokens: 2, HeldTokens: 4})
	b = r.ask(us, 1, &pb.BudgetReport{Sequence: 3, GrantId: b.GetGrantId(), HeldTokens: 4, WantTokens: 2, NeedTokens: 1})
	if b.GetIssuedTokens() != 6 {
		t.Errorf("two slots were given back: %v", b)
	}
	// eu stops in order with three in use.
	resp := r.sync(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Accounts: []*pb.EpochAccount{{
		Epoch: 1, Source: pb.AccountSource_ACCOUNT_SOURCE_HOLDER,
		Grants: []*pb.GrantAccount{{GrantId: a.GetGrantId(), ReturnedTokens: 2, HeldTokens: 3}},
	}}})
	if !resp.GetAccounts()[0].GetApplied() {
		t.Fatalf("%v", resp)
	}
	// us crashes with two of its six never drawn.
	r.register(us, 2)
	resp = r.sync(&pb.SyncRequest{Holder: wire(us), Epoch: 2, Accounts: []*pb.EpochAccount{{
		Epoch: 1, Source: pb.AccountSource_ACCOUNT_SOURCE_JOURNAL,
		Grants: []*pb.GrantAccount{{GrantId: b.GetGrantId(), SpentTokens: 4}},
	}}})
	if !resp.GetAccounts()[0].GetApplied() {
		t.Fatalf("%v", resp)
	}
	if got := r.budget(); got == nil || got.Reserved != 7 || got.Available != 3 || len(got.Grants) != 2 {
		t.Fatalf("three and four slots may still be in use: %+v", got)
	}
	// A repeated account frees nothing more.
	r.sync(&pb.SyncRequest{Holder: wire(us), Epoch: 2, Accounts: []*pb.EpochAccount{{
		Epoch: 1, Source: pb.AccountSource_ACCOUNT_SOURCE_JOURNAL,
		Grants: []*pb.GrantAccount{{GrantId: b.GetGrantId(), SpentTokens: 4}},
	}}})
	r.own()
	id, err := lease.ParseGrantID(a.GetGrantId())
	if err != nil {
		t.Fatal(err)
	}
	var resolved Resolved
	r.shard.Resolve(Resolution{GrantID: id, Key: lease.Key{Account: "acme", Operation: operation}, Word: record.Audit{By: "op", Because: "ended"}},
		func(got Resolved, failure error) { resolved, err = got, failure })
	r.settle()
	if err != nil || resolved.Counted != 3 {
		t.Errorf("%+v, %v", resolved, err)
	}
	if got := r.budget(); got == nil || got.Reserved != 4 || got.Available != 6 {
		t.Errorf("three slots are attested to be free: %+v", got)
	}
}

// Numbers of one kind keep what was used; another kind starts as if all of it had
// been spent.
func TestPolicyKinds(t *testing.T) {
	r := newRig(t)
	r.govern(lease.Rule{Kind: lease.RollingWindow, Version: 1, Capacity: 5, Window: time.Minute})
	a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 5})
	r.ask(eu, 1, &pb.BudgetReport{Sequence: 2, GrantId: a.GetGrantId(), SpentTokens: 5})
	r.govern(lease.Rule{Kind: lease.RollingWindow, Version: 2, Capacity: 7, Window: time.Minute})
	if b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 7}); b.GetIssuedTokens() != 2 {
		t.Errorf("raised from five to seven: %v", b)
	}
	r.govern(lease.Rule{Kind: lease.TokenBucket, Version: 3, Capacity: 10, Refill: lease.Rate{Tokens: 1, Interval: time.Second}})
	b := r.ask(us, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 7, NeedTokens: 3})
	if b.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || b.GetIssuedTokens() != 2 {
		t.Errorf("a bucket in the place of a window: %v", b)
	}
	r.wallAt(time.Date(2026, 12, 1, 8, 30, 0, 0, time.UTC))
	r.govern(lease.Rule{Kind: lease.FixedWindow, Version: 4, Capacity: 10, Period: lease.Hour, Zone: "UTC"})
	b = r.ask(us, 1, &pb.BudgetReport{Sequence: 3, WantTokens: 7, NeedTokens: 3})
	if b.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || time.Duration(b.GetRetryInNs()) != 30*time.Minute {
		t.Errorf("a fixed window in the place of a bucket: %v", b)
	}
	r.wallAt(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC))
	if b = r.ask(us, 1, &pb.BudgetReport{Sequence: 4, WantTokens: 7, NeedTokens: 3}); b.GetIssuedTokens() != 7 {
		t.Errorf("at the full hour: %v", b)
	}
}

// After a restore is attested, a window begins with all of it spent, and slots
// begin free.
func TestRestoreOfKinds(t *testing.T) {
	for _, tc := range []struct {
		rule   lease.Rule
		first  int64
		waited time.Duration
	}{
		{lease.Rule{Kind: lease.RollingWindow, Version: 1, Capacity: 5, Window: time.Minute}, 0, time.Minute},
		{lease.Rule{Kind: lease.FixedWindow, Version: 1, Capacity: 5, Period: lease.Minute, Zone: "UTC"}, 0, time.Minute},
		{lease.Rule{Kind: lease.Concurrency, Version: 1, Capacity: 5}, 5, 0},
	} {
		r := newRig(t)
		r.govern(tc.rule)
		r.wallAt(time.Date(2026, 12, 1, 8, 30, 1, 0, time.UTC))
		r.declare(7)
		r.own()
		r.settle()
		epoch := r.restart(eu, 7)
		if a := r.ask(eu, epoch, &pb.BudgetReport{Sequence: 1, WantTokens: 5, NeedTokens: 1}); a.GetIssuedTokens() != 0 {
			t.Errorf("%s: granted before the attestation: %v", tc.rule.Kind, a)
		}
		r.attest()
		r.settle()
		a := r.ask(eu, epoch, &pb.BudgetReport{Sequence: 2, WantTokens: 5, NeedTokens: 5})
		if a.GetIssuedTokens() != tc.first {
			t.Errorf("%s: after the attestation: %v", tc.rule.Kind, a)
		}
		if tc.first > 0 {
			continue
		}
		r.now.UnixMs += tc.waited.Milliseconds()
		r.pass(tc.waited)
		if a = r.ask(eu, epoch, &pb.BudgetReport{Sequence: 3, WantTokens: 5, NeedTokens: 5}); a.GetIssuedTokens() != 5 {
			t.Errorf("%s: %v later: %v", tc.rule.Kind, tc.waited, a)
		}
	}
}
