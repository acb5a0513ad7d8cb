package shard

import (
	"fmt"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// rule puts a token bucket in force.
func (r *rig) rule(capacity, refill int64, share int32) {
	r.t.Helper()
	r.put(layout.Policy(operation), lease.Policy{
		Operation: operation, DefaultCost: 1,
		Rule: lease.Rule{
			Kind: lease.TokenBucket, Version: 1, Capacity: capacity, MaxSharePercent: share,
			Refill: lease.Rate{Tokens: refill, Interval: time.Second},
		},
	})
}

// register puts a holder's epoch on record.
func (r *rig) register(h lease.Holder, epoch uint64) {
	r.t.Helper()
	r.put(layout.Holder(h), record.Registration{Region: h.Region, Instance: h.Instance, Epoch: epoch, StartNonce: "n"})
	r.shard.HolderChanged(h)
}

// ask sends one report of the account "acme" and returns its answer.
func (r *rig) ask(h lease.Holder, epoch uint64, report *pb.BudgetReport) *pb.BudgetAnswer {
	r.t.Helper()
	report.Key = &pb.BudgetKey{Account: "acme", Operation: operation}
	a, _ := r.send(&pb.SyncRequest{Holder: wire(h), Epoch: epoch, Budgets: []*pb.BudgetReport{report}})
	r.settle()
	return a.requireOne(r.t).GetBudgets()[0]
}

// pass lets time go by as a runner would: it wakes when the shard wants to, and
// says how often that was.
func (r *rig) pass(d time.Duration) (wakes int) {
	r.t.Helper()
	for end := r.now.Mono + d; r.now.Mono < end; wakes++ {
		at, ok := r.shard.WakeAt()
		if !ok || at > end {
			at = end
		}
		r.now.Mono = max(r.now.Mono, at)
		r.settle()
	}
	return wakes
}

// An earlier epoch's orphan may take up a holder's whole share. Then no refill
// helps, so no time is named, and a request that hangs does not spin.
func TestNoRetryWhereTheShareIsTakenUp(t *testing.T) {
	r := newRig(t)
	r.rule(40, 20, 50)
	if a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 20, NeedTokens: 5}); a.GetIssuedTokens() != 20 {
		t.Fatalf("%v", a)
	}
	r.register(eu, 2)
	a := r.ask(eu, 2, &pb.BudgetReport{Sequence: 1, WantTokens: 20, NeedTokens: 5})
	if a.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || a.GetHasRetry() {
		t.Errorf("its share is orphaned: %v", a)
	}
	hung, _ := r.send(&pb.SyncRequest{Holder: wire(eu), Epoch: 2, WaitMs: 10_000, Budgets: []*pb.BudgetReport{
		{Key: &pb.BudgetKey{Account: "acme", Operation: operation}, Sequence: 2, WantTokens: 20, NeedTokens: 5},
	}})
	if wakes := r.pass(11 * time.Second); wakes > 60 {
		t.Errorf("%d wakes in 11 s for one request that hangs", wakes)
	}
	if got := hung.requireOne(t).GetBudgets()[0]; got.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED {
		t.Errorf("%v", got)
	}
}

// The wish of a holder that holds nothing and has given up keeps nothing from
// the others.
func TestWishOfTheDepartedDoesNotCount(t *testing.T) {
	r := newRig(t)
	r.rule(40, 20, 100)
	held := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 40, NeedTokens: 25})
	if a := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 25, NeedTokens: 25}); a.GetIssuedTokens() != 0 {
		t.Fatalf("%v", a)
	}
	r.send(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{{
		GrantId: held.GetGrantId(), SpentTokens: 40, Key: held.GetKey(),
	}}})
	r.settle()
	r.pass(5 * time.Second) // full again
	if a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 25, NeedTokens: 25}); a.GetIssuedTokens() != 25 {
		t.Errorf("40 of 40 were available: %v", a)
	}
}

