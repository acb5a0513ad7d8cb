package regional

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// Reserve implements [decision.Reserver]: the cost, or the slots, are held for the
// policy's hold time. It waits like Decide, and a repeated request of the same ID
// gets the same reservation while it is open; once it has ended, the request is
// invalid.
func (l *Limiter) Reserve(ctx context.Context, req decision.Request) (decision.Reservation, decision.Answer) {
	r, d := l.reserve(ctx, &req)
	if r == nil {
		return nil, d
	}
	return r, d
}

func (l *Limiter) reserve(ctx context.Context, req *decision.Request) (*reservation, decision.Answer) {
	problem := requestProblem(req)
	if problem == "" && len(req.Also) > 0 {
		problem = "a reservation is of one budget: also must be empty"
	}
	if problem != "" {
		return nil, l.counted(req.Key, decision.Invalid(problem))
	}
	if !l.guard.enter() {
		return nil, l.counted(req.Key, overloaded())
	}
	defer l.guard.leave()
	if req.ID == "" {
		v := l.hold(ctx, req)
		return v.reservation, l.counted(req.Key, v.answer)
	}
	v := l.once(ctx, req, true, func() verdict { return l.hold(ctx, req) })
	return v.reservation, v.answer
}

// hold decides a reservation that is not on record, and makes it.
func (l *Limiter) hold(ctx context.Context, req *decision.Request) verdict {
	if !l.reservations.enter(l.cfg.Clock.Mono()) {
		d := overloaded()
		d.Detail = "too many reservations are open here: settle those whose work has ended"
		return verdict{answer: d}
	}
	c := l.claim(req)
	c.manner, c.slots = holds, true
	d := l.arrange(ctx, &c, req)
	if !d.Allowed {
		l.reservations.leave()
		return verdict{answer: l.logged(&c, req.ID, d)}
	}
	r := newReservation(&c)
	r.logged = l.logHold(&c, req.ID, &d, r)
	l.reservations.add(r)
	return verdict{answer: d, reservation: r}
}

// reservation is credit or slots that a caller holds. One that was admitted without
// credit, by shadow mode or a local allowance, or for a cost of 0, holds nothing and
// is settled all the same.
type reservation struct {
	limiter  *Limiter
	id       string
	key      lease.Key
	budget   *holder.Budget
	tokens   int64
	held     uint64 // 0: nothing
	borrowed loan
	slots    bool
	free     bool          // admitted without credit: any cost settles it
	policy   *lease.Policy // as it was when it was made; nil where none is known
	until    time.Duration
	at       int // in the order of expiry; owned by the table

	logged bool // the decision log has it, and gets its settlement

	mu      sync.Mutex
	settled bool
	outcome decision.Settlement
}

func newReservation(c *claim) *reservation {
	l := c.limiter
	r := &reservation{
		limiter: l, id: randomNonce(), key: c.key, budget: c.budget,
		tokens: c.tokens, held: c.held, borrowed: c.borrowed, until: c.until,
	}
	r.free = c.held == 0 && c.tokens > 0
	now := l.cfg.Clock.Mono()
	if o := c.budget.Outlook(); o != nil && o.Policy != nil {
		r.slots, r.policy = o.Policy.Rule.Kind == lease.Concurrency, o.Policy
		if r.held == 0 {
			r.until = now + o.Policy.HoldTime()
		}
	}
	return r
}

// ID implements [decision.Reservation]: 128 random bits, in hexadecimal.
func (r *reservation) ID() string { return r.id }

// Expires implements [decision.Reservation]: what is left of it now, 0 when its time
// is over.
func (r *reservation) Expires() time.Duration {
	return max(0, r.until-r.limiter.cfg.Clock.Mono())
}

// open says that the reservation may still be settled: neither was it, nor is its
// time over.
func (r *reservation) open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.settled && r.Expires() > 0
}

// Settle implements [decision.Reservation]. One that was refused is still held, and
// may be settled with another cost until its time is over.
func (r *reservation) Settle(_ context.Context, cost int64) decision.Settlement {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled {
		return r.outcome
	}
	began := r.limiter.logTime()
	s := r.end(cost)
	if s.Settled {
		r.log(cost, s, began)
		r.settled, r.outcome = true, s
		r.limiter.reservations.settled(r, r.limiter.cfg.Clock.Mono())
	}
	return s
}

func (r *reservation) end(cost int64) decision.Settlement {
	switch {
	case cost < 0:
		return decision.Settlement{Detail: "the cost is negative"}
	case r.slots && cost != 0:
		return decision.Settlement{Detail: "slots are settled with a cost of 0: they go back as a whole"}
	case r.held == 0:
		return r.endWithoutHold(cost)
	}
	p := r.policy
	if o := r.budget.Outlook(); o != nil && o.Policy != nil {
		p = o.Policy
	}
	postpaid := p != nil && p.Postpaid
	if postpaid && cost > r.tokens {
		if problem := aboveBound(p, cost); problem != "" {
			return decision.Settlement{Debt: r.budget.Debt(), Detail: problem}
		}
	}
	r.budget.Expire(r.limiter.cfg.Clock.Mono())
	s := r.budget.Settle(r.held, cost, postpaid)
	switch {
	case s.Refused:
		return decision.Settlement{Debt: s.Debt, Detail: fmt.Sprintf("the cost is above the %d tokens that were reserved, and the policy is not postpaid: reserve a higher bound", r.tokens)}
	case !s.Known && r.slots:
		return decision.Settlement{Debt: s.Debt, Detail: "the slots are not held any more: their time was over, or this limiter lost its grant"}
	case !s.Known:
		return decision.Settlement{Debt: s.Debt, Detail: "the tokens are not held any more: their time was over, or this limiter lost its grant; they count as spent"}
	}
	if s.Debt > 0 {
		r.limiter.debtors.note(r.budget)
	}
	return decision.Settlement{Settled: true, Returned: s.Returned, Debt: s.Debt}
}

// aboveBound is why a settlement above its reservation is too high for the policy,
// which is postpaid, for people; empty if it is not.
func aboveBound(p *lease.Policy, cost int64) string {
	switch {
	case p.MaxCost > 0 && cost > p.MaxCost:
		return fmt.Sprintf("the cost is above the policy's max-cost of %d tokens: settle no more than that", p.MaxCost)
	case p.MaxCost == 0 && cost > p.Rule.ShareCap():
		return fmt.Sprintf("the cost is above the %d tokens that the policy's capacity and max-share can ever admit, and it has no max-cost: settle no more than that, or give the policy a max-cost", p.Rule.ShareCap())
	}
	return ""
}

func (r *reservation) endWithoutHold(cost int64) decision.Settlement {
	if cost > r.tokens && !r.free {
		return decision.Settlement{Detail: "the cost is above what was reserved: nothing"}
	}
	if unused := r.borrowed.tokens - cost; unused > 0 {
		r.limiter.fallback.giveBack(r.budget, r.borrowed, unused)
	}
	return decision.Settlement{Settled: true}
}

// settle ends the reservation of the ID, if it is of the key: an ID says nothing to
// other accounts.
func (l *Limiter) settle(ctx context.Context, key lease.Key, id string, cost int64) decision.Settlement {
	r := l.reservations.find(id, l.cfg.Clock.Mono())
	if r == nil || r.key != key {
		return decision.Settlement{Detail: "no such reservation of this budget is known here: it was made by another limiter or another start, its time was over, or it was settled long ago"}
	}
	return r.Settle(ctx, cost)
}
