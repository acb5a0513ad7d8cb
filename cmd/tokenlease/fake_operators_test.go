package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// grantMatches says whether the fake's grant is asked for. They are all as old as
// 1,000 s.
func grantMatches(m *tokenleasev1.ListGrantsRequest, g *tokenleasev1.Grant) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return (m.GetState() == 0 || m.GetState() == g.GetState()) && strings.HasPrefix(g.GetGrantId(), m.GetGrantIdPrefix()) &&
		is(m.GetRegion(), g.GetHolder().GetRegion()) && is(m.GetInstance(), g.GetHolder().GetInstance()) &&
		is(m.GetAccount(), g.GetBudget().GetAccount()) && is(m.GetOperation(), g.GetBudget().GetOperation()) && m.GetMinAgeMs() <= 1_000_000
}

// shownBudget is the budget with all that is told of one alone, under the policy
// that was applied last, if any was.
func (f *fake) shownBudget() *tokenleasev1.Budget {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.budget()
	if len(f.policies) > 0 {
		b.Policy = f.policies[0]
	}
	b.Policy.Plan = "premium"
	b.DebtTokens, b.HasFullIn, b.FullInNs = 3, true, 900_000_000
	b.Regions = []*tokenleasev1.RegionCredit{{Region: "eu", Grants: 2, LiveTokens: 8, OrphanedTokens: 10}}
	return b
}

// RetireHolder knows eu/limiter-0, of epoch 3, which was heard long ago, and
// eu/busy, which was heard a moment ago.
func (f *fake) RetireHolder(_ context.Context, req *connect.Request[tokenleasev1.RetireHolderRequest]) (*connect.Response[tokenleasev1.RetireHolderResponse], error) {
	m := req.Msg
	status := f.status()
	answer := &tokenleasev1.RetireHolderResponse{
		ClusterId: "c0ffee", Status: status, Grants: f.grants()[:2], GrantsCount: 2, CountedAsSpentTokens: 18, HeardMsAgo: 600_000, DryRun: m.GetDryRun(),
	}
	switch m.GetHolder().GetInstance() {
	case "limiter-0":
	case "busy":
		status.Holder.Instance, answer.FreedSlots = "busy", 1
		answer.HeardMsAgo, answer.NeedsForce = 1_500, true
	default:
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("holder %s/%s has never registered", m.GetHolder().GetRegion(), m.GetHolder().GetInstance()))
	}
	if !m.GetDryRun() && m.GetEpoch() != status.GetEpoch() {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("epoch: another is current"))
	}
	if !m.GetDryRun() {
		status.Retired = true
		f.mu.Lock()
		defer f.mu.Unlock()
		f.audit = append(f.audit, &tokenleasev1.AuditEntry{
			Id: strconv.Itoa(len(f.audit)), UnixMs: 1_790_000_002_000, Action: "holders.retire", By: m.GetAttestedBy(), Because: m.GetBecause(),
			Subject: m.GetHolder().GetRegion() + "/" + m.GetHolder().GetInstance(), BeforeJson: `{"epoch": 3,` + "\n" + `"tokens": 18}`, Forced: m.GetForce(),
		})
	}
	return connect.NewResponse(answer), nil
}

// ExplainGrant knows the first grant, and one that has ended.
func (f *fake) ExplainGrant(_ context.Context, req *connect.Request[tokenleasev1.ExplainGrantRequest]) (*connect.Response[tokenleasev1.ExplainGrantResponse], error) {
	g := f.grants()[0]
	answer := &tokenleasev1.ExplainGrantResponse{Grant: g, KeptSinceUnixMs: 1_789_999_999_000, Events: []*tokenleasev1.GrantEvent{
		{UnixMs: 1_790_000_000_123, What: "opened", IssuedTokens: 15, Count: 1},
		{UnixMs: 1_790_000_001_000, What: "reported", IssuedTokens: 15, SpentTokens: 5, Count: 7},
		{UnixMs: 1_790_000_002_000, What: "orphaned", IssuedTokens: 15, SpentTokens: 5, Count: 1, Detail: "epoch 3 has replaced epoch 2"},
	}, Advice: []string{"The holder's journal would free it: start it again with that."}}
	switch req.Msg.GetGrantId() {
	case g.GetGrantId():
	case "g1-002-0000002a":
		answer.Ended, g.GrantId = true, "g1-002-0000002a"
	default:
		return nil, connect.NewError(connect.CodeNotFound, errors.New("nothing is known of this grant any more, or it never was"))
	}
	return connect.NewResponse(answer), nil
}

// TopBudgets ranks two.
func (f *fake) TopBudgets(_ context.Context, req *connect.Request[tokenleasev1.TopBudgetsRequest]) (*connect.Response[tokenleasev1.TopBudgetsResponse], error) {
	busy := &tokenleasev1.BudgetActivity{Key: &tokenleasev1.BudgetKey{Account: "acme", Operation: "report.create"},
		CapacityTokens: 40, AvailableTokens: 22, ReservedTokens: 18, SpentTokensPerSecond: 12.5}
	starved := &tokenleasev1.BudgetActivity{Key: &tokenleasev1.BudgetKey{Account: "zeta", Operation: "login"}, Reclaim: tokenleasev1.Reclaim_RECLAIM_DEADLINE,
		CapacityTokens: 3, ReservedTokens: 3, WantedTokens: 9, WaitingHolders: 2}
	answer := &tokenleasev1.TopBudgetsResponse{Budgets: []*tokenleasev1.BudgetActivity{busy, starved}, ShardsMissing: []uint32{9}}
	if req.Msg.GetOrder() == tokenleasev1.BudgetOrder_BUDGET_ORDER_STARVED {
		answer.Budgets = []*tokenleasev1.BudgetActivity{starved}
	}
	return connect.NewResponse(answer), nil
}

