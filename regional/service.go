package regional

import (
	"context"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// Mount adds the Limiter service to mux.
func (l *Limiter) Mount(mux *http.ServeMux, opts ...connect.HandlerOption) {
	mux.Handle(tokenleasev1connect.NewLimiterHandler(limiterService{l: l}, opts...))
}

// limiterService serves the Limiter RPCs. Requests have been validated. A denial
// is an answer, not an error.
type limiterService struct {
	tokenleasev1connect.UnimplementedLimiterHandler

	l *Limiter
}

// Check implements tokenleasev1connect.LimiterHandler.
func (s limiterService) Check(ctx context.Context, req *connect.Request[pb.CheckRequest]) (*connect.Response[pb.CheckResponse], error) {
	return connect.NewResponse(s.check(ctx, req.Msg)), nil
}

// CheckBatch implements tokenleasev1connect.LimiterHandler. Checks of one budget
// are decided in order; those of different budgets that have to wait do so side
// by side.
func (s limiterService) CheckBatch(ctx context.Context, req *connect.Request[pb.CheckBatchRequest]) (*connect.Response[pb.CheckBatchResponse], error) {
	checks := req.Msg.GetChecks()
	resp := &pb.CheckBatchResponse{Results: make([]*pb.CheckResult, len(checks))}
	type key struct{ account, operation string }
	byKey := map[key][]int{}
	var order []key
	for i, c := range checks {
		k := key{c.GetKey().GetAccount(), c.GetKey().GetOperation()}
		if byKey[k] == nil {
			order = append(order, k)
		}
		byKey[k] = append(byKey[k], i)
	}
	var group sync.WaitGroup
	for _, k := range order {
		group.Go(func() {
			for _, i := range byKey[k] {
				resp.Results[i] = &pb.CheckResult{Response: s.one(ctx, checks[i])}
			}
		})
	}
	group.Wait()
	return connect.NewResponse(resp), nil
}

// one decides a check of a batch; one that is not valid does not spoil the
// others.
func (s limiterService) one(ctx context.Context, req *pb.CheckRequest) *pb.CheckResponse {
	if err := req.Validate(); err != nil {
		return &pb.CheckResponse{Reason: pb.Reason_REASON_INVALID, Detail: err.Error()}
	}
	return s.check(ctx, req)
}

func (s limiterService) check(ctx context.Context, req *pb.CheckRequest) *pb.CheckResponse {
	account, operation := req.GetKey().GetAccount(), req.GetKey().GetOperation()
	var d Decision
	if req.CostTokens != nil {
		d = s.l.CheckN(ctx, account, operation, req.GetCostTokens())
	} else {
		d = s.l.Check(ctx, account, operation)
	}
	resp := &pb.CheckResponse{
		Allowed: d.Allowed, Reason: d.Reason, LimitTokens: d.Limit, RemainingTokens: d.Remaining,
		PolicyVersion: d.PolicyVersion, GrantId: d.GrantID, Detail: d.Detail,
	}
	if d.HasRetry {
		resp.HasRetry, resp.RetryInNs = true, int64(d.RetryIn)
		resp.RetryUnixMs = retryAt(s.l.cfg.Clock.Now(), d.RetryIn)
	}
	return resp
}
