package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// tryChange applies a request as ann.
func (n *node) tryChange(req *pb.ApplyPoliciesRequest) (*pb.ApplyPoliciesResponse, error) {
	req.AppliedBy, req.Because = "ann", "test"
	resp, err := n.admin.ApplyPolicies(n.site.ctx, connect.NewRequest(req))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

func (n *node) change(req *pb.ApplyPoliciesRequest) *pb.ApplyPoliciesResponse {
	n.site.t.Helper()
	resp, err := n.tryChange(req)
	if err != nil {
		n.site.t.Fatal(err)
	}
	return resp
}

func plan(name string, policies ...*pb.Policy) *pb.Plan {
	return &pb.Plan{Name: name, Policies: policies}
}

func account(name, plan string, policies ...*pb.Policy) *pb.AccountPolicies {
	return &pb.AccountPolicies{Account: name, Plan: plan, Policies: policies}
}

func (n *node) list() *pb.ListPoliciesResponse {
	n.site.t.Helper()
	resp, err := n.admin.ListPolicies(n.site.ctx, connect.NewRequest(&pb.ListPoliciesRequest{}))
	if err != nil {
		n.site.t.Fatal(err)
	}
	return resp.Msg
}

func (n *node) history() []*pb.PolicyVersion {
	n.site.t.Helper()
	resp, err := n.admin.ListPolicyHistory(n.site.ctx, connect.NewRequest(&pb.ListPolicyHistoryRequest{}))
	if err != nil {
		n.site.t.Fatal(err)
	}
	return resp.Msg.GetVersions()
}

func (n *node) status(version int64) *pb.ShowPolicyStatusResponse {
	n.site.t.Helper()
	resp, err := n.admin.ShowPolicyStatus(n.site.ctx, connect.NewRequest(&pb.ShowPolicyStatusRequest{Version: version}))
	if err != nil {
		n.site.t.Fatal(err)
	}
	return resp.Msg
}

// sound fails the test if anything stored is wrong.
func (n *node) sound() {
	n.site.t.Helper()
	resp, err := n.admin.Verify(n.site.ctx, connect.NewRequest(&pb.VerifyRequest{}))
	if err != nil || len(resp.Msg.GetViolations()) > 0 {
		n.site.t.Errorf("verify: %v, %v", resp, err)
	}
}

// capacity is what the account's next answer is under.
func (h *holder) capacity(account string) int64 {
	h.node.site.t.Helper()
	return h.insist(h.asking(account, 0)).GetBudgets()[0].GetPolicy().GetTokenBucket().GetCapacityTokens()
}

// An account's own policy goes before that of its plan, that before the default
// plan's for accounts without one, and that before the policy for everybody; accounts'
// names keep their case (CASE 49).
func TestCase49WhatGoesBeforeWhat(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, h := one(t, st, bucket(10, 0))
		resp := n.change(&pb.ApplyPoliciesRequest{
			Plans: []*pb.Plan{plan("free", bucket(20, 0)), plan("premium", bucket(30, 0))},
			Accounts: []*pb.AccountPolicies{
				account("acme", "premium"), account("Acme", "premium", bucket(40, 0)), account("own", "", bucket(50, 0)),
			},
		})
		if resp.GetVersion() != 2 || len(resp.GetChanges()) != 8 {
			t.Fatalf("version %d with changes %v", resp.GetVersion(), resp.GetChanges())
		}
		h.hears("acme", 2)
		for name, want := range map[string]int64{"acme": 30, "Acme": 40, "own": 50, "other": 10} {
			if got := h.capacity(name); got != want {
				t.Errorf("%s is under %d, want %d", name, got, want)
			}
		}
		n.change(&pb.ApplyPoliciesRequest{DefaultPlan: new("free"), RemoveAccounts: []string{"Acme"}})
		h.hears("other", 3)
		for name, want := range map[string]int64{"acme": 30, "Acme": 20, "own": 50, "other": 20} {
			if got := h.hears(name, 2).capacity(name); got != want {
				t.Errorf("with a default plan %s is under %d, want %d", name, got, want)
			}
		}
		answer := h.ask("acme", 1).GetPolicy()
		if answer.GetPlan() != "premium" || answer.GetAccount() != "" || answer.GetVersion() != 2 {
			t.Errorf("the policy of acme is told as %v", answer)
		}
		accounts, err := n.admin.ListAccounts(s.ctx, connect.NewRequest(&pb.ListAccountsRequest{}))
		if err != nil || len(accounts.Msg.GetAccounts()) != 2 || accounts.Msg.GetAccounts()[0].GetAccount() != "acme" || accounts.Msg.GetAccounts()[1].GetAccount() != "own" {
			t.Errorf("accounts %v, %v", accounts, err)
		}
		n.sound()
	})
}

