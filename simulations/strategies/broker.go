package strategies

import "time"

const (
	// sessionTTL is how long a broker may be silent towards the store before
	// another takes its place; the same as in the runs of the real code.
	sessionTTL = 5 * time.Second
	// beat is how often it speaks.
	beat = time.Second
)

// broker may be the central place of a strategy.
type broker struct {
	machine
	index   int
	alive   bool
	serving bool // it takes itself for the central place
	expired bool // its session has ended, and it has not noticed
	renewed time.Duration
}

// toBroker carries a message from a process to the broker that it takes for the
// central place. One that is not says which is, and then again tries again.
func (w *world) toBroker(p *process, do func(b *broker), again func()) {
	b := w.brokers[p.contact]
	w.send(p.node, b.node, func() {
		w.receive(&b.machine, func() {
			switch {
			case !b.alive:
			case b.serving:
				do(b)
			case w.leader != b.index:
				leader := w.leader
				w.toProcess(b, p, func() {
					p.contact = leader
					again()
				})
			}
		})
	})
}

// goOn lets a process that had no answer try the next broker.
func (w *world) goOn(p *process) { p.contact = (p.contact + 1) % len(w.brokers) }

// keepAlive holds the elected broker's session as far as it reaches the store. A
// store that is out of service ends no session.
func (w *world) keepAlive() {
	w.after(beat, w.keepAlive)
	b := w.brokers[w.leader]
	switch {
	case w.outages > 0, w.fit(b) && b.serving:
		b.renewed = w.now
	case w.now-b.renewed >= sessionTTL:
		if !w.paused(&b.machine) {
			b.serving = false // it knows that its session has run out
		}
		w.elect()
	}
}

// fit says that the broker can hold a session.
func (w *world) fit(b *broker) bool {
	return b.alive && !b.expired && !w.paused(&b.machine) && !w.net.isCut(b.node, w.net.store())
}

// elect makes the next broker that is fit the central place.
func (w *world) elect() {
	for i := 1; i <= len(w.brokers); i++ {
		b := w.brokers[(w.leader+i)%len(w.brokers)]
		if w.fit(b) {
			w.leader = b.index
			b.serving, b.renewed = true, w.now
			w.strategy.elected(b.index)
			return
		}
	}
}

// expire ends the sessions of brokers, which notice later.
func (w *world) expire(brokers []*broker, later time.Duration) {
	for _, b := range brokers {
		b.expired = true
		w.after(later, func() {
			b.expired = false
			if w.leader == b.index { // nobody else was fit
				b.serving = false
				w.elect()
			}
			w.notice(b)
		})
	}
	if w.brokers[w.leader].expired {
		w.elect()
	}
}

// notice lets a broker see that another was elected.
func (w *world) notice(b *broker) {
	if w.leader != b.index {
		b.serving = false
	}
}
