package tokenleasev1

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// applyWith is a request with every field.
func applyWith(change func(*ApplyPoliciesRequest)) *ApplyPoliciesRequest {
	m := &ApplyPoliciesRequest{
		Policies: []*Policy{
			policyWith(func(*Policy) {}),
			policyWith(func(p *Policy) { p.Operation = "report.read" }),
		},
		Plans: []*Plan{
			{Name: "free", Policies: []*Policy{policyWith(func(*Policy) {})}},
			{Name: "premium.2"},
		},
		Accounts: []*AccountPolicies{
			{Account: "Acme", Plan: "premium.2", Policies: []*Policy{slotsWith(3)}},
			{Account: "acme"},
		},
		DefaultPlan:      new("free"),
		RemoveOperations: []string{"report.delete"},
		RemovePlans:      []string{"trial"},
		RemoveAccounts:   []string{"B\u00fccher"},
		IfVersion:        7,
		AppliedBy:        "ann",
		Because:          "the new plan",
	}
	change(m)
	return m
}

func rollbackWith(change func(*RollbackPoliciesRequest)) *RollbackPoliciesRequest {
	m := &RollbackPoliciesRequest{ToVersion: 3, AppliedBy: "ann", Because: "too generous", IfVersion: 5}
	change(m)
	return m
}

// policyMessages are the valid messages about policies.
func policyMessages() []validator {
	return []validator{
		applyWith(func(*ApplyPoliciesRequest) {}),
		&ListPoliciesRequest{},
		&ListAccountsRequest{Account: "acme", AccountPrefix: "ac", Plan: "free", PageSize: 1000, PageToken: "next"},
		&ShowPolicyStatusRequest{Version: 7},
		&ListPolicyHistoryRequest{PageSize: 1000, PageToken: "7"},
		rollbackWith(func(*RollbackPoliciesRequest) {}),
		&DisableOperationRequest{Operation: "report.create", DisabledBy: "ann", Because: "the printer burns"},
		&EnableOperationRequest{Operation: "report.create", EnabledBy: "ann"},
	}
}

func TestPolicyEdges(t *testing.T) {
	for _, m := range append(policyMessages(),
		&ListAccountsRequest{},
		&ShowPolicyStatusRequest{},
		&ListPolicyHistoryRequest{},
		&ApplyPoliciesRequest{DefaultPlan: new(""), AppliedBy: "ann"},
		&ApplyPoliciesRequest{RemoveAccounts: []string{"a"}, AppliedBy: "ann"},
		applyWith(func(m *ApplyPoliciesRequest) { m.DryRun, m.AppliedBy, m.Because = true, "", "" }),
		applyWith(func(m *ApplyPoliciesRequest) { m.Plans[0].Name = strings.Repeat("p", 64) }),
		rollbackWith(func(m *RollbackPoliciesRequest) { m.DryRun, m.AppliedBy, m.Because, m.ToVersion = true, "", "", 0 }),
	) {
		if err := m.Validate(); err != nil {
			t.Errorf("%T %v: %v", m, m, err)
		}
	}
}

