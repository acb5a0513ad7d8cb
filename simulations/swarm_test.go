package simulations

import (
	"flag"
	"runtime"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/lease"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this seed alone")
	seedsFlag = flag.Uint64("seeds", 250, "how many seeds to run")
)

// Every seed draws its own world and its own faults. Nothing that is checked may
// break in any.
func TestSwarm(t *testing.T) {
	search := Search{First: 1, Seeds: *seedsFlag, Workers: runtime.GOMAXPROCS(0)}
	if *seedFlag > 0 {
		search.First, search.Seeds = *seedFlag, 1
	}
	t.Logf("seeds %d to %d", search.First, search.First+search.Seeds-1)
	found := search.Run(t.Context())
	if found.First != nil {
		t.Error(found.First)
	}
	t.Logf("%d events, hash %x, %+v", found.Events, found.Hash, found.Stats)
}

// The same seeds give the same events, on one core and on two.
func TestReproducible(t *testing.T) {
	one := Search{First: 1, Seeds: 12, Workers: 1}.Run(t.Context())
	two := Search{First: 1, Seeds: 12, Workers: 2}.Run(t.Context())
	if one != two || one.Events == 0 {
		t.Errorf("one worker: %+v, two: %+v", one, two)
	}
	other := Search{First: 2, Seeds: 12, Workers: 2}.Run(t.Context())
	if other.Hash == one.Hash {
		t.Error("other seeds have the same hash")
	}
}

// fast lets ledger time run faster than real time, which every run notices that
// has refill.
func fast(c *Config) {
	c.Hooks.Moment = func(o *owner, m *shard.Moment) { m.Mono += o.b.w.now / 2 }
}

// A search stops at the lowest seed that fails, with any number of workers.
func TestSearchStopsAtTheLowestFailure(t *testing.T) {
	draw := func(seed uint64) Config {
		cfg := Draw(seed)
		if seed >= 5 {
			fast(&cfg)
		}
		return cfg
	}
	for workers := 1; workers <= 3; workers++ {
		found := Search{First: 1, Seeds: 30, Workers: workers, Draw: draw}.Run(t.Context())
		if found.First == nil || found.First.Seed != 5 || found.Seeds > 5+uint64(workers) {
			t.Errorf("%d workers: %d seeds, the first failure is %v", workers, found.Seeds, found.First)
		}
	}
}

// A failure is made smaller, and what is printed runs it again.
func TestShrink(t *testing.T) {
	found := Search{First: 1, Seeds: 50, Draw: func(seed uint64) Config {
		cfg := Draw(seed)
		fast(&cfg)
		return cfg
	}}.Run(t.Context()).First
	if found == nil {
		t.Fatal("a fast clock was not noticed")
	}
	h, smaller := Shrink(t.Context(), found, fast)
	t.Logf("step %d with %d faults, then step %d with %v", found.Step, found.Faults, smaller.Step, h)
	if len(h.Keep) > 0 || h.Keep == nil || h.Sites != 1 {
		t.Errorf("a fast clock needs no fault, and these are left: %v", h)
	}
	parsed, err := ParseHistory(h.String())
	if err != nil || parsed.String() != h.String() {
		t.Fatalf("%q is read as %q, %v", h, parsed, err)
	}
	cfg := parsed.Config()
	fast(&cfg)
	w := New(cfg)
	_ = w.Run()
	if w.fail == nil || w.fail.Error() != smaller.Error() {
		t.Errorf("run again it is\n%v\ninstead of\n%v", w.fail, smaller)
	}
	if !strings.Contains(smaller.Error(), "tokenlease simulate --history '"+h.String()+"'") {
		t.Errorf("the command is missing: %v", smaller)
	}
}

func TestParseHistoryRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "without a seed",
		"seed=0":            "without a seed",
		"seed=x":            `"seed=x"`,
		"seed=1 keep=1,two": `"keep=1,two"`,
		"seed=1 until=5":    `"until=5"`,
		"seed=1 sides=2":    "want seed, run, sites",
		"seed":              `"seed"`,
	} {
		if h, err := ParseHistory(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is read as %v, %v; want %q", text, h, err, want)
		}
	}
}

// The swarm has worlds of every kind of rule, and of changes between them; in many
// something is held.
func TestSwarmHasEveryKind(t *testing.T) {
	kinds, changes, reserves := map[lease.Kind]int{}, 0, 0
	for seed := uint64(1); seed <= 200; seed++ {
		cfg := Draw(seed)
		for _, p := range cfg.Policies {
			kinds[p.Rule.Kind]++
			if err := p.Validate(); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
		if len(cfg.Kinds) > 1 && cfg.Faults.ChangePolicy {
			changes++
		}
		if cfg.Reserve > 0 {
			reserves++
		}
	}
	for _, kind := range []lease.Kind{lease.TokenBucket, lease.RollingWindow, lease.FixedWindow, lease.Concurrency} {
		if kinds[kind] < 50 {
			t.Errorf("%d budgets of %s in 200 worlds", kinds[kind], kind)
		}
	}
	if changes < 10 || reserves < 50 {
		t.Errorf("kinds change in %d of 200 worlds, checks reserve in %d", changes, reserves)
	}
	found := Search{First: 1, Seeds: 20, Workers: 2}.Run(t.Context())
	if found.Stats.Holds < 100 {
		t.Errorf("something was held %d times in 20 worlds", found.Stats.Holds)
	}
}
