package simulations

import (
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// settle is how long a healthy world gets to put itself in order: a list of
// grants and the accounts that follow from it, idle budgets closed, requests
// that hang answered. In scenarios these take their usual times.
func (w *World) settle() time.Duration {
	if w.stage != nil {
		return 4 * time.Minute
	}
	return 30 * time.Second
}

// heal stops all faults, and checks that the world puts itself in order: unknown
// credit is resolved wherever it is proven, nothing is reserved beyond what is
// held, and whoever waits is served.
func (w *World) heal() {
	w.healed = true
	if w.restored {
		w.declare()
	}
	w.net.mend()
	w.trouble = trouble{}
	_ = w.RunUntil(w.lastResume()) // a failure stays with the world
	for _, b := range w.brokers {
		b.boot()
		b.notice(b.lost)
	}
	for _, s := range w.sites {
		if !s.gone {
			s.supervise()
		}
	}
	for len(w.stash) > 0 {
		w.release()
	}
	w.reapply()
	w.mendWalls()
	_ = w.RunUntil(w.now + w.settle()/2)
	_ = w.RunUntil(w.lastWork())
	w.attestRestore()
	w.quiet = true
	_ = w.RunUntil(w.now + w.settle())
	w.checkResolved()
	w.attest(true)
	_ = w.RunUntil(w.now + w.settle()/3)
	if grants := w.sortedGrants(); w.fail == nil {
		for _, g := range grants {
			if w.gone(g) {
				w.failf("grant %s stays although its end was attested", g.ID)
			}
		}
	}
	w.checkFull()
	w.checkServed()
}

// lastResume is when nothing stands still any more.
func (w *World) lastResume() time.Duration {
	last := w.now
	for _, b := range w.brokers {
		last = max(last, b.resumes)
	}
	for _, s := range w.sites {
		for _, p := range s.procs {
			last = max(last, p.resumes)
		}
	}
	return last
}

// lastWork is when all work of now has ended.
func (w *World) lastWork() time.Duration {
	last := w.now
	for _, k := range w.works {
		last = max(last, k.ends)
	}
	return last
}

// mendWalls sets the wall clocks of all brokers right, which is not before what any
// of them has said. Then an hour passes on them every few seconds, so that fixed
// windows begin anew.
func (w *World) mendWalls() {
	ahead := time.Duration(0)
	for _, b := range w.brokers {
		ahead = max(ahead, b.clock.wall)
	}
	for _, wall := range w.mirror.wall {
		ahead = max(ahead, time.Duration(wall-wallAtFirst)*time.Millisecond-w.now)
	}
	for _, b := range w.brokers {
		b.clock.wall = ahead + time.Hour
	}
	w.after(5*time.Second, "hour", "", 0, w.mendWalls)
}

// checkFull holds that what was spent has come back, now that nobody has spent
// anything for a while: by refill, as its window or period ended, or as work did.
func (w *World) checkFull() {
	for _, key := range w.keys {
		b := w.mirror.ledgers[key]
		if b == nil || !b.exists || !w.recovers(b.ledger.Rule) {
			continue
		}
		l := b.ledger.Clone()
		if after, ok := l.Rule.FullAfter(); ok && after > w.settle()/4 { // since the last attestations
			continue
		}
		w.mirror.calendar.Turn(&l, l.Updated, w.brokers[0].clock.unixMs(), 0, quiet)
		l.Advance(lease.Time(w.now))
		if l.Available+l.Reserved() < l.Rule.Capacity {
			w.failf("after %v without a check a budget is not full, and nobody has the rest: %v", w.settle(), &l)
		}
	}
}

// recovers says that a budget has credit again in a while, whatever was spent of it.
func (w *World) recovers(r lease.Rule) bool {
	switch r.Kind {
	case lease.TokenBucket:
		return r.Refill.Tokens > 0 && r.ShareCap() > 0
	case lease.RollingWindow:
		return r.Window <= w.settle()/4 && r.ShareCap() > 0
	case lease.FixedWindow, lease.Concurrency:
	}
	return r.ShareCap() > 0
}

// supervise keeps one process of the site running.
func (s *site) supervise() {
	s.w.after(500*time.Millisecond, "supervise", s.name, 0, s.supervise)
	if s.serving() == nil {
		s.start()
	}
}

// serving is the site's living process with the highest epoch.
func (s *site) serving() *process {
	var best *process
	for _, p := range s.procs {
		if p.alive && (best == nil || p.epoch > best.epoch) {
			best = p
		}
	}
	return best
}

// checkResolved looks at all grants that are left.
func (w *World) checkResolved() {
	for _, g := range w.sortedGrants() {
		if w.fail != nil {
			return
		}
		outstanding := g.Issued - g.Spent - g.Returned
		if g.LapsesAfterNs > 0 && w.gone(g) {
			w.failf("nothing is left of the holder of grant %s, which has not lapsed", g.ID)
		}
		for _, p := range w.processesOf(g) {
			switch {
			case g.Kept: // until it is attested that its epoch and its work have ended
			case p.alive && p.mgr != nil && !p.mgr.Fenced():
				if id, unspent := p.mgr.Held(g.Key()); id != g.ID || unspent != outstanding {
					w.failf("%s holds %d of grant %q, but of %s %d stay reserved", p.name, unspent, id, g.ID, outstanding)
				}
			case w.unprovable(g):
			case p.alive:
				w.failf("%s was replaced and its grant %s stays", p.name, g.ID)
			case p.clean:
				w.failf("%s has ended in order and its grant %s stays", p.name, g.ID)
			case w.provable(p, g):
				w.failf("the journal of %s proves its grant %s, which stays", p.name, g.ID)
			}
		}
	}
}

// provable says that the process which runs now has opened a journal that proves
// the grant.
func (w *World) provable(p *process, g record.Grant) bool {
	now := p.site.serving()
	if now == nil {
		return false
	}
	if p.mode != holder.JournalOff && now.disk == p.disk {
		return true // it was begun there, and the journal keeps it until it is accounted for
	}
	id, _ := lease.ParseGrantID(g.ID)
	for _, past := range now.past {
		if past.Epoch == p.epoch {
			fence := w.mirror.fences[p.site.holder][id.Shard]
			return past.Counter >= fence.Counter(past.Epoch)
		}
	}
	return false
}

// checkServed lets one check wait at every site and budget, until it is
// admitted.
func (w *World) checkServed() {
	var waits []string
	for _, s := range w.sites {
		p := s.serving()
		if w.fail != nil {
			return
		}
		if s.gone {
			continue
		}
		if p == nil || p.mgr == nil {
			w.failf("%s has not come back", s.holder)
			return
		}
		for key, rule := range w.rules {
			policy := w.cfg.Policies[rule]
			if !w.recovers(policy.Rule) {
				continue
			}
			name := p.name + " " + policy.Operation
			waits = append(waits, name)
			p.await(key, 1, func(pb.Reason) {
				waits = slices.DeleteFunc(waits, func(other string) bool { return other == name })
			})
		}
	}
	_ = w.RunUntil(w.now + w.settle())
	if w.fail == nil && len(waits) > 0 {
		w.failf("still waiting after %v: %v", w.settle(), waits)
	}
}
