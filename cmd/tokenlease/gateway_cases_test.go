package main

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// The cases of this file are told through every form in which a gateway asks, over
// a whole broker and whole limiters.

// eachSurface runs a test on a stack of its own for every surface.
func eachSurface(t *testing.T, policies string, test func(t *testing.T, s *stack, ask func(cost int64) verdict)) {
	t.Helper()
	var names []string
	onStack(t, policies, func(s *stack) {
		for _, one := range s.surfaces(s.region("eu")) {
			names = append(names, one.name)
		}
	})
	if len(names) < 8 {
		t.Fatalf("%d surfaces", len(names))
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			onStack(t, policies, func(s *stack) {
				one := s.surfaces(s.region("eu"))[i]
				test(s.t, s, func(cost int64) verdict { return one.check(s.t.Context(), "acme", "op", cost) })
			})
		})
	}
}

func bucketPolicy(capacity int64, rest string) string {
	return fmt.Sprintf("policies:\n  - operation: op\n    token-bucket: {capacity: %d%s}\n", capacity, rest)
}

// One unit is left, and a hundred ask at once, through all forms: one is admitted.
func TestCase02OneUnitThroughEverySurface(t *testing.T) {
	onStack(t, bucketPolicy(1, ""), func(s *stack) {
		all := s.surfaces(s.region("eu"))
		var admitted atomic.Int64
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				if all[i%len(all)].check(s.t.Context(), "acme", "op", byDefault).allowed {
					admitted.Add(1)
				}
			})
		}
		group.Wait()
		if admitted.Load() != 1 {
			s.t.Errorf("%d admitted", admitted.Load())
		}
	})
}

// Without a refill one is admitted, and then none, with no time to try again.
func TestCase03FixedQuota(t *testing.T) {
	eachSurface(t, bucketPolicy(1, ""), func(t *testing.T, s *stack, ask func(int64) verdict) {
		if v := ask(byDefault); !v.allowed {
			t.Fatalf("the first: %s", v.text)
		}
		for range 3 {
			s.pass(10 * time.Minute)
			if v := ask(byDefault); v.allowed || !v.permanent || v.retry != 0 {
				t.Errorf("afterwards: %s", v.text)
			}
		}
	})
}

// 3/s, at most 3 at once, a check each 100 ms for 10 s: at most 33, whatever forms
// and regions are asked.
func TestCase04NeverAboveTheRate(t *testing.T) {
	onStack(t, bucketPolicy(3, ", refill: 3 per 1s"), func(s *stack) {
		all := append(s.surfaces(s.region("eu")), s.surfaces(s.region("us"))...)
		admitted, start := 0, time.Now()
		for i := range 100 {
			s.pass(time.Until(start.Add(time.Duration(i) * 100 * time.Millisecond)))
			if time.Since(start) > 10*time.Second {
				break
			}
			if all[i%len(all)].check(s.t.Context(), "acme", "op", byDefault).allowed {
				admitted++
			}
		}
		if admitted > 33 || admitted < 15 {
			s.t.Errorf("%d admitted", admitted)
		}
	})
}

// Renewal takes 600 ms while demand is at half the refill: nothing is denied.
func TestCase17RenewalIsSlow(t *testing.T) {
	onStack(t, bucketPolicy(400, ", refill: 200 per 1s"), func(s *stack) {
		eu := s.region("eu")
		eu.net.delay.Store(int64(300 * time.Millisecond)) // there and back
		handle := eu.Budget("acme", "op")
		for range 500 { // until demand is known
			handle.Check(s.t.Context())
			s.pass(10 * time.Millisecond)
		}
		for i := range 1000 {
			if !handle.Allow() {
				s.t.Fatalf("check %d is denied", i)
			}
			s.pass(10 * time.Millisecond)
		}
	})
}

// A policy so generous that it never binds: at most one sync per interval.
func TestCase18GenerousPolicy(t *testing.T) {
	onStack(t, bucketPolicy(1_000_000, ", refill: 1000000 per 1s"), func(s *stack) {
		eu := s.region("eu")
		all := s.surfaces(eu)
		for range 2000 {
			all[0].check(s.t.Context(), "acme", "op", 10)
			s.pass(time.Millisecond)
		}
		before := s.broker.calls.Load() + eu.net.calls.Load()
		for i := range 10_000 {
			if v := all[i%2].check(s.t.Context(), "acme", "op", 1); !v.allowed {
				s.t.Fatalf("check %d: %s", i, v.text)
			}
			if i%10 == 9 {
				s.pass(time.Millisecond)
			}
		}
		if calls := s.broker.calls.Load() + eu.net.calls.Load() - before; calls > 11 {
			s.t.Errorf("%d requests to the broker for 10,000 checks in a second", calls)
		}
	})
}

