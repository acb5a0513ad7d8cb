package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// withDeadline is a policy under which credit comes back without proof.
func withDeadline(p *pb.Policy) *pb.Policy {
	p.Reclaim, p.MaxStalenessNs, p.ReclaimMarginNs = pb.Reclaim_RECLAIM_DEADLINE, int64(30*time.Second), int64(15*time.Second)
	return p
}

// madeUpAccounts are so many accounts with something of their own, in order.
func madeUpAccounts(count int) []*pb.AccountPolicies {
	all := []*pb.AccountPolicies{{Account: "Acme", Plan: "premium", Version: 17, UpdatedUnixMs: ago(3 * time.Hour)}}
	for i := range count - 1 {
		a := &pb.AccountPolicies{Account: fmt.Sprintf("account-%04d", i), Version: 9, UpdatedUnixMs: ago(200 * time.Hour)}
		switch i % 3 {
		case 0:
			a.Plan = "premium"
		case 1:
			own := withDeadline(bucketRule(500, 20))
			own.Operation, own.Account = "report.create", a.GetAccount()
			a.Policies = []*pb.Policy{own}
		case 2:
			a.Plan = "free"
		}
		all = append(all, a)
	}
	return all
}

func (w *world) ListAccounts(_ context.Context, req *connect.Request[pb.ListAccountsRequest]) (*connect.Response[pb.ListAccountsResponse], error) {
	found := slices.DeleteFunc(slices.Clone(w.accounts), func(a *pb.AccountPolicies) bool {
		return !strings.HasPrefix(a.GetAccount(), req.Msg.GetAccountPrefix()) || req.Msg.GetAccount() != "" && a.GetAccount() != req.Msg.GetAccount() ||
			req.Msg.GetPlan() != "" && a.GetPlan() != req.Msg.GetPlan()
	})
	part, next := cut(found, req.Msg.GetPageToken(), req.Msg.GetPageSize())
	return answer(&pb.ListAccountsResponse{Accounts: part, NextPageToken: next})
}

func (w *world) RollbackPolicies(_ context.Context, req *connect.Request[pb.RollbackPoliciesRequest]) (*connect.Response[pb.RollbackPoliciesResponse], error) {
	if !req.Msg.GetDryRun() {
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("to roll back takes the role operator"))
	}
	after := withDeadline(bucketRule(100, 20))
	return answer(&pb.RollbackPoliciesResponse{Version: 17, DryRun: true, Changes: []*pb.PolicyChange{
		{Subject: "policy report.create", Operation: "report.create", Before: bucketRule(60, 20), After: after, LiveBudgets: 333},
		{Subject: "plan premium", Operation: "search", Before: bucketRule(1234567, 5000), LiveBudgets: 12, RecalledTokens: 4000},
		{Subject: "account Acme", BeforeText: "plan premium", AfterText: "plan free"},
	}, Warnings: []string{"plan premium, search is removed while its budgets have 4000 tokens out above what rules them then: these are called back, and count until they are in"}})
}

func (w *world) MoveShard(_ context.Context, req *connect.Request[pb.MoveShardRequest]) (*connect.Response[pb.MoveShardResponse], error) {
	is := w.shards[req.Msg.GetShard()]
	if to := req.Msg.GetToBrokerId(); to == "broker-2" {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("no such broker is live: "+strconv.Quote(to)))
	}
	return answer(&pb.MoveShardResponse{Shard: is, Moved: false})
}
