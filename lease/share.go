package lease

import (
	"cmp"
	"math/bits"
	"slices"
)

// Demand is what one holder wants of a budget.
type Demand struct {
	Want   int64 // level of unspent credit, in tokens, 0 or more
	Need   int64 // the smallest level that is of use; 0 if any is
	Limit  int64 // the most that it may have, by its share
	Weight int64 // relative claim when there is too little; below 1 reads as 1
}

// Share splits pool tokens among the demands and returns the level of each, in
// the same order. It is weighted max-min fair: nobody gets more than it wants,
// and a level can only be raised by lowering one that is lower in proportion to
// its weight (Bertsekas and Gallager, Data Networks, 6.5.2). Tokens are whole;
// what rounding leaves over goes one each to the first demands.
//
// A level below a demand's need is of no use to it and would lock credit away.
// So those whose need is above the pool, or above what they may have, get
// nothing; and then the last demand whose level is below its need gets nothing
// and the rest is split again, until no such demand is left. Callers put those
// that have starved longest first. If any demand can be met, one is.
//
// The levels never sum to more than pool.
func Share(pool int64, demands []Demand) []int64 {
	s := newSplit(pool, demands)
	for {
		s.dropShort()
		levels := s.levels()
		if !s.anyShort(levels) {
			return levels
		}
		// With unequal weights, rounding can take a token from a demand that
		// was passed. Each round drops one at least.
	}
}

// split is a pool being shared. Whoever wants less than its proportional share
// of what is left is served whole and leaves the rest to the others. Dropping a
// demand only raises the shares of the others, so one pass over them in order of
// top per weight serves all.
type split struct {
	demands []Demand
	state   []state
	order   []int // by top per weight; those before next are not open
	next    int
	left    int64 // tokens for the open demands
	total   int64 // weight of the open demands
}

type state uint8

const (
	dropped state = iota // gets nothing
	open                 // gets its proportional share
	served               // gets all that it can use
)

func newSplit(pool int64, demands []Demand) *split {
	s := &split{
		demands: demands,
		state:   make([]state, len(demands)),
		order:   make([]int, 0, len(demands)),
		left:    max(0, pool),
	}
	for i, d := range demands {
		if top := d.top(); top > 0 && d.Need <= min(top, s.left) {
			s.state[i] = open
			s.order = append(s.order, i)
			s.total += d.weight()
		}
	}
	slices.SortFunc(s.order, func(i, j int) int {
		return cmp.Or(compareTopPerWeight(demands[i], demands[j]), cmp.Compare(i, j))
	})
	s.serve()
	return s
}

// serve gives all that they can use to those whose share covers it.
func (s *split) serve() {
	for ; s.next < len(s.order); s.next++ {
		i := s.order[s.next]
		if s.state[i] != open {
			continue
		}
		top := s.demands[i].top()
		if top > s.floor(i) {
			return
		}
		s.state[i] = served
		s.left -= top
		s.total -= s.demands[i].weight()
	}
}

// dropShort drops the demands that get less than they need, from the last to the
// first. One pass does, since dropping lowers no other level.
func (s *split) dropShort() {
	for i := len(s.demands) - 1; i >= 0; i-- {
		if s.state[i] != open { // a served demand has its top, which covers its need
			continue
		}
		need, floor := s.demands[i].Need, s.floor(i)
		if need <= floor || need == floor+1 && s.extra(i) {
			continue
		}
		s.state[i] = dropped
		s.total -= s.demands[i].weight()
		s.serve()
	}
}

// floor is the proportional share of an open demand, rounded down.
func (s *split) floor(i int) int64 { return proportion(s.left, s.demands[i].weight(), s.total) }

// extra says that an open demand is among the first, who get one token each of
// what rounding leaves over.
func (s *split) extra(i int) bool {
	over, ahead := s.left, int64(0)
	for j := range s.demands {
		if s.state[j] != open {
			continue
		}
		over -= s.floor(j)
		if j < i {
			ahead++
		}
	}
	return ahead < over
}

// levels is what each demand gets. An open demand wants more than its share.
func (s *split) levels() []int64 {
	levels := make([]int64, len(s.demands))
	over := s.left
	for i := range s.demands {
		switch s.state[i] {
		case served:
			levels[i] = s.demands[i].top()
		case open:
			levels[i] = s.floor(i)
			over -= levels[i]
		case dropped:
		}
	}
	for i := range s.demands {
		if over > 0 && s.state[i] == open {
			levels[i]++
			over--
		}
	}
	return levels
}

func (s *split) anyShort(levels []int64) bool {
	for i := range s.demands {
		if s.state[i] != dropped && levels[i] < s.demands[i].Need {
			return true
		}
	}
	return false
}

// top is the most that the demand can use.
func (d Demand) top() int64 { return max(0, min(d.Want, d.Limit)) }

func (d Demand) weight() int64 { return max(1, min(d.Weight, 1_000_000)) }

// compareTopPerWeight compares a.top/a.weight with b.top/b.weight, multiplied out.
func compareTopPerWeight(a, b Demand) int {
	aHigh, aLow := bits.Mul64(uint64(a.top()), uint64(b.weight()))
	bHigh, bLow := bits.Mul64(uint64(b.top()), uint64(a.weight()))
	return cmp.Or(cmp.Compare(aHigh, bHigh), cmp.Compare(aLow, bLow))
}
