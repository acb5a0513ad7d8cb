package shard

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/lease"
)

// lapses are the budgets in memory that have grants with a deadline, the one whose first
// deadline is the earliest in front.
type lapses []*entry

func (l lapses) Len() int           { return len(l) }
func (l lapses) Less(i, j int) bool { return l[i].lapsesAt < l[j].lapsesAt }

func (l lapses) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].lapsePlace, l[j].lapsePlace = i+1, j+1
}

// Push is for package heap.
func (l *lapses) Push(one any) {
	e := one.(*entry) //nolint:errcheck // nothing else is pushed
	*l = append(*l, e)
	e.lapsePlace = len(*l)
}

// Pop is for package heap.
func (l *lapses) Pop() any {
	last := len(*l) - 1
	e := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	e.lapsePlace = 0
	return e
}

// lapseLater has the budget looked at when the first of its grants lapses, if any does.
func (s *Shard) lapseLater(e *entry) {
	at, ok := e.ledger.NextLapse()
	switch queued := e.lapsePlace > 0; {
	case !ok:
		s.lapseNever(e)
	case !queued:
		e.lapsesAt = at
		heap.Push(&s.lapses, e)
	case e.lapsesAt != at:
		e.lapsesAt = at
		heap.Fix(&s.lapses, e.lapsePlace-1)
	}
}

// lapseNever has the budget not looked at any more: it leaves memory, or nothing of it
// lapses.
func (s *Shard) lapseNever(e *entry) {
	if e.lapsePlace > 0 {
		heap.Remove(&s.lapses, e.lapsePlace-1)
	}
}

// nextLapse is when, on the monotonic clock, lapse has something to look at.
func (s *Shard) nextLapse() (at time.Duration, ok bool) {
	if len(s.lapses) == 0 {
		return 0, false
	}
	return s.origin + s.lapses[0].lapsesAt.Sub(s.base), true
}

// lapse ends the grants whose deadline has passed (see lease.Ledger.Lapse). It comes
// after the requests that are waiting: one of them may put a deadline off. Where the
// policy in force has no deadline any more, nothing lapses, whatever its holder goes by
// (C4.4); a budget of which that is not known waits until it is.
func (s *Shard) lapse(b *batch) {
	var lapsed []lease.Grant
	var counted int64
	var unknown []*entry
	for len(s.lapses) > 0 && s.lapses[0].lapsesAt <= s.now && !b.full() {
		e := s.lapses[0]
		at := slices.IndexFunc(e.ledger.Grants, func(g lease.Grant) bool { return g.Lasts > 0 && g.Lapses <= s.now })
		switch {
		case e.err != nil:
			s.lapseNever(e) // it is read anew
			continue
		case !s.knowsAccount(e):
			s.readAccount(e, b)
			s.lapseNever(e)
			unknown = append(unknown, e)
			continue
		case at < 0: // its grants were ended otherwise, or asked for
		default:
			g := e.ledger.Grants[at]
			if spent, ok := s.lapseOne(b, e, g); ok {
				lapsed, counted = append(lapsed, g), counted+spent
			}
		}
		s.lapseLater(e)
	}
	for _, e := range unknown {
		s.lapseLater(e)
	}
	if len(lapsed) > 0 {
		b.add(s.audit(lapseWord(lapsed, counted)))
		s.stats.GrantsLapsed += int64(len(lapsed))
		s.stats.TokensLapsed += counted
	}
	s.tellLapsed()
}

// lapseOne ends a grant that has lapsed, if the policy in force still says so, and tells
// what counts as spent by that.
func (s *Shard) lapseOne(b *batch, e *entry, g lease.Grant) (counted int64, ok bool) {
	s.turn(e) // before anything is written
	if pol, ruled := s.ruling(e); !ruled || pol.LapsesAfter() == 0 {
		e.ledger.Extend(s.now, g.ID, 0)
		b.touchGrant(e, g.ID)
		return 0, false
	}
	counted, err := e.ledger.Lapse(s.now, g.ID)
	if err != nil {
		s.log.Error("a grant cannot lapse", "grant", g.ID, "error", err)
		e.ledger.Extend(s.now, g.ID, g.Lasts)
		return 0, false
	}
	b.endGrant(s, e, g, Lapsed, g.Spent+counted, fmt.Sprintf("nothing was heard of it for %v", g.Lasts))
	e.forgetDemand(g.Holder, g.Epoch)
	s.wake(e)
	return counted, true
}

// maxLapseNames bounds how many of the grants that lapse in one transaction are named in
// its audit entry.
const maxLapseNames = 100

// lapseWord is what the audit has of grants that lapse in one transaction.
func lapseWord(grants []lease.Grant, counted int64) record.Audit {
	type lapse struct {
		Grant       string `json:"grant"`
		Holder      string `json:"holder"`
		Epoch       uint64 `json:"epoch"`
		Outstanding int64  `json:"outstanding"`
	}
	named := make([]lapse, 0, min(len(grants), maxLapseNames))
	for _, g := range grants[:min(len(grants), maxLapseNames)] {
		named = append(named, lapse{g.ID.String(), g.Holder.String(), g.Epoch, g.Outstanding()})
	}
	return record.Audit{
		Action: "grants.lapse", By: "reclaim: deadline", Because: "nothing was heard of them for max-staleness and reclaim-margin",
		Subject: grants[0].ID.String(), Before: named, After: map[string]int64{"grants": int64(len(grants)), "counted_as_spent": counted},
	}
}

// lapsing says that some of the stored budget's grants lapse.
func (s *Shard) lapsing(b record.Budget) bool { return b.Lapsing && b.Since() == s.era.Generation }

// lapsingSoon says that the budget has to stay in memory, since read anew its deadlines
// would start over. One that cannot be used is read anew all the same.
func (*Shard) lapsingSoon(e *entry) bool {
	_, lapses := e.ledger.NextLapse()
	return lapses && e.err == nil
}

// tellLapsed logs what has lapsed since it was told last, at most once in a second.
func (s *Shard) tellLapsed() {
	grants, tokens := s.stats.GrantsLapsed-s.lapsedTold.GrantsLapsed, s.stats.TokensLapsed-s.lapsedTold.TokensLapsed
	if grants == 0 || s.moment.Mono < s.lapsedAgain {
		return
	}
	s.lapsedAgain, s.lapsedTold = s.moment.Mono+time.Second, s.stats
	s.log.Info("grants have lapsed by the deadline of their policies: nothing was heard of their limiters, and what these had out counts as spent", "grants", grants, "tokens", tokens)
}
