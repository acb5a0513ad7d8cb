package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/proto/edge"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// fake is a broker and a limiter with fixed answers, behind the real edge.
type fake struct {
	tokenleasev1connect.UnimplementedAdminHandler

	mu       sync.Mutex
	left     int64 // of the budget of 40 that acme has
	restores []*tokenleasev1.Restore
	policies []*tokenleasev1.Policy
	audit    []*tokenleasev1.AuditEntry
	silent   atomic.Bool // owners have committed nothing for ten minutes
	faults   []string    // records that cannot be read
}

// serveFake starts one. The account decides what a check is answered.
func serveFake(prepare ...func(*fake)) *httptest.Server {
	f := &fake{left: 40}
	for _, change := range prepare {
		change(f)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "tokenlease_broker_shards 1") })
	mux.Handle(tokenleasev1connect.NewAdminHandler(f, edge.Options()))
	mux.Handle(tokenleasev1connect.NewLimiterHandler(fakeLimiter{fake: f}, edge.Options()))
	return httptest.NewServer(mux)
}

// fakeLimiter is its limiter's side.
type fakeLimiter struct {
	tokenleasev1connect.UnimplementedLimiterHandler

	fake *fake
}

func (l fakeLimiter) Check(ctx context.Context, req *connect.Request[tokenleasev1.CheckRequest]) (*connect.Response[tokenleasev1.CheckResponse], error) {
	answer := &tokenleasev1.CheckResponse{LimitTokens: 40, PolicyVersion: 1}
	switch req.Msg.GetKey().GetAccount() {
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	case "forbidden":
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("not for you"))
	case "overloaded":
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("too many waiters"))
	case "cut-off":
		answer.Reason, answer.Detail = tokenleasev1.Reason_REASON_UNAVAILABLE, "no broker has been reached for 3s"
		return connect.NewResponse(answer), nil
	case "picky":
		answer.Reason, answer.Detail = tokenleasev1.Reason_REASON_INVALID, "the cost must be 1 or more"
		return connect.NewResponse(answer), nil
	}
	if special(req.Msg, answer) {
		return connect.NewResponse(answer), nil
	}
	cost := int64(5)
	if req.Msg.CostTokens != nil {
		cost = req.Msg.GetCostTokens()
	}
	l.fake.decide(answer, cost)
	return connect.NewResponse(answer), nil
}

// special answers for the accounts that have an answer of their own.
func special(req *tokenleasev1.CheckRequest, answer *tokenleasev1.CheckResponse) bool {
	switch req.GetKey().GetAccount() {
	case "busy":
		answer.Reason, answer.Detail = tokenleasev1.Reason_REASON_OVERLOADED, "this limiter sheds load"
	case "stale":
		answer.Reason, answer.PolicyVersion = tokenleasev1.Reason_REASON_REFRESH, 4
	case "closed":
		answer.Reason, answer.Detail = tokenleasev1.Reason_REASON_DISABLED, "disabled: abuse"
	case "huge":
		answer.Reason = tokenleasev1.Reason_REASON_COST_ABOVE_CAPACITY
	case "unruled":
		answer.Reason = tokenleasev1.Reason_REASON_NO_POLICY
	case "silent":
		answer.Allowed = true // and no reason
	case "outage":
		answer.Allowed, answer.Reason, answer.NotStrict = true, tokenleasev1.Reason_REASON_FALLBACK, true
	case "shadowed":
		answer.Allowed, answer.Reason, answer.Shadow, answer.NotStrict = true, tokenleasev1.Reason_REASON_EXHAUSTED, true, true
	case "indebted":
		answer.Reason, answer.Replayed, answer.NotStrict, answer.DebtTokens = tokenleasev1.Reason_REASON_EXHAUSTED, true, true, 7
	case "echo":
		answer.Allowed, answer.Reason = true, tokenleasev1.Reason_REASON_ALLOWED
		answer.Detail = fmt.Sprintf("id=%s version=%d wait=%d priority=%d", req.GetDecisionId(), req.GetPolicyVersion(), req.GetMaxWaitMs(), req.GetPriority())
	case "several":
		answer.Reason, answer.HasRetry, answer.RetryInNs = tokenleasev1.Reason_REASON_EXHAUSTED, true, 3_000_000_000
		answer.Parts = []*tokenleasev1.CheckPartResponse{{
			Key: req.GetKey(), Reason: tokenleasev1.Reason_REASON_ALLOWED, LimitTokens: 40, RemainingTokens: 35, PolicyVersion: 1,
		}}
		for _, part := range req.GetAlso() {
			answer.Parts = append(answer.Parts, &tokenleasev1.CheckPartResponse{
				Key: part.GetKey(), Reason: tokenleasev1.Reason_REASON_EXHAUSTED, LimitTokens: part.GetCostTokens(), HasRetry: true, RetryInNs: 3_000_000_000,
			})
		}
	default:
		return false
	}
	return true
}

