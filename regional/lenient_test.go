package regional_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// shadowed is a policy in shadow mode.
func shadowed(p policy) policy {
	p.terms = func(p *lease.Policy) { p.Shadow = true }
	return p
}

func TestShadowAdmitsAndCountsWhatItWouldDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newRegistry()
		f := newFakeBroker(shadowed(bucket))
		l, _ := start(t, f, func(c *regional.Config) { c.Registerer = reg })
		for range 8 {
			if d := decide(t, l, ask(), pb.Reason_REASON_ALLOWED); d.Shadow || !d.NotStrict {
				t.Fatalf("within the budget: %+v", d)
			}
		}
		for range 5 {
			if d := decide(t, l, ask(), pb.Reason_REASON_EXHAUSTED); !d.Allowed || !d.Shadow || !d.NotStrict || !d.HasRetry || d.GrantID != "" {
				t.Fatalf("beyond it: %+v", d)
			}
		}
		if d := decide(t, l, ask(withCost(41)), pb.Reason_REASON_COST_ABOVE_CAPACITY); !d.Allowed || !d.Shadow {
			t.Errorf("got %+v", d)
		}
		if d := decide(t, l, ask(withCost(0)), pb.Reason_REASON_INVALID); d.Allowed || d.Shadow {
			t.Errorf("what is invalid is so in shadow mode too: %+v", d)
		}
		began := time.Now()
		if d := decide(t, l, ask(func(r *decision.Request) { r.MaxWait = time.Minute }), pb.Reason_REASON_EXHAUSTED); !d.Shadow || time.Since(began) > 0 {
			t.Errorf("shadow mode made somebody wait for %v: %+v", time.Since(began), d)
		}
		handle := l.Budget("acme", "report.create")
		if !handle.Allow() || !handle.AllowN(7) || !l.AllowN("acme", "report.create", 5) {
			t.Error("denied without waiting")
		}
		f.fail(errDown)
		elapse(time.Minute)
		for handle.Remaining() >= 5 {
			handle.Allow()
		}
		if d := decide(t, l, ask(), pb.Reason_REASON_UNAVAILABLE); !d.Allowed || !d.Shadow {
			t.Errorf("without the broker: %+v", d)
		}
		exhausted := reg.value(t, `tokenlease_limiter_shadow_admissions_total{operation="report.create"}{reason="exhausted"}`)
		if exhausted != 9 {
			t.Errorf("%v admissions beyond the budget are counted, want 9", exhausted)
		}
		if n := reg.value(t, `tokenlease_limiter_shadow_admissions_total{operation="report.create"}{reason="cost_above_capacity"}`); n != 1 {
			t.Errorf("%v admissions above the capacity are counted, want 1", n)
		}
		if n := reg.value(t, `tokenlease_limiter_shadow_admissions_total{operation="report.create"}{reason="unavailable"}`); n < 1 {
			t.Errorf("%v admissions without authority are counted", n)
		}
	})
}

// local is a policy with a local allowance of 10, 1/s, for 30 s.
func local(p policy) policy {
	p.terms = func(p *lease.Policy) {
		p.Local = lease.Allowance{Capacity: 10, Refill: lease.Rate{Tokens: 1, Interval: time.Second}, For: 30 * time.Second}
	}
	return p
}

// outage has a limiter spend all that it holds of a budget whose broker is away.
func outage(t *testing.T, f *fakeBroker, l *regional.Limiter) *regional.Budget {
	t.Helper()
	handle := l.Budget("acme", "report.create")
	if d := handle.Check(t.Context()); !d.Allowed {
		t.Fatalf("got %+v", d)
	}
	synctest.Wait()
	f.fail(errDown)
	for handle.Remaining() > 0 {
		if !handle.AllowN(1) {
			t.Fatal("what is held is not spent")
		}
	}
	return handle
}

