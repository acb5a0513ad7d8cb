package broker

import (
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

const (
	// assumedRoundTrip stands for what limiters measure where none has told of it.
	assumedRoundTrip = 100 * time.Millisecond
	// idleTime is how long a token lies in its region, and is spent before that is told,
	// on average, apart from round trips. It is an assumption: limiters look at a budget
	// every 100 ms, and tell what they have spent within a second.
	idleTime = 300 * time.Millisecond
	// tripsOut is how many round trips a token is out for: one for the answer that brings
	// it and the report that takes it back, and one since limiters hold what they need for
	// two, half of which is left on average.
	tripsOut = 2
	// worthTelling is the part of a rolling window that may be lost before that is worth a
	// warning, in percent.
	worthTelling = 10
	// tripsToRenew is how many round trips max-staleness should have: a limiter asks anew
	// after a third of it, and an answer may be late, or lost.
	tripsToRenew = 10
)

// distance is how far limiters are from the brokers, as they measure it.
type distance struct {
	region    string        // the slowest that was heard of late
	roundTrip time.Duration // 0: nothing was measured
}

// distance asks who was heard how fast. It is for warnings: who does not answer, or only
// with an error, has measured nothing.
func (v *view) distance() distance {
	h, _ := v.heard(v.ctx)
	region, took := h.slowest()
	return distance{region, took.Round(time.Microsecond)}
}

// out is how long a token is out on average: commit and answer, idle in the region, and
// its report.
func (d distance) out() time.Duration {
	if d.roundTrip == 0 {
		return tripsOut*assumedRoundTrip + idleTime
	}
	return tripsOut*d.roundTrip + idleTime
}

// basis says what out rests on.
func (d distance) basis() string {
	if d.roundTrip == 0 {
		return "which is an assumption: no limiter has told its round trip of late"
	}
	return fmt.Sprintf("of which %v for two round trips, as measured in %s, the slowest region heard of late (the median of its limiters), and %v is an assumption", tripsOut*d.roundTrip, d.region, idleTime)
}

// warnings are what an operator should know about the policies that the draft puts in
// force, or removes.
func (d *draft) warnings() []string {
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if d.tooLarge != nil {
		warn("all at once this is refused: %v", d.tooLarge)
	}
	var far *distance // asked for once, and only if it matters
	for i, c := range d.changes {
		what := c.String()
		if c.Subject != record.OfEverybody && c.Operation != "" {
			what += ", " + c.Operation
		}
		switch {
		case c.After != nil:
			if far == nil {
				measured := d.v.distance()
				far = &measured
			}
			for _, w := range d.cautions(c, *far) {
				warn("%s: %s", what, w)
			}
		case c.Before != nil && d.effects == nil:
			warn("%s is removed: what is out of its budgets is called back, and counts until it is in", what)
		case c.Before != nil && d.effects[i].recalled > 0:
			warn("%s is removed while its budgets have %d tokens out above what rules them then: these are called back, and count until they are in", what, d.effects[i].recalled)
		}
	}
	return all
}

// cautions are what to know about the policy that a change puts in force.
func (d *draft) cautions(c record.Change, far distance) (all []string) {
	before := d.ruledBefore(c)
	if before != nil && before.Rule.Kind != c.After.Rule.Kind {
		all = append(all, fmt.Sprintf("it changes from %s to %s, so its budgets start as if all of them had just been spent", before.Rule.Kind, c.After.Rule.Kind))
	}
	all = append(all, starving(*c.After, far)...)
	return append(all, lapsing(*c.After, before)...)
}

// ruledBefore is the policy in whose place another one comes.
func (d *draft) ruledBefore(c record.Change) *lease.Policy {
	if c.Before != nil {
		return c.Before
	}
	var account record.Account
	switch c.Subject {
	case record.OfAccount:
		account, _ = d.v.account(c.Name) // it was read to make the draft
	case record.OfPlan, record.OfEverybody, record.OfDefault, record.OfOperation:
	}
	if r, ok := d.before.Rules(account, c.Operation); ok {
		return &r.Policy
	}
	return nil
}

// starving says how a policy denies more than its numbers say, where limiters are so
// far.
func starving(p lease.Policy, far distance) (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	r, out := p.Rule, far.out()
	switch {
	case r.Capacity == 0 || p.Disabled:
		return nil // it is meant to deny
	case r.Capacity < p.DefaultCost:
		warn("its capacity, %d, is below the cost of one check, %d: every check that names no lower cost is denied", r.Capacity, p.DefaultCost)
	case r.ShareCap() < p.DefaultCost:
		warn("a holder's share, %d%% of %d, is %d, below the cost of one check, %d: every check that names no lower cost is denied", r.MaxSharePercent, r.Capacity, r.ShareCap(), p.DefaultCost)
	}
	switch r.Kind {
	case lease.TokenBucket:
		full, ok := r.FullAfter()
		if ok && full < out {
			warn("it cannot use all of its refill: tokens that are out are not refilled, and an empty budget fills in %v. Where a token is out for %v on average (%s), at most %d%% of the refill is used; a larger capacity helps", full, out, far.basis(), int64(full)*100/int64(out))
		}
	case lease.RollingWindow:
		if lost := int64(out) * 100 / int64(r.Window+out); lost >= worthTelling {
			warn("its window, %v, is short: a token comes back one window after it was reported as spent. Where a token is out for %v on average (%s), at most %d%% of the limit is used", r.Window, out, far.basis(), 100-lost)
		}
	case lease.FixedWindow, lease.Concurrency:
	}
	if need := tripsToRenew * far.roundTrip; p.MaxStaleness > 0 && p.MaxStaleness < need {
		warn("its max-staleness, %v, is less than %d round trips, %v, which take %v each as measured in %s, the slowest region heard of late (the median of its limiters): limiters there may not hear from a broker in time, and answer \"unavailable\" while they hold credit", p.MaxStaleness, tripsToRenew, need, far.roundTrip, far.region)
	}
	return all
}

// lapsing says what it means that silence ends grants under a policy, which comes in the
// place of before; nil: of none.
func lapsing(p lease.Policy, before *lease.Policy) (all []string) {
	if p.ReclaimMargin == 0 {
		return nil
	}
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	warn("reclaim: deadline is weaker than proof. It rests on the clocks and the pauses of limiters: if in one of them the clocks lag and the process stands still by reclaim-margin, %v, or more in all, it admits what was counted as spent and handed out again, above the budget", strictyaml.FormatDuration(p.ReclaimMargin))
	warn("what a limiter has out counts as spent %v after its newest request about the budget (max-staleness, %v, and reclaim-margin, %v), or after another broker took the shard over: also what a region that is only cut off has not spent",
		strictyaml.FormatDuration(p.LapsesAfter()), strictyaml.FormatDuration(p.MaxStaleness), strictyaml.FormatDuration(p.ReclaimMargin))
	if p.Rule.Kind == lease.TokenBucket && p.Rule.Refill.Tokens == 0 {
		warn("a fixed quota has no refill: what lapses is gone for good, though it may never have been spent")
	}
	switch {
	case before != nil && before.ReclaimMargin == 0:
		warn("it was proof before: the deadline holds for a grant only once its limiter has said that it goes by it, so what is out of a region that is silent now still waits for proof")
	case before != nil && before.LapsesAfter() > p.LapsesAfter():
		warn("it was %v before: that holds on for a grant until its limiter has said that it goes by the new deadline, so what is out of a region that is silent now counts as spent no sooner than before", before.LapsesAfter())
	}
	return all
}
