package shard

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// paceOver is the time over which spending is averaged: what was spent so long ago
// counts for a third of what is spent now.
const paceOver = 10 * time.Second

// pace is how fast a budget is spent of late: an average that decays. It is for
// display, and belongs to what is in memory: a budget that nobody uses has none.
type pace struct {
	perSecond float64
	at        time.Duration // on the monotonic clock, where perSecond stands
}

// spend counts tokens that were told as spent.
func (e *entry) spend(now time.Duration, tokens int64) {
	if tokens <= 0 {
		return
	}
	e.pace.perSecond = e.pace.now(now) + float64(tokens)/paceOver.Seconds()
	e.pace.at = now
}

// now is the pace at a moment, in tokens a second.
func (p pace) now(now time.Duration) float64 {
	if p.perSecond == 0 {
		return 0
	}
	return p.perSecond * math.Exp(-float64(max(0, now-p.at))/float64(paceOver))
}

// Activity is what goes on in one budget.
type Activity struct {
	Key                           lease.Key
	Capacity, Available, Reserved int64   // tokens
	PerSecond                     float64 // tokens spent of late
	Wanted                        int64   // tokens that holders want beyond what they have
	Waiting                       int64   // holders whose requests wait for credit
	Reclaim                       pb.Reclaim
}

// Order is what budgets are ranked by.
type Order int

// Orders of a ranking.
const (
	Busiest Order = iota // by what is spent a second
	Starved              // by what is wanted beyond what is held
)

// Compare ranks a before b if it is negative.
func (o Order) Compare(a, b Activity) int {
	if o == Starved {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Wanted, a.Wanted), cmp.Compare(b.PerSecond, a.PerSecond), a.Key.Compare(b.Key))
	}
	return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(b.Wanted, a.Wanted), a.Key.Compare(b.Key))
}

// shows says that the budget belongs into a ranking of the order.
func (o Order) shows(a Activity) bool {
	if o == Starved {
		return a.Wanted > 0 || a.Waiting > 0
	}
	return a.PerSecond > 0
}

// Top ranks the budgets in memory, the first limit of them.
func (s *Shard) Top(m Moment, order Order, limit int) []Activity {
	var top []Activity
	waiting := s.waiting()
	for _, e := range s.order {
		if !e.exists || e.err != nil {
			continue
		}
		a := Activity{Key: e.key, PerSecond: e.pace.now(m.Mono), Waiting: waiting[e.key]}
		if order == Starved {
			a.Wanted = s.wanted(m, e)
		}
		if !order.shows(a) {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, a, order.Compare)
		if at < limit {
			top = slices.Insert(top, at, a)
			top = top[:min(len(top), limit)]
		}
	}
	for i := range top {
		s.describe(m, &top[i])
	}
	return top
}

// describe fills in what a ranking does not need.
func (s *Shard) describe(m Moment, a *Activity) {
	e := s.ledgers[a.Key]
	l := e.ledger.Clone()
	s.calendar.Turn(&l, s.now, s.wall, s.behindWall(), s.log)
	l.Advance(s.now)
	pol, _ := s.ruling(e)
	a.Reclaim = pol.wire.GetReclaim()
	a.Capacity, a.Available, a.Reserved, a.Wanted = l.Rule.Capacity, l.Available, l.Reserved(), s.wanted(m, e)
}

// waiting counts the holders that wait for credit of each budget.
func (s *Shard) waiting() map[lease.Key]int64 {
	seen := map[lease.Key]map[lease.Holder]bool{}
	count := map[lease.Key]int64{}
	for _, j := range s.parked {
		for _, r := range j.req.GetBudgets() {
			key := keyOf(r.GetKey())
			if r.GetNeedTokens() == 0 && r.GetDefaultCostChecks() == 0 || seen[key][j.holder] {
				continue
			}
			if seen[key] == nil {
				seen[key] = map[lease.Holder]bool{}
			}
			seen[key][j.holder] = true
			count[key]++
		}
	}
	return count
}

// wanted is what holders want of the budget beyond what they have, in tokens.
func (s *Shard) wanted(m Moment, e *entry) int64 {
	if !slices.ContainsFunc(e.demands, func(d *demand) bool { return d.want > 0 }) {
		return 0
	}
	var total int64
	out := make(map[lease.GrantHolder]int64, len(e.ledger.Grants))
	for i := range e.ledger.Grants {
		if g := &e.ledger.Grants[i]; !g.Kept {
			out[g.Of()] = g.Outstanding()
		}
	}
	for _, d := range e.demands {
		if m.Mono-d.heard <= s.cfg.DemandTTL {
			total = sum(total, max(0, d.want-d.free(out[lease.GrantHolder{Holder: d.holder, Epoch: d.epoch}])))
		}
	}
	return total
}

// sum does not overflow.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
