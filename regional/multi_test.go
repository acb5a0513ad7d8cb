package regional_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/decision"
)

func part(operation string, cost int64) decision.Part {
	p := decision.Part{Key: lease.Key{Account: "acme", Operation: operation}}
	if cost > 0 {
		p.Cost = decision.Tokens(cost)
	}
	return p
}

// together is a request for several budgets.
func together(parts ...decision.Part) decision.Request {
	return decision.Request{Part: parts[0], Also: parts[1:]}
}

// quotas are budgets without refill, named a, b, c and so on.
func quotas(capacities ...int64) []policy {
	var all []policy
	for i, c := range capacities {
		all = append(all, policy{operation: string(rune('a' + i)), capacity: c, cost: 1})
	}
	return all
}

// settledAt is what is left of a budget, in the region and at the broker.
func leftOf(f *fakeBroker, l *regional.Limiter, operation string) int64 {
	return unspent(f, l, "acme", operation)
}

func TestSeveralBudgetsAreSpentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quotas(40, 30, 20)...)
		l, _ := start(t, f, nil)
		d := decide(t, l, together(part("c", 5), part("a", 0), part("b", 2)), pb.Reason_REASON_ALLOWED)
		if !d.Allowed || d.Limit != 20 || d.PolicyVersion != 1 || d.GrantID == "" || d.HasRetry {
			t.Errorf("got %+v", d)
		}
		for i, want := range []struct {
			operation string
			limit     int64
		}{{"c", 20}, {"a", 40}, {"b", 30}} {
			p := d.Parts[i]
			if p.Key.Operation != want.operation || p.Limit != want.limit || p.Reason != pb.Reason_REASON_ALLOWED || p.GrantID == "" || p.PolicyVersion != 1 {
				t.Errorf("part %d: %+v", i, p)
			}
		}
		for operation, want := range map[string]int64{"a": 39, "b": 28, "c": 15} {
			if left := leftOf(f, l, operation); left != want {
				t.Errorf("%d are left of %s, want %d", left, operation, want)
			}
		}
	})
}

func TestSeveralBudgetsDenyTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := policy{operation: "slow", capacity: 10, refill: lease.Rate{Tokens: 1, Interval: time.Second}, cost: 10}
		slower := policy{operation: "slower", capacity: 10, refill: lease.Rate{Tokens: 1, Interval: 10 * time.Second}, cost: 10}
		f := newFakeBroker(append(quotas(40, 30), slow, slower)...)
		l, _ := start(t, f, nil)
		decide(t, l, together(part("slow", 10), part("slower", 10)), pb.Reason_REASON_ALLOWED)
		d := decide(t, l, together(part("a", 5), part("slow", 2), part("b", 5), part("slower", 2)), pb.Reason_REASON_EXHAUSTED)
		if d.Allowed || !d.HasRetry || d.RetryIn < 15*time.Second || d.RetryIn > 20*time.Second || d.GrantID != "" || d.Limit != 10 {
			t.Errorf("the longest wait is 20 s: %+v", d)
		}
		if want := "budget 2 of 4: the budget is used up for now"; d.Detail != want {
			t.Errorf("got %q, want %q", d.Detail, want)
		}
		for i, want := range []pb.Reason{pb.Reason_REASON_ALLOWED, pb.Reason_REASON_EXHAUSTED, pb.Reason_REASON_ALLOWED, pb.Reason_REASON_EXHAUSTED} {
			if p := d.Parts[i]; p.Reason != want || p.GrantID != "" || p.HasRetry != (want == pb.Reason_REASON_EXHAUSTED) {
				t.Errorf("part %d: %+v", i, p)
			}
		}
		for operation, want := range map[string]int64{"a": 40, "b": 30} {
			if left := leftOf(f, l, operation); left != want {
				t.Errorf("%d are left of %s, want %d", left, operation, want)
			}
		}
		// One that no wait helps makes the whole wait unknown.
		d = decide(t, l, together(part("a", 41), part("slow", 2)), pb.Reason_REASON_COST_ABOVE_CAPACITY)
		if d.HasRetry || d.RetryIn != 0 || !d.RetryAt.IsZero() || d.Limit != 40 {
			t.Errorf("got %+v", d)
		}
	})
}

func TestSeveralBudgetsTellTheGravestReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := policy{operation: "off", capacity: 10, cost: 1, terms: func(p *lease.Policy) { p.Disabled = true }}
		slots := policy{operation: "slots", capacity: 10, cost: 1, terms: func(p *lease.Policy) { p.Rule.Kind, p.Rule.Refill = lease.Concurrency, lease.Rate{} }}
		f := newFakeBroker(append(quotas(1, 1), off, slots)...)
		l, _ := start(t, f, nil)
		decide(t, l, together(part("b", 1)), pb.Reason_REASON_ALLOWED)
		parts := []decision.Part{part("a", 1), part("b", 1)}
		for _, worse := range []struct {
			part   decision.Part
			reason pb.Reason
		}{
			{part("a2", 0), pb.Reason_REASON_NO_POLICY},
			{part("off", 0), pb.Reason_REASON_DISABLED},
			{part("slots", 0), pb.Reason_REASON_INVALID},
		} {
			d := decide(t, l, together(append(parts, worse.part)...), worse.reason)
			if d.Allowed || d.Parts[1].Reason != pb.Reason_REASON_EXHAUSTED || d.Parts[2].Reason != worse.reason {
				t.Errorf("got %+v", d)
			}
		}
		req := together(parts...)
		decide(t, l, req, pb.Reason_REASON_EXHAUSTED)
		f.put(policy{operation: "a", capacity: 1, cost: 1, version: 2})
		req.PolicyVersion = 2 // of the request's own key
		decide(t, l, req, pb.Reason_REASON_EXHAUSTED)
		elapse(time.Second)
		req.PolicyVersion = 1
		d := decide(t, l, req, pb.Reason_REASON_REFRESH)
		if d.PolicyVersion != 2 || d.Parts[1].Reason != pb.Reason_REASON_EXHAUSTED {
			t.Errorf("got %+v", d)
		}
		if left := leftOf(f, l, "a"); left != 1 {
			t.Errorf("%d of 1 is left", left)
		}
	})
}

func TestSeveralBudgetsWithShadowAndFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shadow, away := shadowed(policy{operation: "shadow", capacity: 1, cost: 1}), local(policy{operation: "local", capacity: 5, cost: 1})
		f := newFakeBroker(append(quotas(100), shadow, away)...)
		l, _ := start(t, f, nil)
		d := decide(t, l, together(part("a", 1), part("shadow", 2)), pb.Reason_REASON_COST_ABOVE_CAPACITY)
		if !d.Allowed || !d.Shadow || !d.NotStrict || d.Parts[0].Reason != pb.Reason_REASON_ALLOWED {
			t.Errorf("got %+v", d)
		}
		if left := leftOf(f, l, "a"); left != 99 {
			t.Errorf("%d of 100 are left", left)
		}
		// The allowance is given back when another part is denied.
		decide(t, l, together(part("local", 1), part("a", 1)), pb.Reason_REASON_ALLOWED)
		synctest.Wait()
		f.fail(errDown)
		handle := l.Budget("acme", "local")
		for handle.AllowN(1) && handle.Remaining() > 0 {
		}
		elapse(5 * time.Second)
		for range 10 {
			if d := l.Decide(t.Context(), together(part("local", 5), part("a", 1000))); d.Allowed || d.Parts[0].Reason != pb.Reason_REASON_FALLBACK {
				t.Fatalf("got %+v", d)
			}
		}
		d = decide(t, l, together(part("a", 1), part("local", 5)), pb.Reason_REASON_FALLBACK)
		if !d.Allowed || d.Parts[0].Reason != pb.Reason_REASON_ALLOWED || d.Parts[1].Reason != pb.Reason_REASON_FALLBACK {
			t.Errorf("got %+v", d)
		}
	})
}

