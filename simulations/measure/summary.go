package measure

import (
	"math"
	"math/bits"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// Result is what was measured of a run that ended at end. The recorder is told
// no more.
func (r *Recorder) Result(end time.Duration) *Result {
	r.reach(end)
	r.integrate(end)
	for r.series.filled < r.series.bins {
		r.series.fill(&r.balance, r.capacity())
	}
	for ; r.sampled < len(r.moments); r.sampled++ {
		r.moments[r.sampled].take(&r.balance)
	}
	out := r.result
	out.Pending = out.Checks - out.Refused - out.Exhausted - out.Unavailable
	for i := range r.checks {
		if r.checks[i].outcome == Admitted {
			out.Pending--
		}
	}
	if out.Checks > 0 {
		out.SyncsPer = float64(out.Syncs) / float64(out.Checks)
	}
	out.Outcomes = make([]Outcome, len(r.checks))
	for i := range r.checks {
		out.Outcomes[i] = r.checks[i].outcome
	}
	out.Cap = r.cap(end)
	for _, j := range r.judges {
		if excess, at := j.Excess(); excess > out.Excess {
			out.Excess, out.ExcessAt = excess, at
		}
	}
	out.UnknownTokenSecond = r.unknownTime
	out.TimeOut, out.Bound = r.bound()
	out.Recovery, out.Never = recovery(r.sc, r.checks, nil)
	out.Series = r.series.Series
	out.sc, out.checks, out.moments = r.sc, r.checks, r.moments
	out.last = moment{at: end, available: r.balance.Available, unknown: r.balance.Unknown, held: r.balance.Held}
	return out
}

// cap is the sum of what the budgets that were asked for admit at most: B + R*T,
// rounded down, or the limits of as many windows as there are. Slots are used again
// and again; they have no cap of that kind.
func (r *Recorder) cap(end time.Duration) (sum int64) {
	for i, rule := range r.rules {
		if r.asked[i] {
			sum = saturating(sum, most(rule, end))
		}
	}
	return sum
}

// bound is tau, by Little's law, and the bound on utilisation that follows from
// it. How many tokens are out on average, by how many are issued per second, is
// how long one stays out: the integral of what is out over time, by all that was
// issued. The bound is known where there is one budget under one version of its
// policy; with more, tau is a mean over budgets that may have little in common.
func (r *Recorder) bound() (tau time.Duration, bound float64) {
	if r.balance.Issued <= 0 {
		return 0, 0
	}
	seconds := r.outSeconds / float64(r.balance.Issued)
	tau = time.Duration(seconds * float64(time.Second))
	if len(r.keys) != 1 || r.rules[0] != firstRule(r.sc, r.keys[0].Operation) {
		return tau, 0
	}
	rule := r.rules[0]
	switch rule.Kind {
	case lease.TokenBucket:
	case lease.RollingWindow:
		return tau, float64(rule.Window) / float64(rule.Window+tau)
	default:
		return tau, 0 // not known
	}
	needed := float64(rule.Refill.Tokens) / rule.Refill.Interval.Seconds() * seconds
	if rule.Refill.Tokens == 0 || needed <= float64(rule.Capacity) {
		return tau, 1 // without refill there is nothing to lose
	}
	return tau, float64(rule.Capacity) / needed
}

// Against compares with the oracle's run on the same arrivals: FalseDenied,
// Utilisation, and Recovery, which does not wait for regions where the oracle
// admits nothing any more.
func (r *Result) Against(oracle *Result) {
	r.FalseDenied = 0
	for i, o := range oracle.Outcomes {
		if o == Admitted && (i >= len(r.Outcomes) || r.Outcomes[i] != Admitted) {
			r.FalseDenied++
		}
	}
	r.Utilisation = proportion(r.Admitted, oracle.Admitted)
	if r.sc != nil {
		r.Recovery, r.Never = recovery(r.sc, r.checks, oracle.Outcomes)
	}
}

// proportion of what the oracle admitted. Where it admitted nothing, nothing is
// lost.
func proportion(ours, oracles int64) float64 {
	if oracles == 0 {
		return 1
	}
	return float64(ours) / float64(oracles)
}

// highest capacity and refill of the two, each for itself.
func highest(a, b lease.Rule) lease.Rule {
	a.Capacity = max(a.Capacity, b.Capacity)
	hiA, loA := bits.Mul64(uint64(a.Refill.Tokens), uint64(max(1, b.Refill.Interval)))
	hiB, loB := bits.Mul64(uint64(b.Refill.Tokens), uint64(max(1, a.Refill.Interval)))
	if hiB > hiA || hiB == hiA && loB > loA {
		a.Refill = b.Refill
	}
	a.Version, a.Kind, a.Window, a.Period, a.Zone = b.Version, b.Kind, b.Window, b.Period, b.Zone
	return a
}

// most is what a rule admits at most in a time.
func most(rule lease.Rule, end time.Duration) int64 {
	switch rule.Kind {
	case lease.TokenBucket:
		return saturating(rule.Capacity, earned(rule.Refill, end))
	case lease.RollingWindow, lease.FixedWindow:
		windows := int64(end/max(1, rule.Per())) + 1
		if rule.Kind == lease.FixedWindow {
			windows++ // that it begins in, and that it ends in
		}
		if rule.Capacity > math.MaxInt64/windows {
			return math.MaxInt64
		}
		return rule.Capacity * windows
	case lease.Concurrency:
	}
	return 0
}

// earned is R*T, rounded down.
func earned(rate lease.Rate, elapsed time.Duration) int64 {
	if rate.Tokens <= 0 || elapsed <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(rate.Tokens), uint64(elapsed))
	if hi >= uint64(rate.Interval) {
		return math.MaxInt64
	}
	tokens, _ := bits.Div64(hi, lo, uint64(rate.Interval))
	return int64(min(tokens, math.MaxInt64))
}

func saturating(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
