package remote

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional/decision"
)

var _ decision.Reserver = (*Client)(nil)

// avoidFor is how long a limiter that failed is asked after the others.
const avoidFor = time.Second

// maxErrorText bounds what an answer's detail repeats of a server's error.
const maxErrorText = 200

// Client asks limiters. Make one with [New].
type Client struct {
	cfg      Config
	limiters []*limiter
	hints    *hints
}

// limiter is one server.
type limiter struct {
	rpc    tokenleasev1connect.LimiterClient
	failed atomic.Pointer[time.Time] // when it did last; nil: never
}

// Decide implements [decision.Decider].
func (c *Client) Decide(ctx context.Context, req decision.Request) decision.Answer {
	if a, known := c.hints.answer(req, c.cfg.Now()); known {
		return a
	}
	var resp *pb.CheckResponse
	made, a := c.ask(ctx, req, func(ctx context.Context, to *limiter, msg *pb.CheckRequest) error {
		got, err := to.rpc.Check(ctx, connect.NewRequest(msg))
		if err == nil {
			resp = got.Msg
		}
		return err
	})
	if a != nil {
		return *a
	}
	return c.read(req, resp, made)
}

// attempt tells of a request that was answered.
type attempt struct {
	to    *limiter
	sent  time.Time // when the one that was answered was sent
	heard time.Time
	ownID bool // the client made the decision ID
}

// read takes notice of a limiter's answer.
func (c *Client) read(req decision.Request, resp *pb.CheckResponse, made attempt) decision.Answer {
	a := decision.AnswerFromWire(resp)
	if made.ownID {
		a.Replayed = false // to the caller it is the first answer
	}
	c.hints.learn(req, a, made.sent, made.heard)
	return a
}

// ask makes one or two attempts of one request. It returns an answer if none
// succeeded.
func (c *Client) ask(ctx context.Context, req decision.Request, call func(context.Context, *limiter, *pb.CheckRequest) error) (attempt, *decision.Answer) {
	var made attempt
	if req.ID == "" && !c.cfg.NoRetry {
		req.ID, made.ownID = c.cfg.NewID(), true
	}
	msg := req.Wire()
	if err := msg.Validate(); err != nil {
		a := decision.Invalid(err.Error())
		return made, &a
	}
	err := c.attempts(ctx, c.order(req.Key), req.MaxWait, func(ctx context.Context, to *limiter) error {
		made.to, made.sent = to, c.cfg.Now()
		err := call(ctx, to, msg)
		made.heard = c.cfg.Now()
		return err
	})
	if err != nil {
		a := failure(err)
		return made, &a
	}
	return made, nil
}

// attempts calls the first limiter and, if that fails in a way that another attempt
// may mend, the next one, or the same where there is no other. The first may take
// two thirds of the time.
func (c *Client) attempts(ctx context.Context, order []*limiter, wait time.Duration, call func(context.Context, *limiter) error) error {
	all := c.cfg.Timeout + min(max(0, wait), pb.MaxCheckWaitMillis*time.Millisecond)
	within, cancel := context.WithTimeout(ctx, all)
	defer cancel()
	attempt := func(limit context.Context, to *limiter) error {
		err := call(limit, to)
		to.note(err, ctx.Err() != nil, c.cfg.Now())
		return err
	}
	if c.cfg.NoRetry {
		return attempt(within, order[0])
	}
	first, stop := context.WithTimeout(within, all-c.cfg.Timeout/3)
	err := attempt(first, order[0])
	stop()
	if err == nil || !mendable(err) || within.Err() != nil {
		return err
	}
	return attempt(within, order[min(1, len(order)-1)])
}

// note remembers whether the limiter failed. A caller that gave up shows nothing.
func (l *limiter) note(err error, gaveUp bool, now time.Time) {
	switch {
	case err == nil:
		if l.failed.Load() != nil {
			l.failed.Store(nil)
		}
	case mendable(err) && !gaveUp:
		l.failed.Store(&now)
	}
}

// mendable says that an attempt at another limiter, or a later one, may succeed:
// the request was not refused for what it is.
func mendable(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeFailedPrecondition,
		connect.CodeOutOfRange, connect.CodeAlreadyExists:
		return false
	}
	return true
}

// order lists the limiters for a key: always in the same order, but those that
// failed a moment ago come last.
func (c *Client) order(key lease.Key) []*limiter {
	n := len(c.limiters)
	if n == 1 {
		return c.limiters
	}
	first := int(lease.ShardOf(key, uint32(n)))
	now := c.cfg.Now()
	order, last := make([]*limiter, 0, n), make([]*limiter, 0, n)
	for i := range n {
		l := c.limiters[(first+i)%n]
		if failed := l.failed.Load(); failed != nil && now.Sub(*failed) < avoidFor {
			last = append(last, l)
		} else {
			order = append(order, l)
		}
	}
	return append(order, last...)
}

// failure is the answer where all attempts failed.
func failure(err error) decision.Answer {
	text := err.Error()
	if told, ok := errors.AsType[*connect.Error](err); ok {
		text = told.Message()
	}
	if len(text) > maxErrorText {
		text = text[:maxErrorText]
	}
	if connect.CodeOf(err) == connect.CodeInvalidArgument {
		return decision.Invalid(text)
	}
	return decision.Unavailable(fmt.Sprintf("no limiter answered: %v: %s", connect.CodeOf(err), text))
}