// Reserve denies more than 100.
func (l fakeLimiter) Reserve(_ context.Context, req *connect.Request[tokenleasev1.ReserveRequest]) (*connect.Response[tokenleasev1.ReserveResponse], error) {
	check := req.Msg.GetCheck()
	answer := &tokenleasev1.CheckResponse{LimitTokens: 100, RemainingTokens: 100, PolicyVersion: 1}
	if special(check, answer) {
		return connect.NewResponse(&tokenleasev1.ReserveResponse{Response: answer}), nil
	}
	if check.GetCostTokens() > 100 {
		answer.Reason, answer.HasRetry, answer.RetryInNs = tokenleasev1.Reason_REASON_EXHAUSTED, true, 2_000_000_000
		answer.Detail = "100 of 900 are there"
		return connect.NewResponse(&tokenleasev1.ReserveResponse{Response: answer}), nil
	}
	answer.Allowed, answer.Reason, answer.GrantId = true, tokenleasev1.Reason_REASON_ALLOWED, "g-eu-limiter-0-3-1"
	answer.RemainingTokens -= check.GetCostTokens()
	return connect.NewResponse(&tokenleasev1.ReserveResponse{
		Response: answer, ReservationId: "0123456789abcdef0123456789abcdef", ReservedTokens: check.GetCostTokens(), ExpiresInNs: 60_000_000_000,
	}), nil
}

// Settle knows one reservation of 50; the account "indebted" may owe.
func (l fakeLimiter) Settle(_ context.Context, req *connect.Request[tokenleasev1.SettleRequest]) (*connect.Response[tokenleasev1.SettleResponse], error) {
	answer := &tokenleasev1.SettleResponse{}
	over := req.Msg.GetCostTokens() - 50
	switch {
	case req.Msg.GetReservationId() != "0123456789abcdef0123456789abcdef":
		answer.Detail = "no such reservation is held here"
	case over <= 0:
		answer.Settled, answer.ReturnedTokens = true, -over
	case req.Msg.GetKey().GetAccount() == "indebted":
		answer.Settled, answer.DebtTokens = true, over
	default:
		answer.Detail = "60 is more than the 50 that were reserved"
	}
	return connect.NewResponse(answer), nil
}

// decide takes the cost from what is left.
func (f *fake) decide(answer *tokenleasev1.CheckResponse, cost int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left >= cost {
		f.left -= cost
		answer.Allowed, answer.Reason, answer.GrantId = true, tokenleasev1.Reason_REASON_ALLOWED, "g-eu-limiter-0-3-1"
	} else {
		answer.Reason, answer.HasRetry, answer.RetryInNs = tokenleasev1.Reason_REASON_EXHAUSTED, true, 250_000_000
		answer.Detail = "the budget is used up"
	}
	answer.RemainingTokens = f.left
}

