package regional_test

import (
	"fmt"
	"math"
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

// slots is a policy of n slots that are released after a minute.
func slots(n int64) policy {
	return policy{operation: "report.create", capacity: n, cost: 1, terms: func(p *lease.Policy) {
		p.Rule.Kind, p.Rule.Refill, p.Hold = lease.Concurrency, lease.Rate{}, time.Minute
	}}
}

// tokensOf is a quota of which 10 s old reservations count as spent.
func tokensOf(n int64, change ...func(*lease.Policy)) policy {
	return policy{operation: "report.create", capacity: n, cost: 1, terms: func(p *lease.Policy) {
		p.Hold = 10 * time.Second
		for _, c := range change {
			c(p)
		}
	}}
}

func postpaid(p *lease.Policy) { p.Postpaid = true }

func reserve(t *testing.T, l decision.Reserver, req decision.Request) decision.Reservation {
	t.Helper()
	r, d := l.Reserve(t.Context(), req)
	if r == nil || !d.Allowed {
		t.Fatalf("got %+v", d)
	}
	return r
}

func TestCase45ReservationsAndSettlements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(tokensOf(100))
		l, stop := start(t, f, nil)
		handle := l.Budget("acme", "report.create")
		if r, d := l.Reserve(t.Context(), ask(withCost(900))); r != nil || d.Allowed || d.Reason != pb.Reason_REASON_COST_ABOVE_CAPACITY {
			t.Fatalf("900 of 100: %+v", d)
		}
		if left := unspent(f, l, "acme", "report.create"); left != 100 {
			t.Errorf("a denial holds %d", 100-left)
		}
		first := reserve(t, l, ask(withCost(50)))
		if first.Expires() != 10*time.Second || len(first.ID()) != 32 {
			t.Errorf("lasts %v, named %q", first.Expires(), first.ID())
		}
		if left := unspent(f, l, "acme", "report.create"); left != 50 {
			t.Errorf("%d of 100 are left beside 50 that are held", left)
		}
		before := handle.Remaining()
		if s := first.Settle(t.Context(), 30); !s.Settled || s.Returned != 20 || s.Debt != 0 || s.Detail != "" {
			t.Fatalf("got %+v", s)
		}
		if handle.Remaining() != before+20 {
			t.Errorf("%d became %d: 20 are free again in this region", before, handle.Remaining())
		}
		if s := first.Settle(t.Context(), 0); !s.Settled || s.Returned != 20 {
			t.Errorf("only the first settlement counts: %+v", s)
		}
		second := reserve(t, l, ask(withCost(50)))
		want := "the cost is above the 50 tokens that were reserved, and the policy is not postpaid: reserve a higher bound"
		if s := second.Settle(t.Context(), 60); s.Settled || s.Returned != 0 || s.Detail != want {
			t.Errorf("got %+v", s)
		}
		for cost, detail := range map[int64]string{-1: "the cost is negative", math.MinInt64: "the cost is negative", math.MaxInt64: want} {
			if s := second.Settle(t.Context(), cost); s.Settled || s.Detail != detail {
				t.Errorf("cost %d: got %+v", cost, s)
			}
		}
		if s := second.Settle(t.Context(), 50); !s.Settled || s.Returned != 0 {
			t.Errorf("what was refused is still held: %+v", s)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if b := f.ledger("acme", "report.create"); b.Available != 20 || b.Reserved() != 0 {
			t.Errorf("30 and 50 of 100 were spent: %v", &b)
		}
	})
}

func TestUnsettledReservationCountsAsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(tokensOf(100))
		l, _ := start(t, f, nil)
		l.Budget("acme", "report.create")
		r := reserve(t, l, ask(withCost(50)))
		elapse(9 * time.Second)
		late := reserve(t, l, ask(withCost(10)))
		elapse(time.Second)
		s := r.Settle(t.Context(), 0)
		if s.Settled || s.Returned != 0 || s.Detail != "the tokens are not held any more: their time was over, or this limiter lost its grant; they count as spent" {
			t.Errorf("got %+v", s)
		}
		if s := late.Settle(t.Context(), 0); !s.Settled || s.Returned != 10 {
			t.Errorf("got %+v", s)
		}
		if left := unspent(f, l, "acme", "report.create"); left != 50 {
			t.Errorf("%d of 100 are left, want 50", left)
		}
	})
}