// Shadow mode denies nobody, also not over several budgets whose turn does not come in
// time.
func TestShadowOfSeveralIsNotDeniedInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := shadowed(policy{operation: "a", capacity: 40, cost: 5}), shadowed(policy{operation: "b", capacity: 40, cost: 5})
		f := newFakeBroker(first, second)
		l, _ := start(t, f, nil)
		shadows := together(part("a", 5), part("b", 5))
		shadows.MaxWait = 300 * time.Millisecond
		decide(t, l, shadows, pb.Reason_REASON_ALLOWED)
		synctest.Wait()
		f.mu.Lock()
		f.delay = 5 * time.Second
		f.mu.Unlock()
		for b := l.Budget("acme", "b"); b.Remaining() > 0; {
			b.AllowN(1)
		}
		a := l.Budget("acme", "a")
		before := a.Remaining()
		if d := decide(t, l, shadows, pb.Reason_REASON_UNAVAILABLE); before < 5 || !d.Allowed || !d.Shadow || a.Remaining() != before {
			t.Fatalf("%d of a became %d: %+v", before, a.Remaining(), d)
		}
		late := 0
		for range 40 {
			d := l.Decide(t.Context(), shadows)
			if !d.Allowed {
				t.Fatalf("shadow mode denied: %+v", d)
			}
			if d.Shadow && d.Reason == pb.Reason_REASON_UNAVAILABLE {
				late++
			}
		}
		if late == 0 {
			t.Error("no turn was too late, so the test shows nothing")
		}
	})
}

// A strict budget beside one in shadow mode is not taken once the time is up.
func TestStrictPartOfSeveralIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(shadowed(policy{operation: "a", capacity: 40, cost: 5}), policy{operation: "b", capacity: 40, cost: 1})
		l, _ := start(t, f, nil)
		b := l.Budget("acme", "b")
		decide(t, l, together(part("a", 5), part("b", 1)), pb.Reason_REASON_ALLOWED)
		synctest.Wait()
		f.mu.Lock()
		f.delay = 5 * time.Second
		f.mu.Unlock()
		for handle := l.Budget("acme", "a"); handle.Remaining() > 0; {
			handle.AllowN(1)
		}
		before := b.Remaining()
		if before == 0 {
			t.Fatal("nothing of b is here, too little for the test")
		}
		req := together(part("a", 5), part("b", 1))
		req.MaxWait = 300 * time.Millisecond
		d := decide(t, l, req, pb.Reason_REASON_UNAVAILABLE)
		if want := "budget 2 of 2: the turn of the request did not come in the time that it lets itself wait"; d.Allowed || d.Shadow || d.Detail != want {
			t.Errorf("got %+v", d)
		}
		if b.Remaining() != before {
			t.Errorf("%d of b became %d", before, b.Remaining())
		}
	})
}

// Many callers over overlapping budgets, in every order: what is admitted is what is
// spent, nothing is held in the end, and no budget admits more than it has.
func TestSeveralBudgetsNeverOverAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budgets, capacity = 5, 200
		var policies []policy
		for i := range budgets {
			policies = append(policies, quotas(make([]int64, budgets)...)[i])
			policies[i].capacity = capacity
		}
		f := newFakeBroker(policies...)
		f.delay = 5 * time.Millisecond
		l, stop := start(t, f, nil)
		var spent [budgets]atomic.Int64
		var group sync.WaitGroup
		for g := range 20 {
			group.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 1))
				for n := range 60 {
					order := r.Perm(budgets)[:1+r.IntN(budgets)]
					var parts []decision.Part
					for _, i := range order {
						parts = append(parts, part(policies[i].operation, int64(1+r.IntN(3))))
					}
					req := together(parts...)
					req.ID = fmt.Sprintf("%d-%d", g, n)
					if d := l.Decide(t.Context(), req); d.Allowed {
						for k, i := range order {
							spent[i].Add(parts[k].Cost.Tokens)
						}
					}
				}
			})
		}
		group.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for i := range budgets {
			b := f.ledger("acme", policies[i].operation)
			if b.Available != capacity-spent[i].Load() || b.Reserved() != 0 {
				t.Errorf("%s: %d were admitted of %d, and the ledger has %v", policies[i].operation, spent[i].Load(), capacity, &b)
			}
			if spent[i].Load() < capacity-5 {
				t.Errorf("%s: only %d of %d were admitted", policies[i].operation, spent[i].Load(), capacity)
			}
		}
	})
}

