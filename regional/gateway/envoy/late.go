package envoy

import (
	"context"
	"slices"
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// settleTimeout bounds a settlement, which goes on when the request has gone.
const settleTimeout = 2 * time.Second

// charge takes late costs from each budget by itself: what they pay for has
// happened, and nobody waits for the answer.
func (s *Service) charge(ctx context.Context, p plan) verdict {
	v := verdict{outcome: outcomeLatePaid, parts: make([]part, len(p.budgets))}
	for i, b := range p.budgets {
		if b.query {
			v.parts[i].decided = true // no cost
			continue
		}
		c := s.chargeOne(ctx, b)
		s.metrics.late(b.cost.Tokens, c)
		got := c.outcome(b.cost.Tokens)
		v.parts[i] = part{decided: true, denied: got == outcomeLateShort, answer: c.answer}
		if i == 0 || lateSeverity(got) > lateSeverity(v.outcome) {
			v.outcome, v.answer = got, c.answer
		}
		if c.paid+c.debt < b.cost.Tokens {
			s.log.warn("late", "a late cost could not be charged in full, and the rest is lost: a postpaid policy keeps it as debt, while anything at all is left",
				"domain", p.domain, "reason", httpanswer.Word(c.answer.Reason), "tokens", b.cost.Tokens, "charged", c.paid+c.debt)
		}
	}
	return v
}

// charged is what became of one late cost.
type charged struct {
	answer decision.Answer
	paid   int64 // tokens
	debt   int64 // tokens that will be paid before the next admission
}

func (c charged) outcome(cost int64) outcome {
	switch {
	case outcomeOf(c.answer) == outcomeUnavailable:
		return outcomeUnavailable
	case c.paid+c.debt < cost:
		return outcomeLateShort
	case c.debt > 0:
		return outcomeLateDebt
	}
	return outcomeLatePaid
}

func lateSeverity(o outcome) int {
	switch o {
	case outcomeUnavailable:
		return 3
	case outcomeLateShort:
		return 2
	case outcomeLateDebt:
		return 1
	}
	return 0
}

// chargeOne charges one budget: all at once if there is enough; else as debt; else
// what there is, in parts.
func (s *Service) chargeOne(ctx context.Context, b budget) charged {
	a := s.decider.Decide(ctx, decision.Request{Part: b.part()})
	switch outcomeOf(a) {
	case outcomeUnavailable:
		return charged{answer: a}
	case outcomeDenied:
	default:
		return charged{answer: a, paid: b.cost.Tokens}
	}
	c := charged{answer: a}
	if reserver, ok := s.decider.(decision.Reserver); ok {
		c = s.chargeReserved(ctx, reserver, b, a)
		if c.paid == 0 {
			return c // not even one token is there
		}
	}
	return s.chargeParts(ctx, b, c)
}

// chargeReserved reserves what is shown to be there, or one token, and settles that
// with the whole cost. Where the policy is strict, it charges what was reserved,
// and keeps the denial for the rest.
func (s *Service) chargeReserved(ctx context.Context, reserver decision.Reserver, b budget, denial decision.Answer) charged {
	cost := b.cost.Tokens
	// Another request may take what remains meanwhile: then one token will do.
	for _, bound := range slices.Compact([]int64{max(1, min(denial.Remaining, cost)), 1}) {
		r, a := reserver.Reserve(ctx, decision.Request{Part: decision.Part{Key: b.key, Cost: decision.Tokens(bound)}})
		switch {
		case !a.Allowed || r == nil:
			continue
		case settle(ctx, r, cost).Settled:
			return charged{answer: a, paid: bound, debt: cost - bound}
		case !settle(ctx, r, bound).Settled:
			s.metrics.unsettled.Inc() // it counts as spent after its time, which is what it is
		}
		return charged{answer: denial, paid: bound}
	}
	return charged{answer: denial}
}

// maxParts bounds the decisions on the parts of a late cost: enough to charge all
// that is there of a cost up to 2^32, and all but a trifle of one above.
const maxParts = 64

// chargeParts charges what is left of a cost in parts, since the region does not
// know how much of it there is elsewhere. A part that was denied is halved, rounded
// up: what is there is less than it, so that nothing is once one token was denied.
// It ends early, with what is charged until then, when nobody can tell any more.
func (s *Service) chargeParts(ctx context.Context, b budget, c charged) charged {
	rest := b.cost.Tokens - c.paid - c.debt
	part := rest - rest/2
	for range maxParts {
		if part = min(part, rest); part == 0 {
			break
		}
		a := s.decider.Decide(ctx, decision.Request{Part: decision.Part{Key: b.key, Cost: decision.Tokens(part)}})
		switch outcomeOf(a) {
		case outcomeUnavailable:
			return c
		case outcomeDenied:
			if c.answer = a; part == 1 || a.Reason == pb.Reason_REASON_DISABLED || a.Reason == pb.Reason_REASON_NO_POLICY {
				return c
			}
			part -= part / 2
		default:
			c.paid, rest = c.paid+part, rest-part
			if rest == 0 {
				c.answer = a
			}
		}
	}
	return c
}