func TestPostpaidLeavesADebtThatIsPaidFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newRegistry()
		p := tokensOf(10, postpaid)
		p.maxCost = 40
		p.refill = lease.Rate{Tokens: 10, Interval: time.Second}
		f := newFakeBroker(p)
		f.delay = 50 * time.Millisecond
		l, _ := start(t, f, func(c *regional.Config) { c.Registerer = reg })
		other, _ := start(t, f, func(c *regional.Config) { c.Region = "us" })
		l.Budget("acme", "report.create")
		r := reserve(t, l, ask(withCost(10)))
		began := time.Now()
		if s := r.Settle(t.Context(), 40); !s.Settled || s.Debt != 30 {
			t.Fatalf("got %+v", s)
		}
		if n := reg.value(t, "tokenlease_limiter_debt_tokens"); n != 30 {
			t.Errorf("%v are owed, told as a metric", n)
		}
		// Whoever asks next, here or elsewhere, waits until it is paid.
		elapse(time.Second)
		for _, region := range []*regional.Limiter{l, other} {
			d := region.Decide(t.Context(), ask())
			if until := time.Since(began) + d.RetryIn; d.Allowed || d.Reason != pb.Reason_REASON_EXHAUSTED || !d.NotStrict || !d.HasRetry || until < 3100*time.Millisecond {
				t.Errorf("before the debt is paid: %+v", d)
			}
			if d.Debt != 0 {
				t.Errorf("%d are owed here, which the broker has recorded", d.Debt)
			}
		}
		if debt := f.ledger("acme", "report.create").Debt; debt < 15 || debt > 25 {
			t.Errorf("%d of 30 are owed after a second at 10/s", debt)
		}
		if n := reg.value(t, "tokenlease_limiter_debt_tokens"); n != 0 {
			t.Errorf("%v are owed here, told as a metric", n)
		}
		d := l.Wait(t.Context(), "acme", "report.create", 1)
		for !d.Allowed && time.Since(began) < time.Minute {
			elapse(100 * time.Millisecond)
			d = l.Wait(t.Context(), "acme", "report.create", 1)
		}
		if took := time.Since(began); !d.Allowed || d.Debt != 0 || took < 3*time.Second || took > 10*time.Second {
			t.Errorf("30 of debt at 10/s took %v: %+v", took, d)
		}
	})
}

func TestSlotsAreHeldAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(slots(3))
		l, _ := start(t, f, nil)
		handle := l.Budget("acme", "report.create")
		if handle.Allow() || handle.AllowN(1) {
			t.Error("a slot was spent")
		}
		for name, d := range map[string]decision.Answer{
			"Decide": l.Decide(t.Context(), ask()), "Check": handle.Check(t.Context()), "CheckN": handle.CheckN(t.Context(), 1),
			"several": l.Decide(t.Context(), ask(func(r *decision.Request) {
				r.Also = []decision.Part{{Key: lease.Key{Account: "other", Operation: "report.create"}}}
			})),
		} {
			if d.Allowed || d.Reason != pb.Reason_REASON_INVALID {
				t.Errorf("%s: got %+v", name, d)
			}
		}
		var held []decision.Reservation
		for range 3 {
			held = append(held, reserve(t, l, ask()))
		}
		if r, d := l.Reserve(t.Context(), ask()); r != nil || d.Reason != pb.Reason_REASON_EXHAUSTED || d.HasRetry {
			t.Errorf("a fourth: %+v", d)
		}
		if s := held[0].Settle(t.Context(), 1); s.Settled || s.Detail != "slots are settled with a cost of 0: they go back as a whole" {
			t.Errorf("got %+v", s)
		}
		if s := held[0].Settle(t.Context(), 0); !s.Settled || s.Returned != 1 {
			t.Errorf("got %+v", s)
		}
		held[0] = reserve(t, l, ask())
		elapse(time.Minute) // all are released by their time
		for range 3 {
			reserve(t, l, ask())
		}
		want := "the slots are not held any more: their time was over, or this limiter lost its grant"
		if s := held[0].Settle(t.Context(), 0); s.Settled || s.Detail != want {
			t.Errorf("got %+v", s)
		}
	})
}

// A caller that waits for its turn gets the slot of one that ends.
func TestSlotsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(slots(1)), nil)
		r := reserve(t, l, ask())
		var inside, most atomic.Int64
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				mine, d := l.Reserve(t.Context(), ask(withWait(30*time.Second)))
				if mine == nil {
					t.Errorf("got %+v", d)
					return
				}
				most.Store(max(most.Load(), inside.Add(1)))
				elapse(100 * time.Millisecond)
				inside.Add(-1)
				mine.Settle(t.Context(), 0)
			})
		}
		elapse(time.Second)
		r.Settle(t.Context(), 0)
		began := time.Now()
		group.Wait()
		if most.Load() != 1 {
			t.Errorf("%d at once in one slot", most.Load())
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("20 pieces of work of 100 ms took %v", took)
		}
	})
}