// Two that compete for the same two budgets, named in opposite order, do not fail by
// one another for ever.
func TestCase20SeveralBudgetsInOppositeOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quotas(1000, 1000)...)
		f.delay = 20 * time.Millisecond
		l, _ := start(t, f, nil)
		var allowed atomic.Int64
		var group sync.WaitGroup
		for i := range 200 {
			group.Go(func() {
				req := together(part("a", 5), part("b", 5))
				if i%2 == 0 {
					req = together(part("b", 5), part("a", 5))
				}
				if l.Decide(t.Context(), req).Allowed {
					allowed.Add(1)
				}
			})
		}
		group.Wait()
		if allowed.Load() != 200 {
			t.Errorf("%d of 200 allowed while credit remained", allowed.Load())
		}
	})
}

func TestSeveralBudgetsMayWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := policy{operation: "slow", capacity: 10, refill: lease.Rate{Tokens: 1, Interval: time.Second}, cost: 10}
		f := newFakeBroker(append(quotas(40), slow)...)
		l, _ := start(t, f, nil)
		decide(t, l, together(part("a", 1), part("slow", 10)), pb.Reason_REASON_ALLOWED)
		req := together(part("a", 1), part("slow", 5))
		req.MaxWait = time.Second
		began := time.Now()
		if d := decide(t, l, req, pb.Reason_REASON_EXHAUSTED); time.Since(began) > 0 || !d.HasRetry {
			t.Errorf("a wait of 5 s was begun, for %v: %+v", time.Since(began), d)
		}
		req.MaxWait = 10 * time.Second
		decide(t, l, req, pb.Reason_REASON_ALLOWED)
		if took := time.Since(began); took < 4*time.Second || took > 7*time.Second {
			t.Errorf("5 tokens at 1/s took %v", took)
		}
		if left := leftOf(f, l, "a"); left != 38 {
			t.Errorf("%d of 40 are left of the budget that had enough", left)
		}
	})
}

// When another caller was faster between the look and the take, what was taken of the
// other budgets and of local allowances goes back.
func TestSeveralBudgetsGiveBackWhatTheyTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(append(quotas(40), policy{operation: "z", capacity: 1, cost: 1}, local(policy{operation: "b", capacity: 100, cost: 1}))...)
		l, _ := start(t, f, nil)
		a := l.Budget("acme", "a")
		for _, operation := range []string{"a", "b", "z"} {
			if d := l.Budget("acme", operation).Check(t.Context()); !d.Allowed {
				t.Fatalf("got %+v", d)
			}
		}
		synctest.Wait()
		f.fail(errDown)
		for b := l.Budget("acme", "b"); b.Remaining() > 0; {
			b.AllowN(1)
		}
		elapse(5 * time.Second)
		l.Decide(t.Context(), together(part("b", 1))) // the manager hears that the broker is away
		elapse(5 * time.Second)
		l.Decide(t.Context(), together(part("z", 1)))
		before := a.Remaining()
		if before < 2 {
			t.Fatalf("%d of a are here, too few for the test", before)
		}
		for range 10 {
			if regional.TryToHold(l, together(part("a", 2), part("b", 4), part("z", 1))) {
				t.Fatal("taken, though nothing is left of z")
			}
			if a.Remaining() != before {
				t.Fatalf("%d of a became %d", before, a.Remaining())
			}
		}
		d := decide(t, l, together(part("b", 9)), pb.Reason_REASON_FALLBACK)
		if !d.Allowed {
			t.Errorf("the allowance was not given back: %+v", d)
		}
	})
}
