package simulations

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
// When the policy changes, B and R are the highest that were in force in the
// interval: there is one bucket for each run of versions. A version is in force
// from when it is written, and binds once the ledger has it and no more than its
// capacity is out; until then the versions before are the guarantee (contract
// C8).
type Judge struct {
	rules   []lease.Rule // in order of version
	bound   int64        // the newest version that binds
	periods []period
}

// period is a run of versions, from some version to the newest.
type period struct {
	capacity int64
	rate     lease.Rate
	deficit  int64 // numerator over rate.Interval
	at       time.Duration
}

// NewJudge judges a budget that starts full.
func NewJudge(rule lease.Rule) *Judge {
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
func (j *Judge) Admit(now time.Duration, tokens int64) error {
	for i := range j.periods {
		p := &j.periods[i]
		p.advance(now)
		p.deficit += tokens * int64(p.rate.Interval)
		if p.deficit > p.capacity*int64(p.rate.Interval) {
			return fmt.Errorf("over-admission: %.3f tokens above capacity %d and refill %d/%v",
				float64(p.deficit)/float64(p.rate.Interval)-float64(p.capacity), p.capacity, p.rate.Tokens, p.rate.Interval)
		}
	}
	return nil
}

// advance refills up to now.
func (p *period) advance(now time.Duration) {
	elapsed := now - p.at
	p.at = now
	if p.rate.Tokens == 0 || elapsed <= 0 {
		return
	}
	if int64(elapsed) > p.deficit/p.rate.Tokens {
		p.deficit = 0
		return
	}
	p.deficit -= int64(elapsed) * p.rate.Tokens
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
	j.bound = l.Rule.Version
	p := newPeriod(l.Rule, now)
	for _, r := range j.rules {
		if r.Version > l.Rule.Version {
			p.widen(now, r) // written, and not yet in the ledger
		}
	}
	j.periods = append(j.periods, p)
}

// widen takes another version into the period.
func (p *period) widen(now time.Duration, rule lease.Rule) {
	p.advance(now)
	p.capacity = max(p.capacity, rule.Capacity)
	if faster(rule.Refill, p.rate) {
		hi, lo := bits.Mul64(uint64(p.deficit), uint64(rule.Refill.Interval))
		quotient, _ := bits.Div64(hi, lo, uint64(p.rate.Interval))
		p.deficit, p.rate = int64(quotient), rule.Refill
	}
}

func faster(a, b lease.Rate) bool {
	hiA, loA := bits.Mul64(uint64(a.Tokens), uint64(b.Interval))
	hiB, loB := bits.Mul64(uint64(b.Tokens), uint64(max(1, a.Interval)))
	return hiA > hiB || hiA == hiB && loA > loB
}
