package lease_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
)

// Whatever the network does and whoever crashes: what the regions admit in any
// interval of length T is at most B + R*T.
func TestRegionsStayWithinTheCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRegions(smallRule(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "rule") }), noFault,
			func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "event") })
		for range rapid.SampledFrom([]int{10, 40, 150, 400}).Draw(t, "steps") {
			if err := r.step(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The same with long seeded runs, which are what finds the faults below.
func TestRegionsStayWithinTheCapInLongRuns(t *testing.T) {
	for seed := range uint64(100) {
		if step, err := longRun(seed, noFault); err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, step, err)
		}
	}
}

// Each fault is found, so the judge and the runs bite.
func TestFaultsAreFound(t *testing.T) {
	for f := noFault + 1; f < faults; f++ {
		found := false
		for seed := uint64(0); seed < 300 && !found; seed++ {
			_, err := longRun(seed, f)
			found = err != nil
		}
		if !found {
			t.Errorf("fault %d is not found", f)
		}
	}
}

func longRun(seed uint64, f fault) (step int, err error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := newRegions(smallRule(rng.IntN), f, rng.IntN)
	for step := range 400 {
		if err := r.step(); err != nil {
			return step + 1, err
		}
	}
	return 0, nil
}

// smallRule is a bucket of a few tokens and nanoseconds.
func smallRule(draw func(n int) int) lease.Rule {
	rule := rated(1, int64(draw(10)), lease.Rate{Tokens: int64(draw(4)), Interval: time.Duration(1 + draw(5))})
	if draw(4) == 0 {
		rule.MaxSharePercent = 50
	}
	return rule
}