func TestLocalAllowanceAdmitsForItsTimeAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newRegistry()
		f := newFakeBroker(local(policy{operation: "report.create", capacity: 1000, cost: 5}))
		l, _ := start(t, f, func(c *regional.Config) { c.Registerer = reg })
		outage(t, f, l)
		for i := range 2 { // the first waits for the broker, in vain
			d := decide(t, l, ask(), pb.Reason_REASON_FALLBACK)
			if !d.Allowed || !d.NotStrict || d.GrantID != "" || d.Detail == "" {
				t.Fatalf("%d: got %+v", i, d)
			}
		}
		decide(t, l, ask(), pb.Reason_REASON_UNAVAILABLE) // 10 were admitted
		elapse(5 * time.Second)
		decide(t, l, ask(), pb.Reason_REASON_FALLBACK)
		decide(t, l, ask(), pb.Reason_REASON_UNAVAILABLE)
		elapse(30 * time.Second) // refilled long since, and over
		for range 20 {
			decide(t, l, ask(), pb.Reason_REASON_UNAVAILABLE)
			elapse(time.Second)
		}
		if n := reg.value(t, `tokenlease_limiter_fallback_admissions_total{operation="report.create"}`); n != 3 {
			t.Errorf("%v admissions are counted, want 3", n)
		}
		if n := reg.value(t, `tokenlease_limiter_decisions_total{operation="report.create"}{reason="fallback"}`); n != 3 {
			t.Errorf("%v decisions are counted, want 3", n)
		}
	})
}

// All outages have one allowance, which comes back by its refill alone. Its time
// begins anew with each.
func TestLocalAllowanceRefillsOverOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(local(policy{operation: "report.create", capacity: 1000, cost: 5}))
		l, _ := start(t, f, nil)
		for i, o := range []struct {
			answers time.Duration // how long the broker does, before the outage
			admits  int
		}{{0, 2}, {5 * time.Second, 1}, {5 * time.Second, 1}, {time.Minute, 2}} {
			f.fail(nil)
			elapse(o.answers)
			outage(t, f, l)
			for range o.admits {
				decide(t, l, ask(), pb.Reason_REASON_FALLBACK)
			}
			if d := l.Decide(t.Context(), ask()); d.Reason != pb.Reason_REASON_UNAVAILABLE {
				t.Fatalf("outage %d: got %+v after %d admissions", i, d, o.admits)
			}
		}
	})
}

// However short a request waits: no answer within that time is no outage.
func TestShortWaitIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(local(bucket))
		f.delay = 20 * time.Millisecond
		l, _ := start(t, f, nil)
		seen := map[pb.Reason]int{}
		for range 2000 {
			seen[l.Decide(t.Context(), ask(withWait(time.Millisecond))).Reason]++
			elapse(10 * time.Millisecond)
		}
		if seen[pb.Reason_REASON_FALLBACK] > 0 || seen[pb.Reason_REASON_UNAVAILABLE] == 0 || seen[pb.Reason_REASON_ALLOWED] == 0 {
			t.Errorf("of a broker that answers in 20 ms: %v", seen)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(local(policy{operation: "report.create", capacity: 1000, cost: 5}))
		l, _ := start(t, f, nil)
		handle := l.Budget("acme", "report.create")
		handle.Check(t.Context())
		synctest.Wait()
		f.mu.Lock()
		f.delay = time.Hour
		f.mu.Unlock()
		for handle.AllowN(1) {
		}
		decide(t, l, ask(withWait(regional.DefaultFirstGrantWait-1)), pb.Reason_REASON_UNAVAILABLE)
		decide(t, l, ask(withWait(regional.DefaultFirstGrantWait)), pb.Reason_REASON_FALLBACK)
	})
}

// A broker that answers, but too late for each check, opens the allowance between any
// two answers. They do not make it full again.
func TestSlowBrokerHasOneAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(local(bucket))
		l, _ := start(t, f, nil)
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		f.mu.Lock()
		f.delay = regional.DefaultFirstGrantWait + 100*time.Millisecond
		f.mu.Unlock()
		var tokens int64
		for began := time.Now(); time.Since(began) < time.Minute; elapse(10 * time.Millisecond) {
			if l.Decide(t.Context(), ask()).Reason == pb.Reason_REASON_FALLBACK {
				tokens += 5
			}
		}
		if tokens < 10 || tokens > 10+60 {
			t.Errorf("%d tokens in a minute of an allowance of 10 and 1/s", tokens)
		}
	})
}