// CASE 19: a budget is exhausted, then its capacity is raised by another plan: the
// waiting request goes on.
func TestCase19WaitersGoOnAfterAPlan(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		_, n, h := one(t, st, slots(5))
		n.change(&pb.ApplyPoliciesRequest{Plans: []*pb.Plan{plan("large", slots(50))}})
		h.ask("acme", 5)
		other := n.join("us", "limiter-0")
		req := other.asking("acme", 3)
		req.WaitMs = 60_000
		answer := make(chan *pb.SyncResponse, 1)
		go func() {
			resp, err := other.send(req)
			if err != nil {
				t.Error(err)
			}
			answer <- resp
		}()
		h.waitsFor("acme")
		n.change(&pb.ApplyPoliciesRequest{Accounts: []*pb.AccountPolicies{account("acme", "large")}})
		if got := (<-answer).GetBudgets()[0]; got.GetIssuedTokens() < 3 {
			t.Errorf("after the plan: %v", got)
		}
	})
}

// slots is a policy of so many slots, whose budgets have room at once when there are
// more.
func slots(count int64) *pb.Policy {
	return &pb.Policy{Operation: operation, Rule: &pb.Policy_Concurrency{Concurrency: &pb.Concurrency{Slots: count}}, DefaultCostTokens: 1}
}

// waitsFor returns once a request for the account's budget hangs at its shard.
func (h *holder) waitsFor(account string) {
	h.node.site.t.Helper()
	for waiting := 0; waiting == 0 && h.node.site.ctx.Err() == nil; {
		asked := make(chan int)
		h.node.ownership.runner(h.shardOf(account)).insist(func(s *shard.Shard, _ shard.Moment) { asked <- s.Waiting() - s.Queued() })
		waiting = <-asked
	}
}

// CASE 31, by a plan: an account with 60 of 100 out moves to a plan of 10. Nothing is
// granted until less than 10 is out, and the status says who has it; moved back, it
// gets nothing at once.
func TestCase31MovedToASmallerPlan(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, h := one(t, st, bucket(100, 0))
		grant := h.ask("acme", 60).GetGrantId()
		n.change(&pb.ApplyPoliciesRequest{
			Plans: []*pb.Plan{plan("small", bucket(10, 0))}, Accounts: []*pb.AccountPolicies{account("acme", "small")},
		})
		h.hears("acme", 2)
		status := n.status(0)
		if status.GetSettled() || status.GetBudgetsAboveCount() != 1 || status.GetBudgetsAbove()[0].GetCapacityTokens() != 10 ||
			status.GetBudgetsAbove()[0].GetReservedTokens() != 60 || status.GetBudgetsAbove()[0].GetHolders()[0].GetOutstandingTokens() != 60 {
			t.Errorf("status %v", status)
		}
		if got := status.GetBudgetsAbove()[0].GetReclaim(); got != pb.Reclaim_RECLAIM_PROOF {
			t.Errorf("the status says reclaim %v", got)
		}
		other := n.join("us", "limiter-0")
		returned := func(tokens int64) {
			req := h.asking("acme", 0, grant)
			req.Budgets[0].ReturnedTokens, req.Budgets[0].PolicyVersion = tokens, 2
			h.sync(req)
		}
		for _, step := range []struct{ returned, got int64 }{{0, 0}, {50, 0}, {51, 1}, {55, 5}} {
			returned(step.returned)
			req := other.asking("acme", 10)
			req.Budgets[0].NeedTokens = 1
			if got := other.sync(req).GetBudgets()[0]; got.GetIssuedTokens() != step.got {
				t.Errorf("with %d of 60 back: %v, want %d", step.returned, got, step.got)
			}
		}
		if status := n.status(2); !status.GetSettled() || !status.GetInstalled() {
			t.Errorf("settled: %v", status)
		}
		n.change(&pb.ApplyPoliciesRequest{RemoveAccounts: []string{"acme"}})
		other.hears("acme", 3)
		if l := s.ledger("acme"); l.Available != 0 || l.Reserved() != 10 || l.Rule.Capacity != 100 || l.Rule.Version != 3 {
			t.Errorf("moved back: %v", l)
		}
		n.sound()
	})
}

