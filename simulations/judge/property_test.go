package judge_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/judge"
)

// history is what a judge is told, and what it should find by definition.
type history struct {
	admitted []admission
	written  []version
	bound    []version // versions older than the newest of them do not count for later intervals
}

type version struct {
	at   time.Duration
	rule lease.Rule
}

// worst is by how much the admissions of some interval are above what is allowed
// in it, looking at every interval.
func (h *history) worst() *big.Rat {
	worst := new(big.Rat)
	for from := range h.admitted {
		sum := new(big.Rat)
		for to := from; to < len(h.admitted); to++ {
			sum.Add(sum, new(big.Rat).SetInt64(h.admitted[to].tokens))
			over := new(big.Rat).Sub(sum, h.allowed(from, to))
			if over.Cmp(worst) > 0 {
				worst = over
			}
		}
	}
	return worst
}

// allowed between two admissions, both included: the highest capacity, and at
// each moment the highest refill so far, of the versions that count.
func (h *history) allowed(from, to int) *big.Rat {
	start, end := h.admitted[from].at, h.admitted[to].at
	var oldest int64
	for _, b := range h.bound {
		if b.at < start {
			oldest = b.rule.Version
		}
	}
	allowed, rate, since := new(big.Rat), new(big.Rat), start
	var capacity int64
	for _, w := range h.written {
		if w.rule.Version < oldest || w.at > end {
			continue
		}
		at := max(w.at, start)
		allowed.Add(allowed, new(big.Rat).Mul(rate, new(big.Rat).SetInt64(int64(at-since))))
		since = at
		if w.rule.Refill.Tokens > 0 {
			if r := big.NewRat(w.rule.Refill.Tokens, int64(w.rule.Refill.Interval)); r.Cmp(rate) > 0 {
				rate = r
			}
		}
		capacity = max(capacity, w.rule.Capacity)
	}
	allowed.Add(allowed, new(big.Rat).Mul(rate, new(big.Rat).SetInt64(int64(end-since))))
	return allowed.Add(allowed, new(big.Rat).SetInt64(capacity))
}

// run tells the judge of a drawn history: admissions, versions written, and
// versions that bind, each at a moment of its own. draw draws a rule.
func (h *history) run(t *rapid.T, draw func(version int64) lease.Rule, step func(complained bool)) *judge.Judge {
	h.written = []version{{0, draw(1)}}
	j := judge.New(h.written[0].rule)
	now := time.Duration(0)
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		now += time.Duration(rapid.Int64Range(1, 2_500_000_000).Draw(t, "gap"))
		newest := h.written[len(h.written)-1]
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0:
			newest = version{now, draw(newest.rule.Version + 1)}
			j.Written(now, newest.rule)
			h.written = append(h.written, newest)
		case 1:
			j.Bind(now)
			h.bound = append(h.bound, version{now, newest.rule})
		default:
			tokens := rapid.Int64Range(0, 12).Draw(t, "tokens")
			h.admitted = append(h.admitted, admission{at: now, tokens: tokens})
			step(j.Admit(now, tokens) != nil)
		}
	}
	return j
}

// endsAbove says that an interval which ends with the newest admission is above
// what is allowed.
func (h *history) endsAbove() bool {
	sum, to := new(big.Rat), len(h.admitted)-1
	for from := to; from >= 0; from-- {
		sum.Add(sum, new(big.Rat).SetInt64(h.admitted[from].tokens))
		if sum.Cmp(h.allowed(from, to)) > 0 {
			return true
		}
	}
	return false
}

func roundedUp(r *big.Rat) int64 {
	quotient, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient.Int64()
}

// The judge finds what a look at every interval finds, to the last fraction.
// Intervals are of one length here, so that nothing is rounded.
func TestJudgeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h history
		j := h.run(t, func(version int64) lease.Rule {
			return rule(version, rapid.Int64Range(0, 30).Draw(t, "capacity"), rapid.Int64Range(0, 7).Draw(t, "refill"), 977*ms)
		}, func(complained bool) {
			if complained != h.endsAbove() {
				t.Fatalf("complained: %v, of %v", complained, h.admitted)
			}
		})
		if excess, _ := j.Excess(); excess != roundedUp(h.worst()) {
			t.Fatalf("excess %d, but the worst interval is %v above", excess, h.worst())
		}
	})
}

// With other intervals it lets off less than a token, and never complains of too
// much.
func TestJudgeNeverExaggerates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h history
		j := h.run(t, func(version int64) lease.Rule {
			return rule(version, rapid.Int64Range(0, 30).Draw(t, "capacity"), rapid.Int64Range(0, 7).Draw(t, "refill"),
				time.Duration(rapid.Int64Range(1_000_000, 2_000_000_000).Draw(t, "interval")))
		}, func(complained bool) {
			if complained && !h.endsAbove() {
				t.Fatalf("complained of %v", h.admitted)
			}
		})
		if excess, _ := j.Excess(); excess > roundedUp(h.worst()) || excess < roundedUp(h.worst())-1 {
			t.Fatalf("excess %d, but the worst interval is %v above", excess, h.worst())
		}
	})
}
