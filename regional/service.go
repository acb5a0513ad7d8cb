package regional

import (
	"context"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// Mount adds the Limiter service to mux.
func (l *Limiter) Mount(mux *http.ServeMux, opts ...connect.HandlerOption) {
	mux.Handle(tokenleasev1connect.NewLimiterHandler(limiterService{l: l}, opts...))
}

// limiterService serves the Limiter RPCs. Unary requests have been validated. A
// denial is an answer, not an error.
type limiterService struct{ l *Limiter }

// Check implements tokenleasev1connect.LimiterHandler.
func (s limiterService) Check(ctx context.Context, req *connect.Request[pb.CheckRequest]) (*connect.Response[pb.CheckResponse], error) {
	return connect.NewResponse(s.check(ctx, req.Msg)), nil
}

// CheckBatch implements tokenleasev1connect.LimiterHandler.
func (s limiterService) CheckBatch(ctx context.Context, req *connect.Request[pb.CheckBatchRequest]) (*connect.Response[pb.CheckBatchResponse], error) {
	return connect.NewResponse(&pb.CheckBatchResponse{Results: s.batch(ctx, req.Msg.GetChecks())}), nil
}

// Reserve implements tokenleasev1connect.LimiterHandler.
func (s limiterService) Reserve(ctx context.Context, req *connect.Request[pb.ReserveRequest]) (*connect.Response[pb.ReserveResponse], error) {
	check := req.Msg.GetCheck()
	if err := check.Validate(); err != nil {
		return connect.NewResponse(&pb.ReserveResponse{Response: s.l.counted(wireKey(check.GetKey()), decision.Invalid(err.Error())).Wire()}), nil
	}
	want := decision.FromWire(check)
	r, d := s.l.reserve(ctx, &want)
	resp := &pb.ReserveResponse{Response: d.Wire()}
	if r != nil {
		resp.ReservationId, resp.ReservedTokens = r.id, r.tokens
		resp.ExpiresInNs = int64(r.Expires())
	}
	return connect.NewResponse(resp), nil
}

// Settle implements tokenleasev1connect.LimiterHandler.
func (s limiterService) Settle(ctx context.Context, req *connect.Request[pb.SettleRequest]) (*connect.Response[pb.SettleResponse], error) {
	key := wireKey(req.Msg.GetKey())
	got := s.l.settle(ctx, key, req.Msg.GetReservationId(), req.Msg.GetCostTokens())
	return connect.NewResponse(&pb.SettleResponse{
		Settled: got.Settled, ReturnedTokens: got.Returned, DebtTokens: got.Debt, Detail: got.Detail,
	}), nil
}

func wireKey(k *pb.BudgetKey) lease.Key {
	return lease.Key{Account: k.GetAccount(), Operation: k.GetOperation()}
}

// batch decides checks. Those of one budget are decided in order; those of
// different budgets that have to wait do so side by side.
func (s limiterService) batch(ctx context.Context, checks []*pb.CheckRequest) []*pb.CheckResult {
	results := make([]*pb.CheckResult, len(checks))
	byKey := map[lease.Key][]int{}
	var order []lease.Key
	for i, c := range checks {
		k := wireKey(c.GetKey())
		if byKey[k] == nil {
			order = append(order, k)
		}
		byKey[k] = append(byKey[k], i)
	}
	var group sync.WaitGroup
	for _, k := range order {
		group.Go(func() {
			for _, i := range byKey[k] {
				results[i] = &pb.CheckResult{Response: s.one(ctx, checks[i])}
			}
		})
	}
	group.Wait()
	return results
}

// one decides a check of a batch; one that is not valid does not spoil the
// others.
func (s limiterService) one(ctx context.Context, req *pb.CheckRequest) *pb.CheckResponse {
	if err := req.Validate(); err != nil {
		return s.l.counted(wireKey(req.GetKey()), decision.Invalid(err.Error())).Wire()
	}
	return s.check(ctx, req)
}

func (s limiterService) check(ctx context.Context, req *pb.CheckRequest) *pb.CheckResponse {
	return s.l.Decide(ctx, decision.FromWire(req)).Wire()
}
