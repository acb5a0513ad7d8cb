package judge

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// Judge decides whether what was admitted of one budget conforms: in any
// interval of length T at most B + R*T. It knows nothing of grants, and keeps an
// exact bucket, as what it lacks to be full.
//
// When the policy changes, B is the highest that was in force in the interval, and
// R at each moment the highest that had been so far: there is one bucket for each
// run of versions. A version is in force from when it is written, and binds once
// the ledger has it and no more than its capacity is out; until then the versions
// before are the guarantee (contract C8).
//
// It is exact but for one thing: when the refill's interval changes, what is below
// a nanosecond's refill is let off.
type Judge struct {
	rules    []lease.Rule // in order of version
	bound    int64        // the newest version that binds
	periods  []period
	excess   int64
	excessAt time.Duration
}

// period is a run of versions, from some version to the newest.
type period struct {
	capacity int64
	rate     lease.Rate
	deficit  wide // numerator over rate.Interval
	at       time.Duration
}

// New judges a budget that starts full.
func New(rule lease.Rule) *Judge {
	return &Judge{rules: []lease.Rule{rule}, bound: rule.Version, periods: []period{newPeriod(rule, 0)}}
}

func newPeriod(rule lease.Rule, now time.Duration) period {
	p := period{capacity: rule.Capacity, rate: rule.Refill, at: now}
	if p.rate.Tokens == 0 {
		p.rate.Interval = 1
	}
	return p
}

// Admit takes an admission, and says if it is one too many.
func (j *Judge) Admit(now time.Duration, tokens int64) (err error) {
	for i := range j.periods {
		p := &j.periods[i]
		p.advance(now)
		interval := int64(p.rate.Interval)
		p.deficit = p.deficit.plus(product(tokens, interval))
		over := p.deficit.minus(product(p.capacity, interval))
		if over.isZero() {
			continue
		}
		whole, rest := over.divide(interval)
		err = fmt.Errorf("over-admission: %.3f tokens above capacity %d and refill %d/%v",
			float64(whole)+float64(rest)/float64(interval), p.capacity, p.rate.Tokens, p.rate.Interval)
		if rest > 0 {
			whole++
		}
		if whole > j.excess {
			j.excess, j.excessAt = whole, now
		}
	}
	return err
}

// Capacity is what the budget admits at once at present, in tokens, under the
// versions that are the guarantee.
func (j *Judge) Capacity() int64 { return j.periods[len(j.periods)-1].capacity }

// Excess is by how much the admissions of some interval were above what is
// allowed, in whole tokens, rounded up, at the worst moment, and when that was.
func (j *Judge) Excess() (tokens int64, at time.Duration) { return j.excess, j.excessAt }

// advance refills up to now.
func (p *period) advance(now time.Duration) {
	if now <= p.at {
		return
	}
	p.deficit = p.deficit.minus(product(int64(now-p.at), p.rate.Tokens))
	p.at = now
}

// Written tells the judge of another version of the policy.
func (j *Judge) Written(now time.Duration, rule lease.Rule) {
	j.rules = append(j.rules, rule)
	for i := range j.periods {
		j.periods[i].widen(now, rule)
	}
}

// Ledger shows the judge the state of the ledger, whenever it has changed.
func (j *Judge) Ledger(now time.Duration, l *lease.Ledger) {
	if l.Rule.Version <= j.bound || l.Available+l.Reserved() > l.Rule.Capacity {
		return
	}
	j.bind(now, l.Rule)
}

// Bind lets the newest version that was written bind from now on, for strategies
// without a ledger.
func (j *Judge) Bind(now time.Duration) {
	if newest := j.rules[len(j.rules)-1]; newest.Version > j.bound {
		j.bind(now, newest)
	}
}

func (j *Judge) bind(now time.Duration, rule lease.Rule) {
	j.bound = rule.Version
	p := newPeriod(rule, now)
	for _, r := range j.rules {
		if r.Version > rule.Version {
			p.widen(now, r) // written, and not yet in force
		}
	}
	j.periods = append(j.periods, p)
}

// widen takes another version into the period.
func (p *period) widen(now time.Duration, rule lease.Rule) {
	p.advance(now)
	p.capacity = max(p.capacity, rule.Capacity)
	if faster(rule.Refill, p.rate) {
		whole, rest := p.deficit.divide(int64(p.rate.Interval))
		part, _ := product(rest, int64(rule.Refill.Interval)).divide(int64(p.rate.Interval))
		p.deficit = product(whole, int64(rule.Refill.Interval)).plus(wide{lo: uint64(part)})
		p.rate = rule.Refill
	}
}

func faster(a, b lease.Rate) bool {
	hiA, loA := bits.Mul64(uint64(a.Tokens), uint64(b.Interval))
	hiB, loB := bits.Mul64(uint64(b.Tokens), uint64(max(1, a.Interval)))
	return hiA > hiB || hiA == hiB && loA > loB
}

// Restored tells the judge that an older version of the policy is in force again,
// since the store was set back.
func (j *Judge) Restored(now time.Duration, rule lease.Rule) {
	for i := range j.periods {
		j.periods[i].widen(now, rule)
	}
}

// Full says that a bucket which refills as fast as any version allows is full.
func (j *Judge) Full(now time.Duration) bool {
	for i := range j.periods {
		p := &j.periods[i]
		p.advance(now)
		if !p.deficit.isZero() {
			return false
		}
	}
	return true
}
