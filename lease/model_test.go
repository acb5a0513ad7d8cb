package lease_test

import (
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// model is a budget written the simplest way, as an oracle for the ledger: what
// is free is one exact fraction, refill is continuous, and everything is cut to
// the room. What counts in a rolling window is told for each instant at which it
// stops to count; there is no bound on how many those are. What is owed is paid of what
// is free, at each instant at which something becomes free. It knows grants by ID and
// nothing of holders.
type model struct {
	rule   lease.Rule
	now    lease.Time
	free   *big.Rat
	grants map[lease.GrantID]*modelGrant
	// lacks is what was settled as spent and is not refilled, whatever the
	// capacity: a bucket of any capacity is full when it is 0.
	lacks *big.Rat
	debt  int64
	until map[lease.Time]int64 // of a rolling window: what counts until then
	used  int64                // of a fixed window
	began int64                // likewise, its period; 0: not told yet
}

type modelGrant struct {
	issued, spent, returned, owed int64

	kept   bool
	lasts  time.Duration // 0: it never lapses
	lapses lease.Time
}

func (g modelGrant) out() int64 { return g.issued - g.spent - g.returned }

func newModel(rule lease.Rule) *model {
	return &model{rule: rule, free: whole(rule.Capacity), grants: map[lease.GrantID]*modelGrant{}, lacks: new(big.Rat), until: map[lease.Time]int64{}}
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

// cut limits what is free to the room beside what is out. All of the room is free
// where nothing is refilled. What is owed is paid first.
func (m *model) cut() {
	if m.rule.Kind != lease.TokenBucket {
		m.free = whole(max(0, m.rule.Capacity-m.out()-m.counted()))
		m.settle(m.pay())
		return
	}
	m.pay()
	room := whole(max(0, m.rule.Capacity-m.out()))
	if m.free.Cmp(room) > 0 {
		m.free = room
	}
}

// pay pays with whole tokens of what is free.
func (m *model) pay() (paid int64) {
	paid = m.debt
	if m.free.Cmp(whole(paid)) < 0 {
		paid = floor(m.free)
	}
	m.debt -= paid
	m.free.Sub(m.free, whole(paid))
	return paid
}

// earned is what the rate earns in so many nanoseconds, exactly.
func earned(rate lease.Rate, ns int64) *big.Rat {
	if rate.Tokens == 0 {
		return new(big.Rat)
	}
	e := big.NewRat(rate.Tokens, int64(rate.Interval))
	return e.Mul(e, whole(ns))
}

func (m *model) counted() int64 {
	sum := m.used
	for _, tokens := range m.until {
		sum += tokens
	}
	return sum
}

// settle takes over tokens that are known to be spent.
func (m *model) settle(tokens int64) {
	switch m.rule.Kind {
	case lease.TokenBucket:
		m.lacks.Add(m.lacks, whole(tokens))
	case lease.FixedWindow:
		m.used += tokens
	case lease.RollingWindow:
		if tokens > 0 {
			m.until[m.now.Add(m.rule.Window)] += tokens
		}
	case lease.Concurrency:
	}
}

func (m *model) advance(now lease.Time) {
	if now > m.now && m.rule.Kind != lease.TokenBucket {
		for m.debt > 0 && len(m.until) > 0 { // each instant in between at which something becomes free
			next := slices.Min(slices.Collect(maps.Keys(m.until)))
			if next > now {
				break
			}
			m.now = next
			delete(m.until, next)
			m.cut()
		}
		m.now = now
		maps.DeleteFunc(m.until, func(at lease.Time, _ int64) bool { return at <= now })
		m.cut()
	}
	if now > m.now {
		refill := earned(m.rule.Refill, int64(now-m.now))
		if m.out() < m.rule.Capacity && m.free.Cmp(whole(m.rule.Capacity-m.out())) < 0 { // time without room earns nothing
			m.free.Add(m.free, refill)
		}
		if m.lacks.Sub(m.lacks, refill); m.lacks.Sign() < 0 {
			m.lacks = new(big.Rat)
		}
		m.now = now
		m.cut()
	}
}

// turn tells in which period now lies.
func (m *model) turn(now lease.Time, began int64) {
	if m.rule.Kind != lease.FixedWindow {
		return
	}
	m.advance(now)
	if m.began > 0 && began > m.began {
		m.used = 0
	}
	m.began = max(m.began, began)
	m.cut()
}

// convert installs a rule of another kind: all that is not out was spent now. Slots are
// not owed.
func (m *model) convert(rule lease.Rule) {
	if rule.Kind == lease.Concurrency {
		m.debt = 0
	}
	m.rule, m.free, m.lacks, m.used, m.began = rule, new(big.Rat), whole(m.debt), 0, 0
	clear(m.until)
	m.settle(max(0, rule.Capacity-m.out()))
	m.cut()
}

// adjust installs other numbers of a window, or of slots.
func (m *model) adjust(rule lease.Rule) {
	longer, was := rule.Window-m.rule.Window, m.until
	m.until = map[lease.Time]int64{}
	for at, tokens := range was {
		if at = min(at.Add(longer), m.now.Add(rule.Window)); at > m.now {
			m.until[at] += tokens
		}
	}
	if rule.Period != m.rule.Period || rule.Zone != m.rule.Zone {
		m.began = 0
	}
	m.rule = rule
	m.cut()
}

// install may round the fraction down to what the new interval can express.
func (m *model) install(now lease.Time, rule lease.Rule) {
	m.advance(now)
	switch {
	case rule.Kind != m.rule.Kind:
		m.convert(rule)
		return
	case rule.Kind != lease.TokenBucket:
		m.adjust(rule)
		return
	}
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
func (m *model) account(now lease.Time, id lease.GrantID, spent, returned, owed int64) bool {
	m.advance(now)
	g := m.grants[id]
	was := *g
	next := *g
	next.spent, next.returned, next.owed = max(g.spent, spent), max(g.returned, returned), max(g.owed, min(owed, lease.MaxCounter))
	sum := new(big.Int).Add(big.NewInt(next.spent), big.NewInt(next.returned))
	if sum.Cmp(big.NewInt(next.issued)) > 0 {
		return false
	}
	*g = next
	m.free.Add(m.free, whole(g.returned-was.returned))
	m.settle(g.spent - was.spent)
	m.owe(new(big.Int).Sub(big.NewInt(g.owed), big.NewInt(was.owed)))
	m.cut()
	return true
}

// owe adds to the debt, which ends at the largest capacity.
func (m *model) owe(more *big.Int) {
	if m.rule.Kind == lease.Concurrency {
		return
	}
	debt := more.Add(more, big.NewInt(m.debt))
	if most := big.NewInt(lease.MaxCapacity); debt.Cmp(most) > 0 {
		debt = most
	}
	if m.rule.Kind == lease.TokenBucket {
		m.lacks.Add(m.lacks, whole(debt.Int64()-m.debt))
	}
	m.debt = debt.Int64()
}

// end drops a grant of which so much was never spent.
func (m *model) end(now lease.Time, id lease.GrantID, unspent int64) {
	m.advance(now)
	m.settle(m.grants[id].out() - unspent)
	delete(m.grants, id)
	m.free.Add(m.free, whole(unspent))
	m.cut()
}

// keep leaves a grant of slots with held in use, and drops one without any.
func (m *model) keep(now lease.Time, id lease.GrantID, held int64) {
	m.advance(now)
	g := m.grants[id]
	held = max(0, min(held, g.out()))
	g.returned += g.out() - held
	g.lasts, g.kept = 0, true
	if held == 0 {
		delete(m.grants, id)
	}
	m.cut()
}

// full says that all is free and nothing is out.
func (m *model) full() bool {
	return len(m.grants) == 0 && m.free.Cmp(whole(m.rule.Capacity)) == 0 && m.counted() == 0 && m.debt == 0
}

// agrees says whether the ledger is in the model's state, fraction included.
func (m *model) agrees(l *lease.Ledger) bool {
	fraction := new(big.Rat)
	if l.Remainder > 0 {
		fraction = big.NewRat(l.Remainder, int64(l.Rule.Refill.Interval))
	}
	return l.Available == floor(m.free) && l.Reserved() == m.out() && l.Debt == m.debt &&
		fraction.Add(fraction, whole(l.Available)).Cmp(m.free) == 0 &&
		slices.Equal(l.Recovering, m.releases()) && l.Used == m.used && l.Began == m.began &&
		len(l.Grants) == len(m.grants) && l.Updated == m.now && l.Rule == m.rule
}

// releases is what counts in a rolling window, in order.
func (m *model) releases() []lease.Release {
	var all []lease.Release
	for _, at := range slices.Sorted(maps.Keys(m.until)) {
		all = append(all, lease.Release{At: at, Tokens: m.until[at]})
	}
	return all
}