// A policy that is removed: reports hear of it, what is out comes back, and the ledger
// is kept for the policy that comes after it.
func TestRemovedPolicyKeepsItsLedgers(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, h := one(t, st, bucket(100, 0))
		grant := h.ask("acme", 60).GetGrantId()
		n.change(&pb.ApplyPoliciesRequest{RemoveOperations: []string{operation}})
		var answer *pb.BudgetAnswer
		for answer.GetShortage() != pb.Shortage_SHORTAGE_NO_POLICY {
			answer = h.insist(h.asking("acme", 60, grant)).GetBudgets()[0]
		}
		if status := n.status(0); status.GetSettled() || status.GetBudgetsAbove()[0].GetReservedTokens() != 60 {
			t.Errorf("status %v", status)
		}
		req := h.asking("acme", 0, grant)
		req.Budgets[0].SpentTokens, req.Budgets[0].ReturnedTokens = 20, 40
		if got := h.sync(req).GetBudgets()[0]; got.GetShortage() != pb.Shortage_SHORTAGE_NO_POLICY {
			t.Errorf("a report without a policy: %v", got)
		}
		s.requireBalance("acme", 80, 0)
		if status := n.status(0); !status.GetSettled() {
			t.Errorf("status %v", status)
		}
		n.apply(bucket(100, 0))
		h.hears("acme", 3)
		if got := h.ask("acme", 100, grant); got.GetIssuedTokens() != 60 {
			t.Errorf("after it was applied again: %v", got)
		}
		s.requireBalance("acme", 80, 0)
	})
}