// Demands that have lapsed are dropped while a report is worked on, without
// mixing up the others.
func TestLapsedDemandsLeaveTheOthersAlone(t *testing.T) {
	r := newRig(t)
	ap := lease.Holder{Region: "ap", Instance: "limiter-0"} // sorts first
	r.register(ap, 1)
	r.rule(100, 0, 100)
	r.ask(ap, 1, &pb.BudgetReport{Sequence: 1})
	for i := range 4 {
		r.pass(7 * time.Second)
		r.ask(us, 1, &pb.BudgetReport{Sequence: uint64(i + 1)})
	}
	held := r.ask(us, 1, &pb.BudgetReport{Sequence: 10, WantTokens: 95})
	r.ask(us, 1, &pb.BudgetReport{Sequence: 11, GrantId: held.GetGrantId(), SpentTokens: 95})
	r.pass(7 * time.Second)
	a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 50, NeedTokens: 50})
	if a.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || a.GetIssuedTokens() != 0 {
		t.Errorf("50 are needed, 5 are left: %v", a)
	}
}

// A damaged budget and a damaged policy are answered as that, and stop nobody
// else.
func TestDamagedBudgetStopsNoOther(t *testing.T) {
	r := newRig(t)
	bad := lease.Key{Account: "bad", Operation: operation}
	r.put(layout.Budget(0, bad), map[string]any{"account": "bad", "operation": operation, "available": -1})
	r.put(layout.Policy("other"), map[string]any{"operation": "other"})
	a, _ := r.send(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Budgets: []*pb.BudgetReport{
		{Key: &pb.BudgetKey{Account: "bad", Operation: operation}, Sequence: 1, WantTokens: 5, NeedTokens: 5},
		{Key: &pb.BudgetKey{Account: "acme", Operation: operation}, Sequence: 2, WantTokens: 5, NeedTokens: 5},
		{Key: &pb.BudgetKey{Account: "acme", Operation: "other"}, Sequence: 3, WantTokens: 5, NeedTokens: 5},
	}})
	r.settle()
	got := a.requireOne(t).GetBudgets()
	if got[0].GetEvidence() != pb.Evidence_EVIDENCE_RECORD_UNUSABLE || got[1].GetIssuedTokens() != 5 ||
		got[2].GetShortage() != pb.Shortage_SHORTAGE_NO_POLICY {
		t.Errorf("%v", got)
	}
}

// Requests whose callers have left do not pile up while the shard cannot be
// read.
func TestCanceledRequestsLeaveWhileLoading(t *testing.T) {
	r := newRig(t)
	r.put(layout.Head(0), "damaged")
	var answers []*answer
	for i := range 100 {
		a, ticket := r.send(asking(eu, "acme", uint64(i+1), 5))
		ticket.Cancel()
		answers = append(answers, a)
		r.step()
	}
	if n := r.shard.Waiting(); n > 1 {
		t.Errorf("%d requests are kept", n)
	}
	answers[0].requireError(t, ErrCanceled)
}

// BenchmarkReport is one report on a budget that many holders share.
func BenchmarkReport(b *testing.B) {
	for _, holders := range []int{3, 100, 1000} {
		b.Run(fmt.Sprint(holders), func(b *testing.B) {
			s := New(Config{Generation: 1, Layout: layout})
			s.state = serving
			key := lease.Key{Account: "acme", Operation: operation}
			rule := lease.Rule{Kind: lease.TokenBucket, Version: 1, Capacity: 1e9, MaxSharePercent: 100}
			s.policies.shared[operation] = &policy{Policy: lease.Policy{Operation: operation, Rule: rule, DefaultCost: 1}}
			e := &entry{key: key, known: true, exists: true, ledger: lease.NewLedger(key, rule, 0)}
			s.ledgers[key] = e
			for i := range holders {
				h := lease.Holder{Region: "eu", Instance: fmt.Sprintf("limiter-%05d", i)}
				_ = e.ledger.Open(0, lease.GrantID{Generation: 1, Sequence: uint64(i + 1)}, h, 1, 10)
				e.demand(h, 1).want = 10
				s.fence(h).verified = 1
			}
			j := &syncJob{holder: lease.Holder{Region: "eu", Instance: "limiter-00000"}, req: &pb.SyncRequest{Epoch: 1}}
			report := &pb.BudgetReport{Key: &pb.BudgetKey{Account: "acme", Operation: operation}, WantTokens: 10}
			for b.Loop() {
				report.Sequence++
				if _, err := j.report(s, s.newBatch(), e, report); err != nil {
					b.Fatal(err)
				}
				e.dirty, e.puts = false, nil
			}
		})
	}
}

