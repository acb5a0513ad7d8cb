package regional

import (
	"sync/atomic"
	"time"
)

// guard sheds checks that are more than this process is to bear. It blocks nobody
// and allocates nothing.
//
// The rate is held by spacing: each check that is let in moves the time of the next
// one by a fixed step, and what came early may run ahead by a tenth of a second. So
// in any interval of T seconds at most rate*T + max(1, rate/10) are let in; the step
// is rounded up to a nanosecond, which makes the rate a little less, never more.
type guard struct {
	most   int64 // at once; 0: no bound
	inside atomic.Int64
	step   int64 // ns between checks; 0: no bound
	ahead  int64 // ns that the next check's time may be ahead of now
	next   atomic.Int64
	now    func() time.Duration
}

func newGuard(concurrent, perSecond int, now func() time.Duration) *guard {
	g := &guard{most: int64(concurrent), now: now}
	g.next.Store(int64(now()))
	if perSecond > 0 {
		g.step = (int64(time.Second) + int64(perSecond) - 1) / int64(perSecond)
		g.ahead = g.step * int64(max(0, perSecond/10-1))
	}
	return g
}

// enter lets a check in, or sheds it. Whoever is in leaves.
func (g *guard) enter() bool {
	if g.most > 0 && g.inside.Add(1) > g.most {
		g.inside.Add(-1)
		return false
	}
	if g.step > 0 && !g.space() {
		g.leave()
		return false
	}
	return true
}

func (g *guard) leave() {
	if g.most > 0 {
		g.inside.Add(-1)
	}
}

// space takes the next point in time that a check may have, if it is not too far
// ahead.
func (g *guard) space() bool {
	now := int64(g.now())
	for {
		next := g.next.Load()
		at := max(next, now)
		if at-now > g.ahead {
			return false
		}
		if g.next.CompareAndSwap(next, at+g.step) {
			return true
		}
	}
}