// What a reservation leaves of the allowance of its outage is lost once that is over.
func TestEarlierOutageGivesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := local(policy{operation: "report.create", capacity: 1000, cost: 5})
		away := p.terms
		p.terms = func(q *lease.Policy) { away(q); q.Hold = time.Hour }
		f := newFakeBroker(p)
		l, _ := start(t, f, nil)
		outage(t, f, l)
		var earlier []decision.Reservation
		for range 2 {
			r, d := l.Reserve(t.Context(), ask())
			if d.Reason != pb.Reason_REASON_FALLBACK {
				t.Fatalf("got %+v", d)
			}
			earlier = append(earlier, r)
		}
		f.fail(nil)
		elapse(5 * time.Second)
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		if s := earlier[0].Settle(t.Context(), 0); !s.Settled { // between the outages
			t.Fatalf("got %+v", s)
		}
		outage(t, f, l)
		decide(t, l, ask(), pb.Reason_REASON_FALLBACK) // 5 are there by refill
		decide(t, l, ask(), pb.Reason_REASON_UNAVAILABLE)
		if s := earlier[1].Settle(t.Context(), 0); !s.Settled { // in the next one
			t.Fatalf("got %+v", s)
		}
		decide(t, l, ask(), pb.Reason_REASON_UNAVAILABLE)
	})
}

// Another version of the allowance is of the same bucket: a larger one fills by its
// refill.
func TestAnotherAllowanceMintsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := local(policy{operation: "report.create", capacity: 1000, cost: 5})
		f := newFakeBroker(p)
		l, _ := start(t, f, nil)
		outage(t, f, l)
		decide(t, l, ask(withCost(10)), pb.Reason_REASON_FALLBACK)
		small := p.terms
		p.version, p.terms = 2, func(q *lease.Policy) { small(q); q.Local.Capacity = 100 }
		f.put(p)
		f.fail(nil)
		elapse(5 * time.Second)
		outage(t, f, l)
		decide(t, l, ask(withCost(15)), pb.Reason_REASON_UNAVAILABLE)
		decide(t, l, ask(withCost(5)), pb.Reason_REASON_FALLBACK)
		elapse(20 * time.Second)
		decide(t, l, ask(withCost(15)), pb.Reason_REASON_FALLBACK) // more than the first version ever had
	})
}

// An allowance is remembered until it is full.
func TestFullAllowancesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := local(policy{operation: "report.create", capacity: 1000, cost: 5})
		fast := p.terms
		p.terms = func(q *lease.Policy) { fast(q); q.Local.Refill.Interval = 3 * time.Second }
		f := newFakeBroker(p)
		l, _ := start(t, f, nil)
		use := func(account string, remembered int) {
			t.Helper()
			f.fail(nil)
			elapse(5 * time.Second)
			handle := l.Budget(account, "report.create")
			handle.Check(t.Context())
			synctest.Wait()
			f.fail(errDown)
			for handle.Remaining() > 0 {
				handle.AllowN(1)
			}
			if d := handle.CheckN(t.Context(), 10); d.Reason != pb.Reason_REASON_FALLBACK {
				t.Fatalf("got %+v", d)
			}
			elapse(time.Second)
			f.fail(nil)
			elapse(5 * time.Second)
			if n := regional.Allowances(l); n != remembered {
				t.Errorf("after that of %s %d allowances are remembered, want %d", account, n, remembered)
			}
		}
		use("a", 1)
		use("b", 2) // that of a is full in 30 s
		elapse(30 * time.Second)
		use("c", 1)
	})
}

// An answer that says that the budget is used up is authority: no allowance.
func TestLocalAllowanceIsNotForExhaustion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(local(quota)), nil)
		for range 8 {
			decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		}
		for range 5 {
			decide(t, l, ask(), pb.Reason_REASON_EXHAUSTED)
			elapse(time.Second)
		}
	})
}