// 200 callers on one key while credit remains: all are admitted.
func TestCase20ManyCallersThroughEverySurface(t *testing.T) {
	onStack(t, bucketPolicy(200, ""), func(s *stack) {
		all := s.surfaces(s.region("eu"))
		var group sync.WaitGroup
		for i := range 200 {
			group.Go(func() {
				if v := all[i%len(all)].check(s.t.Context(), "acme", "op", byDefault); !v.allowed {
					s.t.Errorf("caller %d: %s", i, v.text)
				}
			})
		}
		group.Wait()
	})
}

// Two priorities at full load: the high one goes first, and the other has one turn
// in eight.
func TestCase21Priorities(t *testing.T) {
	onStack(t, bucketPolicy(10, ", refill: 10 per 1s"), func(s *stack) {
		eu := s.region("eu")
		ask := func(priority pb.Priority) bool {
			req := requestOf("acme", "op", 1)
			req.MaxWait, req.Priority = time.Minute, priority
			return eu.Decide(s.t.Context(), req).Allowed
		}
		for eu.Decide(s.t.Context(), requestOf("acme", "op", 1)).Allowed {
		}
		var high, normal atomic.Int64
		for range 300 {
			go func() {
				if ask(pb.Priority_PRIORITY_HIGH) {
					high.Add(1)
				}
			}()
			go func() {
				if ask(pb.Priority_PRIORITY_NORMAL) {
					normal.Add(1)
				}
			}()
		}
		s.pass(16 * time.Second)
		h, n := high.Load(), normal.Load()
		if total := h + n; total < 140 || total > 165 || n < total/8-2 || n > total/8+2 {
			s.t.Errorf("%d of high priority and %d of normal went ahead", h, n)
		}
		s.pass(time.Minute) // the others give up
	})
}

// Cost 0 where a policy allows it: a pure query.
func TestCase25PureQuery(t *testing.T) {
	eachSurface(t, bucketPolicy(5, "")+"    allow-zero-cost: true\n    cost: 0\n", func(t *testing.T, s *stack, ask func(int64) verdict) {
		for range 20 {
			if v := ask(byDefault); !v.allowed {
				t.Fatalf("a query: %s", v.text)
			}
		}
		s.pass(time.Second)
		for range 5 {
			if v := ask(1); !v.allowed {
				t.Fatalf("queries have spent: %s", v.text)
			}
		}
		if v := ask(1); v.allowed {
			t.Errorf("a sixth: %s", v.text)
		}
		if v := ask(byDefault); !v.allowed {
			t.Errorf("a query of a used-up budget: %s", v.text)
		}
	})
}

// Cost 10 of 5: denied for good, the reason says so, and there is no Retry-After.
func TestCase26AboveCapacity(t *testing.T) {
	eachSurface(t, bucketPolicy(5, ", refill: 1 per 1s"), func(t *testing.T, _ *stack, ask func(int64) verdict) {
		v := ask(10)
		if v.allowed || !v.permanent || v.retry != 0 {
			t.Errorf("%s", v.text)
		}
		if v.reason != "" && !strings.Contains(v.reason, "capacity") {
			t.Errorf("the reason is %q: %s", v.reason, v.text)
		}
		if v := ask(5); !v.allowed {
			t.Errorf("and then 5: %s", v.text)
		}
	})
}

// 50 ms until the next token: Retry-After is 1, never 0.
func TestCase27RetryIsNeverZero(t *testing.T) {
	eachSurface(t, bucketPolicy(1, ", refill: 20 per 1s"), func(t *testing.T, _ *stack, ask func(int64) verdict) {
		denied := false
		for range 3 {
			if v := ask(byDefault); !v.allowed {
				denied = true
				if v.retry != 1 {
					t.Errorf("%s", v.text)
				}
			}
		}
		if !denied {
			t.Error("nothing was denied")
		}
	})
}

