package simulations

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// Bounds say how long policies let credit be spent without news, and what is waited
// beyond that until it counts as spent. Worlds keep the premise of that (package
// lease, lapse.go), and come close to its edge: in the longest bound the clocks of a
// limiter lag, and a check pauses between its look at them and the spend, by less than
// the least margin in all. Zero: policies have no bounds, and nobody pauses so.
type Bounds struct {
	Most   time.Duration // the longest max-staleness; MinStaleness at the least
	Margin time.Duration // the least reclaim-margin
}

// spare is by how much less than the margin clocks lag and checks pause.
const spare = time.Millisecond

// slowest is by how many percent the clocks of a limiter may be slow.
func (b Bounds) slowest() int {
	percent := 0
	for percent < 30 && b.stall(percent+1) > 0 {
		percent++
	}
	return percent
}

// stall is how long a check may pause where the clocks are slow.
func (b Bounds) stall(slow int) time.Duration {
	lag := b.Most*time.Duration(slow)/time.Duration(100-slow) + time.Microsecond
	return b.Margin - lag - spare
}

// put draws whether the policy has a bound, and what happens then.
func (b Bounds) put(r *rand.Rand, p *lease.Policy) {
	if b.Most == 0 {
		return
	}
	p.MaxStaleness, p.ReclaimMargin = 0, 0
	what := r.IntN(4)
	if what == 0 {
		return
	}
	within := b.Most - lease.MinStaleness
	p.MaxStaleness = lease.MinStaleness + []time.Duration{0, within, time.Duration(r.Int64N(int64(within) + 1))}[r.IntN(3)]
	if what > 1 && p.Rule.Kind != lease.Concurrency {
		p.ReclaimMargin = b.Margin + []time.Duration{0, time.Duration(r.Int64N(int64(2 * time.Second)))}[r.IntN(2)]
	}
}

// bound draws bounds, and policies that have them, with time enough for grants to
// lapse.
func (c *Config) bound(r *rand.Rand) {
	c.Bounds = Bounds{
		Most:   lease.MinStaleness + time.Duration(r.Int64N(int64(5*time.Second))),
		Margin: lease.MinReclaimMargin + time.Duration(r.Int64N(int64(3*time.Second))),
	}
	c.Chaos += 20 * time.Second
	c.Faults.Stall = r.IntN(20)
	c.Policies = slices.Clone(c.Policies)
	for i := range c.Policies {
		c.Bounds.put(r, &c.Policies[i])
	}
}

// Bound draws bounds on staleness for the policies.
func (c *Config) Bound() { c.bound(rand.New(rand.NewPCG(c.Seed, 0xb0d))) }

// drawClocks draws what the clocks of a site's machine are like, where limiters stop
// by them.
func (w *World) drawClocks(s *site) {
	b := w.cfg.Bounds
	if b.Most == 0 {
		return
	}
	slowest := b.slowest()
	s.slow = []int{0, slowest, w.rng.IntN(slowest + 1)}[w.rng.IntN(3)]
	s.stall = b.stall(s.slow)
	s.wall = w.between(-time.Hour, time.Hour)
	s.lags, s.plain = w.rng.IntN(2) == 0, w.rng.IntN(4) == 0
}

// look is what somebody looks at the clocks for.
type look int

// What for.
const (
	elsewhere look = iota
	toSpend
	toHold
)

// clocks reads the machine's clocks. What is looked at for a check may be old by the
// time that something is admitted.
func (p *process) clocks() holder.Clocks {
	w, now := p.w, p.clock.read()
	if p.looks == elsewhere || w.stalls || p.site.stall == 0 || !w.percent(w.cfg.Faults.Stall) {
		return now
	}
	w.stats.Stalls++
	d := p.site.stall
	if w.rng.IntN(2) == 0 {
		d = w.between(0, d)
	}
	if p.looks == toHold { // it has a lock, which nobody may wait for here
		d = p.clock.slowed(d)
		return holder.Clocks{Mono: now.Mono - d, Boot: now.Boot - d, Wall: now.Wall - d}
	}
	p.stall(d)
	return now
}

// stall lets a check stand still, with all of its process or while others go on: the
// world does, before this returns.
func (p *process) stall(d time.Duration) {
	w := p.w
	if w.rng.IntN(2) == 0 {
		p.pause(d, w.rng.IntN(2) == 0)
	}
	w.stalls, p.stands = true, true
	_ = w.RunUntil(w.now + d) // a failure stays with the world
	w.stalls, p.stands = false, false
}

// lapses shows the judge the reservations whose grants end in a transaction that is
// decided on now. Where a grant lapses, what they use is spent by then at the latest;
// all others have told it before.
func (m *mirror) lapses(txn store.Txn) {
	for i := range txn.Then {
		g, known := m.grants[txn.Then[i].Key]
		if txn.Then[i].Kind != store.OpDelete || !known || g.LapsesAfterNs == 0 {
			continue
		}
		for _, k := range m.w.works {
			if k.grant == g.ID && !k.slots {
				k.spend()
			}
		}
	}
}
