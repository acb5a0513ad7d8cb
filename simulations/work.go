package simulations

import (
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/lease"
)

// work is what a check was for, where the limiter holds something for it: slots, or
// a reservation of tokens. It goes on outside of the limiter, whatever becomes of
// that: a process may die, and its work does not.
type work struct {
	p     *process
	key   int
	id    uint64 // of the hold
	grant string // that it is of
	slots bool
	held  int64         // slots, or the bound that is reserved
	until time.Duration // the hold's end, on the process's monotonic clock
	ends  time.Duration // the work's, in real time
	// Of a reservation: what it uses in the end, and whether all of that is used at
	// the start, or at the end.
	uses  int64
	early bool
	// told: the judge knows that its slots are free, or its tokens spent.
	told bool
	over bool // it has ended
}

// plan is what a check will do if it is admitted, drawn when it arrives.
type plan struct {
	reserves bool // it holds a bound first, where it does not hold slots
	uses     int  // of it, in percent
	early    bool
	lasts    time.Duration
}

// drawPlan draws what a check of a swarm will do.
func (w *World) drawPlan() plan {
	longest := max(100*time.Millisecond, w.cfg.Work)
	p := plan{lasts: w.between(time.Millisecond, longest)}
	if w.rng.IntN(8) == 0 {
		p.lasts = w.between(longest, 4*longest) // beyond its time, often
	}
	p.reserves = w.rng.IntN(100) < w.cfg.Reserve
	if p.reserves {
		p.uses, p.early = w.rng.IntN(101), w.rng.IntN(2) == 0
	}
	return p
}

// hold takes slots or a reservation for a check, and starts its work.
func (p *process) hold(key int, b *budget, c *waiter, policy *lease.Policy, slots bool) bool {
	w := p.w
	w.holds++
	until := p.mono() + policy.HoldTime()
	p.looks = toHold
	_, ok := b.Hold(w.holds, c.cost, until, slots)
	p.looks = elsewhere
	if !ok {
		return false
	}
	c.holds = slots
	grant, _ := p.mgr.Held(w.keys[key])
	k := &work{
		p: p, key: key, id: w.holds, grant: grant, slots: slots, held: c.cost, until: until, ends: w.now + c.plan.lasts,
		uses: (c.cost*int64(c.plan.uses) + 99) / 100, early: c.plan.early,
	}
	p.works = append(p.works, k)
	w.works = append(w.works, k)
	w.stats.Holds++
	k.starts()
	w.after(c.plan.lasts, "ended", p.name, c.cost, k.end)
	p.crashPoint()
	return true
}

// starts tells the judge of it.
func (k *work) starts() {
	w := k.p.w
	if !k.slots {
		if k.early {
			k.spend()
		}
		return
	}
	if l := w.mirror.ledgers[w.keys[k.key]]; l == nil || l.ledger.Rule.Kind != lease.Concurrency {
		k.told = true // the process has not heard that there are no slots any more
		return
	}
	if err := w.judges[k.key].Hold(w.now, k.held); err != nil && !w.restored {
		w.failf("%s, admitted by %s: %v", w.keys[k.key].Operation, k.p.name, err)
	}
}

// spend tells the judge that what the work uses is spent now.
func (k *work) spend() {
	if k.told {
		return
	}
	k.told = true
	w := k.p.w
	w.stats.Admitted += k.uses
	if err := w.judges[k.key].Admit(w.now, k.uses); err != nil {
		w.failf("%s, reserved by %s: %v", w.keys[k.key].Operation, k.p.name, err)
	}
}

// free tells the judge that its slots are.
func (k *work) free() {
	if !k.told {
		k.told = true
		k.p.w.judges[k.key].Release(k.held)
	}
}

// leave is the last moment at which what the work uses can have been spent, or its
// slots be in use.
func (k *work) leave() {
	if k.slots {
		k.free()
	} else {
		k.spend()
	}
}

// end is the end of the work, and of its hold where the process lives.
func (k *work) end() {
	p, w := k.p, k.p.w
	if !k.over {
		k.over = true
		w.works = slices.DeleteFunc(w.works, func(o *work) bool { return o == k })
	}
	p.lapse()
	k.leave()
	if !p.alive {
		return
	}
	if p.paused() { // the caller is told to wait, and has ended long since
		w.after(p.resumes-w.now, "resume", p.name, int64(k.id), k.end)
		return
	}
	p.works = slices.DeleteFunc(p.works, func(o *work) bool { return o == k })
	if b := p.budgets[k.key]; b != nil {
		b.Settle(k.id, k.uses, false)
		p.signaled()
		p.wakeWaiting()
	}
}

// lapse ends the claims of work whose time is over, and of reservations whose grant
// has ended: before the process can give any of it to others.
func (p *process) lapse() {
	if len(p.works) == 0 || p.mgr == nil {
		return
	}
	now, n := p.mono(), 0
	for _, k := range p.works {
		switch grant, _ := p.mgr.Held(p.w.keys[k.key]); {
		case grant != k.grant && k.slots: // they stay reserved until the work has ended
		case grant != k.grant:
			k.spend()
		case now >= k.until:
			if !k.slots && !k.told {
				k.uses = k.held // it counts as spent
			}
			k.leave()
		}
		if !k.over || !k.told {
			p.works[n] = k
			n++
		}
	}
	clear(p.works[n:])
	p.works = p.works[:n]
}

// abandon is what a crash does: reservations are spent by then at the latest, and
// the work that holds slots goes on.
func (p *process) abandon() {
	for _, k := range p.works {
		if !k.slots {
			k.spend()
		}
	}
	p.works = nil
}

// freeSlots tells the judge that work of this budget holds no slots any more: its
// rule has become one of another kind.
func (w *World) freeSlots(key int) {
	for _, k := range w.works {
		if k.key == key && k.slots {
			k.free()
		}
	}
}

// inUse is how many slots the work of the process's epoch holds.
func (p *process) inUse(key int) (slots int64) {
	for _, k := range p.w.works {
		if k.p == p && k.key == key && k.slots && !k.told {
			slots += k.held
		}
	}
	return slots
}

// unprovable says that an account of the grant may leave something reserved: slots,
// whose work may go on.
func (w *World) unprovable(g record.Grant) bool {
	return w.slotted[slices.Index(w.keys, g.Key())]
}

// spends admits a check from the credit that is there, in the way that the policy
// and the check want it.
func (p *process) spends(key int, b *budget, c *waiter) bool {
	policy := b.policy()
	switch {
	case policy == nil:
		return false
	case policy.Rule.Kind == lease.Concurrency:
		return p.hold(key, b, c, policy, true)
	case c.plan.reserves:
		return p.hold(key, b, c, policy, false)
	}
	p.looks = toSpend
	_, ok := b.Spend(c.cost)
	p.looks = elsewhere
	if ok && p.alive { // it may have died between its look at the clocks and now
		p.admitted(key, c.cost)
	}
	return ok
}

// policy is the one that the process knows; nil for none.
func (b *budget) policy() *lease.Policy {
	if o := b.Outlook(); o != nil {
		return o.Policy
	}
	return nil
}
