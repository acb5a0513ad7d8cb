package simulations

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// site is one holder name: its disks, and the processes that ran under it.
type site struct {
	w       *World
	name    string
	node    node
	holder  lease.Holder
	mode    holder.Journal
	greedy  bool
	disk    *disk
	shelf   []*disk    // disks that are not in use, to come back some day
	procs   []*process // all that ever were, oldest first
	current *process   // the newest
	slow    int        // of its machine's monotonic clock, in percent
	wall    time.Duration
	lags    bool          // its wall clock is slow, too
	plain   bool          // it has no boot clock
	stall   time.Duration // how long a check may stand still there, at the most; see Bounds
	gone    bool          // it is not started again
	wait    time.Duration // of a check, at the most
}

func newSite(w *World, i int, h lease.Holder, mode holder.Journal, greedy bool) *site {
	s := &site{
		w: w, name: h.Region, node: w.net.site(i), holder: h, mode: mode, greedy: greedy, disk: w.newDisk(), wait: patience,
	}
	w.after(w.latency(), "start", s.name, 0, s.start)
	return s
}

// newClock is the clock of a process that starts here.
func (s *site) newClock() clock {
	c := s.w.newClock()
	c.slow, c.wall, c.lags, c.plain = s.slow, s.wall, s.lags, s.plain
	return c
}

// cut loses the site's messages with a broker, or with all, in one direction or
// both.
func (s *site) cut(d time.Duration) {
	w := s.w
	direction, only := w.rng.IntN(4), w.rng.IntN(2*len(w.brokers))
	for i := range w.brokers {
		if only < len(w.brokers) && only != i {
			continue
		}
		if direction != 1 {
			w.net.cut(s.node, w.net.broker(i), d)
		}
		if direction != 2 {
			w.net.cut(w.net.broker(i), s.node, d)
		}
	}
}

// start starts a process on the site's disk, unless the disk is in use.
func (s *site) start() {
	if s.mode != holder.JournalOff && s.disk.lock != nil || s.current != nil && s.current.alive && s.mode == s.current.mode && s.disk == s.current.disk {
		return
	}
	p := newProcess(s)
	s.procs = append(s.procs, p)
	s.current = p
	p.boot()
}

// rival starts another process while the current one runs on: the old one
// becomes a zombie.
func (s *site) rival() {
	if s.current == nil || !s.current.alive {
		return
	}
	s.w.stats.Rivals++
	s.disk = s.w.newDisk()
	s.start()
}

// restart starts a process after a crash: on the disk as it was left, on a fresh
// one, on one from the shelf, or on an older copy of it.
func (s *site) restart() {
	w := s.w
	if s.current != nil && s.current.alive {
		return
	}
	f := &w.cfg.Faults
	switch {
	case s.mode == holder.JournalOff:
	case w.percent(f.FreshDisk):
		s.shelf = append(s.shelf, s.disk)
		at := w.rng.IntN(len(s.shelf) + 1)
		if at == len(s.shelf) || s.shelf[at].lock != nil {
			s.disk = w.newDisk()
			w.stats.Fresh++
			break
		}
		s.disk = s.shelf[at]
		s.shelf = append(s.shelf[:at], s.shelf[at+1:]...)
	case s.mode == holder.JournalConfirm && w.percent(f.OldDisk):
		s.disk = w.older(s.disk)
		w.stats.Restored++
	}
	s.start()
}

// restartSoon schedules a restart.
func (s *site) restartSoon() {
	s.w.after(s.w.paced(0, 5*time.Second, s.w.cfg.Pace), "restart", s.name, 0, s.restart)
}
