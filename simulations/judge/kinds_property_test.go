package judge_test

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/judge"
)

// model is the judge by definition: it remembers everything, and looks at every
// interval each time.
type model struct {
	rules []version
	kind  lease.Kind
	began int64
	runs  []*modelRun
	worst int64
}

// modelRun is a bound: what was admitted since it began, or since its kind changed.
type modelRun struct {
	rules    []version // that count, of all kinds
	kind     lease.Kind
	floor    int64 // what was out at that moment may be admitted, whatever the rules
	admitted []dated
}

// dated is an admission in a period.
type dated struct {
	at     time.Duration
	tokens int64
	began  int64
}

func (m *model) admit(now time.Duration, tokens int64) (complains bool) {
	for _, r := range m.runs {
		r.admitted = append(r.admitted, dated{now, tokens, m.began})
		over := new(big.Rat).Neg(r.slack(now, m.began))
		complains = complains || over.Sign() > 0
		m.worst = max(m.worst, roundedUp(over))
	}
	return complains
}

// slack is what every interval that ends now leaves at least; below 0 where one is
// above what it may be.
func (r *modelRun) slack(now time.Duration, began int64) *big.Rat {
	limit, window := r.floor, time.Duration(0)
	for _, v := range r.rules {
		if v.rule.Kind != r.kind || r.kind == lease.Concurrency {
			continue // whoever spends tokens has not heard of slots
		}
		limit = max(limit, v.rule.Capacity)
		if window == 0 || v.rule.Window < window {
			window = v.rule.Window
		}
	}
	least, sum := new(big.Rat).SetInt64(limit), int64(0)
	for _, a := range slices.Backward(r.admitted) {
		if r.kind == lease.RollingWindow && a.at <= now-window || r.kind == lease.FixedWindow && a.began != began {
			continue
		}
		sum += a.tokens
		slack := new(big.Rat).SetInt64(limit - sum)
		if r.kind == lease.TokenBucket {
			slack.Add(slack, r.earned(a.at, now))
		}
		if slack.Cmp(least) < 0 {
			least = slack
		}
	}
	return least
}

// earned by refill, at each moment at the highest rate of the versions so far.
func (r *modelRun) earned(from, until time.Duration) *big.Rat {
	sum, rate := new(big.Rat), new(big.Rat)
	for _, v := range r.rules {
		if v.rule.Kind != lease.TokenBucket || v.rule.Refill.Tokens == 0 {
			continue
		}
		fresh := big.NewRat(v.rule.Refill.Tokens, int64(v.rule.Refill.Interval))
		at := max(from, v.at)
		if fresh.Cmp(rate) <= 0 || at >= until {
			continue
		}
		more := new(big.Rat).Sub(fresh, rate)
		sum.Add(sum, more.Mul(more, new(big.Rat).SetInt64(int64(until-at))))
		rate = fresh
	}
	return sum
}

// become starts bounds of another kind, which lack all but what was left.
func (m *model) become(now, decided time.Duration, rule lease.Rule) {
	if rule.Kind == m.kind {
		return
	}
	m.kind = rule.Kind
	for _, r := range m.runs {
		left := int64(0)
		if r.kind == lease.Concurrency {
			left = r.floor
			for _, v := range r.rules {
				if v.rule.Kind == lease.Concurrency {
					left = max(left, v.rule.Capacity)
				}
			}
		} else if slack := r.slack(now, m.began); slack.Sign() > 0 {
			left = new(big.Int).Quo(slack.Num(), slack.Denom()).Int64()
		}
		*r = modelRun{rules: r.rules, kind: rule.Kind, floor: left}
		if lacks := rule.Capacity - left; lacks > 0 && rule.Kind != lease.Concurrency {
			r.admitted = append(r.admitted, dated{decided, lacks, m.began})
		}
	}
}