func TestCase29InvalidPolicies(t *testing.T) {
	long := strings.Repeat("b", 1025)
	tests := []struct {
		in             validator
		field, problem string
	}{
		{&ApplyPoliciesRequest{AppliedBy: "ann"}, "policies", "must have 1 to 1000 elements, has 0, unless the request names plans, accounts, a default plan or what to remove"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Policies = make([]*Policy, 1001) }), "policies", "must have 0 to 1000 elements, has 1001"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Policies[1].GetTokenBucket().CapacityTokens = -4 }), "policies[1].token_bucket.capacity_tokens", "must be 0 to 1000000000000000000, is -4"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Policies[1].Operation = "report.create" }), "policies[1].operation", "must be unique, repeats that of policies[0]"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Plans = make([]*Plan, 1001) }), "plans", "must have 0 to 1000 elements, has 1001"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Plans[1].Name = "" }), "plans[1].name", "must have 1 to 64 bytes, has 0"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Plans[1].Name = "a/b" }), "plans[1].name", "must be of letters, digits, '.', '_' and '-', has '/' at byte 1"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Plans[1].Name = ".." }), "plans[1].name", `must not be ".."`},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Plans[1].Name = "free" }), "plans[1].name", "must be unique, repeats that of plans[0]"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Plans[0].Policies[0].DefaultCostTokens = -1 }), "plans[0].policies[0].default_cost_tokens", "must be 1 or more, is -1"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Plans[0].Policies = append(m.Plans[0].Policies, slotsWith(1)) }), "plans[0].policies[1].operation", "must be unique, repeats that of policies[0]"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Accounts[1].Account = "" }), "accounts[1].account", "must have 1 to 256 bytes, has 0"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Accounts[1].Account = "Acme" }), "accounts[1].account", "must be unique, repeats that of accounts[0]"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Accounts[1].Plan = "a b" }), "accounts[1].plan", "must be of letters, digits, '.', '_' and '-', has ' ' at byte 1"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Accounts[0].Policies = make([]*Policy, 1001) }), "accounts[0].policies", "must have 0 to 1000 elements, has 1001"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.DefaultPlan = new("a b") }), "default_plan", "must be of letters, digits, '.', '_' and '-', has ' ' at byte 1"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.RemoveOperations[0] = "report.read" }), "remove_operations[0]", "must not be named by policies[1] as well"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.RemoveOperations = []string{"a", "a"} }), "remove_operations[1]", "must be unique, repeats that of remove_operations[0]"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.RemovePlans[0] = "free" }), "remove_plans[0]", "must not be named by plans[0] as well"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.RemovePlans[0] = "" }), "remove_plans[0]", "must have 1 to 64 bytes, has 0"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.RemoveAccounts[0] = "acme" }), "remove_accounts[0]", "must not be named by accounts[1] as well"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.RemoveAccounts[0] = "\xff" }), "remove_accounts[0]", "must be UTF-8, is not at byte 0"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.IfVersion = -1 }), "if_version", "must be 0 or more, is -1"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.AppliedBy = "" }), "applied_by", "must have 1 to 128 bytes, has 0"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Because = long }), "because", "must have 0 to 1024 bytes, has 1025"},
		{&ListAccountsRequest{Plan: "."}, "plan", `must not be "."`},
		{&ListAccountsRequest{Account: "\t"}, "account", "must have no control characters, has U+0009 at byte 0"},
		{&ListAccountsRequest{AccountPrefix: strings.Repeat("a", 257)}, "account_prefix", "must have 0 to 256 bytes, has 257"},
		{&ListAccountsRequest{PageSize: 1001}, "page_size", "must be at most 1000, is 1001"},
		{&ShowPolicyStatusRequest{Version: -1}, "version", "must be 0 or more, is -1"},
		{&ListPolicyHistoryRequest{PageSize: 1001}, "page_size", "must be at most 1000, is 1001"},
		{rollbackWith(func(m *RollbackPoliciesRequest) { m.ToVersion = -1 }), "to_version", "must be 0 or more, is -1"},
		{rollbackWith(func(m *RollbackPoliciesRequest) { m.IfVersion = -1 }), "if_version", "must be 0 or more, is -1"},
		{rollbackWith(func(m *RollbackPoliciesRequest) { m.AppliedBy = "" }), "applied_by", "must have 1 to 128 bytes, has 0"},
		{rollbackWith(func(m *RollbackPoliciesRequest) { m.Because = " " }), "because", "must say something, has only blanks"},
		{rollbackWith(func(m *RollbackPoliciesRequest) { m.DryRun, m.Because = true, long }), "because", "must have 0 to 1024 bytes, has 1025"},
		{&DisableOperationRequest{DisabledBy: "ann", Because: "b"}, "operation", "must have 1 to 128 bytes, has 0"},
		{&DisableOperationRequest{Operation: "o", Because: "b"}, "disabled_by", "must have 1 to 128 bytes, has 0"},
		{&DisableOperationRequest{Operation: "o", DisabledBy: "ann"}, "because", "must have 1 to 1024 bytes, has 0"},
		{&EnableOperationRequest{Operation: "o"}, "enabled_by", "must have 1 to 128 bytes, has 0"},
		{&EnableOperationRequest{Operation: "o", EnabledBy: "ann", Because: long}, "because", "must have 0 to 1024 bytes, has 1025"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].PolicyVersion = -1 }), "budgets[0].policy_version", "must be 0 or more, is -1"},
	}
	for _, test := range tests {
		name := fmt.Sprintf("%s/%s/%.40s", test.in.ProtoReflect().Descriptor().Name(), test.field, test.problem)
		t.Run(name, func(t *testing.T) {
			var fault *FieldError
			if err := test.in.Validate(); !errors.As(err, &fault) {
				t.Fatalf("Validate() = %v, want a *FieldError", err)
			}
			if fault.Field != test.field || fault.Problem != test.problem {
				t.Errorf("Validate() = %q %q\nwant         %q %q", fault.Field, fault.Problem, test.field, test.problem)
			}
		})
	}
}