// grants are what the fake has out.
func (f *fake) grants() []*tokenleasev1.Grant {
	key := &tokenleasev1.BudgetKey{Account: "acme", Operation: "report.create"}
	return []*tokenleasev1.Grant{
		{GrantId: "g-eu-limiter-0-2-1-with-an-id-that-is-long-enough-to-tempt-a-table", Budget: key,
			Holder: &tokenleasev1.Holder{Region: "eu", Instance: "limiter-0"}, Epoch: 2, IssuedTokens: 15, SpentTokens: 5,
			OutstandingTokens: 10, State: tokenleasev1.GrantState_GRANT_STATE_ORPHANED, OpenedUnixMs: 1_790_000_000_123, LapsesAfterNs: 45e9},
		{GrantId: "g-eu-limiter-0-3-1", Budget: key,
			Holder: &tokenleasev1.Holder{Region: "eu", Instance: "limiter-0"}, Epoch: 3, IssuedTokens: 15, SpentTokens: 5, ReturnedTokens: 2,
			OutstandingTokens: 8, State: tokenleasev1.GrantState_GRANT_STATE_LIVE, OpenedUnixMs: 1_790_000_001_000},
		{GrantId: "g-us-limiter-0-1-1", Budget: key,
			Holder: &tokenleasev1.Holder{Region: "us", Instance: "limiter-0"}, Epoch: 1, IssuedTokens: 9_007_199_254_740_993,
			OutstandingTokens: 9_007_199_254_740_993, State: tokenleasev1.GrantState_GRANT_STATE_LIVE},
	}
}

// ListGrants has one grant on each page.
func (f *fake) ListGrants(_ context.Context, req *connect.Request[tokenleasev1.ListGrantsRequest]) (*connect.Response[tokenleasev1.ListGrantsResponse], error) {
	var chosen []*tokenleasev1.Grant
	for _, g := range f.grants() {
		if grantMatches(req.Msg, g) {
			chosen = append(chosen, g)
		}
	}
	if len(chosen) == 0 {
		return connect.NewResponse(&tokenleasev1.ListGrantsResponse{Revision: 70, Unusable: f.faults, UnusableCount: int64(len(f.faults))}), nil
	}
	at, _ := strconv.Atoi(req.Msg.GetPageToken())
	answer := &tokenleasev1.ListGrantsResponse{Revision: int64(70 + at), Grants: chosen[at : at+1], Unusable: f.faults, UnusableCount: int64(len(f.faults))}
	if at+1 < len(chosen) {
		answer.NextPageToken = strconv.Itoa(at + 1)
	}
	return connect.NewResponse(answer), nil
}

func (f *fake) ShowGrant(_ context.Context, req *connect.Request[tokenleasev1.ShowGrantRequest]) (*connect.Response[tokenleasev1.ShowGrantResponse], error) {
	for _, g := range f.grants() {
		if g.GetGrantId() == req.Msg.GetGrantId() {
			return connect.NewResponse(&tokenleasev1.ShowGrantResponse{Grant: g, Revision: 70}), nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("no grant has this ID: it has ended, or never was"))
}

// ResolveGrant echoes who attests in the holder's place.
func (f *fake) ResolveGrant(_ context.Context, req *connect.Request[tokenleasev1.ResolveGrantRequest]) (*connect.Response[tokenleasev1.ResolveGrantResponse], error) {
	g := f.grants()[0]
	if req.Msg.GetGrantId() != g.GetGrantId() && !req.Msg.GetRetireEpoch() {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("the epoch is current: fence it with retire_epoch"))
	}
	if req.Msg.GetRetireEpoch() && !req.Msg.GetForce() {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("eu/limiter-0 was heard 4s ago; stop it, or force it, which is recorded"))
	}
	g.Holder.Instance = req.Msg.GetAttestedBy()
	return connect.NewResponse(&tokenleasev1.ResolveGrantResponse{Grant: g, CountedAsSpentTokens: 10}), nil
}

// budget is the one budget of the fake.
func (f *fake) budget() *tokenleasev1.Budget {
	return &tokenleasev1.Budget{
		Key: &tokenleasev1.BudgetKey{Account: "acme", Operation: "report.create"},
		Policy: &tokenleasev1.Policy{Operation: "report.create", Version: 3, DefaultCostTokens: 5,
			Rule: &tokenleasev1.Policy_TokenBucket{TokenBucket: &tokenleasev1.TokenBucket{CapacityTokens: 40, RefillTokens: 20, RefillIntervalNs: 1e9}}},
		AvailableTokens: 22, ReservedTokens: 18, OrphanedTokens: 10, Shard: 7,
	}
}

