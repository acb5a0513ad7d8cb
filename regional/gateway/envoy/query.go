package envoy

import (
	"context"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// query answers whether one token would be admitted, and spends nothing.
//
// A decision of cost 0 is enough where the policy allows it and the region holds
// credit. It would also be allowed where nothing is left, which is no answer to
// the question; and it wants nothing, so that the region would never fetch more.
func (s *Service) query(ctx context.Context, key lease.Key) decision.Answer {
	free := decision.Part{Key: key, Cost: decision.Tokens(0)}
	a := s.decider.Decide(ctx, decision.Request{Part: free})
	switch {
	case a.Allowed && (a.Remaining > 0 || a.Reason != pb.Reason_REASON_ALLOWED):
		return a
	case !a.Allowed && a.Reason != pb.Reason_REASON_INVALID:
		return a
	}
	reserver, ok := s.decider.(decision.Reserver)
	if !ok {
		return withoutCredit(a)
	}
	one := decision.Part{Key: key, Cost: decision.Tokens(1)}
	reservation, b := reserver.Reserve(ctx, decision.Request{Part: one})
	if !b.Allowed || reservation == nil {
		return b
	}
	if !settle(ctx, reservation, 0).Settled {
		s.metrics.unsettled.Inc() // it counts as spent after its time: too much, never too little
	}
	return b
}

// withoutCredit is the answer to a query that only a reservation could have
// answered. One that was allowed is denied: the region holds nothing.
func withoutCredit(a decision.Answer) decision.Answer {
	if a.Allowed {
		a.Allowed, a.Reason, a.HasRetry = false, pb.Reason_REASON_EXHAUSTED, false
	}
	return a
}

// settle ends a reservation, even if the caller has gone.
func settle(ctx context.Context, r decision.Reservation, cost int64) decision.Settlement {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return r.Settle(ctx, cost)
}