// What is not valid is said to be, and changes nothing.
func TestCase29InvalidRequests(t *testing.T) {
	const policies = "policies:\n  - operation: op\n    token-bucket: {capacity: 5}\n    max-cost: 3\n"
	onStack(t, policies, func(s *stack) {
		eu := s.region("eu")
		for _, one := range s.surfaces(eu) {
			for _, bad := range []struct {
				account, operation string
				cost               int64
			}{
				{"", "op", 1}, {"acme", "", 1}, {"acme", "op", 4}, {"acme", "op", 0},
				{"acme\x00", "op", 1}, {"acme", strings.Repeat("o", 200), 1}, {"\xff", "op", 1}, {"acme", "op", -1},
			} {
				if one.name == "Envoy" && bad.cost <= 0 || bad.account == "\xff" && (one.name == "Envoy" || strings.HasPrefix(one.name, "plain")) {
					continue // its client cannot say so: see the tests of its package
				}
				if v := one.check(s.t.Context(), bad.account, bad.operation, bad.cost); v.allowed {
					s.t.Errorf("%s admits %q %q %d: %s", one.name, bad.account, bad.operation, bad.cost, v.text)
				}
			}
		}
		if a := eu.Decide(s.t.Context(), requestOf("acme", "op", 3)); !a.Allowed {
			s.t.Errorf("something was spent: %+v", a)
		}
		if a := eu.Decide(s.t.Context(), requestOf("acme", "op", 2)); !a.Allowed {
			s.t.Errorf("something was spent: %+v", a)
		}
	})
}

// A million accounts would make no more series than ten; none is named in a label.
func TestCase33SeriesStayBounded(t *testing.T) {
	onStack(t, bucketPolicy(5, ""), func(s *stack) {
		eu := s.region("eu")
		all := s.surfaces(eu)
		series := func() (n int, text string) {
			families, err := eu.reg.Gather()
			if err != nil {
				s.t.Fatal(err)
			}
			for _, f := range families {
				n += len(f.GetMetric())
				text += f.String()
			}
			return n, text
		}
		all[0].check(s.t.Context(), "tenant-0", "op", 1)
		first, _ := series()
		for i := range 400 {
			all[i%len(all)].check(s.t.Context(), fmt.Sprintf("tenant-%d", i), "op", 1)
		}
		last, text := series()
		if last != first || strings.Contains(text, "tenant-") {
			s.t.Errorf("%d series became %d; accounts named: %v", first, last, strings.Contains(text, "tenant-"))
		}
	})
}

// A denial says why, of which budget, under which policy, and until when.
func TestCase34DenialsAreExplained(t *testing.T) {
	eachSurface(t, bucketPolicy(40, ", refill: 20 per 1s")+"    cost: 40\n", func(t *testing.T, s *stack, ask func(int64) verdict) {
		ask(byDefault)
		v := ask(byDefault)
		if v.allowed || v.retry != 2 {
			t.Fatalf("%s", v.text)
		}
		if v.reason != "" && v.reason != "exhausted" {
			t.Errorf("the reason is %q", v.reason)
		}
		if !strings.Contains(v.text, "40") {
			t.Errorf("the limit is not told: %s", v.text)
		}
		s.pass(2 * time.Second)
		if v := ask(byDefault); !v.allowed {
			t.Errorf("at the time that was told: %s", v.text)
		}
	})
}

// Capacity 40, refill 20/s, a report costs 5: eight at once from an idle budget, the
// ninth waits, and after 2 s there are eight again.
func TestCase36WorkedExample(t *testing.T) {
	eachSurface(t, bucketPolicy(40, ", refill: 20 per 1s")+"    cost: 5\n", func(t *testing.T, s *stack, ask func(int64) verdict) {
		for round := range 3 {
			for i := range 8 {
				v := ask(byDefault)
				if !v.allowed {
					t.Fatalf("round %d, report %d: %s", round, i, v.text)
				}
				if most := int64(40 - 5*(i+1)); v.remaining > most {
					t.Errorf("round %d, report %d: %d remain of %d", round, i, v.remaining, most)
				}
			}
			if v := ask(byDefault); v.allowed || v.retry != 1 {
				t.Errorf("round %d, the ninth: %s", round, v.text)
			}
			s.pass(2200 * time.Millisecond) // and the time that a report takes
		}
	})
}

