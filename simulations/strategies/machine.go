package strategies

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// machine is what a limiter or a broker runs on.
type machine struct {
	node    node
	resumes time.Duration // until when it is paused
	clock   clock
}

// lag is how much later than all else a timer fires on a machine that goes on
// after a pause: what had arrived meanwhile is treated first.
const lag = time.Millisecond

func (w *world) paused(m *machine) bool { return w.now < m.resumes }

// mono is the machine's monotonic clock.
func (w *world) mono(m *machine) lease.Time { return lease.Time(m.clock.read(w.now)) }

// receive handles a message at a machine: at once, or when it goes on.
func (w *world) receive(m *machine, do func()) {
	if w.paused(m) {
		w.at(m.resumes, func() { w.receive(m, do) })
		return
	}
	do()
}

// timer lets something happen after d by the machine's clock.
func (w *world) timer(m *machine, d time.Duration, do func()) {
	w.alarm(m, m.clock.read(w.now)+d, do)
}

// alarm waits for the clock to read at; it may have slept.
func (w *world) alarm(m *machine, at time.Duration, do func()) {
	again := func() { w.alarm(m, at, do) }
	w.after(m.clock.real(w.now, at), func() {
		switch {
		case w.paused(m):
			w.at(m.resumes+lag, again)
		case m.clock.read(w.now) < at:
			again()
		default:
			do()
		}
	})
}

// clock is a monotonic clock: at most as fast as time, and still while its machine
// sleeps.
type clock struct {
	origin, since time.Duration // what it read, and when in real time
	slow          int           // percent
}

func (c *clock) read(now time.Duration) time.Duration {
	elapsed := max(0, now-c.since)
	return c.origin + elapsed - elapsed/100*time.Duration(c.slow)
}

// real is how long it is from now until the clock reads at: never less.
func (c *clock) real(now, at time.Duration) time.Duration {
	d := at - c.read(now)
	if d > 0 && c.slow > 0 {
		d = d/time.Duration(100-c.slow)*100 + 100
	}
	return max(0, d) + max(0, c.since-now)
}

// sleep lets the clock stand still until a moment.
func (c *clock) sleep(now, until time.Duration) {
	c.origin, c.since = c.read(now), max(c.since, until)
}

// limiter is one place where checks arrive.
type limiter struct {
	machine
	region int
	holder lease.Holder
	living []*process // mostly one; two when it was started twice
}

// process is one start of a limiter.
type process struct {
	*limiter
	id      int // counts processes from 0
	alive   bool
	contact int // the broker that it takes for the central place
}

// start starts a process on a limiter.
func (w *world) start(l *limiter) {
	p := &process{limiter: l, id: w.processes, alive: true, contact: w.leader}
	w.processes++
	l.living = append(l.living, p)
	w.strategy.started(p)
}

// quit ends all processes of a limiter.
func (w *world) quit(l *limiter, orderly bool) {
	for _, p := range l.living {
		w.strategy.ended(p, orderly)
		p.alive = false
	}
	l.living = nil
}

// toProcess carries a message from a broker to a process.
func (w *world) toProcess(from *broker, p *process, do func()) {
	w.send(from.node, p.node, func() {
		w.receive(&p.machine, func() {
			if p.alive {
				do()
			}
		})
	})
}
