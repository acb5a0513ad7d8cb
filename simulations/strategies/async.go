package strategies

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

const (
	// syncWait is how long admissions are gathered before they are sent, and how
	// long the counter waits before it tells everyone. Products range from half a
	// millisecond (gubernator's early default) to a second and more; the longer,
	// the more is admitted meanwhile.
	syncWait = 100 * time.Millisecond
	// hitTimeout is when a process that was told nothing tries another broker: the
	// same as in gubernator.
	hitTimeout = 500 * time.Millisecond
)

// localAsync is what most gateways do that count over several regions: each
// process decides by its own view of the budget, tells a central counter
// afterwards what it admitted, and hears from it now and again how much is left.
// It is modelled on gubernator's global mode, to which sidecars that report usage
// to a rate limit service are alike.
//
// Nothing holds what is being admitted elsewhere in the meantime, so bursts
// overshoot, by up to the budget in each limiter. In a cut, each side refills and
// spends on its own, as if it were alone. What was admitted is sent as deltas,
// once: a message that is lost is forgotten, one that arrives twice counts twice.
// A counter cannot go below empty: what is above is forgiven. A process that
// starts has a full view, and so has a broker that becomes the central place.
//
// It leaves out what would tell a process that its view is old: none of them asks.
// Kinder than the real ones is that a process takes off what it has not sent yet
// when it hears what is left.
type localAsync struct {
	w        *world
	views    []*view // by process
	counters []*counter
}

// view is what a process knows.
type view struct {
	buckets buckets
	unsent  []int64 // by key
	dirty   []int   // keys with something unsent
}

// counter is what a broker knows.
type counter struct {
	buckets buckets
	changed []int // keys to tell of
	told    []bool
}

// hit is what was admitted of a budget, and level what is left.
type hit struct {
	key    int
	tokens int64
}

func newLocalAsync(w *world) *localAsync {
	return &localAsync{w: w, counters: make([]*counter, len(w.brokers))}
}

func (s *localAsync) started(*process) {
	s.views = append(s.views, &view{buckets: s.w.newBuckets(), unsent: make([]int64, len(s.w.keys))})
}

// ended sends what is unsent if there is time for it.
func (s *localAsync) ended(p *process, orderly bool) {
	if orderly {
		s.flush(p)
	}
}

func (s *localAsync) elected(broker int) {
	s.counters[broker] = &counter{buckets: s.w.newBuckets(), told: make([]bool, len(s.w.keys))}
}

func (s *localAsync) check(p *process, a workload.Arrival) {
	v := s.views[p.id]
	if !v.buckets.of(a.Key, s.w.rules[a.Key], s.w.mono(&p.machine)).take(s.w.mono(&p.machine), a.Cost) {
		s.w.end(a, measure.Exhausted)
		return
	}
	s.w.end(a, measure.Admitted)
	if a.Cost == 0 {
		return
	}
	if len(v.dirty) == 0 {
		s.w.timer(&p.machine, syncWait, func() { s.flush(p) })
	}
	if v.unsent[a.Key] == 0 {
		v.dirty = append(v.dirty, a.Key)
	}
	v.unsent[a.Key] += a.Cost
}

// flush sends what was admitted, once.
func (s *localAsync) flush(p *process) {
	v := s.views[p.id]
	if !p.alive || len(v.dirty) == 0 {
		return
	}
	s.w.rec.Synced(1)
	hits := make([]hit, 0, len(v.dirty))
	for _, key := range v.dirty {
		hits = append(hits, hit{key, v.unsent[key]})
		v.unsent[key] = 0
	}
	v.dirty = v.dirty[:0]
	s.send(p, hits)
}

func (s *localAsync) send(p *process, hits []hit) {
	answered, asked := false, p.contact
	s.w.toBroker(p, func(b *broker) {
		s.count(b, hits)
		s.w.toProcess(b, p, func() { answered = true })
	}, func() { s.send(p, hits) })
	s.w.timer(&p.machine, hitTimeout, func() {
		if !answered && p.alive && p.contact == asked {
			s.w.goOn(p)
		}
	})
}

// count takes admissions into a broker's counter, which tells everyone later.
func (s *localAsync) count(b *broker, hits []hit) {
	c := s.counters[b.index]
	now := s.w.mono(&b.machine)
	if len(c.changed) == 0 {
		s.w.timer(&b.machine, syncWait, func() { s.tell(b, c) })
	}
	for _, h := range hits {
		c.buckets.of(h.key, s.w.rules[h.key], now).drain(now, h.tokens)
		if !c.told[h.key] {
			c.told[h.key] = true
			c.changed = append(c.changed, h.key)
		}
	}
}

// tell tells every process what is left of the budgets that have changed.
func (s *localAsync) tell(b *broker, c *counter) {
	if !b.alive || !b.serving || s.counters[b.index] != c {
		return
	}
	now := s.w.mono(&b.machine)
	levels := make([]hit, 0, len(c.changed))
	for _, key := range c.changed {
		c.told[key] = false
		levels = append(levels, hit{key, c.buckets.of(key, s.w.rules[key], now).level(now)})
	}
	c.changed = c.changed[:0]
	for _, region := range s.w.limiters {
		for _, l := range region {
			for _, p := range l.living {
				s.w.toProcess(b, p, func() { s.heard(p, levels) })
			}
		}
	}
}

// heard replaces a process's view by what is left in the middle.
func (s *localAsync) heard(p *process, levels []hit) {
	v, now := s.views[p.id], s.w.mono(&p.machine)
	for _, h := range levels {
		b := v.buckets.of(h.key, s.w.rules[h.key], now)
		b.Advance(now)
		b.Available = min(b.Rule.Capacity, max(0, h.tokens-v.unsent[h.key]))
		if b.Available == b.Rule.Capacity {
			b.Remainder = 0
		}
	}
}

func (s *localAsync) ruled(key int, before lease.Rule) {
	rule := s.w.rules[key]
	for _, region := range s.w.limiters {
		for _, l := range region {
			for _, p := range l.living {
				s.views[p.id].buckets.rule(key, before, rule, s.w.mono(&l.machine))
			}
		}
	}
	for i, c := range s.counters {
		if c != nil {
			c.buckets.rule(key, before, rule, s.w.mono(&s.w.brokers[i].machine))
		}
	}
	s.w.rec.Judge(key).Bind(s.w.now)
}

func (s *localAsync) backup() (restore func()) {
	copied := s.counters[s.w.leader].buckets.clone()
	return func() {
		for key, old := range copied {
			if old != nil {
				_ = old.Install(old.Updated, s.w.rules[key])
			}
		}
		s.counters[s.w.leader].buckets = copied
	}
}

// balance has what the central place counts; nothing is held.
func (s *localAsync) balance(b *measure.Balance) {
	leader := s.w.brokers[s.w.leader]
	b.Available = s.counters[leader.index].buckets.total(s.w.mono(&leader.machine),
		func(key int) lease.Rule { return s.w.rules[key] })
}
