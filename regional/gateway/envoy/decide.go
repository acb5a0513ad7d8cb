package envoy

import (
	"context"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// verdict is what became of a request.
type verdict struct {
	outcome outcome
	answer  decision.Answer // the one that settled it
	parts   []part          // of each budget of the plan
}

// part is what is known of one budget of a plan.
type part struct {
	decided bool
	denied  bool
	answer  decision.Answer // numbers of this budget alone
}

// decide answers a plan that is not late: its queries first, and then, if none of
// them is denied, all that is to be spent in one decision.
func (s *Service) decide(ctx context.Context, p plan) verdict {
	v := verdict{outcome: outcomeOK, parts: make([]part, len(p.budgets)), answer: decision.Answer{Allowed: true, Reason: pb.Reason_REASON_ALLOWED}}
	for i, b := range p.budgets {
		if b.query && !v.take(s.query(ctx, b.key), i) {
			return v
		}
	}
	if v.outcome == outcomeDenied {
		return v
	}
	var spend []int // indices of budgets, those of one account alone first
	for _, shared := range []bool{false, true} {
		for i, b := range p.budgets {
			if !b.query && b.shared == shared {
				spend = append(spend, i)
			}
		}
	}
	if len(spend) == 0 {
		return v
	}
	req := decision.Request{Part: p.budgets[spend[0]].part()}
	for _, i := range spend[1:] {
		req.Also = append(req.Also, p.budgets[i].part())
	}
	v.take(s.decider.Decide(ctx, req), spend...)
	return v
}

func (b budget) part() decision.Part { return decision.Part{Key: b.key, Cost: b.cost} }

// take adds an answer about some budgets, and says whether it is one at all.
func (v *verdict) take(a decision.Answer, budgets ...int) bool {
	got := outcomeOf(a)
	if worse(got, v.outcome) {
		v.outcome, v.answer = got, a
	} else if got == v.outcome && v.answer.Limit == 0 {
		v.answer = a
	}
	blamed := false
	for n, i := range budgets {
		own := a
		if len(budgets) > 1 {
			own = partAnswer(a, n, len(budgets))
		}
		denied := got == outcomeDenied && !admits(own.Reason)
		blamed = blamed || denied
		v.parts[i] = part{decided: true, denied: denied, answer: own}
	}
	if got == outcomeDenied && !blamed { // the answer does not say which
		for _, i := range budgets {
			v.parts[i].denied = true
		}
	}
	return got != outcomeUnavailable
}

// partAnswer is the answer about one of several budgets. Without parts that fit,
// it has a reason and no numbers.
func partAnswer(a decision.Answer, n, all int) decision.Answer {
	if len(a.Parts) != all {
		return decision.Answer{Reason: a.Reason}
	}
	p := a.Parts[n]
	own := decision.Answer{
		Reason: p.Reason, Limit: p.Limit, Remaining: p.Remaining, HasRetry: p.HasRetry, RetryIn: p.RetryIn, PolicyVersion: p.PolicyVersion,
	}
	if n == 0 && p.Limit == a.Limit {
		own.Window = a.Window
	}
	return own
}

// admits says that a reason is none to deny for.
func admits(r pb.Reason) bool {
	return r == pb.Reason_REASON_ALLOWED || r == pb.Reason_REASON_FALLBACK
}

// outcomeOf is what an answer means for Envoy. What is not known, or contradicts
// itself, is no answer.
func outcomeOf(a decision.Answer) outcome {
	switch {
	case httpanswer.Admitted(a) && a.Reason == pb.Reason_REASON_ALLOWED:
		return outcomeOK
	case httpanswer.Admitted(a) && a.Reason == pb.Reason_REASON_FALLBACK:
		return outcomeFallback
	case httpanswer.Admitted(a):
		return outcomeShadow
	case a.Allowed:
		return outcomeUnavailable
	}
	switch a.Reason {
	case pb.Reason_REASON_EXHAUSTED, pb.Reason_REASON_COST_ABOVE_CAPACITY, pb.Reason_REASON_DISABLED,
		pb.Reason_REASON_NO_POLICY, pb.Reason_REASON_INVALID:
		return outcomeDenied
	}
	return outcomeUnavailable
}

// worse orders outcomes: what is not known goes before what is denied, and that
// before what was admitted for a special reason.
func worse(a, b outcome) bool { return severity(a) > severity(b) }

func severity(o outcome) int {
	switch o {
	case outcomeOK:
		return 0
	case outcomeFallback, outcomeShadow:
		return 1
	case outcomeUnavailable:
		return 3
	}
	return 2
}
