package broker

import (
	"context"
	"slices"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const defaultTop = 20

// TopBudgets implements tokenleasev1connect.AdminHandler. Each broker ranks the
// budgets of its own shards, in memory; the one that was asked merges.
func (s adminService) TopBudgets(ctx context.Context, req *connect.Request[pb.TopBudgetsRequest]) (*connect.Response[pb.TopBudgetsResponse], error) {
	b, m := s.b, req.Msg
	order := shard.Busiest
	if m.GetOrder() == pb.BudgetOrder_BUDGET_ORDER_STARVED {
		order = shard.Starved
	}
	limit := int(m.GetLimit())
	if limit == 0 {
		limit = defaultTop
	}
	var all []shard.Activity
	missing := map[uint32]bool{}
	for id := range b.cluster.Shards {
		missing[id] = true
	}
	for id, top := range askShards(ctx, b, func(s *shard.Shard, m shard.Moment) ([]shard.Activity, bool) {
		return s.Top(m, order, limit), s.Serving()
	}) {
		all = append(all, top...)
		delete(missing, id)
	}
	if !forwarded(req.Header()) {
		brokers, err := b.view(ctx).brokers()
		if err != nil {
			return nil, wireError(err)
		}
		for _, said := range askOthers(ctx, b, brokers, func(ctx context.Context, p peer) (*connect.Response[pb.TopBudgetsResponse], error) {
			return p.admin.TopBudgets(ctx, passOn(b, m))
		}) {
			if said.err != nil {
				continue
			}
			lacks := said.answer.Msg.GetShardsMissing()
			for id := range missing {
				if !slices.Contains(lacks, id) {
					delete(missing, id)
				}
			}
			for _, a := range said.answer.Msg.GetBudgets() {
				all = append(all, activityFrom(a))
			}
		}
	}
	slices.SortFunc(all, order.Compare)
	resp := &pb.TopBudgetsResponse{}
	for _, a := range all[:min(len(all), limit)] {
		resp.Budgets = append(resp.Budgets, activityTo(a))
	}
	for id := range b.cluster.Shards {
		if missing[id] {
			resp.ShardsMissing = append(resp.ShardsMissing, id)
		}
	}
	return connect.NewResponse(resp), nil
}

func activityTo(a shard.Activity) *pb.BudgetActivity {
	return &pb.BudgetActivity{
		Key:            &pb.BudgetKey{Account: a.Key.Account, Operation: a.Key.Operation},
		CapacityTokens: a.Capacity, AvailableTokens: a.Available, ReservedTokens: a.Reserved,
		SpentTokensPerSecond: a.PerSecond, WantedTokens: a.Wanted, WaitingHolders: a.Waiting,
		Reclaim: a.Reclaim,
	}
}

func activityFrom(a *pb.BudgetActivity) shard.Activity {
	return shard.Activity{
		Key:      lease.Key{Account: a.GetKey().GetAccount(), Operation: a.GetKey().GetOperation()},
		Capacity: a.GetCapacityTokens(), Available: a.GetAvailableTokens(), Reserved: a.GetReservedTokens(),
		PerSecond: a.GetSpentTokensPerSecond(), Wanted: a.GetWantedTokens(), Waiting: a.GetWaitingHolders(),
		Reclaim: a.GetReclaim(),
	}
}
