package strategies

import (
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// leaseTime is how long a lease lasts unless it is refreshed. Doorman's are of a
// minute, those of TiKV PD of seconds.
const leaseTime = 10 * time.Second

// lessor is what a broker knows that lends.
type lessor struct {
	desks       []*desk    // by key; nil: full, and nothing lent
	learnsUntil lease.Time // after a fail-over
	lent        uint64     // leases
}

// desk lends of one budget. Its ledger keeps the sum of what is available and what
// is lent within the capacity: the books are always right.
type desk struct {
	lease.Ledger
	loans []loan
}

// loan is one lease.
type loan struct {
	to      *process
	id      lease.GrantID
	expires lease.Time
}

// request asks for the level that a holder wants to have.
type request struct {
	from  *process
	key   int
	lease lease.GrantID // that it has, if any
	spent int64         // of that, in all
	has   int64         // left of it
	want  int64
}

// answer is the lease as it is now. It may be none.
type answer struct {
	lease  lease.GrantID
	issued int64 // in all
	learns bool  // nothing is lent yet
}

func (l *lessor) desk(key int, rule lease.Rule, now lease.Time) *desk {
	if l.desks[key] == nil {
		l.desks[key] = &desk{Ledger: lease.NewLedger(lease.Key{}, rule, now)}
	}
	return l.desks[key]
}

// expire takes back what holders have not refreshed in time, as unspent: silence
// counts as proof.
func (d *desk) expire(now lease.Time) {
	for {
		first := -1
		for i := range d.loans {
			if d.loans[i].expires <= now && (first < 0 || d.loans[i].expires < d.loans[first].expires) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		d.close(d.loans[first].expires, first, 0)
	}
}

// close ends a lease by what was spent of it, as far as that is known.
func (d *desk) close(now lease.Time, i int, spent int64) {
	if d.Close(now, d.loans[i].id, spent, 0, 0) != nil {
		_ = d.Close(now, d.loans[i].id, 0, 0, 0) // above what was issued, after the store was set back
	}
	d.loans = slices.Delete(d.loans, i, i+1)
}

func (d *desk) loanTo(p *process) int {
	return slices.IndexFunc(d.loans, func(l loan) bool { return l.to == p })
}

// serve settles what was spent, lends more, and starts the term anew.
func (l *lessor) serve(r request, rule lease.Rule, now lease.Time) (a answer, lent int64) {
	d := l.desk(r.key, rule, now)
	d.expire(now)
	at := d.loanTo(r.from)
	if at >= 0 && d.loans[at].id == r.lease && d.Account(now, r.lease, r.spent, 0, 0) != nil {
		d.close(now, at, 0)
		at = -1
	}
	a.learns = now < l.learnsUntil
	switch {
	case a.learns && at < 0:
		at = l.open(d, r.from, min(r.has, d.headroom(now, r.from)), now) // it believes the claim
	case a.learns:
	case at < 0:
		lent = min(r.want, d.headroom(now, r.from))
		at = l.open(d, r.from, lent, now)
	default:
		g := d.Grant(d.loans[at].id)
		lent = max(0, min(r.want-g.Outstanding(), d.headroom(now, r.from)))
		if d.TopUp(now, g.ID, lent) != nil {
			lent = 0
		}
	}
	if at < 0 {
		return a, 0
	}
	d.loans[at].expires = now.Add(leaseTime)
	a.lease, a.issued = d.loans[at].id, d.Grant(d.loans[at].id).Issued
	return a, lent
}

func (d *desk) headroom(now lease.Time, p *process) int64 { return d.Headroom(now, p.holder) }

// open lends to a process that has no lease; nothing is no lease.
func (l *lessor) open(d *desk, p *process, tokens int64, now lease.Time) int {
	id := lease.GrantID{Generation: 1, Sequence: l.lent + 1}
	if tokens <= 0 || d.Open(now, id, p.holder, uint64(p.id), tokens) != nil {
		return -1
	}
	l.lent++
	d.loans = append(d.loans, loan{to: p, id: id})
	return len(d.loans) - 1
}

func (l *lessor) clone() *lessor {
	copied := &lessor{desks: make([]*desk, len(l.desks)), learnsUntil: l.learnsUntil, lent: l.lent}
	for i, d := range l.desks {
		if d != nil {
			copied.desks[i] = &desk{Ledger: d.Clone(), loans: slices.Clone(d.loans)}
		}
	}
	return copied
}
