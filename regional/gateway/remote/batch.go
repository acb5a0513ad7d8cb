package remote

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// DecideAll decides on several requests, each on its own, and answers in their
// order. Those that no hint answers go to their limiters in batches of up to 1,000,
// side by side, each with the deadline of its longest request.
func (c *Client) DecideAll(ctx context.Context, reqs []decision.Request) []decision.Answer {
	answers := make([]decision.Answer, len(reqs))
	byLimiter := map[*limiter][]int{}
	now := c.cfg.Now()
	for i, req := range reqs {
		a, known := c.hints.answer(req, now)
		if known {
			answers[i] = a
			continue
		}
		first := c.order(req.Key)[0]
		byLimiter[first] = append(byLimiter[first], i)
	}
	var group sync.WaitGroup
	for _, indices := range byLimiter {
		for len(indices) > 0 {
			batch := indices[:min(len(indices), pb.MaxBatchChecks)]
			indices = indices[len(batch):]
			group.Go(func() { c.decideBatch(ctx, reqs, batch, answers) }) // ends by its deadline
		}
	}
	group.Wait()
	return answers
}

// decideBatch answers the requests of the given indices, which all belong to one
// limiter.
func (c *Client) decideBatch(ctx context.Context, reqs []decision.Request, batch []int, answers []decision.Answer) {
	msg := &pb.CheckBatchRequest{}
	sentOf := make([]int, 0, len(batch)) // what the checks of msg are of
	ownID := make([]bool, 0, len(batch))
	var wait time.Duration
	for _, i := range batch {
		req := reqs[i]
		own := req.ID == "" && !c.cfg.NoRetry
		if own {
			req.ID = c.cfg.NewID()
		}
		check := req.Wire()
		if err := check.Validate(); err != nil {
			answers[i] = decision.Invalid(err.Error())
			continue
		}
		wait = max(wait, req.MaxWait)
		msg.Checks, sentOf, ownID = append(msg.Checks, check), append(sentOf, i), append(ownID, own)
	}
	if len(sentOf) == 0 {
		return
	}
	var resp *pb.CheckBatchResponse
	var made attempt
	err := c.attempts(ctx, c.order(reqs[sentOf[0]].Key), wait, func(ctx context.Context, to *limiter) error {
		made.to, made.sent = to, c.cfg.Now()
		got, err := to.rpc.CheckBatch(ctx, connect.NewRequest(msg))
		made.heard = c.cfg.Now()
		if err == nil {
			resp = got.Msg
		}
		return err
	})
	for n, i := range sentOf {
		switch {
		case err != nil:
			answers[i] = failure(err)
		case len(resp.GetResults()) != len(sentOf):
			answers[i] = decision.Unavailable("the limiter answered another number of checks than it was asked")
		default:
			made.ownID = ownID[n]
			answers[i] = c.read(reqs[i], resp.GetResults()[n].GetResponse(), made)
		}
	}
}