func TestCase43RepeatedReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(tokensOf(100))
		l, _ := start(t, f, nil)
		l.Budget("acme", "report.create")
		first := reserve(t, l, ask(withCost(50), withID("x")))
		again, d := l.Reserve(t.Context(), ask(withCost(50), withID("x")))
		if again != first || !d.Replayed {
			t.Errorf("got %+v", d)
		}
		if left := unspent(f, l, "acme", "report.create"); left != 50 {
			t.Errorf("%d of 100 are left", left)
		}
		for name, req := range map[string]decision.Request{"another bound": ask(withCost(40), withID("x")), "a check": {}} {
			if name == "a check" {
				if d := l.Decide(t.Context(), ask(withCost(50), withID("x"))); d.Reason != pb.Reason_REASON_INVALID {
					t.Errorf("%s: got %+v", name, d)
				}
				continue
			}
			if r, d := l.Reserve(t.Context(), req); r != nil || d.Reason != pb.Reason_REASON_INVALID {
				t.Errorf("%s: got %+v", name, d)
			}
		}
	})
}

// What has ended holds nothing any more, so its ID admits nothing any more.
func TestEndedReservationIsNotToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slots(1)
		forAMinute := p.terms
		p.terms = func(q *lease.Policy) { forAMinute(q); q.Hold = 10 * time.Second }
		l, _ := start(t, newFakeBroker(p), nil)
		ended := func(id string) {
			t.Helper()
			r, d := l.Reserve(t.Context(), ask(withID(id)))
			if r != nil || d.Allowed || d.Reason != pb.Reason_REASON_INVALID || d.Detail != "the reservation of this decision has ended: use a new decision ID" {
				t.Errorf("got %+v", d)
			}
		}
		reserve(t, l, ask(withID("a"))).Settle(t.Context(), 0)
		second := reserve(t, l, ask(withID("b")))
		ended("a") // b has the slot
		elapse(4 * time.Second)
		again, d := l.Reserve(t.Context(), ask(withID("b")))
		if again == nil || again.ID() != second.ID() || !d.Replayed || again.Expires() != 6*time.Second {
			t.Fatalf("got %+v", d)
		}
		elapse(6*time.Second - 1)
		if r := reserve(t, l, ask(withID("b"))); r.Expires() != 1 {
			t.Errorf("it lasts for %v", r.Expires())
		}
		elapse(1)
		ended("b")
		reserve(t, l, ask(withID("c")))
		ended("a")
		ended("b")
		if second.Expires() != 0 {
			t.Errorf("it lasts for %v", second.Expires())
		}
	})
}

func TestPostpaidSettlementHasItsBound(t *testing.T) {
	tests := []struct {
		name     string
		maxCost  int64
		percent  int32
		refused  int64
		detail   string
		accepted int64
		debt     int64
	}{
		{"max-cost", 40, 100, 41, "the cost is above the policy's max-cost of 40 tokens: settle no more than that", 40, 0},
		{"max-cost above the capacity", 140, 100, math.MaxInt64, "the cost is above the policy's max-cost of 140 tokens: settle no more than that", 140, 40},
		{"no max-cost", 0, 50, 51, "the cost is above the 50 tokens that the policy's capacity and max-share can ever admit, and it has no max-cost: settle no more than that, or give the policy a max-cost", 50, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := tokensOf(100, postpaid, func(p *lease.Policy) { p.Rule.MaxSharePercent = test.percent })
				p.maxCost = test.maxCost
				f := newFakeBroker(p)
				l, _ := start(t, f, nil)
				l.Budget("acme", "report.create")
				r := reserve(t, l, ask(withCost(5)))
				if s := r.Settle(t.Context(), test.refused); s.Settled || s.Returned != 0 || s.Debt != 0 || s.Detail != test.detail {
					t.Errorf("got %+v", s)
				}
				if left := unspent(f, l, "acme", "report.create"); left != 95 {
					t.Errorf("%d are left after a refusal, want 95", left)
				}
				if s := r.Settle(t.Context(), test.accepted); !s.Settled {
					t.Errorf("got %+v", s)
				}
				elapse(5 * time.Second)
				if debt := f.ledger("acme", "report.create").Debt; debt != test.debt {
					t.Errorf("%d are owed, want %d", debt, test.debt)
				}
			})
		})
	}
}

