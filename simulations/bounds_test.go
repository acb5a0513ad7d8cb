package simulations

import (
	"runtime"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// Under bounds on staleness grants lapse, checks find credit that is too old, and some
// pause between a look at the clocks and the spend. No rule is broken by that.
func TestBoundsAreReached(t *testing.T) {
	found := Search{First: 1, Seeds: 60, Workers: runtime.GOMAXPROCS(0), Draw: func(seed uint64) Config {
		cfg := Draw(seed)
		cfg.Bound()
		return cfg
	}}.Run(t.Context())
	if found.First != nil {
		t.Error(found.First)
	}
	s := found.Stats
	if s.Lapsed < 20 || s.LapsedOf < 40 || s.Stale < 500 || s.Stalls < 200 {
		t.Errorf("in %d events %d grants with %d tokens lapsed, %d checks found stale credit, %d paused", found.Events, s.Lapsed, s.LapsedOf, s.Stale, s.Stalls)
	}
}

// The swarm has policies that let credit lapse, and those that only bound how long it is
// spent, and worlds stay within what the margins are for, up to its edge.
func TestSwarmHasBounds(t *testing.T) {
	var bounded, lapsing, changing int
	for seed := uint64(1); seed <= 200; seed++ {
		cfg := Draw(seed)
		if cfg.Bounds.Most > 0 && cfg.Faults.ChangePolicy {
			changing++
		}
		for _, p := range cfg.Policies {
			if err := p.Validate(); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			switch {
			case p.ReclaimMargin > 0 && p.ReclaimMargin < cfg.Bounds.Margin, p.MaxStaleness > cfg.Bounds.Most:
				t.Errorf("seed %d: %v beyond %v in %v", seed, p.ReclaimMargin, p.MaxStaleness, cfg.Bounds)
			case p.ReclaimMargin > 0:
				lapsing++
			case p.MaxStaleness > 0:
				bounded++
			}
		}
	}
	if bounded < 20 || lapsing < 40 || changing < 20 {
		t.Errorf("%d policies bound staleness, %d let credit lapse, and change in %d of 200 worlds", bounded, lapsing, changing)
	}
}

// However slow the clocks of a limiter are, what is left of the margin is a pause, and
// both together are within a millisecond of it at the most.
func TestStallsComeCloseToTheMargin(t *testing.T) {
	for _, b := range []Bounds{
		{Most: lease.MinStaleness, Margin: lease.MinReclaimMargin},
		{Most: 10 * time.Second, Margin: lease.MinReclaimMargin},
		{Most: 10 * time.Second, Margin: 4 * time.Second},
	} {
		if b.slowest() < 5 {
			t.Errorf("%v: clocks are slow by %d%% at the most", b, b.slowest())
		}
		for slow := range b.slowest() + 1 {
			c := clock{w: &World{now: time.Hour}, slow: slow}
			for c.w.now = 0; c.read().Mono < b.Most; c.w.now += 10 * time.Microsecond {
				c.w.now = max(c.w.now, b.Most) // a slow clock is not there before
			}
			left := b.Margin - (c.w.now - b.Most) - b.stall(slow)
			if left <= 0 || left > 2*spare {
				t.Errorf("%v with clocks slow by %d%%: a pause of %v leaves %v of the margin", b, slow, b.stall(slow), left)
			}
		}
	}
}

// A sleeping machine's monotonic clock stands still, and its boot clock goes on; without
// one the wall clock alone tells of that.
func TestClocksThroughSleep(t *testing.T) {
	w := &World{now: time.Minute}
	for _, plain := range []bool{false, true} {
		c := clock{w: w, origin: time.Hour, first: time.Hour, since: w.now, born: w.now, plain: plain}
		before := c.read()
		c.sleep(8 * time.Second)
		w.now += 10 * time.Second
		after := c.read()
		boot := 10 * time.Second
		if plain {
			boot = 2 * time.Second
		}
		if after.Mono-before.Mono != 2*time.Second || after.Boot-before.Boot != boot || after.Wall-before.Wall != 10*time.Second {
			t.Errorf("plain %v: %+v, then %+v", plain, before, after)
		}
		c.setWall(-time.Minute)
		if back := c.read().Wall < after.Wall; back == plain {
			t.Errorf("plain %v: the wall clock was set back: %v", plain, back)
		}
	}
}
