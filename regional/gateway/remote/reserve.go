package remote

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// Reserve implements [decision.Reserver]. An answer that was lost may leave a
// reservation behind that nobody settles: it counts as spent, or holds its slots,
// until its time is over.
func (c *Client) Reserve(ctx context.Context, req decision.Request) (decision.Reservation, decision.Answer) {
	if len(req.Also) > 0 {
		return nil, decision.Invalid("a reservation is of one budget: ask for the others apart")
	}
	if a, known := c.hints.answer(req, c.cfg.Now()); known {
		return nil, a
	}
	var resp *pb.ReserveResponse
	made, failed := c.ask(ctx, req, func(ctx context.Context, to *limiter, msg *pb.CheckRequest) error {
		got, err := to.rpc.Reserve(ctx, connect.NewRequest(&pb.ReserveRequest{Check: msg}))
		if err == nil {
			resp = got.Msg
		}
		return err
	})
	if failed != nil {
		return nil, *failed
	}
	a := c.read(req, resp.GetResponse(), made)
	if !a.Allowed {
		return nil, a
	}
	if resp.GetReservationId() == "" && !a.Shadow && a.Reason != pb.Reason_REASON_FALLBACK {
		return nil, decision.Unavailable("the limiter allowed the reservation and named none")
	}
	return &reservation{
		client: c, at: made.to, key: req.Key, id: resp.GetReservationId(), expires: time.Duration(max(0, resp.GetExpiresInNs())),
	}, a
}

// reservation is one that a limiter holds.
type reservation struct {
	client  *Client
	at      *limiter // that holds it
	key     lease.Key
	id      string // empty: the policy admitted without authority, and nothing is held
	expires time.Duration

	mu      sync.Mutex
	settled *decision.Settlement
}

// ID implements [decision.Reservation].
func (r *reservation) ID() string { return r.id }

// Expires implements [decision.Reservation].
func (r *reservation) Expires() time.Duration { return r.expires }

// Settle implements [decision.Reservation]. What fails may be tried again.
func (r *reservation) Settle(ctx context.Context, cost int64) decision.Settlement {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled != nil {
		return *r.settled
	}
	s := decision.Settlement{Settled: true}
	if r.id != "" {
		s = r.client.settle(ctx, []*limiter{r.at}, r.key, r.id, cost)
	}
	if s.Settled {
		r.settled = &s
	}
	return s
}

// Settle ends a reservation by its ID, such as one that another process made. With
// several limiters it asks the one that the key belongs to, which is the one that
// made it unless that was failing.
func (c *Client) Settle(ctx context.Context, key lease.Key, id string, cost int64) decision.Settlement {
	return c.settle(ctx, []*limiter{c.limiters[lease.ShardOf(key, uint32(len(c.limiters)))]}, key, id, cost)
}

func (c *Client) settle(ctx context.Context, at []*limiter, key lease.Key, id string, cost int64) decision.Settlement {
	msg := &pb.SettleRequest{
		Key: &pb.BudgetKey{Account: key.Account, Operation: key.Operation}, ReservationId: id, CostTokens: cost,
	}
	if err := msg.Validate(); err != nil {
		return decision.Settlement{Detail: err.Error()}
	}
	var resp *pb.SettleResponse
	err := c.attempts(ctx, at, 0, func(ctx context.Context, to *limiter) error {
		got, err := to.rpc.Settle(ctx, connect.NewRequest(msg))
		if err == nil {
			resp = got.Msg
		}
		return err
	})
	if err != nil {
		return decision.Settlement{Detail: failure(err).Detail}
	}
	if resp.GetSettled() {
		c.hints.forget(key) // credit may be back
	}
	return decision.Settlement{
		Settled: resp.GetSettled(), Returned: resp.GetReturnedTokens(), Debt: resp.GetDebtTokens(), Detail: resp.GetDetail(),
	}
}
