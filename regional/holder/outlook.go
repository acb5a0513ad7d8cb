package holder

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Outlook is what the region knows about a budget beyond its credit. Values are
// never changed; the manager replaces them.
type Outlook struct {
	Policy  *lease.Policy // nil: none is known
	GrantID string        // the live grant; empty for none
	// NoPolicyUntil is until when the broker's word holds that no policy rules
	// the operation.
	NoPolicyUntil time.Duration
	Denial        *Denial // nil: no shortage is known
	Recalling     bool    // the broker calls credit back for this budget from others
	Stopped       bool    // this epoch spends nothing any more
	Down          bool    // the broker cannot be reached for this budget
}

// mostCost is the highest cost that the policy allows, in tokens; 0 without one.
func (o *Outlook) mostCost() int64 {
	switch {
	case o == nil || o.Policy == nil:
		return 0
	case o.Policy.MaxCost > 0:
		return o.Policy.MaxCost
	}
	return lease.MaxCapacity
}

// Denial is the broker's word that a need could not be met.
type Denial struct {
	Need     int64         // tokens; cheaper checks were not asked for
	HasRetry bool          // waiting can help
	Until    time.Duration // earliest time for Need, by the monotonic clock; only with HasRetry
	MaxUntil time.Duration // the word is not relied on after this
}

// Verdict is what a check that finds no credit is told.
type Verdict struct {
	Reason   pb.Reason // unspecified: nothing is known, wait for news
	HasRetry bool
	RetryIn  time.Duration
}

// Judge says what a check of cost tokens that finds no credit is told at now. It
// may be called concurrently; o may be nil.
func (o *Outlook) Judge(cost int64, now time.Duration) Verdict {
	switch {
	case o == nil:
		return Verdict{}
	case o.Stopped:
		return Verdict{Reason: pb.Reason_REASON_UNAVAILABLE}
	case o.Policy == nil && now < o.NoPolicyUntil:
		return Verdict{Reason: pb.Reason_REASON_NO_POLICY}
	case o.Policy != nil && cost > o.Policy.Rule.ShareCap():
		return Verdict{Reason: pb.Reason_REASON_COST_ABOVE_CAPACITY}
	case o.Denial != nil && cost >= o.Denial.Need && now < o.Denial.MaxUntil:
		return o.Denial.verdict(cost, now, o.Policy)
	case o.Down:
		return Verdict{Reason: pb.Reason_REASON_UNAVAILABLE}
	}
	return Verdict{}
}

// verdict is the denial for a cost at or above the need that was asked for. A
// dearer check waits longer by what its difference takes to refill, so guidance
// is never early.
func (d *Denial) verdict(cost int64, now time.Duration, policy *lease.Policy) Verdict {
	v := Verdict{Reason: pb.Reason_REASON_EXHAUSTED}
	if !d.HasRetry || policy == nil {
		return v
	}
	more, ok := policy.Rule.Refill.Wait(cost - d.Need)
	if !ok {
		return v
	}
	v.HasRetry, v.RetryIn = true, max(1, d.Until-now+more)
	return v
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
