package shard

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Histories in which a grant would lapse while its holder may spend it, found in review.

func unbounded(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin = 0, 0 }

// A request that hangs comes twice, and the second copy is answered under a policy
// without a bound. What the first is answered with later does not shorten that.
func TestHangingRequestThatCameTwice(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 30, NeedTokens: 30, BoundNs: 1})
	r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 10, NeedTokens: 10, BoundNs: 1})
	req := &pb.SyncRequest{Holder: wire(eu), Epoch: 1, WaitMs: 3000, Budgets: []*pb.BudgetReport{{
		Key: a.GetKey(), Sequence: 2, GrantId: a.GetGrantId(), WantTokens: 40, NeedTokens: 40, BoundNs: int64(staleness),
	}}}
	first, _ := r.send(req)
	r.settle()
	r.deadline(2, unbounded)
	if first.times != 0 {
		t.Fatalf("it does not hang: %v", first.resp)
	}
	second, _ := r.send(req)
	r.settle()
	if got := second.requireOne(t).GetBudgets()[0]; got.GetPolicy().GetMaxStalenessNs() != 0 {
		t.Fatalf("the copy is answered %v", got)
	}
	r.deadline(3, nil)
	r.pass(time.Minute)
	first.requireOne(t)
	if n := r.shard.Stats().GrantsLapsed; n != 1 {
		t.Errorf("%d lapsed, want that of us alone", n)
	}
}

// An epoch that is fenced while its request is worked on gets no terms to go by, and
// hears that it is fenced.
func TestFencedWhileItsRequestIsWorkedOn(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	a := r.hold()
	r.put(layout.Holder(eu), record.Registration{Region: eu.Region, Instance: eu.Instance, Epoch: 2, StartNonce: "n2"}) // the hint of it is late
	next, _ := r.send(&pb.SyncRequest{Holder: wire(eu), Epoch: 2, Budgets: []*pb.BudgetReport{{
		Key: &pb.BudgetKey{Account: "other", Operation: operation}, Sequence: 1, BoundNs: 1,
	}}})
	req := &pb.SyncRequest{Holder: wire(eu), Epoch: 1}
	for i := range 300 { // more than a batch reads
		req.Budgets = append(req.Budgets, &pb.BudgetReport{
			Key: &pb.BudgetKey{Account: accountName(i), Operation: operation}, Sequence: uint64(i) + 2, BoundNs: 1,
		})
	}
	last := reporting(a, 1000, staleness)
	last.Key, last.WantTokens = a.GetKey(), 0
	req.Budgets = append(req.Budgets, last)
	old, _ := r.send(req)
	r.settle()
	next.requireOne(t)
	resp := old.requireOne(t)
	if got := resp.GetBudgets()[300]; !resp.GetFenced() || resp.GetCurrentEpoch() != 2 || got.GetPolicy() != nil || got.GetGrantId() != "" {
		t.Errorf("fenced %v, current %d, answered %v", resp.GetFenced(), resp.GetCurrentEpoch(), got)
	}
	if g := r.grants(); len(g) == 0 || g[0].Spent != 4 {
		t.Errorf("what it has told does not count: %+v", g)
	}
}

// Slots in use do not lapse though the rule was one of tokens with a deadline for a
// while: neither by a report that overtakes the close and does not name their grant, nor
// once they are closed.
func TestSlotsInUseDoNotLapse(t *testing.T) {
	slots := func(p *lease.Policy) {
		unbounded(p)
		p.Rule.Kind, p.Rule.Capacity, p.Rule.Refill = lease.Concurrency, 10, lease.Rate{}
	}
	for name, test := range map[string]struct {
		closed bool
		tokens time.Duration // for how long the rule is of tokens after the report
	}{"closed": {true, 0}, "the close is lost": {false, 0}, "the close comes late": {true, time.Minute}, "lost, and the rule stays": {false, time.Minute}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.deadline(1, slots)
			a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 10, NeedTokens: 10, BoundNs: 1})
			if a.GetIssuedTokens() != 10 {
				t.Fatalf("%v", a)
			}
			r.deadline(2, nil)
			r.ask(eu, 1, &pb.BudgetReport{Sequence: 2, GrantId: a.GetGrantId(), HeldTokens: 10})
			r.ask(eu, 1, &pb.BudgetReport{Sequence: 3, WantTokens: 1, BoundNs: 1})
			r.pass(test.tokens)
			r.deadline(3, slots)
			if test.closed {
				r.sync(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{{Key: a.GetKey(), GrantId: a.GetGrantId(), HeldTokens: 10}}})
			}
			r.pass(time.Minute)
			if got := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 10, NeedTokens: 10, BoundNs: 1}); got.GetIssuedTokens() > 0 {
				t.Errorf("%d slots are free while 10 of 10 are in use", got.GetIssuedTokens())
			}
		})
	}
}

