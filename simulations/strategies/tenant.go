package strategies

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

const (
	// refreshEvery is how often a holder refreshes a lease that it uses.
	refreshEvery = 2 * time.Second
	// leaseTimeout is how long it waits for an answer.
	leaseTimeout = time.Second
)

// tenant is a process's side of its lease of one budget.
type tenant struct {
	p   *process
	key int

	lease         lease.GrantID
	issued, spent int64
	term          int // counts the terms of leases

	waiting  []waiting
	request  int // counts requests
	asking   bool
	reported int64 // spent when the request was sent

	used, usedBefore int64 // in this interval of refreshes, and in the one before
	refreshing       bool
}

// waiting is a check that waits for credit.
type waiting struct {
	arrival workload.Arrival
	since   int // requests that had been sent when it came
}

func (t *tenant) has() int64 { return t.issued - t.spent }

// check admits from what the tenant has. It does not look at the clock: the term
// is ended by a timer.
func (s *expiring) check(p *process, a workload.Arrival) {
	if a.Cost > s.w.rules[a.Key].ShareCap() {
		s.w.end(a, measure.Refused) // it may never hold that much
		return
	}
	t := s.tenants[p.id][a.Key]
	if t == nil {
		t = &tenant{p: p, key: a.Key}
		s.tenants[p.id][a.Key] = t
	}
	if !t.refreshing {
		t.refreshing = true
		s.w.timer(&p.machine, refreshEvery, func() { s.refresh(t) })
	}
	if len(t.waiting) == 0 && t.has() >= a.Cost {
		s.admit(t, a)
		return
	}
	t.waiting = append(t.waiting, waiting{a, t.request})
	s.w.timer(&p.machine, s.w.sc.Regions[p.region].Wait, func() { s.giveUp(t, a.Index) })
	s.ask(t)
}

func (s *expiring) admit(t *tenant, a workload.Arrival) {
	t.spent += a.Cost
	t.used += a.Cost
	s.w.end(a, measure.Admitted)
}

// giveUp ends a check that has waited long enough: no lessor could be asked.
func (s *expiring) giveUp(t *tenant, index int) {
	for i, c := range t.waiting {
		if c.arrival.Index == index {
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			s.w.end(c.arrival, measure.Unavailable)
			return
		}
	}
}

// refresh asks now and again while the lease is used; an idle one expires.
func (s *expiring) refresh(t *tenant) {
	if !t.p.alive {
		return
	}
	if t.used == 0 && t.usedBefore == 0 && len(t.waiting) == 0 {
		t.refreshing = false
		return
	}
	t.usedBefore, t.used = t.used, 0
	s.ask(t)
	s.w.timer(&t.p.machine, refreshEvery, func() { s.refresh(t) })
}

// want is what the tenant used lately, and a tenth of the budget at the least, on
// top of what waits.
func (s *expiring) want(t *tenant) int64 {
	want := max(1, s.w.rules[t.key].Capacity/10, t.used, t.usedBefore)
	for _, c := range t.waiting {
		want += c.arrival.Cost
	}
	return want
}

// ask sends one request at a time.
func (s *expiring) ask(t *tenant) {
	if t.asking || !t.p.alive {
		return
	}
	t.request++
	t.asking, t.reported = true, t.spent
	number, contact := t.request, t.p.contact
	r := request{from: t.p, key: t.key, lease: t.lease, spent: t.spent, has: t.has(), want: s.want(t)}
	s.w.rec.Synced(1)
	s.w.toBroker(t.p, func(b *broker) {
		a := s.serve(b, r)
		s.w.toProcess(b, t.p, func() { s.answered(t, number, a) })
	}, func() { s.failed(t, number, true) })
	s.w.timer(&t.p.machine, leaseTimeout, func() {
		if t.p.contact == contact && t.asking && t.request == number {
			s.w.goOn(t.p)
		}
		s.failed(t, number, len(t.waiting) > 0)
	})
}

// failed gives a request up, and perhaps asks again.
func (s *expiring) failed(t *tenant, number int, again bool) {
	if t.asking && t.request == number {
		t.asking = false
		if again {
			s.ask(t)
		}
	}
}

// answered takes the answer to the newest request. The term begins now, which is
// later than at the lessor.
func (s *expiring) answered(t *tenant, number int, a answer) {
	if !t.asking || t.request != number {
		return
	}
	t.asking = false
	if a.lease != t.lease {
		spent := int64(0)
		if a.learns {
			spent = t.spent - t.reported // of what it claimed
		}
		t.lease, t.issued, t.spent = a.lease, a.issued, spent
	}
	t.issued = max(t.issued, a.issued)
	t.term++
	term := t.term
	s.w.timer(&t.p.machine, leaseTime, func() {
		if t.term == term {
			t.lease, t.issued, t.spent = lease.GrantID{}, 0, 0
		}
	})
	s.serveWaiting(t, number, a.learns)
}

// serveWaiting admits what fits. What the request was about and does not fit is
// denied: there is no more, or, from a lessor that learns, nobody to ask. What came
// later is asked for next.
func (s *expiring) serveWaiting(t *tenant, number int, learns bool) {
	left := t.waiting[:0]
	for _, c := range t.waiting {
		switch {
		case t.has() >= c.arrival.Cost:
			s.admit(t, c.arrival)
		case c.since >= number:
			left = append(left, c)
		case learns:
			s.w.end(c.arrival, measure.Unavailable)
		default:
			s.w.end(c.arrival, measure.Exhausted)
		}
	}
	t.waiting = left
	if len(left) > 0 {
		s.ask(t)
	}
}
