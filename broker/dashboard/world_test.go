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
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// world is an Admin service over made-up data, with something of everything that
// the page can show. What a broker decides is tested with a broker.
type world struct {
	tokenleasev1connect.UnimplementedAdminHandler

	who      *pb.WhoAmIResponse
	budgets  []*pb.Budget
	holders  []*pb.HolderStatus
	shards   []*pb.ShardStatus
	accounts []*pb.AccountPolicies
	audit    []*pb.AuditEntry
	alarms   []string
	unusable []string // what is told of a holder that is retired
}

// operators may do all that the page offers.
var operators = []string{
	"DisableOperation", "EnableOperation", "ExplainGrant", "ListAccounts", "ListAudit", "ListBudgets", "ListGrants", "ListHolders", "ListPolicies",
	"ListPolicyHistory", "ListShards", "MoveShard", "ResolveGrant", "RetireHolder", "RollbackPolicies", "ShowBudget", "ShowCluster", "ShowGrant", "ShowHolder", "ShowPolicyStatus", "TopBudgets", "WhoAmI",
}

func ago(d time.Duration) int64 { return time.Now().Add(-d).UnixMilli() }

// newWorld has so many budgets, in three regions of which one is gone.
func newWorld(budgets int) *world {
	w := &world{accounts: madeUpAccounts(budgets + 4), who: &pb.WhoAmIResponse{Name: "ann@example.com", Verified: true, Roles: []string{"operator"}, Methods: operators}}
	for i, region := range []string{"ap-south", "eu-west", "us-east"} {
		for n := range 2 {
			h := &pb.HolderStatus{
				Holder: &pb.Holder{Region: region, Instance: "limiter-" + strconv.Itoa(n)}, Epoch: uint64(3 + i), RegisteredUnixMs: ago(26 * time.Hour),
				LastHeardUnixMs: ago(time.Duration(n+1) * 700 * time.Millisecond), LiveGrants: int64(budgets / 3), LiveTokens: int64(budgets * 47), PolicyVersion: 17,
				RoundTripNs: int64(10*i+n) * int64(1234567*time.Nanosecond),
			}
			if i == 0 && n == 1 {
				h.LastHeardUnixMs, h.LiveGrants, h.LiveTokens = ago(11*time.Minute), 0, 0
				h.OrphanedGrants, h.OrphanedTokens, h.PolicyVersion, h.GrantsBehind = 2, 1215, 16, 2
			}
			w.holders = append(w.holders, h)
		}
	}
	for i := range budgets {
		w.budgets = append(w.budgets, madeUpBudget(i))
	}
	for id := range uint32(16) {
		w.shards = append(w.shards, &pb.ShardStatus{
			Shard: id, BrokerId: fmt.Sprintf("broker-%d", id%3), BrokerUrl: fmt.Sprintf("https://10.0.0.%d:7600", id%3+5), Head: int64(918273 + id*131),
			LedgerNs: int64(93 * time.Hour), CommittedUnixMs: ago(time.Duration(id) * 300 * time.Millisecond), PolicyVersion: 17,
			OwnedSinceUnixMs: ago(time.Duration(id+1) * 7 * time.Hour),
		})
	}
	w.shards[5].MovedTo = w.shards[5].GetBrokerId()
	w.audit = []*pb.AuditEntry{
		{Id: "3", UnixMs: ago(4 * time.Minute), Action: "holders.retire", By: "ann@example.com", Verified: true, Because: "rack 12 in ap-south lost power, ticket 4711", Subject: "ap-south/limiter-1", BeforeJson: `{"epoch":3,"retired":false}`, AfterJson: `{"epoch":3,"retired":true,"grants":2,"counted_as_spent":1215}`, Forced: true},
		{Id: "2", UnixMs: ago(3 * time.Hour), Action: "policies.apply", By: "bob", Because: "more reports for premium", Subject: "plan premium", AfterJson: `{"capacity":400}`},
		{Id: "1", UnixMs: ago(49 * time.Hour), Action: "policies.apply", By: "dev", Subject: "policy report.create"},
	}
	return w
}