// An operation that is disabled denies whatever is applied meanwhile, and enabling it
// brings back what is in force by then.
func TestDisabledOperation(t *testing.T) {
	s, n, h := one(t, store.NewMemory(), bucket(10, 0))
	disable := &pb.DisableOperationRequest{Operation: operation, DisabledBy: "bob", Because: "the printer burns"}
	for range 2 { // safe to repeat
		resp, err := n.admin.DisableOperation(s.ctx, connect.NewRequest(disable))
		if err != nil || resp.Msg.GetVersion() != 2 || resp.Msg.GetDisabled().GetDisabledBy() != "bob" || resp.Msg.GetDisabled().GetVersion() != 2 {
			t.Fatalf("disabled: %v, %v", resp, err)
		}
	}
	n.change(&pb.ApplyPoliciesRequest{Policies: []*pb.Policy{bucket(20, 0)}, Accounts: []*pb.AccountPolicies{account("own", "", bucket(30, 0))}})
	for _, name := range []string{"acme", "own"} {
		p := h.hears(name, 3).ask(name, 0).GetPolicy()
		if !p.GetDisabled() || p.GetDisabledBecause() != "the printer burns" {
			t.Errorf("%s: %v", name, p)
		}
	}
	if list := n.list(); len(list.GetDisabled()) != 1 || list.GetPolicies()[0].GetDisabled() {
		t.Errorf("listed: %v", list)
	}
	enabled, err := n.admin.EnableOperation(s.ctx, connect.NewRequest(&pb.EnableOperationRequest{Operation: operation, EnabledBy: "bob"}))
	if err != nil || !enabled.Msg.GetWasDisabled() || enabled.Msg.GetVersion() != 4 {
		t.Fatalf("enabled: %v, %v", enabled, err)
	}
	if p := h.hears("own", 4).ask("own", 0).GetPolicy(); p.GetDisabled() || p.GetTokenBucket().GetCapacityTokens() != 30 {
		t.Errorf("own, enabled: %v", p)
	}
	enabled, err = n.admin.EnableOperation(s.ctx, connect.NewRequest(&pb.EnableOperationRequest{Operation: operation, EnabledBy: "bob"}))
	if err != nil || enabled.Msg.GetWasDisabled() || enabled.Msg.GetVersion() != 4 {
		t.Errorf("enabled again: %v, %v", enabled, err)
	}
	actions := []string{}
	for _, v := range n.history() {
		actions = append(actions, v.GetAction())
	}
	if !slices.Equal(actions, []string{"enable", "apply", "disable", "apply"}) {
		t.Errorf("history %v", actions)
	}
	n.sound()
}

// A rollback brings back policies, plans, members and the default plan as they were,
// under a new version, and is itself rolled back.
func TestRollback(t *testing.T) {
	s, n, _ := one(t, store.NewMemory(), bucket(10, 0))
	n.change(&pb.ApplyPoliciesRequest{
		Plans: []*pb.Plan{plan("free", bucket(20, 0))}, Accounts: []*pb.AccountPolicies{account("acme", "free", bucket(1, 0))}, DefaultPlan: new("free"),
	})
	then := n.list()
	read := bucket(7, 0)
	read.Operation = "read"
	n.change(&pb.ApplyPoliciesRequest{
		Policies: []*pb.Policy{read}, RemoveOperations: []string{operation},
		Plans: []*pb.Plan{plan("premium", bucket(30, 0)), plan("free", read)}, DefaultPlan: new("premium"),
		Accounts: []*pb.AccountPolicies{account("acme", "premium"), account("zoe", "premium")},
	})
	n.change(&pb.ApplyPoliciesRequest{Accounts: []*pb.AccountPolicies{account("acme", "free")}})
	now := n.list()
	back := func(to, ifVersion int64) (*connect.Response[pb.RollbackPoliciesResponse], error) {
		return n.admin.RollbackPolicies(s.ctx, connect.NewRequest(&pb.RollbackPoliciesRequest{ToVersion: to, IfVersion: ifVersion, AppliedBy: "ann", Because: "too generous"}))
	}
	_, err := back(2, 3)
	requireCode(t, err, connect.CodeFailedPrecondition)
	resp, err := back(2, 4)
	if err != nil || resp.Msg.GetVersion() != 5 {
		t.Fatalf("rolled back: %v, %v", resp, err)
	}
	requireSameTerms(t, n.list(), then)
	accounts, err := n.admin.ListAccounts(s.ctx, connect.NewRequest(&pb.ListAccountsRequest{}))
	if err != nil || len(accounts.Msg.GetAccounts()) != 1 || accounts.Msg.GetAccounts()[0].GetPlan() != "free" ||
		accounts.Msg.GetAccounts()[0].GetPolicies()[0].GetTokenBucket().GetCapacityTokens() != 1 {
		t.Errorf("accounts %v, %v", accounts, err)
	}
	if resp, err := back(4, 0); err != nil || resp.Msg.GetVersion() != 6 {
		t.Fatalf("the rollback rolled back: %v, %v", resp, err)
	}
	requireSameTerms(t, n.list(), now)
	_, err = back(6, 0)
	requireCode(t, err, connect.CodeInvalidArgument)
	if h := n.history(); h[0].GetAction() != "rollback" || h[0].GetToVersion() != 4 || h[1].GetToVersion() != 2 || h[2].GetToVersion() != 0 || h[0].GetBecause() != "too generous" || h[0].GetBy() != "ann" {
		t.Errorf("history %v", h[0])
	}
	if resp, err := back(0, 0); err != nil || len(n.list().GetPolicies()) != 0 || len(n.list().GetPlans()) != 0 {
		t.Errorf("back to nothing: %v, %v", resp, err)
	}
	n.sound()
}