// otherBudgets have one of each of the other kinds.
func otherBudgets() []*tokenleasev1.Budget {
	key := func(operation string) *tokenleasev1.BudgetKey {
		return &tokenleasev1.BudgetKey{Account: "acme", Operation: operation}
	}
	return []*tokenleasev1.Budget{
		{
			Key: key("report.export"), AvailableTokens: 600, RecoveringTokens: 400, Shard: 8,
			Policy: &tokenleasev1.Policy{Version: 1, Reclaim: tokenleasev1.Reclaim_RECLAIM_DEADLINE, MaxStalenessNs: 30e9, ReclaimMarginNs: 15e9,
				Rule: &tokenleasev1.Policy_FixedWindow{FixedWindow: &tokenleasev1.FixedWindow{
					LimitTokens: 1000, Period: tokenleasev1.Period_PERIOD_DAY, TimeZone: "Europe/Berlin"}}},
		},
		{
			Key: key("login"), AvailableTokens: 1, RecoveringTokens: 2, Shard: 8, NotStrict: true,
			Policy: &tokenleasev1.Policy{Version: 1, Shadow: true, Local: &tokenleasev1.LocalAllowance{}, Rule: &tokenleasev1.Policy_RollingWindow{
				RollingWindow: &tokenleasev1.RollingWindow{LimitTokens: 3, WindowNs: 60e9}}},
		},
		{
			Key: key("report.render"), AvailableTokens: 4, ReservedTokens: 6, Shard: 9, NotStrict: true,
			Policy: &tokenleasev1.Policy{Version: 2, Rule: &tokenleasev1.Policy_Concurrency{Concurrency: &tokenleasev1.Concurrency{Slots: 10}}},
		},
	}
}

// ListBudgets has two pages, the second without a budget.
func (f *fake) ListBudgets(_ context.Context, req *connect.Request[tokenleasev1.ListBudgetsRequest]) (*connect.Response[tokenleasev1.ListBudgetsResponse], error) {
	if req.Msg.GetPageToken() == "" {
		return connect.NewResponse(&tokenleasev1.ListBudgetsResponse{Budgets: append([]*tokenleasev1.Budget{f.budget()}, otherBudgets()...), NextPageToken: "more", Revision: 71}), nil
	}
	return connect.NewResponse(&tokenleasev1.ListBudgetsResponse{Revision: 72, Unusable: f.faults, UnusableCount: int64(len(f.faults))}), nil
}

func (f *fake) ShowBudget(_ context.Context, req *connect.Request[tokenleasev1.ShowBudgetRequest]) (*connect.Response[tokenleasev1.ShowBudgetResponse], error) {
	if req.Msg.GetKey().GetAccount() != "acme" {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("no record: the budget is full and nothing is out"))
	}
	b := f.shownBudget()
	b.Grants = f.grants()[:2]
	return connect.NewResponse(&tokenleasev1.ShowBudgetResponse{Budget: b, Revision: 71, Unusable: f.faults, UnusableCount: int64(len(f.faults))}), nil
}

// status is the one holder of the fake.
func (f *fake) status() *tokenleasev1.HolderStatus {
	return &tokenleasev1.HolderStatus{Holder: &tokenleasev1.Holder{Region: "eu", Instance: "limiter-0"}, Epoch: 3,
		RegisteredUnixMs: 1_790_000_000_000, LiveGrants: 1, LiveTokens: 8, OrphanedGrants: 1, OrphanedTokens: 10, Retired: true,
		PolicyVersion: 2, GrantsBehind: 1, RoundTripNs: 12_345_678}
}

