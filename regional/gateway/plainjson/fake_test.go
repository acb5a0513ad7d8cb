package plainjson_test

import (
	"context"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// policy of the fake: capacity, refill per second, and costs, in tokens.
type policy struct {
	version, capacity, refill, cost int64
	zeroCost, disabled              bool
}

// fake is an exact limiter of one process, on a clock that tests set.
type fake struct {
	mu       sync.Mutex
	now      time.Time
	policies map[string]policy
	budgets  map[lease.Key]*bucket
	down     bool
	asked    []decision.Request
}

// bucket holds billionths of a token, which is what a refill of whole tokens a
// second brings in a nanosecond.
type bucket struct {
	nano int64
	at   time.Time
}

func newFake() *fake {
	return &fake{now: time.Unix(1_000_000, 0).UTC(), budgets: map[lease.Key]*bucket{}, policies: map[string]policy{
		"report.create": {version: 3, capacity: 40, refill: 20, cost: 5, zeroCost: true},
		"search":        {version: 1, capacity: 3, refill: 2, cost: 1},
		"quota":         {version: 1, capacity: 1, cost: 1},
		"off":           {version: 1, capacity: 1, cost: 1, disabled: true},
	}}
}

func (f *fake) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fake) requests() []decision.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]decision.Request(nil), f.asked...)
}

func (f *fake) Decide(_ context.Context, req decision.Request) decision.Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, req)
	p, ok := f.policies[req.Key.Operation]
	cost := p.cost
	if req.Cost.Given {
		cost = req.Cost.Tokens
	}
	a := decision.Answer{Limit: p.capacity, PolicyVersion: p.version}
	b := f.budgets[req.Key]
	if b == nil {
		b = &bucket{nano: p.capacity * 1e9, at: f.now}
		f.budgets[req.Key] = b
	}
	b.nano, b.at = min(p.capacity*1e9, b.nano+int64(f.now.Sub(b.at))*p.refill), f.now
	switch {
	case f.down:
		return decision.Unavailable("too little credit is held here and the broker does not answer")
	case !ok:
		return decision.Answer{Reason: pb.Reason_REASON_NO_POLICY}
	case p.disabled:
		a.Reason, a.Detail = pb.Reason_REASON_DISABLED, "closed for maintenance"
	case req.PolicyVersion != 0 && req.PolicyVersion < p.version:
		a.Reason = pb.Reason_REASON_REFRESH
	case cost < 0 || cost == 0 && !p.zeroCost:
		return decision.Invalid("the cost must be 1 or more")
	case cost > p.capacity:
		a.Reason = pb.Reason_REASON_COST_ABOVE_CAPACITY
	case b.nano >= cost*1e9:
		b.nano -= cost * 1e9
		a.Allowed, a.Reason, a.GrantID = true, pb.Reason_REASON_ALLOWED, "g1-001-0000002a"
	default:
		a.Reason = pb.Reason_REASON_EXHAUSTED
		if p.refill > 0 {
			a.HasRetry, a.RetryIn = true, time.Duration((cost*1e9-b.nano+p.refill-1)/p.refill)
			a.RetryAt = f.now.Add(a.RetryIn)
		}
	}
	a.Remaining = b.nano / 1e9
	return a
}