// requireSameTerms compares lists but for versions and times.
func requireSameTerms(t *testing.T, got, want *pb.ListPoliciesResponse) {
	t.Helper()
	bare := func(resp *pb.ListPoliciesResponse) string {
		resp = proto.CloneOf(resp)
		resp.Version, resp.Revision = 0, 0
		strip := func(p *pb.Policy) { p.Version, p.UpdatedUnixMs = 0, 0 }
		for _, p := range resp.GetPolicies() {
			strip(p)
		}
		for _, p := range resp.GetPlans() {
			p.Version, p.UpdatedUnixMs = 0, 0
			for _, policy := range p.GetPolicies() {
				strip(policy)
			}
		}
		return resp.String()
	}
	if bare(got) != bare(want) {
		t.Errorf("got  %v\nwant %v", bare(got), bare(want))
	}
}

// A version that is kept no more is not gone back to, and the error says how far one
// can go.
func TestRollbackBeyondTheHistory(t *testing.T) {
	s, n, _ := one(t, store.NewMemory(), bucket(10, 0))
	n.apply(bucket(11, 0))
	n.apply(bucket(12, 0))
	if _, err := s.store.Txn(s.ctx, store.Txn{Then: []store.Op{{Kind: store.OpDelete, Key: s.layout.History(1)}, {Kind: store.OpDelete, Key: s.layout.History(2)}}}); err != nil {
		t.Fatal(err)
	}
	_, err := n.admin.RollbackPolicies(s.ctx, connect.NewRequest(&pb.RollbackPoliciesRequest{ToVersion: 1, AppliedBy: "ann", Because: "test"}))
	requireCode(t, err, connect.CodeFailedPrecondition)
	if err == nil || !strings.Contains(err.Error(), "the oldest version to go back to is 2") {
		t.Errorf("error %v", err)
	}
}

// The history keeps its newest versions, and pages through them.
func TestHistoryIsBounded(t *testing.T) {
	s, n, _ := one(t, store.NewMemory(), bucket(10, 0))
	set := record.PolicySet{Version: keptHistory + 7}
	s.putRecord(s.layout.PolicySet(), set)
	s.putRecord(s.layout.History(8), record.History{Version: 8})
	s.putRecord(s.layout.History(9), record.History{Version: 9})
	n.apply(bucket(11, 0))
	if kept := s.keys(s.layout.History(2), s.layout.History(keptHistory)); len(kept) != 1 || kept[0].Key != s.layout.History(9) {
		t.Errorf("%d versions are kept: %v", len(kept), kept)
	}
	for i := range int64(5) {
		n.apply(bucket(12+i, 0))
	}
	var versions []int64
	for token := ""; ; {
		resp, err := n.admin.ListPolicyHistory(s.ctx, connect.NewRequest(&pb.ListPolicyHistoryRequest{PageSize: 4, PageToken: token}))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range resp.Msg.GetVersions() {
			versions = append(versions, v.GetVersion())
		}
		if token = resp.Msg.GetNextPageToken(); token == "" {
			break
		}
	}
	if want := []int64{1013, 1012, 1011, 1010, 1009, 1008}; !slices.Equal(versions, want) {
		t.Errorf("versions %v, want %v", versions, want)
	}
}