// What was reserved may be settled, also when the highest cost is lower by then.
func TestLowerMaxCostLeavesReservationsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := tokensOf(100, postpaid)
		f := newFakeBroker(p)
		l, _ := start(t, f, nil)
		first, second := reserve(t, l, ask(withCost(30))), reserve(t, l, ask(withCost(30)))
		p.version, p.maxCost = 2, 10
		f.put(p)
		l.Decide(t.Context(), ask(func(r *decision.Request) { r.PolicyVersion = 2 }))
		elapse(time.Second)
		decide(t, l, ask(withCost(11)), pb.Reason_REASON_INVALID)
		if s := first.Settle(t.Context(), 31); s.Settled || s.Detail != "the cost is above the policy's max-cost of 10 tokens: settle no more than that" {
			t.Errorf("got %+v", s)
		}
		for _, r := range []decision.Reservation{first, second} {
			if s := r.Settle(t.Context(), 30); !s.Settled {
				t.Errorf("got %+v", s)
			}
		}
	})
}

func TestReservationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(tokensOf(1000)), func(c *regional.Config) { c.MaxReservations = 3 })
		var open []decision.Reservation
		for range 3 {
			open = append(open, reserve(t, l, ask()))
		}
		if r, d := l.Reserve(t.Context(), ask()); r != nil || d.Reason != pb.Reason_REASON_OVERLOADED {
			t.Errorf("a fourth: %+v", d)
		}
		open[0].Settle(t.Context(), 1)
		reserve(t, l, ask())
		elapse(10 * time.Second) // their time is over
		for range 3 {
			reserve(t, l, ask())
		}
		elapse(10 * time.Second)
		for range 50 { // denials take no place
			if _, d := l.Reserve(t.Context(), ask(withCost(5000))); d.Reason != pb.Reason_REASON_COST_ABOVE_CAPACITY {
				t.Fatalf("got %+v", d)
			}
		}
		reserve(t, l, ask())
	})
}

func TestReserveWithoutCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(shadowed(quota))
		l, _ := start(t, f, nil)
		drained := false
		for range 20 {
			r, d := l.Reserve(t.Context(), ask())
			if r == nil || !d.Allowed {
				t.Fatalf("got %+v", d)
			}
			drained = drained || d.Shadow
			if s := r.Settle(t.Context(), 3); !s.Settled || d.Shadow && s.Returned != 0 {
				t.Fatalf("got %+v", s)
			}
		}
		if !drained {
			t.Error("nothing was admitted without credit")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(local(policy{operation: "report.create", capacity: 1000, cost: 5}))
		l, _ := start(t, f, nil)
		outage(t, f, l)
		for i := range 4 { // what is not used of the allowance goes back to it
			r, d := l.Reserve(t.Context(), ask(withCost(10)))
			if r == nil || d.Reason != pb.Reason_REASON_FALLBACK {
				t.Fatalf("%d: got %+v", i, d)
			}
			if s := r.Settle(t.Context(), 0); !s.Settled {
				t.Fatalf("got %+v", s)
			}
		}
	})
}

func TestReserveRefusesWhatItCannotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(quota), nil)
		r, d := l.Reserve(t.Context(), together(part("report.create", 1), part("b", 1)))
		if r != nil || d.Reason != pb.Reason_REASON_INVALID || d.Detail != "a reservation is of one budget: also must be empty" {
			t.Errorf("got %+v", d)
		}
		if r, d := l.Reserve(t.Context(), ask(func(r *decision.Request) { r.Key.Account = "" })); r != nil || d.Reason != pb.Reason_REASON_INVALID {
			t.Errorf("got %+v", d)
		}
	})
}

// Reservations, settlements, checks and returns at once: what was admitted and what
// is left is what there was.
func TestReservationsAccountExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(tokensOf(2000))
		f.delay = 3 * time.Millisecond
		l, stop := start(t, f, nil)
		var spent atomic.Int64
		var group sync.WaitGroup
		for g := range 10 {
			group.Go(func() {
				for n := range 50 {
					cost := int64(1 + (g+n)%7)
					if (g+n)%3 == 0 {
						if l.Decide(t.Context(), ask(withCost(cost))).Allowed {
							spent.Add(cost)
						}
						continue
					}
					r, _ := l.Reserve(t.Context(), ask(withCost(cost), withID(fmt.Sprintf("%d-%d", g, n))))
					if r == nil {
						continue
					}
					if n%5 == 0 {
						elapse(time.Duration(n) * time.Millisecond)
					}
					if s := r.Settle(t.Context(), cost/2); !s.Settled || s.Returned != cost-cost/2 {
						t.Errorf("got %+v", s)
					}
					spent.Add(cost / 2)
				}
			})
		}
		group.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if b := f.ledger("acme", "report.create"); b.Available != 2000-spent.Load() || b.Reserved() != 0 {
			t.Errorf("%d of 2000 were spent, and the ledger has %v", spent.Load(), &b)
		}
	})
}
