package lease_test

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the network and the clocks do, whoever crashes, and whatever policies
// follow one another: no rolling window and no period admits more than its limit, no
// more slots are in use than there are, no bucket is overdrawn. In the end the budget
// is full again.
func TestFleetKeepsEveryPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(noSlip, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "event") })
		for range rapid.SampledFrom([]int{10, 40, 150, 400}).Draw(t, "steps") {
			if err := f.step(); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.settle(); err != nil {
			t.Fatal(err)
		}
	})
}

// The same with long seeded runs, which are what finds the slips below.
func TestFleetKeepsEveryPromiseInLongRuns(t *testing.T) {
	for seed := range uint64(60) {
		if step, err := longVoyage(seed, noSlip); err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, step, err)
		}
	}
}

// Each slip is found, so the court and the runs bite.
func TestSlipsAreFound(t *testing.T) {
	for s := noSlip + 1; s < slips; s++ {
		found := false
		for seed := uint64(0); seed < 300 && !found; seed++ {
			_, err := longVoyage(seed, s)
			found = err != nil
		}
		if !found {
			t.Errorf("slip %d is not found", s)
		}
	}
}

func longVoyage(seed uint64, s slip) (step int, err error) {
	rng := rand.New(rand.NewPCG(seed, 2))
	f := newFleet(s, rng.IntN)
	for step := range 600 {
		if err := f.step(); err != nil {
			return step + 1, err
		}
	}
	if s != noSlip {
		return 600, nil
	}
	return 600, f.settle()
}
