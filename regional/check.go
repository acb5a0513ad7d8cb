package regional

import (
	"context"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// Budget is a handle on one budget. Its methods may be called concurrently.
//
// They decide at memory speed. What [Limiter.Decide] has beside, they have not:
// decision IDs, policy versions, several budgets, and local protection.
type Budget struct {
	limiter *Limiter
	key     lease.Key
	budget  *holder.Budget
}

// Allow spends the policy's default cost, if the credit is here. It never waits,
// so it says no for a budget that was not used before; use Check where the first
// answer matters.
func (h *Budget) Allow() bool {
	o := h.budget.Outlook()
	if o == nil || o.Policy == nil {
		return h.limiter.allow(h.budget, 1)
	}
	return h.limiter.allow(h.budget, o.Policy.DefaultCost)
}

// AllowN is Allow for a cost of 1 or more.
func (h *Budget) AllowN(cost int64) bool {
	return h.budget.SpendAllowed(cost) || h.limiter.allow(h.budget, cost)
}

// Check spends the policy's default cost. When the credit is not here it waits
// for the broker's word, at most Config.FirstGrantWait and no longer than ctx.
func (h *Budget) Check(ctx context.Context) decision.Answer {
	return h.limiter.check(ctx, h.key, h.budget, decision.Cost{})
}

// CheckN is Check for a given cost.
func (h *Budget) CheckN(ctx context.Context, cost int64) (d decision.Answer) {
	if h.limiter.spend(h.budget, cost, &d) {
		return d
	}
	return h.limiter.check(ctx, h.key, h.budget, decision.Tokens(cost))
}

// Wait is CheckN for a caller that waits for its turn, as long as ctx lasts and no
// longer than 10 minutes. See [Limiter.Wait].
func (h *Budget) Wait(ctx context.Context, cost int64) decision.Answer {
	c := &claim{limiter: h.limiter, key: h.key, budget: h.budget, cost: decision.Tokens(cost)}
	return h.limiter.counted(h.key, h.limiter.logged(c, "", h.limiter.inTurn(ctx, c, h.key, turn{maxWait: longestWait})))
}

// Remaining is what could be spent now without asking, in tokens.
func (h *Budget) Remaining() int64 { return h.budget.Remaining() }

// spend is the hot path of a check whose cost is known to be allowed by the
// policy: false leaves the decision to the slow path, and d as it was.
//
// What it admits it has taken from the credit (see package holder). A policy that
// is replaced while it looks rules one check more than it would have a moment
// later.
func (l *Limiter) spend(b *holder.Budget, cost int64, d *decision.Answer) bool {
	o := b.Outlook()
	if o == nil || o.Policy == nil || cost <= 0 || l.cfg.DecisionLog != nil {
		return false
	}
	p := o.Policy
	if p.MaxCost > 0 && cost > p.MaxCost || p.Disabled || p.Rule.Kind == lease.Concurrency {
		return false
	}
	left, ok := b.Spend(cost)
	if !ok {
		return false
	}
	l.obs.tally(b).Decision(pb.Reason_REASON_ALLOWED)
	allowed(d, o, left+b.Beyond())
	return true
}

// allow is a check that never waits. What it cannot admit, it asks for.
func (l *Limiter) allow(b *holder.Budget, cost int64) bool {
	o := b.Outlook()
	if o == nil || o.Policy == nil {
		if cost > 0 {
			b.Refused(cost)
		}
		return false
	}
	p := o.Policy
	if p.Disabled || p.Rule.Kind == lease.Concurrency {
		return false
	}
	settled, problem := holder.CheckCost(p, cost, true)
	if problem != "" {
		return false
	}
	if settled == 0 {
		return !o.Stopped
	}
	if _, ok := b.Spend(cost); ok {
		return true
	}
	b.Refused(cost)
	if p.Shadow || p.Local.For != 0 {
		return l.lenient(b, cost)
	}
	return false
}

// lenient is a check that never waits, of a policy that may admit what there is no
// credit for.
func (l *Limiter) lenient(b *holder.Budget, cost int64) bool {
	c := claim{limiter: l, key: b.Key, budget: b, cost: decision.Tokens(cost)}
	d, decided := c.try()
	if !decided { // nobody has been asked yet
		d = c.lenient(denied(b, pb.Reason_REASON_UNAVAILABLE, noAnswer), false)
	}
	lenient(l.obs.tally(b), &d)
	return d.Allowed
}

// check decides, waiting if need be. Without a given cost the policy's default
// counts, which is known once the broker has answered for this budget.
func (l *Limiter) check(ctx context.Context, key lease.Key, b *holder.Budget, cost decision.Cost) decision.Answer {
	c := claim{limiter: l, key: key, budget: b, cost: cost}
	d := l.now(ctx, &c)
	return l.counted(key, l.logged(&c, "", d))
}

// now decides a claim without waiting for its turn. The claim itself does not
// leave the stack unless it has to wait.
func (l *Limiter) now(ctx context.Context, c *claim) decision.Answer {
	d, decided := c.try()
	if decided {
		return d
	}
	waiting := *c
	d = l.await(ctx, &waiting)
	*c = waiting
	return d
}