// What cannot be is refused whole, with what to do about it.
func TestPlanRefusals(t *testing.T) {
	_, n, _ := one(t, store.NewMemory(), bucket(10, 0))
	var members []*pb.AccountPolicies
	for i := range 7 {
		members = append(members, account(fmt.Sprintf("member-%d", i), "free"))
	}
	n.change(&pb.ApplyPoliciesRequest{Plans: []*pb.Plan{plan("free"), plan("premium")}, Accounts: members, DefaultPlan: new("premium")})
	version := n.list().GetVersion()
	for _, test := range []struct {
		req  *pb.ApplyPoliciesRequest
		code connect.Code
		want string
	}{
		{&pb.ApplyPoliciesRequest{RemovePlans: []string{"free"}}, connect.CodeFailedPrecondition, `the plan is in use: accounts "member-0", "member-1", "member-2", "member-3", "member-4" have plan "free"`},
		{&pb.ApplyPoliciesRequest{RemovePlans: []string{"free"}, Accounts: members[:6], RemoveAccounts: []string{"member-6"}}, connect.CodeFailedPrecondition, `"member-4" have plan "free"`},
		{&pb.ApplyPoliciesRequest{RemovePlans: []string{"premium"}}, connect.CodeFailedPrecondition, `"premium" is the default plan`},
		{&pb.ApplyPoliciesRequest{Accounts: []*pb.AccountPolicies{account("new", "gold")}}, connect.CodeInvalidArgument, `no such plan: account "new" is to have plan "gold"`},
		{&pb.ApplyPoliciesRequest{DefaultPlan: new("gold")}, connect.CodeInvalidArgument, `no such plan: the default plan "gold"`},
		{&pb.ApplyPoliciesRequest{IfVersion: version - 1, Policies: []*pb.Policy{bucket(1, 0)}}, connect.CodeFailedPrecondition, fmt.Sprintf("version %d is in force, and the request is for version %d", version, version-1)},
	} {
		_, err := n.tryChange(test.req)
		requireCode(t, err, test.code)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
	if got := n.list(); got.GetVersion() != version {
		t.Errorf("something was changed: %v", got)
	}
	moved := &pb.ApplyPoliciesRequest{RemovePlans: []string{"free", "premium"}, DefaultPlan: new("")}
	for _, m := range members {
		moved.RemoveAccounts = append(moved.RemoveAccounts, m.GetAccount())
	}
	n.change(moved)
	if got := n.list(); len(got.GetPlans()) != 0 || got.GetDefaultPlan() != "" {
		t.Errorf("removed with their members: %v", got)
	}
	n.sound()
}

// A request that does not fit into one transaction says so, and changes nothing.
func TestChangeTooLarge(t *testing.T) {
	st := store.NewMemory()
	st.SetMaxTxnOps(16)
	_, n, _ := one(t, st, bucket(10, 0))
	var req pb.ApplyPoliciesRequest
	for i := range 20 {
		req.Accounts = append(req.Accounts, account(fmt.Sprintf("account-%d", i), "", bucket(1, 0)))
	}
	_, err := n.tryChange(&req)
	requireCode(t, err, connect.CodeInvalidArgument)
	if err == nil || !strings.Contains(err.Error(), "20 policies, plans and accounts change, and at most 13 do at once; apply it in parts") {
		t.Errorf("error %v", err)
	}
	if n.list().GetVersion() != 1 {
		t.Error("something was changed")
	}
	req.DryRun = true
	if warnings := n.change(&req).GetWarnings(); !slices.ContainsFunc(warnings, func(w string) bool {
		return strings.Contains(w, "all at once this is refused") && strings.Contains(w, "at most 13 do at once")
	}) {
		t.Errorf("a dry run does not warn: %q", warnings)
	}
	req.DryRun, req.Accounts = false, req.Accounts[:13]
	n.change(&req)
}

// What is named and is so already does not count: with 200 policies in force, all of
// them are applied again with one that differs.
func TestOnlyChangesCount(t *testing.T) {
	_, n, _ := one(t, store.NewMemory(), bucket(10, 0))
	var all []*pb.Policy
	for i := range 200 {
		p := bucket(10, 0)
		p.Operation = fmt.Sprintf("operation-%03d", i)
		all = append(all, p)
	}
	_, err := n.tryChange(&pb.ApplyPoliciesRequest{Policies: all})
	requireCode(t, err, connect.CodeInvalidArgument)
	n.change(&pb.ApplyPoliciesRequest{Policies: all[:100]})
	n.change(&pb.ApplyPoliciesRequest{Policies: all}) // 100 of them are new
	all[7].GetTokenBucket().CapacityTokens = 11
	if got := n.change(&pb.ApplyPoliciesRequest{Policies: all, DryRun: true}); len(got.GetChanges()) != 1 || len(got.GetWarnings()) != 0 {
		t.Errorf("dry run: %v, %q", got.GetChanges(), got.GetWarnings())
	}
	if got := n.change(&pb.ApplyPoliciesRequest{Policies: all}).GetChanged(); !slices.Equal(got, []string{"operation-007"}) {
		t.Errorf("changed %q", got)
	}
	n.sound()
}

// CASE 30, with plans and accounts: applied again, nothing changes.
func TestCase30PlansAppliedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(10, 0))
		req := &pb.ApplyPoliciesRequest{
			Policies: []*pb.Policy{bucket(10, 0)}, Plans: []*pb.Plan{plan("free", bucket(20, 0))},
			Accounts: []*pb.AccountPolicies{account("acme", "free", bucket(30, 0))}, DefaultPlan: new("free"),
		}
		n.change(req)
		pass(20 * time.Second) // the shard has recorded that it has it
		before := s.revision()
		for range 100 {
			if resp := n.change(req); resp.GetVersion() != 2 || len(resp.GetChanges()) != 0 || len(resp.GetWarnings()) != 0 {
				t.Fatalf("applied again: %v", resp)
			}
		}
		if s.revision() != before || len(s.audits()) != 2 {
			t.Errorf("the store went from revision %d to %d, with %d audit entries", before, s.revision(), len(s.audits()))
		}
	})
}