// One token left of 10, refilled by 2/s: 3 s later there are 7, and five checks leave 2.
func TestCase37RefillAndSpend(t *testing.T) {
	eachSurface(t, bucketPolicy(10, ", refill: 2 per 1s"), func(t *testing.T, s *stack, ask func(int64) verdict) {
		if v := ask(9); !v.allowed {
			t.Fatalf("%s", v.text)
		}
		s.pass(3100 * time.Millisecond) // the spending is reported within 100 ms: refill begins then
		if v := ask(8); v.allowed {
			t.Errorf("eight of seven: %s", v.text)
		}
		for i := range 5 {
			if v := ask(1); !v.allowed {
				t.Errorf("check %d: %s", i, v.text)
			}
		}
		if v := ask(3); v.allowed {
			t.Errorf("three of two: %s", v.text)
		}
		if v := ask(2); !v.allowed {
			t.Errorf("two of two: %s", v.text)
		}
	})
}

// 0.2 tokens, refill 2/s, cost 1: the wait is 0.4 s, so Retry-After is 1.
func TestCase38WaitForTheRest(t *testing.T) {
	eachSurface(t, bucketPolicy(10, ", refill: 2 per 1s"), func(t *testing.T, s *stack, ask func(int64) verdict) {
		if v := ask(10); !v.allowed {
			t.Fatalf("%s", v.text)
		}
		s.pass(1200 * time.Millisecond) // 2.2 tokens, as the ledger has heard of the spending
		for ask(1).allowed {
		}
		if v := ask(1); v.retry != 1 {
			t.Errorf("%s", v.text)
		}
		s.pass(time.Second)
		if v := ask(1); !v.allowed {
			t.Errorf("a second later: %s", v.text)
		}
	})
}

// A report costs 5 of 40: 35 remain.
func TestCase39ReportCostsFive(t *testing.T) {
	eachSurface(t, bucketPolicy(40, "")+"    cost: 5\n", func(t *testing.T, s *stack, ask func(int64) verdict) {
		if v := ask(byDefault); !v.allowed || v.remaining > 35 {
			t.Fatalf("%s", v.text)
		}
		if v := ask(36); v.allowed {
			t.Errorf("36 of 35: %s", v.text)
		}
		if v := ask(35); !v.allowed {
			t.Errorf("35 of 35: %s", v.text)
		}
	})
}

const threeAMinute = "policies:\n  - operation: op\n    rolling-window: {limit: 3, window: 1m}\n"

// at lets time pass until an offset from a start.
func (s *stack) at(start time.Time, offset time.Duration) { s.pass(time.Until(start.Add(offset))) }

// Three in any minute, admitted at 0, 10 and 20 s: at 50 s denied with 10 s to wait,
// and at 60 s admitted. (The credit is there before, so each report leaves at once,
// as of a limiter that is in use.)
func TestCase41RollingWindow(t *testing.T) {
	onStack(t, threeAMinute, func(s *stack) {
		eu := s.region("eu")
		handle := eu.Budget("acme", "op")
		handle.Allow()
		s.pass(5 * time.Second)
		start := time.Now()
		for i, one := range s.surfaces(eu)[:3] {
			s.at(start, time.Duration(i)*10*time.Second)
			if v := one.check(s.t.Context(), "acme", "op", 1); !v.allowed {
				s.t.Fatalf("at %v: %s", time.Since(start), v.text)
			}
		}
		s.at(start, 50*time.Second)
		replayed := requestOf("acme", "op", 1)
		replayed.ID = "the-fourth"
		if a := eu.Decide(s.t.Context(), replayed); a.Allowed || a.RetrySeconds() != 10 {
			s.t.Errorf("at 50 s: %+v", a)
		}
		for _, one := range s.surfaces(eu) {
			if v := one.check(s.t.Context(), "acme", "op", 1); v.allowed || v.retry != 10 {
				s.t.Errorf("%s at 50 s: %s", one.name, v.text)
			}
		}
		s.at(start, 59*time.Second)
		if a := eu.Decide(s.t.Context(), replayed); a.Allowed || !a.Replayed || a.RetrySeconds() != 1 {
			s.t.Errorf("the same denial at 59 s: %+v", a)
		}
		s.at(start, 60*time.Second)
		if a := eu.Decide(s.t.Context(), requestOf("acme", "op", 1)); !a.Allowed {
			s.t.Errorf("at 60 s: %+v", a)
		}
	})
}

