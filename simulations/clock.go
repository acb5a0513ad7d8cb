package simulations

import "time"

// clock is the pair of clocks of one machine. The monotonic one has an origin of
// its own, may be slow, and stands still while the machine sleeps; it is never
// fast, which is the premise of contract C2. The wall clock says anything.
type clock struct {
	w      *World
	origin time.Duration
	since  time.Duration // real time at which it read origin
	slow   int           // percent
	wall   time.Duration // ahead of real time
}

// newClock is a clock with an origin that tells nothing.
func (w *World) newClock() clock {
	return clock{w: w, origin: w.between(time.Second, 1000*time.Hour), since: w.now}
}

// mono is the monotonic clock.
func (c *clock) mono() time.Duration {
	elapsed := max(0, c.w.now-c.since)
	return c.origin + elapsed - elapsed/100*time.Duration(c.slow)
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