// A dry run tells for how many live budgets what would change, what it would recall,
// and what an operator should know, and changes nothing.
func TestDryRun(t *testing.T) {
	s, n, h := one(t, store.NewMemory(), bucket(100, 0))
	n.change(&pb.ApplyPoliciesRequest{Plans: []*pb.Plan{plan("small", bucket(50, 0))}, Accounts: []*pb.AccountPolicies{account("b", "small"), account("c", "", bucket(70, 0))}})
	for account, tokens := range map[string]int64{"a": 60, "b": 40, "c": 70, "d": 10} {
		h.hears(account, 1).hears("b", 2).ask(account, tokens)
	}
	before := s.revision()
	try := func(req *pb.ApplyPoliciesRequest) (effects []string, warnings string) {
		t.Helper()
		req.DryRun = true
		resp := n.change(req)
		if !resp.GetDryRun() || resp.GetVersion() != 2 {
			t.Errorf("%v", resp)
		}
		for _, c := range resp.GetChanges() {
			effects = append(effects, fmt.Sprintf("%s %s%s %d %d", c.GetSubject(), c.GetBeforeText(), c.GetAfterText(), c.GetLiveBudgets(), c.GetRecalledTokens()))
		}
		return effects, strings.Join(resp.GetWarnings(), "\n")
	}
	rolling := &pb.Policy{Operation: operation, Rule: &pb.Policy_RollingWindow{RollingWindow: &pb.RollingWindow{LimitTokens: 5, WindowNs: int64(time.Second)}}, DefaultCostTokens: 10}
	shared := bucket(40, 1000)
	shared.MaxSharePercent, shared.DefaultCostTokens = 10, 5
	for _, test := range []struct {
		req      *pb.ApplyPoliciesRequest
		effects  []string
		warnings []string
	}{
		{&pb.ApplyPoliciesRequest{Policies: []*pb.Policy{bucket(20, 0)}}, []string{"policy report.create  2 40"}, nil},
		{&pb.ApplyPoliciesRequest{Plans: []*pb.Plan{plan("small", bucket(30, 0))}}, []string{"plan small  1 10"}, nil},
		{&pb.ApplyPoliciesRequest{Accounts: []*pb.AccountPolicies{account("a", "small")}}, []string{"account a the default planplan small 1 10"}, nil},
		{&pb.ApplyPoliciesRequest{DefaultPlan: new("small")}, []string{"default plan no planplan small 2 10"}, nil},
		{&pb.ApplyPoliciesRequest{RemoveAccounts: []string{"c"}}, []string{"account c  1 0"}, nil},
		{&pb.ApplyPoliciesRequest{RemoveOperations: []string{operation}}, []string{"policy report.create  2 70"}, []string{"policy report.create is removed while its budgets have 70 tokens out"}},
		{&pb.ApplyPoliciesRequest{Policies: []*pb.Policy{rolling}}, []string{"policy report.create  2 60"}, []string{
			"it changes from token-bucket to rolling-window", "its capacity, 5, is below the cost of one check, 10", "its window, 1s, is short", "at most 67% of the limit is used",
		}},
		{&pb.ApplyPoliciesRequest{Policies: []*pb.Policy{shared}}, []string{"policy report.create  2 20"}, []string{
			"a holder's share, 10% of 40, is 4, below the cost of one check, 5", "an empty budget fills in 40ms", "at most 8% of the refill is used",
		}},
	} {
		effects, warnings := try(test.req)
		if !slices.Equal(effects, test.effects) {
			t.Errorf("%v\ngot  %q\nwant %q", test.req, effects, test.effects)
		}
		for _, w := range test.warnings {
			if !strings.Contains(warnings, w) {
				t.Errorf("warnings %q, want %q", warnings, w)
			}
		}
		if (len(test.warnings) == 0) != (warnings == "") {
			t.Errorf("warnings %q, want %q", warnings, test.warnings)
		}
	}
	if s.revision() != before {
		t.Error("a dry run has written something")
	}
}