func (f *fake) ListHolders(context.Context, *connect.Request[tokenleasev1.ListHoldersRequest]) (*connect.Response[tokenleasev1.ListHoldersResponse], error) {
	answer := &tokenleasev1.ListHoldersResponse{Holders: []*tokenleasev1.HolderStatus{f.status()}, Revision: 73, Unusable: f.faults, UnusableCount: int64(len(f.faults))}
	if len(f.faults) > 0 {
		answer.Holders = append(answer.Holders, &tokenleasev1.HolderStatus{Holder: &tokenleasev1.Holder{Region: "eu", Instance: "limiter-1"}, LiveGrants: 2, LiveTokens: 9})
	}
	return connect.NewResponse(answer), nil
}

func (f *fake) ShowHolder(context.Context, *connect.Request[tokenleasev1.ShowHolderRequest]) (*connect.Response[tokenleasev1.ShowHolderResponse], error) {
	return connect.NewResponse(&tokenleasev1.ShowHolderResponse{Status: f.status(), Grants: f.grants()[:2], Revision: 73, Unusable: f.faults, UnusableCount: int64(len(f.faults))}), nil
}

// ApplyPolicies keeps what it gets.
func (f *fake) ApplyPolicies(_ context.Context, req *connect.Request[tokenleasev1.ApplyPoliciesRequest]) (*connect.Response[tokenleasev1.ApplyPoliciesResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.policies = req.Msg.GetPolicies()
	return connect.NewResponse(&tokenleasev1.ApplyPoliciesResponse{Policies: f.policies, Version: 1, Revision: 74}), nil
}

func (f *fake) ListPolicies(context.Context, *connect.Request[tokenleasev1.ListPoliciesRequest]) (*connect.Response[tokenleasev1.ListPoliciesResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return connect.NewResponse(&tokenleasev1.ListPoliciesResponse{Policies: f.policies, Revision: 74}), nil
}

// Verify finds a violation once policies have been applied.
func (f *fake) Verify(context.Context, *connect.Request[tokenleasev1.VerifyRequest]) (*connect.Response[tokenleasev1.VerifyResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := &tokenleasev1.VerifyResponse{Revision: 75, Budgets: 1, Grants: 3, Holders: 2, Policies: int64(len(f.policies)), ReservedTokens: 18, OrphanedTokens: 10}
	if len(f.policies) > 0 {
		answer.Violations = []string{"budget acme report.create: available 23 + reserved 18 > capacity 40"}
	}
	return connect.NewResponse(answer), nil
}

// ShowRestore tells the restores that were declared.
func (f *fake) ShowRestore(context.Context, *connect.Request[tokenleasev1.ShowRestoreRequest]) (*connect.Response[tokenleasev1.ShowRestoreResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := &tokenleasev1.ShowRestoreResponse{Generation: 1, Restores: f.restores, Revision: 76}
	for _, r := range f.restores {
		answer.Generation, answer.Unknown = r.GetGeneration(), !r.GetAttested()
	}
	return connect.NewResponse(answer), nil
}

// DeclareRestore raises the generation by 6.
func (f *fake) DeclareRestore(_ context.Context, req *connect.Request[tokenleasev1.DeclareRestoreRequest]) (*connect.Response[tokenleasev1.DeclareRestoreResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := req.Msg
	r := &tokenleasev1.Restore{
		Generation: max(m.GetReplacedGeneration(), m.GetAboveGeneration()) + 6, ReplacedGeneration: m.GetReplacedGeneration(),
		DeclaredUnixMs: 1_790_000_000_123, DeclaredBy: m.GetDeclaredBy(), Because: m.GetBecause(),
	}
	f.restores = append(f.restores, r)
	return connect.NewResponse(&tokenleasev1.DeclareRestoreResponse{Restore: r}), nil
}

// AttestRestore attests the last of them, once.
func (f *fake) AttestRestore(_ context.Context, req *connect.Request[tokenleasev1.AttestRestoreRequest]) (*connect.Response[tokenleasev1.AttestRestoreResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.restores[len(f.restores)-1]
	if !r.GetAttested() {
		r.Attested, r.AttestedUnixMs, r.AttestedBy, r.AttestedBecause = true, 1_790_000_001_000, req.Msg.GetAttestedBy(), req.Msg.GetBecause()
	}
	return connect.NewResponse(&tokenleasev1.AttestRestoreResponse{Restore: r}), nil
}
