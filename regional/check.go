package regional

import (
	"context"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// Decision is the answer to one check. A denial has spent nothing.
type Decision struct {
	Allowed       bool
	Reason        pb.Reason // never unspecified
	Limit         int64     // the budget's capacity, in tokens; 0 where it is not known
	Remaining     int64     // tokens that this limiter can still admit without asking: never more than the truth
	HasRetry      bool      // waiting can help
	RetryIn       time.Duration
	PolicyVersion int64  // 0 where none is known
	GrantID       string // the grant that was spent from; empty for denials
	Detail        string // for people: what a denial means and what to do
}

// Budget is a handle on one budget. Its methods may be called concurrently.
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
func (h *Budget) Check(ctx context.Context) Decision {
	return h.limiter.check(ctx, h.key, h.budget, 0, false)
}

// CheckN is Check for a given cost.
func (h *Budget) CheckN(ctx context.Context, cost int64) Decision {
	if d, ok := h.limiter.spend(h.budget, cost); ok {
		return d
	}
	return h.limiter.check(ctx, h.key, h.budget, cost, true)
}

// spend is the hot path of a check whose cost is known to be allowed by the
// policy: false leaves the decision to the slow path.
func (l *Limiter) spend(b *holder.Budget, cost int64) (Decision, bool) {
	o := b.Outlook()
	if o == nil || o.Policy == nil || cost <= 0 || o.Policy.MaxCost > 0 && cost > o.Policy.MaxCost {
		return Decision{}, false
	}
	left, ok := b.Spend(cost)
	if !ok {
		return Decision{}, false
	}
	l.obs.decision(pb.Reason_REASON_ALLOWED)
	return allowed(o, left), true
}

// allow is a check that never waits. What it cannot admit, it asks for.
func (l *Limiter) allow(b *holder.Budget, cost int64) bool {
	o := b.Outlook()
	if o != nil && o.Policy != nil {
		settled, problem := holder.CheckCost(o.Policy, cost, true)
		if problem != "" {
			return false
		}
		if settled == 0 {
			return true
		}
	}
	if cost <= 0 {
		return false
	}
	if _, ok := b.Spend(cost); ok {
		return true
	}
	b.Refused(cost)
	return false
}

// check decides, waiting if need be. Without a given cost the policy's default
// counts, which is known once the broker has answered for this budget.
func (l *Limiter) check(ctx context.Context, key lease.Key, b *holder.Budget, cost int64, given bool) Decision {
	w := wait{limiter: l, key: key, budget: b}
	defer w.end()
	for {
		news := w.budget.News()
		d, settled, decided := l.decide(w.budget, cost, given)
		if decided {
			l.obs.decision(d.Reason)
			return d
		}
		if problem := w.next(ctx, news, settled); problem != "" {
			d := l.unanswered(w.budget, w.since, problem)
			w.budget.Denied()
			l.obs.decision(d.Reason)
			return d
		}
	}
}

// unanswered is the decision on a check whose wait, since a monotonic time, is
// over.
func (l *Limiter) unanswered(b *holder.Budget, since time.Duration, problem string) Decision {
	if b.Unanswered(since) == pb.Reason_REASON_EXHAUSTED {
		return l.denied(b, pb.Reason_REASON_EXHAUSTED, "more is asked for than there is, here and in other regions")
	}
	return l.denied(b, pb.Reason_REASON_UNAVAILABLE, problem)
}

// decide settles a check by what is known here; decided is false when only news
// can tell.
func (l *Limiter) decide(b *holder.Budget, cost int64, given bool) (d Decision, settled int64, decided bool) {
	if given && cost < 0 {
		return l.denied(b, pb.Reason_REASON_INVALID, "the cost is negative"), cost, true
	}
	o := b.Outlook()
	settled = cost
	if o != nil && o.Policy != nil {
		var problem string
		if settled, problem = holder.CheckCost(o.Policy, cost, given); problem != "" {
			return l.denied(b, pb.Reason_REASON_INVALID, problem), settled, true
		}
		if settled == 0 && !o.Stopped {
			return allowed(o, b.Credit()), 0, true
		}
		if left, ok := b.Spend(settled); ok {
			return allowed(o, left), settled, true
		}
	}
	if l.stopped.Load() {
		return l.denied(b, pb.Reason_REASON_UNAVAILABLE, "this limiter is stopping"), settled, true
	}
	v := o.Judge(settled, l.cfg.Clock.Mono())
	if v.Reason == pb.Reason_REASON_UNSPECIFIED {
		return Decision{}, settled, false
	}
	b.Denied()
	d = l.denied(b, v.Reason, details[v.Reason])
	d.HasRetry, d.RetryIn = v.HasRetry, v.RetryIn
	return d, settled, true
}

// details tell people what a denial means.
var details = map[pb.Reason]string{
	pb.Reason_REASON_EXHAUSTED:           "the budget is used up for now",
	pb.Reason_REASON_COST_ABOVE_CAPACITY: "the cost is above what the policy's capacity and max-share can ever admit",
	pb.Reason_REASON_UNAVAILABLE:         "too little credit is held here and the broker does not answer",
	pb.Reason_REASON_NO_POLICY:           "no policy rules this operation: apply one with `tokenlease policy apply`",
}

func allowed(o *holder.Outlook, left int64) Decision {
	return Decision{
		Allowed: true, Reason: pb.Reason_REASON_ALLOWED, Limit: o.Policy.Rule.Capacity, Remaining: left,
		PolicyVersion: o.Policy.Rule.Version, GrantID: o.GrantID,
	}
}

func (l *Limiter) denied(b *holder.Budget, reason pb.Reason, detail string) Decision {
	d := Decision{Reason: reason, Remaining: b.Credit(), Detail: detail}
	if o := b.Outlook(); o != nil && o.Policy != nil {
		d.Limit, d.PolicyVersion = o.Policy.Rule.Capacity, o.Policy.Rule.Version
	}
	return d
}

// wait is one check that waits for news of its budget. Waiting checks are bounded
// in number and time.
type wait struct {
	limiter *Limiter
	key     lease.Key
	budget  *holder.Budget
	since   time.Duration // monotonic time at which it began to wait
	cost    int64         // as registered
	joined  bool          // registered
	timer   *time.Timer
}

// next registers the check, at its first call, or waits for news. It returns why
// the wait is over without any.
func (w *wait) next(ctx context.Context, news <-chan struct{}, cost int64) (problem string) {
	if !w.joined || w.cost != cost {
		return w.register(cost)
	}
	select {
	case <-news:
		return ""
	case <-w.timer.C:
		return "the broker did not answer in time"
	case <-ctx.Done():
		return "the caller did not wait for the broker's answer"
	}
}

// register counts the check as waiting for cost, which tells the manager what
// to ask for.
func (w *wait) register(cost int64) (problem string) {
	l := w.limiter
	if w.joined {
		w.budget.Leave(w.cost)
		w.joined = false
	} else if w.timer == nil {
		w.since = l.cfg.Clock.Mono()
		if l.waiters.Add(1) > int64(l.cfg.MaxWaiters) {
			l.waiters.Add(-1)
			return "too many checks are waiting for the broker"
		}
		w.timer = l.cfg.Clock.Timer(l.cfg.FirstGrantWait)
	}
	if _, ok := w.budget.Wait(cost); !ok {
		w.budget = l.budget(w.key) // it was retired in between
		return ""
	}
	w.cost, w.joined = cost, true
	w.budget.Signal()
	return ""
}

func (w *wait) end() {
	if w.joined {
		w.budget.Leave(w.cost)
	}
	if w.timer != nil {
		w.timer.Stop()
		w.limiter.waiters.Add(-1)
	}
}

// Remaining is what could be spent now without asking, in tokens.
func (h *Budget) Remaining() int64 { return h.budget.Credit() }