// A window is lowered from five to three with five retained: the wait is until the
// first three have left, not the oldest alone.
func TestCase42WindowLowered(t *testing.T) {
	const five = "policies:\n  - operation: op\n    rolling-window: {limit: 5, window: 1m}\n"
	for _, which := range []int{0, 1, 2, 3, 4, 5, 6, 7} {
		onStack(t, five, func(s *stack) {
			eu := s.region("eu")
			one := s.surfaces(eu)[which]
			handle := eu.Budget("acme", "op")
			handle.Allow()
			s.pass(5 * time.Second)
			start := time.Now()
			for i := range 5 {
				s.at(start, time.Duration(i)*time.Second)
				if a := handle.CheckN(s.t.Context(), 1); !a.Allowed {
					s.t.Fatalf("%d: %+v", i, a)
				}
			}
			s.apply(threeAMinute)
			s.at(start, 40*time.Second)
			// The third left at 62 s: 22 s from now, not 20.
			if v := one.check(s.t.Context(), "acme", "op", 1); v.allowed || v.retry != 22 {
				s.t.Errorf("%s: %s", one.name, v.text)
			}
			s.at(start, 61*time.Second+900*time.Millisecond)
			if v := one.check(s.t.Context(), "acme", "op", 1); v.allowed {
				s.t.Errorf("%s, two have left: %s", one.name, v.text)
			}
			s.at(start, 63*time.Second)
			if v := one.check(s.t.Context(), "acme", "op", 1); !v.allowed {
				s.t.Errorf("%s, three have left: %s", one.name, v.text)
			}
		})
	}
}

// A decision repeated with its ID gets the recorded answer; the same ID with another
// payload is refused.
func TestCase43DecisionReplay(t *testing.T) {
	onStack(t, bucketPolicy(10, ""), func(s *stack) {
		eu := s.region("eu")
		req := requestOf("acme", "op", 4)
		req.ID = "decision-1"
		first := eu.Decide(s.t.Context(), req)
		if !first.Allowed || first.Replayed {
			s.t.Fatalf("%+v", first)
		}
		for range 5 {
			s.pass(5 * time.Second)
			if again := eu.Decide(s.t.Context(), req); !again.Allowed || !again.Replayed || again.GrantID != first.GrantID {
				s.t.Errorf("repeated: %+v", again)
			}
		}
		other := req
		other.Cost = decision.Tokens(5)
		if a := eu.Decide(s.t.Context(), other); a.Allowed || a.Reason != pb.Reason_REASON_INVALID {
			s.t.Errorf("another payload: %+v", a)
		}
		elsewhere := requestOf("globex", "op", 4)
		elsewhere.ID = req.ID
		if a := eu.Decide(s.t.Context(), elsewhere); !a.Allowed || a.Replayed {
			s.t.Errorf("the same ID of another account: %+v", a)
		}
		if a := eu.Decide(s.t.Context(), requestOf("acme", "op", 6)); !a.Allowed {
			s.t.Errorf("repetitions have spent: %+v", a)
		}
	})
}

// A counter of clock minutes would let six pass in 2.4 s around a boundary: a rolling
// window admits three, in whatever region and form.
func TestCase44AroundABoundary(t *testing.T) {
	onStack(t, threeAMinute, func(s *stack) {
		all := append(s.surfaces(s.region("eu")), s.surfaces(s.region("us"))...)
		boundary := time.Now().Truncate(time.Minute).Add(2 * time.Minute)
		admitted := 0
		for i := range 16 {
			s.at(boundary, -1200*time.Millisecond+time.Duration(i)*150*time.Millisecond)
			if all[i].check(s.t.Context(), "acme", "op", 1).allowed {
				admitted++
			}
		}
		if admitted != 3 {
			s.t.Errorf("%d admitted", admitted)
		}
	})
}

