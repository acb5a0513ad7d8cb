package simulations

import (
	"flag"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this seed alone")
	verbose   = flag.Bool("notes", false, "tell all messages and transactions")
	seedsFlag = flag.Uint64("seeds", 250, "how many seeds to run")
)

// Every seed draws its own world and its own faults. Nothing that is checked may
// break in any.
func TestSwarm(t *testing.T) {
	first, last := uint64(1), *seedsFlag
	if *seedFlag > 0 {
		first, last = *seedFlag, *seedFlag
	}
	t.Logf("seeds %d to %d", first, last)
	var total Stats
	steps := 0
	for seed := first; seed <= last; seed++ {
		cfg := Draw(seed)
		cfg.Test = t.Name()
		if *verbose {
			cfg.Note = func(at time.Duration, text string) { t.Logf("%v %s", at, text) }
		}
		w := New(cfg)
		if err := w.Run(); err != nil {
			t.Errorf("%v", err)
		}
		total.add(w.Stats())
		steps += w.Steps()
	}
	t.Logf("%d events, %+v", steps, total)
}

// One seed gives one run.
func TestReproducible(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		one, two := New(Draw(seed)), New(Draw(seed))
		one.Run()
		two.Run()
		if one.Hash() != two.Hash() || one.Steps() != two.Steps() {
			t.Errorf("seed %d: hash %x after %d steps, then %x after %d", seed, one.Hash(), one.Steps(), two.Hash(), two.Steps())
		}
	}
}
