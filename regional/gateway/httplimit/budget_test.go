package httplimit_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// budgets is a limiter in a map: each account has capacity tokens of each
// operation, which do not refill. It remembers the requests.
type budgets struct {
	capacity int64
	cost     int64         // of a request that names none
	wait     time.Duration // told with denials; 0: none
	change   func(*decision.Answer)

	mu       sync.Mutex
	spent    map[lease.Key]int64
	requests []decision.Request
}

func newBudgets(capacity, cost int64) *budgets {
	return &budgets{capacity: capacity, cost: cost, spent: map[lease.Key]int64{}}
}

func (b *budgets) Decide(_ context.Context, req decision.Request) decision.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, req)
	a, _ := b.take(req)
	if b.change != nil {
		b.change(&a)
	}
	return a
}

func (b *budgets) take(req decision.Request) (decision.Answer, int64) {
	cost := b.cost
	if req.Cost.Given {
		cost = req.Cost.Tokens
	}
	left := b.capacity - b.spent[req.Key]
	a := decision.Answer{Limit: b.capacity, Remaining: left, Window: 2 * time.Second, PolicyVersion: 1}
	switch {
	case cost > b.capacity:
		a.Reason = pb.Reason_REASON_COST_ABOVE_CAPACITY
	case cost > left:
		a.Reason, a.HasRetry, a.RetryIn = pb.Reason_REASON_EXHAUSTED, b.wait > 0, b.wait
	default:
		b.spent[req.Key] += cost
		a.Allowed, a.Reason, a.Remaining, a.GrantID = true, pb.Reason_REASON_ALLOWED, left-cost, "g1-0-1"
	}
	return a, cost
}

func (b *budgets) Reserve(_ context.Context, req decision.Request) (decision.Reservation, decision.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, req)
	a, cost := b.take(req)
	if !a.Allowed {
		return nil, a
	}
	return &reservation{b: b, key: req.Key, bound: cost}, a
}

// left is what remains of an account's budget.
func (b *budgets) left(account string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.capacity - b.spent[lease.Key{Account: account, Operation: "report.create"}]
}

type reservation struct {
	b       *budgets
	key     lease.Key
	bound   int64
	settled *decision.Settlement
}

func (*reservation) ID() string             { return "r1" }
func (*reservation) Expires() time.Duration { return time.Minute }

func (r *reservation) Settle(ctx context.Context, cost int64) decision.Settlement {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	switch {
	case r.settled != nil:
		return *r.settled
	case ctx.Err() != nil:
		return decision.Settlement{Detail: "the caller is gone"}
	case cost < 0 || cost > r.bound:
		return decision.Settlement{Detail: fmt.Sprintf("%d is not 0 to %d, which were reserved", cost, r.bound)}
	}
	r.b.spent[r.key] -= r.bound - cost
	r.settled = &decision.Settlement{Settled: true, Returned: r.bound - cost}
	return *r.settled
}