func bucketRule(capacity, perSecond int64) *pb.Policy {
	return &pb.Policy{
		Version: 17, UpdatedUnixMs: ago(3 * time.Hour), DefaultCostTokens: 5, MaxCostTokens: 20,
		Rule: &pb.Policy_TokenBucket{TokenBucket: &pb.TokenBucket{CapacityTokens: capacity, RefillTokens: perSecond, RefillIntervalNs: int64(time.Second)}},
	}
}

// madeUpBudget is one of several kinds, by its number.
func madeUpBudget(i int) *pb.Budget {
	b := &pb.Budget{Key: &pb.BudgetKey{Account: fmt.Sprintf("account-%04d", i), Operation: "report.create"}, Shard: uint32(i % 16), Projected: true}
	regions := func(ap, eu, us, gone int64) {
		b.Regions = []*pb.RegionCredit{{Region: "ap-south", Grants: 1, LiveTokens: ap, OrphanedTokens: gone}, {Region: "eu-west", Grants: 1, LiveTokens: eu}, {Region: "us-east", Grants: 1, LiveTokens: us}}
		b.ReservedTokens, b.OrphanedTokens = ap+eu+us+gone, gone
	}
	switch i % 6 {
	case 0:
		b.Policy, b.AvailableTokens = withDeadline(bucketRule(40, 20)), 10
		regions(0, 15, 10, 5)
		b.FullInNs, b.HasFullIn = int64(500*time.Millisecond), false
	case 1:
		b.Key.Operation, b.Policy, b.AvailableTokens = "search", bucketRule(1234567, 5000), 734567
		b.Policy.Plan = "premium"
		regions(100000, 200000, 150000, 0)
		b.FullInNs, b.HasFullIn = int64(10*time.Second), true
	case 2:
		b.Key.Operation = "login"
		b.Policy = &pb.Policy{Version: 12, DefaultCostTokens: 1, Rule: &pb.Policy_RollingWindow{RollingWindow: &pb.RollingWindow{LimitTokens: 300, WindowNs: int64(time.Minute)}}}
		b.AvailableTokens, b.RecoveringTokens = 20, 130
		regions(40, 70, 40, 0)
	case 3:
		b.Key.Operation, b.Policy, b.NotStrict, b.DebtTokens = "answer.tokens", bucketRule(1000, 50), true, 180
		b.Policy.Postpaid, b.Policy.Account = true, b.GetKey().GetAccount()
		regions(0, 620, 210, 0)
	case 4:
		b.Key.Operation, b.Policy = "report.create", bucketRule(60, 20)
		regions(30, 40, 30, 0) // above its cap, which was lowered
	case 5:
		b.Key.Operation = "export"
		b.Policy = &pb.Policy{Version: 9, DefaultCostTokens: 1, HoldNs: int64(30 * time.Second), Rule: &pb.Policy_Concurrency{Concurrency: &pb.Concurrency{Slots: 8}}}
		b.AvailableTokens = 5
		regions(1, 1, 1, 0)
	}
	b.Policy.Operation = b.GetKey().GetOperation()
	return b
}

// lapsesAfter is a deadline for what is live under a policy that has one.
func lapsesAfter(b *pb.Budget, state pb.GrantState) int64 {
	if state != pb.GrantState_GRANT_STATE_LIVE || b.GetPolicy().GetReclaim() != pb.Reclaim_RECLAIM_DEADLINE {
		return 0
	}
	return b.GetPolicy().GetMaxStalenessNs() + b.GetPolicy().GetReclaimMarginNs()
}

// madeUpGrants are the grants of a budget.
func madeUpGrants(b *pb.Budget) []*pb.Grant {
	var all []*pb.Grant
	for i, r := range b.GetRegions() {
		for _, part := range []struct {
			tokens   int64
			state    pb.GrantState
			instance string
		}{{r.GetLiveTokens(), pb.GrantState_GRANT_STATE_LIVE, "limiter-0"}, {r.GetOrphanedTokens(), pb.GrantState_GRANT_STATE_ORPHANED, "limiter-1"}} {
			if part.tokens == 0 {
				continue
			}
			all = append(all, &pb.Grant{
				GrantId: fmt.Sprintf("g1-%03x-%08x", b.GetShard(), 1000+10*i+int(part.state)), Budget: b.GetKey(), Holder: &pb.Holder{Region: r.GetRegion(), Instance: part.instance},
				Epoch: uint64(3 + i), IssuedTokens: part.tokens * 9, SpentTokens: part.tokens * 8, OutstandingTokens: part.tokens, State: part.state,
				OpenedUnixMs: ago(time.Duration(i+2) * 17 * time.Minute), PolicyVersion: 17, LapsesAfterNs: lapsesAfter(b, part.state),
			})
		}
	}
	return all
}

