package explore

import (
	"math"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/regional/holder"
)

// clocks is where processes read time, under policies that bound staleness. There is
// one for all of them, since a process cannot take its own along when it is copied:
// one runs at a time.
type clocks struct {
	on  bool // the scope has bounds; otherwise nothing depends on it
	mu  sync.Mutex
	now time.Duration
}

// of sets the clocks for a process that is about to run, until the returned func is
// called.
func (c *clocks) of(ticks uint8) func() {
	if !c.on {
		return func() {}
	}
	c.mu.Lock()
	c.now = mono(ticks)
	return c.mu.Unlock
}

// late lets the clocks read what they did so many seconds ago, for one look.
func (c *clocks) late(seconds int, look func()) {
	if !c.on {
		look()
		return
	}
	c.now -= time.Duration(seconds) * tick
	look()
	c.now += time.Duration(seconds) * tick
}

func (c *clocks) read() holder.Clocks {
	if !c.on {
		return holder.Clocks{}
	}
	return holder.Clocks{Mono: c.now, Boot: c.now, Wall: c.now}
}

// spend spends as the process's clocks have it.
func (x *explorer) spend(p *process, cost int64) (ok bool) {
	x.clocks.late(x.scope.Lag, func() { _, ok = p.budget.Spend(cost) })
	return ok
}

// staleFrom is from which tick on the process spends nothing of what it has.
func (x *explorer) staleFrom(p *process) uint8 {
	if !x.clocks.on {
		return math.MaxUint8
	}
	now := x.clocks.now
	defer func() { x.clocks.now = now }()
	for t := range uint8(x.scope.Ticks) + 1 {
		x.clocks.now = mono(t) - time.Duration(x.scope.Lag)*tick
		if p.budget.Stale() {
			return t
		}
	}
	return math.MaxUint8
}

// spendable is what the process in a slot could still spend. Of a grant that has
// lapsed that is nothing, where it is too old by its clocks.
func (s *state) spendable(slot int) int64 {
	p := s.procs[slot]
	if p == nil || p.stale <= s.used.ticks && !s.store.lives(p.grant) {
		return 0
	}
	return p.unspent
}

// lives says that the store has the grant.
func (s *storePart) lives(grant string) bool {
	for i := range s.out {
		if s.out[i].grant == grant {
			return true
		}
	}
	return false
}
