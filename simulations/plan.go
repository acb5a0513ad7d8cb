package simulations

import (
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// plan schedules a fault of a scenario.
func (st *stage) plan(f *scenario.Fault) {
	w := st.w
	do := st.do(f)
	if f.Kind == scenario.Restore {
		var copied *backup
		w.after(f.At-f.Age, "backup", "", 0, func() { copied = w.backup() })
		do = func() { st.restore(f, copied) }
	}
	w.after(f.At, string(f.Kind), f.Target, int64(f.For), do)
}

// do is what a fault does at its moment.
func (st *stage) do(f *scenario.Fault) func() {
	w := st.w
	switch f.Kind {
	case scenario.Cut:
		return func() { st.cut(f) }
	case scenario.Mess:
		return func() { st.mess(f) }
	case scenario.Pause, scenario.Freeze:
		return func() { st.pause(f) }
	case scenario.Crash:
		return func() { st.crash(f) }
	case scenario.Stop:
		return func() { st.stop(f) }
	case scenario.Zombie:
		return func() { forEach(st.sites(f.Target), (*site).rival) }
	case scenario.Expire:
		return func() { forEach(st.brokers(f.Target), func(b *broker) { b.loseSession(f.For) }) }
	case scenario.StoreIs:
		return func() {
			n := w.trouble.of(f.Trouble)
			*n++
			st.later(f.For, "store well", func() { *n = max(0, *n-1) })
		}
	case scenario.Policy:
		return func() { w.SetPolicy(st.policy(f.Policy.Operation), f.Policy) }
	case scenario.Attest:
		return func() { forEach(st.sites(f.Target), w.attestSite) }
	case scenario.Wall:
		return func() { st.stepWall(f) }
	case scenario.Restore:
	}
	return func() {}
}

func forEach[T any](all []T, do func(T)) {
	for _, one := range all {
		do(one)
	}
}

// later does something after a while; never if that is 0.
func (st *stage) later(d time.Duration, kind string, do func()) {
	if d > 0 {
		st.w.after(d, kind, "", 0, do)
	}
}

func (st *stage) cut(f *scenario.Fault) {
	n := st.w.net
	st.each(f.Ends, func(a, b node) {
		n.cut(a, b, f.For)
		if !f.OneWay {
			n.cut(b, a, f.For)
		}
	})
}

// mess disturbs both directions.
func (st *stage) mess(f *scenario.Fault) {
	m := mess{f.Loss, f.Duplicate, f.Late, f.Delay}
	for _, ends := range [][2]string{f.Ends, {f.Ends[1], f.Ends[0]}} {
		st.each(ends, func(a, b node) {
			l := st.w.net.link(a, b)
			l.messy = append(l.messy, m)
			st.later(f.For, "tidy", func() {
				if at := slices.Index(l.messy, m); at >= 0 {
					l.messy = slices.Delete(l.messy, at, at+1)
				}
			})
		})
	}
}

func (st *stage) pause(f *scenario.Fault) {
	d := f.For
	if d == 0 {
		d = st.sc.Duration - f.At
	}
	sleeps := f.Kind == scenario.Freeze
	for _, s := range st.sites(f.Target) {
		for _, p := range s.procs {
			if p.alive {
				p.pause(d, sleeps)
			}
		}
	}
	forEach(st.brokers(f.Target), func(b *broker) { b.pause(d, sleeps) })
}

// crash ends all that runs at the target. Limiters come back on the disk that the
// fault says.
func (st *stage) crash(f *scenario.Fault) {
	forEach(st.brokers(f.Target), func(b *broker) { b.crash(f.Back, sessionTTL) })
	for _, s := range st.sites(f.Target) {
		for _, p := range s.procs {
			p.crash()
		}
		s.gone = f.Back == 0
		st.later(f.Back, "restart", func() {
			switch f.Journal {
			case "fresh":
				s.disk = st.w.newDisk()
			case "older":
				s.disk = st.w.older(s.disk)
			}
			s.start()
		})
	}
}

// stop ends limiters in order, and starts them again.
func (st *stage) stop(f *scenario.Fault) {
	for _, s := range st.sites(f.Target) {
		for _, p := range s.procs {
			p.stop()
		}
		s.gone = f.Back == 0
		st.later(f.Back, "restart", s.startWhenFree)
	}
}

// startWhenFree starts a process once the one before has ended.
func (s *site) startWhenFree() {
	if s.current != nil && s.current.alive {
		s.w.after(100*time.Millisecond, "restart", s.name, 0, s.startWhenFree)
		return
	}
	s.start()
}

func (st *stage) stepWall(f *scenario.Fault) {
	for _, s := range st.sites(f.Target) {
		s.wall += f.Step
		for _, p := range s.procs {
			p.clock.wall += f.Step
		}
	}
	forEach(st.brokers(f.Target), func(b *broker) { b.clock.wall += f.Step })
}

// restore sets the store back. A declared restore ends the limiters of before, at
// their next contact or at the latest before it is attested; they start again.
func (st *stage) restore(f *scenario.Fault, copied *backup) {
	w := st.w
	if !f.Declared {
		w.setBack(copied)
		return
	}
	w.setBackDeclared(copied)
	forEach(w.sites, (*site).startWhenFree)
	st.later(f.Attested, "attest", func() {
		for _, p := range w.earlier() {
			p.crash()
		}
		w.attestRestore()
	})
}

// keepAlive holds the broker's session, as far as it reaches the store; where it
// does not for sessionTTL the store ends it, and the broker notices when it
// reaches the store again. A store that is out of service ends no session.
func (b *broker) keepAlive() {
	w := b.w
	w.after(sessionTTL/5, "keep-alive", b.name, 0, b.keepAlive)
	store := w.net.store()
	switch {
	case b.down:
		b.expired = false
	case w.trouble.outage > 0:
		b.renewed = w.now
	case !b.paused() && !w.net.isCut(b.node, store) && !w.net.isCut(store, b.node):
		b.renewed = w.now
		if b.expired {
			b.expired = false
			b.notice(b.session)
		}
	case !b.expired && w.now-b.renewed >= sessionTTL:
		b.expired = true
		w.store.ExpireSession(b.session, false)
	}
}