// A reservation of 900 with 100 there is denied, and nothing is held. Of 50 reserved
// and 30 used, 20 are free again in this region; 60 of 50 is refused.
func TestCase45LateCosts(t *testing.T) {
	onStack(t, bucketPolicy(1000, ""), func(s *stack) {
		eu := s.region("eu")
		if a := eu.Decide(s.t.Context(), requestOf("acme", "op", 900)); !a.Allowed {
			s.t.Fatalf("%+v", a)
		}
		if r, a := eu.Reserve(s.t.Context(), requestOf("acme", "op", 900)); a.Allowed || r != nil {
			s.t.Errorf("900 of 100: %+v", a)
		}
		r, a := eu.Reserve(s.t.Context(), requestOf("acme", "op", 50))
		if !a.Allowed {
			s.t.Fatalf("%+v", a)
		}
		if a := eu.Decide(s.t.Context(), requestOf("acme", "op", 51)); a.Allowed {
			s.t.Errorf("what is reserved was spent: %+v", a)
		}
		if got := r.Settle(s.t.Context(), 60); got.Settled {
			s.t.Errorf("60 of 50: %+v", got)
		}
		if got := r.Settle(s.t.Context(), 30); !got.Settled || got.Returned != 20 {
			s.t.Errorf("30 of 50: %+v", got)
		}
		if a := eu.Decide(s.t.Context(), requestOf("acme", "op", 71)); a.Allowed {
			s.t.Errorf("71 of 70: %+v", a)
		}
		if a := eu.Decide(s.t.Context(), requestOf("acme", "op", 70)); !a.Allowed {
			s.t.Errorf("70 of 70: %+v", a)
		}
	})
}

// A gateway that names an older policy version is told to refresh, and nothing is
// spent of any balance.
func TestObsoletePolicyVersion(t *testing.T) {
	onStack(t, bucketPolicy(10, ""), func(s *stack) {
		eu := s.region("eu")
		eu.Decide(s.t.Context(), requestOf("acme", "op", 1))
		s.apply(bucketPolicy(9, ""))
		s.pass(20 * time.Second)
		req := requestOf("acme", "op", 1)
		req.PolicyVersion = 1
		if a := eu.Decide(s.t.Context(), req); a.Allowed || a.Reason != pb.Reason_REASON_REFRESH || a.PolicyVersion != 2 {
			s.t.Errorf("%+v", a)
		}
	})
}

// Two budgets in one decision: all or nothing, and the longest wait.
func TestSeveralBudgetsInOneDecision(t *testing.T) {
	const policies = `policies:
  - operation: op
    token-bucket: {capacity: 10, refill: 10 per 1s}
  - operation: everybody
    token-bucket: {capacity: 2, refill: 1 per 4s}
`
	onStack(t, policies, func(s *stack) {
		eu := s.region("eu")
		req := requestOf("acme", "op", 3)
		req.Also = []decision.Part{{Key: lease.Key{Account: "global", Operation: "everybody"}, Cost: decision.Tokens(1)}}
		for i := range 2 {
			if a := eu.Decide(s.t.Context(), req); !a.Allowed || len(a.Parts) != 2 {
				s.t.Fatalf("%d: %+v", i, a)
			}
		}
		a := eu.Decide(s.t.Context(), req)
		if a.Allowed || a.Reason != pb.Reason_REASON_EXHAUSTED || a.RetrySeconds() < 3 || a.RetrySeconds() > 4 {
			s.t.Errorf("the third: %+v", a)
		}
		if a := eu.Decide(s.t.Context(), requestOf("acme", "op", 4)); !a.Allowed {
			s.t.Errorf("a denied decision has spent of one of its budgets: %+v", a)
		}
	})
}

// Tenants never see one another's numbers or names, through any form.
func TestTenantsSeeTheirOwnNumbers(t *testing.T) {
	onStack(t, bucketPolicy(777, ""), func(s *stack) {
		eu := s.region("eu")
		for _, one := range s.surfaces(eu) {
			one.check(s.t.Context(), "secretive", "op", 700) // the first has it, and the others are denied
		}
		for _, one := range s.surfaces(eu) {
			v := one.check(s.t.Context(), "other-"+strings.ReplaceAll(one.name, " ", "-"), "op", 1)
			if !v.allowed || strings.Contains(v.text, "secretive") || v.remaining == 77 || v.remaining == 76 {
				s.t.Errorf("%s: %s", one.name, v.text)
			}
		}
		families, err := eu.reg.Gather()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, f := range families {
			if strings.Contains(f.String(), "secretive") || strings.Contains(f.String(), "other-") {
				s.t.Errorf("a metric names an account: %s", f.GetName())
			}
		}
	})
}
