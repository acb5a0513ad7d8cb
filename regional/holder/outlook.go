package holder

import (
	"math"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Outlook is what the region knows about a budget beyond its credit. Values are
// never changed; the manager replaces them.
type Outlook struct {
	Policy *lease.Policy // nil: none is known
	// Window is the policy's Rule.Per, and NotStrict says that it is not Strict, since
	// working them out costs more than a check.
	Window    time.Duration
	NotStrict bool
	GrantID   string // the live grant; empty for none
	// NoPolicyUntil is until when the broker's word holds that no policy rules
	// the operation.
	NoPolicyUntil time.Duration
	Denial        *Denial // nil: no shortage is known
	Recalling     bool    // the broker calls credit back for this budget from others
	Stopped       bool    // this epoch spends nothing any more
	Down          bool    // the broker cannot be reached for this budget
}

// mostCost is the highest cost that may be spent under the policy, in tokens; 0
// without one.
func (o *Outlook) mostCost() int64 {
	switch {
	case o == nil || o.Policy == nil:
		return 0
	case o.Policy.Disabled || o.Policy.Rule.Kind == lease.Concurrency:
		return 0 // a slot is held, never spent
	case o.Policy.MaxCost > 0:
		return o.Policy.MaxCost
	}
	return lease.MaxCapacity
}

// Denial is the broker's word that a need could not be met.
type Denial struct {
	Need     int64         // tokens; cheaper checks were not asked for
	At       time.Duration // when the word was heard, by the monotonic clock
	HasRetry bool          // waiting can help
	Until    time.Duration // earliest time for Need, by the monotonic clock; only with HasRetry
	MaxUntil time.Duration // the word is not relied on after this
	// What had ever come back from holds, and what was held, when the need was asked for.
	freed, held int64
}

// short is the least cost that is known to be denied, after freed tokens in all have
// come back here, and while held are held. What has come back since the need was asked
// for was not counted by the broker, and may cover more; what was taken since then and
// given back was.
func (d *Denial) short(freed, held int64) int64 {
	return saturate(d.Need, max(0, min(freed-d.freed, d.held-held)))
}

// Verdict is what a check that finds no credit is told.
type Verdict struct {
	Reason   pb.Reason // unspecified: nothing is known, wait for news
	HasRetry bool
	RetryIn  time.Duration
}

// Judge says what a check of cost tokens that finds no credit is told at now. It
// may be called concurrently; o may be nil. What the budget owes is left out: see
// [Budget.Judge].
func (o *Outlook) Judge(cost int64, now time.Duration) Verdict {
	return o.judge(cost, 0, 0, math.MaxInt64, now)
}

func (o *Outlook) judge(cost, debt, freed, held int64, now time.Duration) Verdict {
	switch {
	case o == nil:
		return Verdict{}
	case o.Stopped:
		return Verdict{Reason: pb.Reason_REASON_UNAVAILABLE}
	case o.Policy == nil && now < o.NoPolicyUntil:
		return Verdict{Reason: pb.Reason_REASON_NO_POLICY}
	case o.Policy != nil && cost > o.Policy.Rule.ShareCap():
		return Verdict{Reason: pb.Reason_REASON_COST_ABOVE_CAPACITY}
	case o.Denial != nil && saturate(cost, debt) >= o.Denial.short(freed, held) && now < o.Denial.MaxUntil:
		return o.Denial.verdict(saturate(cost, debt), now, o.Policy)
	case o.Down:
		return Verdict{Reason: pb.Reason_REASON_UNAVAILABLE}
	}
	return Verdict{}
}

// verdict is the denial for a cost at or above the need that was asked for, debt
// included. Its guidance is never early.
func (d *Denial) verdict(cost int64, now time.Duration, policy *lease.Policy) Verdict {
	v := Verdict{Reason: pb.Reason_REASON_EXHAUSTED}
	if !d.HasRetry || policy == nil {
		return v
	}
	at, ok := d.earliest(cost, policy)
	if !ok {
		return v
	}
	v.HasRetry, v.RetryIn = true, max(1, at-now)
	return v
}

// earliest is the time at which cost could be covered, if nobody else takes
// anything and what is out is spent at once. For the need that was asked for the
// broker has told it; a dearer check waits longer:
//
//   - in a token bucket by what the difference takes to refill;
//   - in a rolling window until all that can have been spent before the broker's
//     word has left it, which may be late by a part of the window;
//   - in a fixed window no longer, since a period begins with all of its limit;
//   - for slots nothing is known.
//
// What is above the most that one holder can have (a cost never is, but with debt
// it may be) takes as many windows. Where the policy is postpaid, the broker may have
// to collect a debt until the time that it told, with all that windows have until
// then: so a dearer check waits for one window from that time on, or one period more.
func (d *Denial) earliest(cost int64, policy *lease.Policy) (at time.Duration, ok bool) {
	rule, windows := policy.Rule, int64(1)
	if most := rule.ShareCap(); most > 0 && cost > most {
		windows = (cost-1)/most + 1
	}
	switch rule.Kind {
	case lease.TokenBucket:
		more, ok := rule.Refill.Wait(cost - d.Need)
		return later(d.Until, more, 1), ok
	case lease.RollingWindow:
		if cost == d.Need {
			return d.Until, true
		}
		if policy.Postpaid {
			return later(d.Until, rule.CountsFor(), windows), true
		}
		return max(d.Until, later(d.At, rule.CountsFor(), windows)), true
	case lease.FixedWindow:
		if policy.Postpaid && cost > d.Need {
			windows++
		}
		return later(d.Until, rule.Period.Longest(), windows-1), true
	case lease.Concurrency:
	}
	return 0, false
}

// later is the time n times d after at, or the last representable one.
func later(at, d time.Duration, n int64) time.Duration {
	if d > 0 && n > int64(math.MaxInt64-at)/int64(d) {
		return math.MaxInt64
	}
	return at + time.Duration(n)*d
}

// CheckCost settles the cost of a check under a policy: cost below 0 asks for
// the default. ok is false, with a sentence, when the policy does not allow it.
func CheckCost(policy *lease.Policy, cost int64, given bool) (settled int64, problem string) {
	if !given {
		return policy.DefaultCost, ""
	}
	switch {
	case cost < 0:
		return 0, "the cost is negative"
	case cost == 0 && !policy.AllowZeroCost:
		return 0, "the cost is 0, which the policy does not allow"
	case policy.MaxCost > 0 && cost > policy.MaxCost:
		return 0, "the cost is above the policy's max-cost"
	}
	return cost, ""
}