// Nor is it for a caller that leaves at once, for want of places to wait, for a
// policy that is not known, before the limiter is registered, or once it stops.
func TestLocalAllowanceNeedsAnOutage(t *testing.T) {
	t.Run("caller leaves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeBroker(local(policy{operation: "report.create", capacity: 1000, cost: 5}))
			l, _ := start(t, f, func(c *regional.Config) { c.MaxWaiters = 1 })
			handle := l.Budget("acme", "report.create")
			handle.Check(t.Context())
			synctest.Wait()
			f.mu.Lock()
			f.delay = 300 * time.Millisecond
			f.mu.Unlock()
			for handle.AllowN(1) {
			}
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if d := l.Decide(short, ask(withCost(8))); d.Reason != pb.Reason_REASON_UNAVAILABLE {
				t.Errorf("got %+v", d)
			}
			go l.Decide(t.Context(), ask(withCost(8)))
			synctest.Wait()
			decide(t, l, ask(withCost(8)), pb.Reason_REASON_UNAVAILABLE) // no place to wait
			elapse(time.Second)
		})
	})
	t.Run("unregistered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeBroker(local(quota))
			f.fail(errDown)
			l, _ := start(t, f, nil)
			decide(t, l, ask(), pb.Reason_REASON_UNAVAILABLE)
		})
	})
	t.Run("policy unknown", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeBroker(local(quota))
			l, _ := start(t, f, nil)
			synctest.Wait()
			f.fail(errDown)
			decide(t, l, ask(), pb.Reason_REASON_UNAVAILABLE)
		})
	})
	t.Run("stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeBroker(local(quota))
			l, stop := start(t, f, nil)
			decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
			_ = stop()
			decide(t, l, ask(), pb.Reason_REASON_UNAVAILABLE)
		})
	})
	t.Run("dear", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeBroker(local(policy{operation: "report.create", capacity: 1000, cost: 5}))
			l, _ := start(t, f, nil)
			outage(t, f, l)
			decide(t, l, ask(withCost(11)), pb.Reason_REASON_UNAVAILABLE)
		})
	})
}

func TestLocalAllowanceServesCallersThatDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(local(policy{operation: "report.create", capacity: 1000, cost: 5}))
		l, _ := start(t, f, nil)
		handle := outage(t, f, l)
		decide(t, l, ask(), pb.Reason_REASON_FALLBACK)
		elapse(time.Second) // now the manager knows that the broker is away
		if !handle.AllowN(3) || handle.AllowN(4) || !handle.AllowN(3) {
			t.Error("10 and 1 s of 1/s are 11, of which 5 are gone: 3 and 3 fit, 4 does not fit between them")
		}
	})
}

// lines collects a log.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func TestLocalAllowancesAreLoggedOnceAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logLines{}
		f := newFakeBroker(local(policy{operation: "report.create", capacity: 1000, cost: 1}))
		l, _ := start(t, f, func(c *regional.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		for _, account := range []string{"a", "b", "c"} {
			l.Budget(account, "report.create").Check(t.Context())
		}
		synctest.Wait()
		f.fail(errDown)
		used := 0
		for range 200 {
			for _, account := range []string{"a", "b", "c"} {
				d := l.Decide(t.Context(), ask(withCost(2), func(r *decision.Request) { r.Key.Account = account }))
				if d.Reason == pb.Reason_REASON_FALLBACK {
					used++
				}
			}
			elapse(10 * time.Millisecond)
		}
		if used < 15 {
			t.Fatalf("%d fallbacks, too few for the test", used)
		}
		f.fail(nil)
		elapse(5 * time.Second)
		if begun, over := log.count("local allowances admit checks"), log.count("local allowances are over"); begun != 1 || over != 1 {
			t.Errorf("the log has %d beginnings and %d ends", begun, over)
		}
		if log.count("account") > 0 {
			t.Error("the log names accounts")
		}
	})
}
