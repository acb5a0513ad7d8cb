package strategies

import (
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
)

// expiring is what most lease systems do: a lessor in the middle lends lumps of
// credit for ten seconds, and holders refresh what they use every two, or when a
// check does not find enough. What is not refreshed in time the lessor lends again.
// Doorman and the resource control of TiKV PD are of this kind.
//
// The books are right, and the limit is not: a lease that expires counts as
// unspent, and its holder may have spent it all, or may still. Its term began when
// the answer arrived, runs on its own clock, which may be slow or have slept, and is
// ended by a timer, which a paused process does not run. A lessor that takes over
// lends nothing for the time of a lease, in which it learns: it believes what
// holders say that they have, as Doorman does. Of those that do not reach it in
// this time, and of what was spent before, it knows nothing. A store that is set
// back has it lend again what is lent.
//
// Kinder than many: what is spent is reported as a running total, so that repeated
// and late reports do no harm; refill waits for room, as the contract has it; and
// the share that the policy allows one limiter is kept. It leaves out fair sharing:
// who asks first is served first. Nor is there a fallback rate for holders that
// reach nobody, which several products have, and which overshoots more.
type expiring struct {
	w       *world
	lessors []*lessor   // by broker
	tenants [][]*tenant // by process, then by key
	issued  int64
}

func newExpiring(w *world) *expiring {
	return &expiring{w: w, lessors: make([]*lessor, len(w.brokers))}
}

func (s *expiring) started(*process) {
	s.tenants = append(s.tenants, make([]*tenant, len(s.w.keys)))
}

// ended ends what waits. A process that ends in order gives back what it has, if
// the message arrives.
func (s *expiring) ended(p *process, orderly bool) {
	for _, t := range s.tenants[p.id] {
		if t == nil {
			continue
		}
		for _, c := range t.waiting {
			s.w.end(c.arrival, measure.Unavailable)
		}
		t.waiting = nil
		if orderly && t.lease != (lease.GrantID{}) {
			id, spent := t.lease, t.spent
			s.w.toBroker(p, func(b *broker) { s.release(b, t.key, p, id, spent) }, func() {})
		}
	}
}

func (s *expiring) release(b *broker, key int, p *process, id lease.GrantID, spent int64) {
	now := s.w.mono(&b.machine)
	d := s.lessors[b.index].desk(key, s.w.rules[key], now)
	d.expire(now)
	if at := d.loanTo(p); at >= 0 && d.loans[at].id == id {
		d.close(now, at, spent)
	}
}

// elected makes a lessor that knows nothing. The first one has nothing to learn.
func (s *expiring) elected(broker int) {
	l := &lessor{desks: make([]*desk, len(s.w.keys))}
	if s.w.now > 0 {
		l.learnsUntil = s.w.mono(&s.w.brokers[broker].machine).Add(leaseTime)
	}
	s.lessors[broker] = l
}

func (s *expiring) serve(b *broker, r request) answer {
	a, lent := s.lessors[b.index].serve(r, s.w.rules[r.key], s.w.mono(&b.machine))
	s.issued += lent
	s.bind(r.key)
	return a
}

// bind shows the books to the judge: a lower capacity binds once no more than that
// is out.
func (s *expiring) bind(key int) {
	if d := s.lessors[s.w.leader].desks[key]; d != nil {
		s.w.rec.Judge(key).Ledger(s.w.now, &d.Ledger)
	}
}

func (s *expiring) ruled(key int, before lease.Rule) {
	for i, l := range s.lessors {
		if l == nil {
			continue
		}
		now := s.w.mono(&s.w.brokers[i].machine)
		d := l.desk(key, before, now)
		d.expire(now)
		_ = d.Install(now, s.w.rules[key]) // an older version changes nothing
	}
	s.bind(key)
}

func (s *expiring) backup() (restore func()) {
	copied := s.lessors[s.w.leader].clone()
	return func() {
		s.lessors[s.w.leader] = copied
		for key, d := range copied.desks {
			if d != nil {
				_ = d.Install(d.Updated, s.w.rules[key])
			}
		}
	}
}

// balance is what the books say.
func (s *expiring) balance(b *measure.Balance) {
	now := s.w.mono(&s.w.brokers[s.w.leader].machine)
	b.Issued = s.issued
	for key, d := range s.lessors[s.w.leader].desks {
		if d == nil {
			b.Available += s.w.rules[key].Capacity
			continue
		}
		d.expire(now)
		d.Advance(now)
		b.Available += d.Available
		for i := range d.loans {
			out := d.Grant(d.loans[i].id).Outstanding()
			if p := d.loans[i].to; p.alive {
				b.Held[p.region] += out
			} else {
				b.Unknown += out
			}
		}
		s.bind(key)
	}
}
