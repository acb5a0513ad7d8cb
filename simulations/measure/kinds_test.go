package measure_test

import (
	"math"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

// What windows admit at most, and how well they can be used. Of 10 tokens that are
// out for 10 s, of 50 that were issued, each is out for 2 s.
func TestCapAndBoundOfEveryKind(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rule  lease.Rule
		cap   int64
		bound float64
	}{
		{"a window of 4 s, of which two have ended", lease.Rule{Kind: lease.RollingWindow, Capacity: 30, Window: 4 * second}, 90, 4.0 / 6},
		{"a minute, and another", lease.Rule{Kind: lease.FixedWindow, Capacity: 30, Period: lease.Minute, Zone: "UTC"}, 60, 0},
		{"slots", lease.Rule{Kind: lease.Concurrency, Capacity: 30}, 0, 0},
		{"too large for any number", lease.Rule{Kind: lease.RollingWindow, Capacity: math.MaxInt64 / 2, Window: second}, math.MaxInt64, 1.0 / 3},
	} {
		sc := small()
		tc.rule.Version, tc.rule.MaxSharePercent = 1, 100
		sc.Policies[0].Rule = tc.rule
		r := measure.NewRecorder(sc, "tokenlease", 7)
		r.Balance(0, measure.Balance{Held: []int64{10, 0}, Issued: 50})
		r.Arrived(workload.All(sc, 7)[0])
		if got := r.Result(10 * second); got.Cap != tc.cap || math.Abs(got.Bound-tc.bound) > 1e-9 {
			t.Errorf("%s: cap %d and bound %v, want %d and %v", tc.name, got.Cap, got.Bound, tc.cap, tc.bound)
		}
	}
}

// Slots are judged by whoever knows when they are free: the recorder counts what was
// admitted to them, and the judge what is held.
func TestHolds(t *testing.T) {
	sc := small()
	sc.Policies[0].Rule = lease.Rule{Kind: lease.Concurrency, Version: 1, Capacity: 6, MaxSharePercent: 100}
	r := measure.NewRecorder(sc, "tokenlease", 7)
	for i, a := range workload.All(sc, 7)[:3] {
		r.Arrived(a)
		if i == 2 {
			r.Judge(a.Key).Release(10)
		}
		if err := r.Judge(a.Key).Hold(a.At, a.Cost); (err != nil) != (i == 1) {
			t.Errorf("check %d: %v", i+1, err)
		}
		if err := r.Holds(a, a.At+time.Millisecond); err != nil {
			t.Error(err)
		}
	}
	if got := r.Result(10 * second); got.Admitted != 15 || got.Excess != 4 {
		t.Errorf("%d admitted, %d above, want 15 and 4", got.Admitted, got.Excess)
	}
}