// A store of before the policy version begins above what it has.
func TestStoreWithoutPolicyVersion(t *testing.T) {
	s := newSite(t, store.NewMemory(), 1)
	n := s.serve("a")
	old := lease.Policy{Operation: operation, DefaultCost: 1, Rule: lease.Rule{Kind: lease.TokenBucket, Version: 7, Capacity: 10, MaxSharePercent: 100}}
	s.putRecord(s.layout.Policy(operation), old)
	if list := n.list(); list.GetVersion() != 7 {
		t.Errorf("listed: %v", list)
	}
	if resp := n.apply(bucket(10, 0)); resp.GetVersion() != 7 || len(resp.GetChanged()) != 0 {
		t.Errorf("applied again: %v", resp)
	}
	if resp := n.apply(bucket(20, 0)); resp.GetVersion() != 8 || resp.GetPolicies()[0].GetVersion() != 8 {
		t.Errorf("changed: %v", resp)
	}
	if resp, err := n.admin.RollbackPolicies(s.ctx, connect.NewRequest(&pb.RollbackPoliciesRequest{ToVersion: 7, AppliedBy: "ann", Because: "test"})); err != nil || resp.Msg.GetVersion() != 9 {
		t.Errorf("rolled back: %v, %v", resp, err)
	}
	_, err := n.admin.RollbackPolicies(s.ctx, connect.NewRequest(&pb.RollbackPoliciesRequest{ToVersion: 6, AppliedBy: "ann", Because: "test"}))
	requireCode(t, err, connect.CodeFailedPrecondition)
	n.sound()
}