func (m *model) bind(rule lease.Rule) {
	r := &modelRun{kind: rule.Kind, floor: rule.Capacity}
	for _, v := range m.rules {
		if v.rule.Version >= rule.Version {
			r.rules = append(r.rules, v)
		}
	}
	m.runs = append(m.runs, r)
}

// drawRule draws a rule of any kind. Intervals of refill are of one length, so that
// nothing is rounded.
func drawRule(t *rapid.T, version int64) lease.Rule {
	r := lease.Rule{Version: version, Capacity: rapid.Int64Range(0, 12).Draw(t, "capacity"), MaxSharePercent: 100}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		r.Kind, r.Refill = lease.TokenBucket, lease.Rate{Tokens: rapid.Int64Range(0, 4).Draw(t, "refill"), Interval: 977 * ms}
	case 1:
		r.Kind, r.Window = lease.RollingWindow, time.Duration(rapid.Int64Range(1, 4).Draw(t, "window"))*second
	case 2:
		r.Kind = lease.Concurrency
	default:
		r.Kind, r.Period, r.Zone = lease.FixedWindow, lease.Minute, "UTC"
	}
	return r
}

// The judge finds what a look at every interval finds, under rules of all kinds,
// that change in any way and bind late.
func TestJudgeOfAllKindsIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := version{0, drawRule(t, 1)}
		j := judge.New(first.rule)
		m := &model{rules: []version{first}, kind: first.rule.Kind}
		m.runs = []*modelRun{{rules: m.rules, kind: m.kind, floor: first.rule.Capacity}}
		installed, bound := first.rule, int64(1)
		now := time.Duration(0)
		show := func(reserved int64, decided time.Duration) {
			l := lease.Ledger{Rule: installed, Began: m.began, Grants: []lease.Grant{{Issued: reserved}}}
			j.LedgerOf(now, decided, &l)
		}
		show(0, 0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, 900_000_000).Draw(t, "gap"))
			newest := m.rules[len(m.rules)-1].rule
			switch rapid.IntRange(0, 11).Draw(t, "step") {
			case 0:
				v := version{now, drawRule(t, newest.Version+1)}
				j.Written(now, v.rule)
				m.rules = append(m.rules, v)
				for _, r := range m.runs {
					r.rules = append(slices.Clip(r.rules), v)
				}
			case 1: // the ledger takes the newest version, which was decided on before
				decided := now - time.Duration(rapid.Int64Range(0, 50_000_000).Draw(t, "ago"))
				reserved := rapid.Int64Range(0, 14).Draw(t, "reserved")
				decided = max(decided, lastAt(m))
				installed = newest
				m.become(now, decided, newest)
				if newest.Version > bound && reserved <= newest.Capacity {
					bound = newest.Version
					m.bind(newest)
				}
				show(reserved, decided)
			case 2:
				if installed.Kind == lease.FixedWindow {
					m.turnTo(m.began + rapid.Int64Range(0, 1).Draw(t, "turns"))
					show(99, now)
				}
			default:
				tokens := rapid.Int64Range(0, 6).Draw(t, "tokens")
				if complained := j.Admit(now, tokens) != nil; complained != m.admit(now, tokens) {
					t.Fatalf("complained of %d at %v: %v", tokens, now, complained)
				}
			}
		}
		if excess, _ := j.Excess(); excess != m.worst {
			t.Fatalf("excess %d, want %d", excess, m.worst)
		}
	})
}

// lastAt is when something was admitted last: a decision before it would have been
// made on another state.
func lastAt(m *model) (at time.Duration) {
	for _, r := range m.runs {
		if n := len(r.admitted); n > 0 {
			at = max(at, r.admitted[n-1].at)
		}
	}
	return at
}

// turnTo goes on to a period, of which the first that is known takes over what was
// admitted before.
func (m *model) turnTo(began int64) {
	if m.began == 0 {
		for _, r := range m.runs {
			for i := range r.admitted {
				r.admitted[i].began = began
			}
		}
	}
	m.began = began
}