// cut is a page of all, from the place that token names.
func cut[T any](all []T, token string, size uint32) (part []T, next string) {
	if size == 0 {
		size = 100
	}
	from, _ := strconv.Atoi(token)
	until := min(from+int(size), len(all))
	if until < len(all) {
		next = strconv.Itoa(until)
	}
	return all[from:until], next
}

func (w *world) WhoAmI(context.Context, *connect.Request[pb.WhoAmIRequest]) (*connect.Response[pb.WhoAmIResponse], error) {
	return answer(w.who)
}

func (w *world) ListBudgets(_ context.Context, req *connect.Request[pb.ListBudgetsRequest]) (*connect.Response[pb.ListBudgetsResponse], error) {
	search := strings.ToLower(req.Msg.GetSearch())
	var found []*pb.Budget
	for _, b := range w.budgets {
		if strings.Contains(strings.ToLower(b.GetKey().GetAccount()), search) || strings.Contains(strings.ToLower(b.GetKey().GetOperation()), search) {
			found = append(found, b)
		}
	}
	part, next := cut(found, req.Msg.GetPageToken(), req.Msg.GetPageSize())
	return answer(&pb.ListBudgetsResponse{Budgets: part, NextPageToken: next})
}

func (w *world) ShowBudget(_ context.Context, req *connect.Request[pb.ShowBudgetRequest]) (*connect.Response[pb.ShowBudgetResponse], error) {
	for _, b := range w.budgets {
		if b.GetKey().GetAccount() == req.Msg.GetKey().GetAccount() && b.GetKey().GetOperation() == req.Msg.GetKey().GetOperation() {
			b.Grants = madeUpGrants(b)
			return answer(&pb.ShowBudgetResponse{Budget: b})
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("no record of that budget"))
}

func (w *world) grants() []*pb.Grant {
	var all []*pb.Grant
	for _, b := range w.budgets {
		all = append(all, madeUpGrants(b)...)
	}
	return all
}

func (w *world) ListGrants(_ context.Context, req *connect.Request[pb.ListGrantsRequest]) (*connect.Response[pb.ListGrantsResponse], error) {
	all := slices.DeleteFunc(w.grants(), func(g *pb.Grant) bool {
		return req.Msg.GetState() != 0 && g.GetState() != req.Msg.GetState() || req.Msg.GetRegion() != "" && g.GetHolder().GetRegion() != req.Msg.GetRegion()
	})
	part, next := cut(all, req.Msg.GetPageToken(), req.Msg.GetPageSize())
	return answer(&pb.ListGrantsResponse{Grants: part, NextPageToken: next})
}

func (w *world) ExplainGrant(_ context.Context, req *connect.Request[pb.ExplainGrantRequest]) (*connect.Response[pb.ExplainGrantResponse], error) {
	for _, g := range w.grants() {
		if g.GetGrantId() == req.Msg.GetGrantId() {
			return answer(&pb.ExplainGrantResponse{
				Grant: g, KeptSinceUnixMs: ago(26 * time.Hour),
				Advice: []string{"The holder may spend what is outstanding until it reports again."},
				Events: []*pb.GrantEvent{
					{UnixMs: ago(34 * time.Minute), What: "opened", Count: 1, IssuedTokens: 15, Detail: "wanted 15, got 15"},
					{UnixMs: ago(2 * time.Second), What: "reported", Count: 2040, IssuedTokens: g.GetIssuedTokens(), SpentTokens: g.GetSpentTokens(), Detail: "by request"},
				},
			})
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("nothing is known of that grant any more"))
}

func (w *world) ListHolders(context.Context, *connect.Request[pb.ListHoldersRequest]) (*connect.Response[pb.ListHoldersResponse], error) {
	return answer(&pb.ListHoldersResponse{Holders: w.holders})
}

func (w *world) ShowHolder(_ context.Context, req *connect.Request[pb.ShowHolderRequest]) (*connect.Response[pb.ShowHolderResponse], error) {
	for _, h := range w.holders {
		if h.GetHolder().GetRegion() == req.Msg.GetHolder().GetRegion() && h.GetHolder().GetInstance() == req.Msg.GetHolder().GetInstance() {
			grants := slices.DeleteFunc(w.grants(), func(g *pb.Grant) bool {
				return g.GetHolder().GetRegion() != h.GetHolder().GetRegion() || g.GetHolder().GetInstance() != h.GetHolder().GetInstance()
			})
			return answer(&pb.ShowHolderResponse{Status: h, Grants: grants})
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("that holder has never registered"))
}

func (w *world) ListPolicies(context.Context, *connect.Request[pb.ListPoliciesRequest]) (*connect.Response[pb.ListPoliciesResponse], error) {
	resp := &pb.ListPoliciesResponse{
		Version: 17, DefaultPlan: "free",
		Disabled: []*pb.DisabledOperation{{Operation: "mail.send", Because: "the relay is on a block list, incident 88", DisabledBy: "ann@example.com", SinceUnixMs: ago(40 * time.Minute), Version: 16}},
	}
	for i := range 6 {
		p := madeUpBudget(i).GetPolicy()
		p.Plan, p.Account = "", ""
		if i != 4 {
			resp.Policies = append(resp.Policies, p)
		}
	}
	resp.Plans = []*pb.Plan{{Name: "free", Version: 3, UpdatedUnixMs: ago(490 * time.Hour), Policies: resp.GetPolicies()[:1]}, {Name: "premium", Version: 17, UpdatedUnixMs: ago(3 * time.Hour), Policies: resp.GetPolicies()[:2]}}
	return answer(resp)
}

func (w *world) ShowPolicyStatus(context.Context, *connect.Request[pb.ShowPolicyStatusRequest]) (*connect.Response[pb.ShowPolicyStatusResponse], error) {
	gone := w.holders[1].GetHolder()
	return answer(&pb.ShowPolicyStatusResponse{
		Version: 17, VersionInForce: 17, HoldersBehind: []*pb.HolderLag{{Holder: gone, PolicyVersion: 16, Grants: 2, OutstandingTokens: 1215, LastHeardUnixMs: ago(11 * time.Minute)}},
		BudgetsAboveCount: 1, BudgetsAbove: []*pb.BudgetAbove{{
			Key: &pb.BudgetKey{Account: "account-0004", Operation: "report.create"}, CapacityTokens: 60, ReservedTokens: 100,
			Holders: []*pb.Holding{{Holder: w.holders[2].GetHolder(), OutstandingTokens: 40}, {Holder: gone, OutstandingTokens: 30, OrphanedTokens: 30}},
		}},
	})
}

func (w *world) ListPolicyHistory(context.Context, *connect.Request[pb.ListPolicyHistoryRequest]) (*connect.Response[pb.ListPolicyHistoryResponse], error) {
	return answer(&pb.ListPolicyHistoryResponse{Version: 17, Versions: []*pb.PolicyVersion{
		{Version: 17, Action: "apply", By: "bob", Because: "more reports for premium", UnixMs: ago(3 * time.Hour), Changes: []*pb.PolicyChange{
			{Subject: "policy report.create", Operation: "report.create", Before: bucketRule(100, 20), After: bucketRule(60, 20), LiveBudgets: 333, RecalledTokens: 40},
			{Subject: "account Acme", BeforeText: "plan free", AfterText: "plan premium"},
		}},
		{Version: 16, Action: "disable", By: "ann@example.com", Because: "the relay is on a block list, incident 88", UnixMs: ago(40 * time.Hour), Changes: []*pb.PolicyChange{{Subject: "operation mail.send", BeforeText: "enabled", AfterText: "disabled"}}},
	}})
}

func (w *world) ListAudit(_ context.Context, req *connect.Request[pb.ListAuditRequest]) (*connect.Response[pb.ListAuditResponse], error) {
	found := slices.DeleteFunc(slices.Clone(w.audit), func(e *pb.AuditEntry) bool {
		return req.Msg.GetAction() != "" && e.GetAction() != req.Msg.GetAction() || req.Msg.GetBy() != "" && e.GetBy() != req.Msg.GetBy() || e.GetUnixMs() < req.Msg.GetSinceUnixMs()
	})
	part, next := cut(found, req.Msg.GetPageToken(), req.Msg.GetPageSize())
	return answer(&pb.ListAuditResponse{Entries: part, NextPageToken: next})
}

func (w *world) ListShards(context.Context, *connect.Request[pb.ListShardsRequest]) (*connect.Response[pb.ListShardsResponse], error) {
	return answer(&pb.ListShardsResponse{Shards: w.shards})
}

func (w *world) TopBudgets(_ context.Context, req *connect.Request[pb.TopBudgetsRequest]) (*connect.Response[pb.TopBudgetsResponse], error) {
	resp := &pb.TopBudgetsResponse{}
	for i, b := range w.budgets[:min(len(w.budgets), int(req.Msg.GetLimit()))] {
		resp.Budgets = append(resp.Budgets, &pb.BudgetActivity{
			Key: b.GetKey(), CapacityTokens: max(40, b.GetReservedTokens()+b.GetAvailableTokens()), AvailableTokens: b.GetAvailableTokens(), ReservedTokens: b.GetReservedTokens(),
			SpentTokensPerSecond: 4321.5 / float64(i+1), WantedTokens: int64(1000 / (i + 1)), WaitingHolders: int64(i % 4), Reclaim: b.GetPolicy().GetReclaim(),
		})
	}
	return answer(resp)
}

func (w *world) ShowCluster(context.Context, *connect.Request[pb.ShowClusterRequest]) (*connect.Response[pb.ShowClusterResponse], error) {
	resp := &pb.ShowClusterResponse{
		ClusterId: "5f2c81a09be34d17", Generation: 1, Shards: uint32(len(w.shards)), BrokerId: "broker-0", UnixMs: time.Now().UnixMilli(), ProgramVersion: "0.5.0", PolicyVersion: 17,
		Store: &pb.StoreStatus{Known: true, Alarms: w.alarms},
	}
	for i := range 3 {
		resp.Brokers = append(resp.Brokers, &pb.BrokerStatus{BrokerId: fmt.Sprintf("broker-%d", i), Url: fmt.Sprintf("https://10.0.0.%d:7600", i+5), Shards: 5, Reached: true, UnixMs: time.Now().UnixMilli() + int64(i*2500), RoundTripNs: int64(i) * 812345, ProgramVersion: "0.5.0"})
		resp.Store.Members = append(resp.Store.Members, &pb.StoreMember{Name: fmt.Sprintf("etcd-%d", i), Reached: true, Version: "3.7.3", SizeBytes: 217 << 20, QuotaBytes: 2 << 30, Leader: i == 1})
	}
	return answer(resp)
}

func (w *world) RetireHolder(_ context.Context, req *connect.Request[pb.RetireHolderRequest]) (*connect.Response[pb.RetireHolderResponse], error) {
	resp := &pb.RetireHolderResponse{ClusterId: "5f2c81a09be34d17", Status: w.holders[1], HeardMsAgo: 14_000, NeedsForce: true, DryRun: true}
	if len(w.unusable) > 0 {
		resp.Unusable, resp.UnusableCount = w.unusable, int64(len(w.unusable)+2)
	}
	for _, g := range w.grants() {
		if g.GetHolder().GetRegion() == req.Msg.GetHolder().GetRegion() && g.GetState() == pb.GrantState_GRANT_STATE_ORPHANED {
			resp.Grants = append(resp.Grants, g)
			resp.CountedAsSpentTokens += g.GetOutstandingTokens()
		}
	}
	resp.GrantsCount = int64(len(resp.GetGrants()))
	return answer(resp)
}