// A request that names its grant and is answered twice leaves the longer bound, too.
func TestRepeatedReportKeepsTheLongerBound(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	a := r.hold()
	r.deadline(2, func(p *lease.Policy) { p.MaxStaleness = 20 * time.Second })
	r.ask(eu, 1, reporting(a, 2, staleness))
	r.deadline(3, func(p *lease.Policy) { p.MaxStaleness = 10 * time.Second })
	if again := r.ask(eu, 1, reporting(a, 2, staleness)); again.GetShortage() != pb.Shortage_SHORTAGE_STALE {
		t.Fatalf("the repetition is answered %v", again)
	}
	r.requireLapse(20*time.Second + margin)
}

// A margin counts for the bound that it was declared with: a holder that goes by a longer
// one keeps what that was given, until it says that it goes by the new one.
func TestMarginIsOfItsOwnBound(t *testing.T) {
	for name, test := range map[string]struct{ margin, want time.Duration }{
		"deadline": {10 * time.Minute, time.Hour + 10*time.Minute},
		"proof":    {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.deadline(1, func(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin = time.Hour, test.margin })
			a := r.hold()
			r.deadline(2, func(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin = 5*time.Second, time.Second })
			r.ask(eu, 1, reporting(a, 2, time.Hour))
			if got := time.Duration(r.grants()[0].LapsesAfterNs); got != test.want {
				t.Errorf("lapses after %v, want %v", got, test.want)
			}
			r.ask(eu, 1, reporting(a, 3, 5*time.Second))
			if got := time.Duration(r.grants()[0].LapsesAfterNs); got != 6*time.Second {
				t.Errorf("lapses after %v once it is installed, want 6s", got)
			}
		})
	}
}

// A budget that is full with nothing out leaves memory and store, however far off the
// deadline was of what it had out.
func TestClosedBudgetLeavesMemory(t *testing.T) {
	r := newRig(t)
	r.deadline(1, func(p *lease.Policy) { p.MaxStaleness = 24 * time.Hour })
	a := r.hold()
	r.sync(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{{Key: a.GetKey(), GrantId: a.GetGrantId()}}})
	r.pass(time.Minute)
	if r.shard.Budgets() != 0 || r.budget() != nil || len(r.shard.lapses) != 0 {
		t.Errorf("%d budgets in memory, %d of them to lapse, record %v", r.shard.Budgets(), len(r.shard.lapses), r.budget())
	}
}

// A budget whose record was not usable for a moment is read again, deadline or not.
func TestUnusableBudgetIsReadAgain(t *testing.T) {
	r := newRig(t)
	r.deadline(1, func(p *lease.Policy) { p.MaxStaleness = time.Hour })
	r.hold()
	r.shard.ledgers[lease.Key{Account: "acme", Operation: operation}].err = ErrRecord // as reading the account's record leaves it
	r.pass(30 * time.Second)
	if got := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 1, BoundNs: 1}); got.GetEvidence() != pb.Evidence_EVIDENCE_UNSPECIFIED {
		t.Errorf("%v", got)
	}
	r.pass(30 * time.Minute)
	if n := len(r.grants()); n != 1 {
		t.Errorf("%d grants before the deadline", n)
	}
	r.pass(time.Hour)
	if n := len(r.grants()); n != 0 {
		t.Errorf("%d grants after the deadline", n)
	}
}