// ListShards has three shards, the last without an owner.
func (f *fake) ListShards(context.Context, *connect.Request[tokenleasev1.ListShardsRequest]) (*connect.Response[tokenleasev1.ListShardsResponse], error) {
	committed := int64(1_790_000_599_000)
	if f.silent.Load() {
		committed -= 600_000
	}
	return connect.NewResponse(&tokenleasev1.ListShardsResponse{Revision: 77, Unusable: f.faults, UnusableCount: int64(len(f.faults)), Shards: []*tokenleasev1.ShardStatus{
		{Shard: 7, BrokerId: "a", BrokerUrl: "http://a", OwnedSinceUnixMs: 1_790_000_000_000, Head: 70, LedgerNs: 61_500_000_000, CommittedUnixMs: committed, PolicyVersion: 3},
		{Shard: 8, BrokerId: "b", BrokerUrl: "http://b", Head: 71, LedgerNs: 1_000_000, CommittedUnixMs: committed, PolicyVersion: 2, MovedTo: "b"},
		{Shard: 9},
	}}), nil
}

// MoveShard moves to broker b at once, to a later, and to nobody else.
func (f *fake) MoveShard(_ context.Context, req *connect.Request[tokenleasev1.MoveShardRequest]) (*connect.Response[tokenleasev1.MoveShardResponse], error) {
	s := &tokenleasev1.ShardStatus{Shard: req.Msg.GetShard(), BrokerId: "b", MovedTo: req.Msg.GetToBrokerId()}
	switch req.Msg.GetToBrokerId() {
	case "", "a", "b":
		return connect.NewResponse(&tokenleasev1.MoveShardResponse{Shard: s, Moved: req.Msg.GetToBrokerId() == "b"}), nil
	}
	return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("broker: no live broker has this to_broker_id"))
}

// ListAudit has one entry on each page: the two that are always there, and what was
// done meanwhile.
func (f *fake) ListAudit(_ context.Context, req *connect.Request[tokenleasev1.ListAuditRequest]) (*connect.Response[tokenleasev1.ListAuditResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := append([]*tokenleasev1.AuditEntry{
		{Id: "1", UnixMs: 1_790_000_000_000, Action: "policies.apply", By: "ann", Because: "the new plan", Subject: "version 3", AfterJson: `{"version":3}`, Verified: true},
		{Id: "2", UnixMs: 1_790_000_001_000, Action: "grants.resolve", By: "bob", Because: "scrapped", Subject: "g-eu-limiter-0-1-1", BeforeJson: "no JSON", Forced: true},
	}, f.audit...)
	var chosen []*tokenleasev1.AuditEntry
	for _, e := range all {
		if m := req.Msg; (m.GetAction() == "" || m.GetAction() == e.GetAction()) && (m.GetBy() == "" || m.GetBy() == e.GetBy()) &&
			e.GetUnixMs() >= m.GetSinceUnixMs() && (m.GetUntilUnixMs() == 0 || e.GetUnixMs() < m.GetUntilUnixMs()) {
			chosen = append(chosen, e)
		}
	}
	if !req.Msg.GetOldestFirst() {
		for i, j := 0, len(chosen)-1; i < j; i, j = i+1, j-1 {
			chosen[i], chosen[j] = chosen[j], chosen[i]
		}
	}
	at, _ := strconv.Atoi(req.Msg.GetPageToken())
	answer := &tokenleasev1.ListAuditResponse{Revision: 78}
	if at < len(chosen) {
		answer.Entries = chosen[at : at+1]
	}
	if at+1 < len(chosen) {
		answer.NextPageToken = strconv.Itoa(at + 1)
	}
	return connect.NewResponse(answer), nil
}

// ShowCluster knows two brokers, whose clocks are of the year of everything else.
func (f *fake) ShowCluster(context.Context, *connect.Request[tokenleasev1.ShowClusterRequest]) (*connect.Response[tokenleasev1.ShowClusterResponse], error) {
	return connect.NewResponse(&tokenleasev1.ShowClusterResponse{
		ClusterId: "c0ffee", Generation: 1, Shards: 10, BrokerId: "a", UnixMs: 1_790_000_600_000, ProgramVersion: "v1.2.3", PolicyVersion: 3, Revision: 79,
		Brokers: []*tokenleasev1.BrokerStatus{
			{BrokerId: "a", Url: "http://a", Shards: 1, Reached: true, UnixMs: 1_790_000_600_000, ProgramVersion: "v1.2.3"},
			{BrokerId: "b", Url: "http://b", Shards: 1, Reached: true, UnixMs: 1_790_000_600_000, ProgramVersion: "v1.2.2"},
		},
		Store: &tokenleasev1.StoreStatus{Known: true, Members: []*tokenleasev1.StoreMember{
			{Name: "etcd-0", Reached: true, Leader: true, SizeBytes: 90 << 20, QuotaBytes: 100 << 20},
		}},
	}), nil
}

// WhoAmI knows nobody by name.
func (f *fake) WhoAmI(context.Context, *connect.Request[tokenleasev1.WhoAmIRequest]) (*connect.Response[tokenleasev1.WhoAmIResponse], error) {
	return connect.NewResponse(&tokenleasev1.WhoAmIResponse{Roles: []string{"viewer", "operator"}}), nil
}
