package simulations

import (
	"time"

	"github.com/tokenlease/tokenlease/regional/holder"
)

// clock is the pair of clocks of one machine. The monotonic one has an origin of
// its own, may be slow, and stands still while the machine sleeps; it is never
// fast, which is the premise of contract C2. The wall clock says anything.
type clock struct {
	w      *World
	origin time.Duration
	since  time.Duration // real time at which it read origin
	slow   int           // percent
	wall   time.Duration // ahead of real time
	// Of the boot clock, which goes on while the machine sleeps, and is slow likewise:
	// what it read at first, and when.
	first, born time.Duration
	lags        bool // what the limiter reads of the wall clock is slow, too
	plain       bool // there is no boot clock, and the wall clock is never set back
}

// newClock is a clock with an origin that tells nothing.
func (w *World) newClock() clock {
	origin := w.between(time.Second, 1000*time.Hour)
	return clock{w: w, origin: origin, since: w.now, first: origin, born: w.now}
}

// mono is the monotonic clock.
func (c *clock) mono() time.Duration {
	return c.origin + c.slowed(max(0, c.w.now-c.since))
}

// slowed is what a slow clock makes of a time.
func (c *clock) slowed(d time.Duration) time.Duration { return d - d/100*time.Duration(c.slow) }

// read is what a limiter reads of all clocks of its machine.
func (c *clock) read() holder.Clocks {
	elapsed := c.w.now - c.born
	r := holder.Clocks{Mono: c.mono(), Boot: c.first + c.slowed(elapsed), Wall: wallAtFirst*time.Millisecond + c.wall + c.w.now}
	if c.lags {
		r.Wall += c.slowed(elapsed) - elapsed
	}
	if c.plain {
		r.Boot = r.Mono
	}
	return r
}

// setWall steps the wall clock: forward alone, where nothing else tells of sleep.
func (c *clock) setWall(step time.Duration) {
	if c.plain {
		step = step.Abs()
	}
	c.wall += step
}

// real is how long it takes until the monotonic clock reads at, rounded up.
func (c *clock) real(at time.Duration) time.Duration {
	d := at - c.mono()
	if c.slow > 0 {
		d = d/time.Duration(100-c.slow)*100 + 100
	}
	return max(d, time.Microsecond)
}

// sleep lets the monotonic clock stand still for d from now on.
func (c *clock) sleep(d time.Duration) {
	c.origin, c.since = c.mono(), max(c.since, c.w.now+d)
}

// unixMs is the wall clock.
func (c *clock) unixMs() int64 { return (c.w.now + c.wall).Milliseconds() + wallAtFirst }

// wallAtFirst is what a true wall clock says at the first moment of a world.
const wallAtFirst = 1_700_000_000_000