// A budget that fills up after it has left memory loses its record too, and so
// does one that another owner has left.
func TestCase22RecordsOfSlowBudgetsGo(t *testing.T) {
	r := newRig(t)
	r.rule(10, 1, 100) // full again after 10 s
	for i := range 50 {
		key := &pb.BudgetKey{Account: accountName(i), Operation: operation}
		a, _ := r.send(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Budgets: []*pb.BudgetReport{{Key: key, Sequence: uint64(i + 1), WantTokens: 10}}})
		r.settle()
		r.send(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{{
			GrantId: a.requireOne(t).GetBudgets()[0].GetGrantId(), SpentTokens: 10, Key: key,
		}}})
		r.settle()
	}
	stored := func() int {
		key, end := record.All(layout.Budgets(0))
		res, err := r.store.Range(t.Context(), store.RangeRequest{Key: key, End: end})
		if err != nil {
			t.Fatal(err)
		}
		return len(res.KVs)
	}
	if n := stored(); n != 50 {
		t.Fatalf("%d records of 50", n)
	}
	r.shard.doubt(r.shard.newBatch(), ErrUncertain) // nothing is in memory now
	r.settle()
	r.pass(time.Minute)
	if n := stored(); n != 0 || r.shard.Budgets() != 0 {
		t.Errorf("%d records and %d ledgers are left", n, r.shard.Budgets())
	}
}

// A recall whose hint was lost is repeated when the holder subscribes again.
func TestLostRecallIsRepeated(t *testing.T) {
	r := newRig(t)
	held := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 40})
	if a := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 20, NeedTokens: 20}); a.GetShortage() != pb.Shortage_SHORTAGE_RECALLING {
		t.Fatalf("%v", a)
	}
	r.pass(5 * time.Second) // nobody heard it
	var got []lease.Key
	r.shard.Subscribe(eu, 1, func(keys []lease.Key, _ bool) { got = append(got, keys...) })
	if len(got) != 1 || got[0].Account != "acme" {
		t.Fatalf("hints: %v", got)
	}
	r.ask(eu, 1, &pb.BudgetReport{Sequence: 2, GrantId: held.GetGrantId(), ReturnedTokens: 20, WantTokens: 20})
	got = nil
	r.shard.Subscribe(eu, 1, func(keys []lease.Key, _ bool) { got = append(got, keys...) })
	if len(got) != 0 {
		t.Errorf("it has answered: %v", got)
	}
}

// A budget that fills up under an old version of its policy is not dropped: it
// would come back full under the new one, and a raise would mint at once.
func TestRaisedCapacityIsNotMintedByADrop(t *testing.T) {
	for raise := 12 * time.Second; raise < 39*time.Second; raise += time.Second {
		r := newRig(t)
		r.rule(40, 1, 100)
		a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 40})
		r.send(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{{GrantId: a.GetGrantId(), SpentTokens: 40, Key: a.GetKey()}}})
		r.settle()
		spent := r.now.Mono
		r.pass(raise) // out of memory, its record stays
		r.put(layout.Policy(operation), lease.Policy{Operation: operation, DefaultCost: 1, Rule: lease.Rule{
			Kind: lease.TokenBucket, Version: 2, Capacity: 1000, MaxSharePercent: 100, Refill: lease.Rate{Tokens: 1, Interval: time.Second},
		}})
		r.shard.PoliciesChanged()
		r.pass(70*time.Second - raise)
		got := r.ask(eu, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 1000})
		if earned := int64((r.now.Mono-spent)/time.Second) + 1; got.GetIssuedTokens() > earned {
			t.Errorf("raised after %v: %d issued, %d earned", raise, got.GetIssuedTokens(), earned)
		}
	}
}
