package simulations

import (
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// site is one holder name: its disks, and the processes that ran under it.
type site struct {
	w       *World
	holder  lease.Holder
	mode    holder.Journal
	greedy  bool
	disk    *disk
	shelf   []*disk    // disks that are not in use, to come back some day
	procs   []*process // all that ever were, oldest first
	current *process   // the newest
	cutTo   time.Duration
}

func newSite(w *World, i int) *site {
	s := &site{
		w: w, holder: lease.Holder{Region: fmt.Sprintf("region-%d", i), Instance: "limiter"},
		mode: w.cfg.Journals[i], greedy: w.cfg.Greedy[i], disk: w.newDisk(),
	}
	w.after(w.latency(), "start", s.holder.Region, 0, s.start)
	return s
}

// cut says that the site has no network.
func (s *site) cut() bool { return s.w.now < s.cutTo }

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
	case (s.mode == holder.JournalConfirm || w.cfg.Hooks.RestoreAny) && w.percent(f.OldDisk):
		s.disk = w.older(s.disk)
		w.stats.Restored++
	}
	s.start()
}

// restartSoon schedules a restart.
func (s *site) restartSoon() {
	s.w.after(s.w.between(0, 5*time.Second), "restart", s.holder.Region, 0, s.restart)
}
