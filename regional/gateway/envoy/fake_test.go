package envoy_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// account is a budget of the bank.
type account struct {
	limit, left int64
	noZero      bool // a check of cost 0 is invalid
	postpaid    bool
	debt        int64
	wait        time.Duration // of a denial; 0: for good
	window      time.Duration
	shadow      bool
	dark        bool  // no authority
	hidden      int64 // of left: what Remaining does not tell, as the region has yet to fetch it
	most        int64 // a cost above this is invalid; 0: none is
	darkAfter   int   // the authority is lost after this many admissions; 0: never
}

// bank is a decider and reserver of exact budgets that are never refilled.
type bank struct {
	mu       sync.Mutex
	accounts map[lease.Key]*account
	asked    []decision.Request
	held     int // reservations that are not settled
}

func newBank() *bank { return &bank{accounts: map[lease.Key]*account{}} }

func (b *bank) open(name, operation string, a account) *account {
	b.accounts[lease.Key{Account: name, Operation: operation}] = &a
	return &a
}

func (b *bank) left(name, operation string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.accounts[lease.Key{Account: name, Operation: operation}].left
}

func (b *bank) look(p decision.Part) decision.Answer {
	a := b.accounts[p.Key]
	if a == nil {
		return decision.Answer{Reason: pb.Reason_REASON_NO_POLICY}
	}
	cost := p.Cost.Tokens
	if !p.Cost.Given {
		cost = 7 // the policies' default
	}
	out := decision.Answer{
		Limit: a.limit, Remaining: max(0, a.left-a.hidden), Window: a.window, PolicyVersion: 3, Debt: a.debt, Shadow: a.shadow,
		Allowed: true, Reason: pb.Reason_REASON_ALLOWED, GrantID: "g",
	}
	switch {
	case a.dark:
		out = decision.Unavailable("no authority")
	case cost < 0 || cost == 0 && a.noZero || a.most > 0 && cost > a.most:
		out.Allowed, out.Reason = false, pb.Reason_REASON_INVALID
	case cost > a.limit:
		out.Allowed, out.Reason = false, pb.Reason_REASON_COST_ABOVE_CAPACITY
	case a.debt > 0 || cost > a.left:
		out.Allowed, out.Reason = false, pb.Reason_REASON_EXHAUSTED
		if a.wait > 0 {
			out.HasRetry, out.RetryIn, out.RetryAt = true, a.wait, time.Unix(0, 0).Add(a.wait)
		}
	}
	if a.shadow {
		out.Allowed = true
	}
	return out
}

func (b *bank) spend(p decision.Part, a *decision.Answer) {
	acc := b.accounts[p.Key]
	cost := p.Cost.Tokens
	if !p.Cost.Given {
		cost = 7
	}
	if acc == nil || a.Reason != pb.Reason_REASON_ALLOWED {
		return
	}
	acc.left -= cost
	if acc.darkAfter > 0 {
		acc.darkAfter--
		acc.dark = acc.darkAfter == 0
	}
	a.Remaining = max(0, acc.left-acc.hidden)
}

// Decide implements decision.Decider.
func (b *bank) Decide(_ context.Context, req decision.Request) decision.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, req)
	parts := append([]decision.Part{req.Part}, req.Also...)
	answers := make([]decision.Answer, len(parts))
	worst := 0
	for i, p := range parts {
		answers[i] = b.look(p)
		if !answers[i].Allowed && answers[worst].Allowed {
			worst = i
		}
	}
	if answers[worst].Allowed {
		for i, p := range parts {
			b.spend(p, &answers[i])
		}
	}
	out := answers[worst]
	if len(parts) == 1 {
		return out
	}
	out.Limit, out.Remaining, out.Window = answers[0].Limit, answers[0].Remaining, answers[0].Window
	for i, a := range answers {
		out.Parts = append(out.Parts, decision.PartAnswer{
			Key: parts[i].Key, Reason: a.Reason, Limit: a.Limit, Remaining: a.Remaining,
			HasRetry: a.HasRetry, RetryIn: a.RetryIn, PolicyVersion: a.PolicyVersion,
		})
	}
	return out
}

// Reserve implements decision.Reserver.
func (b *bank) Reserve(_ context.Context, req decision.Request) (decision.Reservation, decision.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.look(req.Part)
	if !a.Allowed {
		return nil, a
	}
	b.spend(req.Part, &a)
	b.held++
	return &reservation{bank: b, part: req.Part}, a
}

type reservation struct {
	bank *bank
	part decision.Part
	done bool
}

func (r *reservation) ID() string             { return "r" }
func (r *reservation) Expires() time.Duration { return time.Minute }

// Settle implements decision.Reservation.
func (r *reservation) Settle(_ context.Context, cost int64) decision.Settlement {
	r.bank.mu.Lock()
	defer r.bank.mu.Unlock()
	acc := r.bank.accounts[r.part.Key]
	bound := r.part.Cost.Tokens
	switch {
	case r.done:
		return decision.Settlement{Settled: true}
	case cost > bound && !acc.postpaid:
		return decision.Settlement{Detail: "more than was reserved"}
	}
	r.done = true
	r.bank.held--
	acc.left += max(0, bound-cost)
	acc.debt += max(0, cost-bound)
	return decision.Settlement{Settled: true, Returned: max(0, bound-cost), Debt: acc.debt}
}

// plainDecider hides that the bank can reserve.
type plainDecider struct{ bank *bank }

func (d plainDecider) Decide(ctx context.Context, req decision.Request) decision.Answer {
	return d.bank.Decide(ctx, req)
}

// counted is a decider of one answer that counts.
type counted struct {
	answer decision.Answer
	asked  atomic.Int64
}

func (c *counted) Decide(context.Context, decision.Request) decision.Answer {
	c.asked.Add(1)
	return c.answer
}

// fixed is a decider of one answer.
type fixed decision.Answer

func (f fixed) Decide(context.Context, decision.Request) decision.Answer { return decision.Answer(f) }
