package main

import (
	"testing"
	"time"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// debtPolicy refills 100 at 10/s, and lets costs be settled above their reservations.
func debtPolicy() string {
	return bucketPolicy(100, ", refill: 10 per 1s") + "    max-cost: 1000\n    postpaid: true\n"
}

// settleAbove reserves all that there is, and settles it with cost.
func (r *stackRegion) settleAbove(s *stack, reserved, cost int64) {
	s.t.Helper()
	reservation, a := r.Reserve(s.t.Context(), requestOf("acme", "op", reserved))
	if !a.Allowed {
		s.t.Fatalf("not reserved: %+v", a)
	}
	if got := reservation.Settle(s.t.Context(), cost); !got.Settled || got.Debt != cost-reserved {
		s.t.Fatalf("settled %+v, want a debt of %d", got, cost-reserved)
	}
}

// debt is what the broker has on record.
func (s *stack) debt() int64 {
	s.t.Helper()
	resp, err := s.admin.ShowBudget(s.t.Context(), connect.NewRequest(&pb.ShowBudgetRequest{Key: &pb.BudgetKey{Account: "acme", Operation: "op"}}))
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.Msg.GetBudget().GetDebtTokens()
}

// A limiter settles above its reservation, reports, and is killed. The debt is still on
// record: it is paid before anything is admitted, in its region or another, as far as
// that does not hold credit already. The guidance of the denials is the time at which
// it is.
func TestDebtOutlivesTheLimiter(t *testing.T) {
	onStack(t, debtPolicy(), func(s *stack) {
		eu, us := s.region("eu"), s.region("us")
		eu.settleAbove(s, 100, 180)
		began := time.Now()
		s.pass(time.Second)
		eu.net.cut.Store(true) // it is killed: nothing more of it is heard
		eu.stop()
		if debt := s.debt(); debt < 1 || debt > 80 {
			t.Fatalf("%d of 80 are on record", debt)
		}
		again := s.region("eu")
		for name, r := range map[string]*stackRegion{"us": us, "eu, restarted": again} {
			a := r.Decide(s.t.Context(), requestOf("acme", "op", 20))
			due := time.Since(began) + a.RetryIn
			if a.Allowed || a.Reason != pb.Reason_REASON_EXHAUSTED || !a.NotStrict || !a.HasRetry || due < 10*time.Second || due > 12*time.Second {
				t.Errorf("%s: %+v, which is due after %v", name, a, due)
			}
		}
		s.pass(10*time.Second - time.Since(began) - 100*time.Millisecond) // 80 and 20 at 10/s
		for _, r := range []*stackRegion{us, again} {
			if a := r.Decide(s.t.Context(), requestOf("acme", "op", 20)); a.Allowed {
				t.Errorf("admitted before the debt is paid: %+v", a)
			}
		}
		s.pass(3 * time.Second)
		if a := us.Decide(s.t.Context(), requestOf("acme", "op", 20)); !a.Allowed || a.Debt != 0 {
			t.Errorf("not admitted after the debt is paid: %+v", a)
		}
		if debt := s.debt(); debt != 0 {
			t.Errorf("%d are owed yet", debt)
		}
	})
}

// What a region holds when another comes to owe may be spent: it was handed out before.
func TestDebtLeavesCreditThatIsHeld(t *testing.T) {
	onStack(t, debtPolicy(), func(s *stack) {
		eu, us := s.region("eu"), s.region("us")
		held, a := us.Reserve(s.t.Context(), requestOf("acme", "op", 40))
		if !a.Allowed {
			t.Fatalf("%+v", a)
		}
		reservation, a := eu.Reserve(s.t.Context(), requestOf("acme", "op", 10))
		for range 20 { // until what us does not use has been called back
			if a.Allowed {
				break
			}
			s.pass(500 * time.Millisecond)
			reservation, a = eu.Reserve(s.t.Context(), requestOf("acme", "op", 10))
		}
		if !a.Allowed {
			t.Fatalf("%+v", a)
		}
		if got := reservation.Settle(s.t.Context(), 200); got.Debt < 100 {
			t.Fatalf("settled %+v", got)
		}
		s.pass(time.Second)
		if debt := s.debt(); debt < 80 {
			t.Fatalf("%d are on record", debt)
		}
		if got := held.Settle(s.t.Context(), 40); !got.Settled || got.Debt != 0 {
			t.Errorf("settled %+v", got)
		}
	})
}

// An orderly stop tells what is owed, also where it was not reported before. A limiter
// that is killed before it has reported loses that: the one gap that there is.
func TestDebtAtTheEndOfALimiter(t *testing.T) {
	for name, killed := range map[string]bool{"stopped": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			onStack(t, debtPolicy(), func(s *stack) {
				eu := s.region("eu")
				if a := eu.Decide(s.t.Context(), requestOf("acme", "op", 1)); !a.Allowed {
					t.Fatalf("%+v", a)
				}
				reservation, _ := eu.Reserve(s.t.Context(), requestOf("acme", "op", 99))
				eu.net.cut.Store(true)
				if got := reservation.Settle(s.t.Context(), 150); got.Debt < 41 {
					t.Fatalf("settled %+v", got)
				}
				if killed {
					eu.stop()
				} else {
					eu.net.cut.Store(false)
					eu.stop()
				}
				if debt := s.debt(); (debt == 0) != killed {
					t.Errorf("%d are on record", debt)
				}
			})
		})
	}
}
