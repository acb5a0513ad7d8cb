package lease_test

import (
	"math/big"

	"github.com/tokenlease/tokenlease/lease"
)

// model is a budget written the simplest way, as an oracle for the ledger: what
// is free is one exact fraction, refill is continuous, and everything is cut to
// the room. It knows grants by ID and nothing of holders.
type model struct {
	rule   lease.Rule
	now    lease.Time
	free   *big.Rat
	grants map[lease.GrantID]*modelGrant
	// lacks is what was settled as spent and is not refilled, whatever the
	// capacity: a bucket of any capacity is full when it is 0.
	lacks *big.Rat
}

type modelGrant struct{ issued, spent, returned int64 }

func (g modelGrant) out() int64 { return g.issued - g.spent - g.returned }

func newModel(rule lease.Rule) *model {
	return &model{rule: rule, free: whole(rule.Capacity), grants: map[lease.GrantID]*modelGrant{}, lacks: new(big.Rat)}
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// floor is the largest whole number that is not above r, for r of 0 or more.
func floor(r *big.Rat) int64 { return new(big.Int).Quo(r.Num(), r.Denom()).Int64() }

func (m *model) out() int64 {
	var sum int64
	for _, g := range m.grants {
		sum += g.out()
	}
	return sum
}

// cut limits what is free to the room beside what is out.
func (m *model) cut() {
	room := whole(max(0, m.rule.Capacity-m.out()))
	if m.free.Cmp(room) > 0 {
		m.free = room
	}
}

// earned is what the rate earns in so many nanoseconds, exactly.
func earned(rate lease.Rate, ns int64) *big.Rat {
	if rate.Tokens == 0 {
		return new(big.Rat)
	}
	e := big.NewRat(rate.Tokens, int64(rate.Interval))
	return e.Mul(e, whole(ns))
}

func (m *model) advance(now lease.Time) {
	if now > m.now {
		refill := earned(m.rule.Refill, int64(now-m.now))
		m.free.Add(m.free, refill)
		if m.lacks.Sub(m.lacks, refill); m.lacks.Sign() < 0 {
			m.lacks = new(big.Rat)
		}
		m.now = now
		m.cut()
	}
}

// install may round the fraction down to what the new interval can express.
func (m *model) install(now lease.Time, rule lease.Rule) {
	m.advance(now)
	m.rule = rule
	unit := whole(1)
	if rule.Refill.Tokens > 0 {
		unit = big.NewRat(1, int64(rule.Refill.Interval))
	}
	units := new(big.Rat).Quo(m.free, unit)
	m.free.SetInt(new(big.Int).Quo(units.Num(), units.Denom())).Mul(m.free, unit)
	m.cut()
}

func (m *model) give(now lease.Time, id lease.GrantID, tokens int64) {
	m.advance(now)
	m.free.Sub(m.free, whole(tokens))
	if m.grants[id] == nil {
		m.grants[id] = &modelGrant{}
	}
	m.grants[id].issued += tokens
}

// account says whether the counters can be true.
func (m *model) account(now lease.Time, id lease.GrantID, spent, returned int64) bool {
	m.advance(now)
	g := m.grants[id]
	was := *g
	next := modelGrant{issued: g.issued, spent: max(g.spent, spent), returned: max(g.returned, returned)}
	sum := new(big.Int).Add(big.NewInt(next.spent), big.NewInt(next.returned))
	if sum.Cmp(big.NewInt(next.issued)) > 0 {
		return false
	}
	*g = next
	m.free.Add(m.free, whole(g.returned-was.returned))
	m.lacks.Add(m.lacks, whole(g.spent-was.spent))
	m.cut()
	return true
}

// end drops a grant of which so much was never spent.
func (m *model) end(now lease.Time, id lease.GrantID, unspent int64) {
	m.advance(now)
	m.lacks.Add(m.lacks, whole(m.grants[id].out()-unspent))
	delete(m.grants, id)
	m.free.Add(m.free, whole(unspent))
	m.cut()
}

// full says that all is free and nothing is out.
func (m *model) full() bool { return len(m.grants) == 0 && m.free.Cmp(whole(m.rule.Capacity)) == 0 }

// agrees says whether the ledger is in the model's state, fraction included.
func (m *model) agrees(l *lease.Ledger) bool {
	fraction := new(big.Rat)
	if l.Remainder > 0 {
		fraction = big.NewRat(l.Remainder, int64(l.Rule.Refill.Interval))
	}
	return l.Available == floor(m.free) && l.Reserved() == m.out() &&
		fraction.Add(fraction, whole(l.Available)).Cmp(m.free) == 0 &&
		len(l.Grants) == len(m.grants) && l.Updated == m.now && l.Rule == m.rule
}
