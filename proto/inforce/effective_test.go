package inforce_test

import (
	"slices"
	"testing"

	"github.com/tokenlease/tokenlease/proto/inforce"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// policies has one for each operation, told apart by its version.
func policies(version int64, operations ...string) []*pb.Policy {
	var all []*pb.Policy
	for _, operation := range operations {
		all = append(all, &pb.Policy{Operation: operation, Version: version})
	}
	return all
}

// listed is a cluster with a default plan and another.
func listed() *pb.ListPoliciesResponse {
	return &pb.ListPoliciesResponse{
		Policies:    policies(1, "create", "read"),
		Plans:       []*pb.Plan{{Name: "free", Policies: policies(2, "create")}, {Name: "premium", Policies: policies(3, "create", "render")}},
		DefaultPlan: "free",
		Disabled:    []*pb.DisabledOperation{{Operation: "login", Because: "abuse"}},
	}
}

func TestForAccount(t *testing.T) {
	premium := &pb.AccountPolicies{Account: "Acme", Plan: "premium"}
	special := &pb.AccountPolicies{Account: "Acme", Plan: "premium", Policies: policies(4, "create")}
	lost := &pb.AccountPolicies{Account: "Acme", Plan: "gone"}
	for _, test := range []struct {
		own       *pb.AccountPolicies
		operation string
		version   int64 // 0: none
		from      string
	}{
		{nil, "create", 2, "plan free"},
		{nil, "read", 1, "everybody"},
		{nil, "render", 0, ""},
		{nil, "Create", 0, ""},
		{premium, "create", 3, "plan premium"},
		{premium, "read", 1, "everybody"},
		{premium, "render", 3, "plan premium"},
		{special, "create", 4, "account Acme"},
		{special, "render", 3, "plan premium"},
		{special, "login", 0, ""},
		{lost, "create", 0, ""},
	} {
		got := inforce.ForAccount(listed(), test.own, test.operation)
		if got.Policy.GetVersion() != test.version || got.From() != test.from {
			t.Errorf("%v, %s: version %d from %q, want %d from %q", test.own, test.operation, got.Policy.GetVersion(), got.From(), test.version, test.from)
		}
		if got := got.Disabled.GetBecause(); (got == "abuse") != (test.operation == "login") {
			t.Errorf("%s is disabled because of %q", test.operation, got)
		}
	}
	if got := special.GetPolicies()[0].GetAccount(); got != "" {
		t.Error("the message that was given has changed")
	}
	if got := inforce.Operations(listed(), special); !slices.Equal(got, []string{"create", "login", "read", "render"}) {
		t.Errorf("operations %v", got)
	}
	if got := inforce.Operations(listed(), nil); !slices.Equal(got, []string{"create", "login", "read"}) {
		t.Errorf("operations %v", got)
	}
}

func TestForPlan(t *testing.T) {
	for _, test := range []struct {
		plan, operation, from string
	}{{"premium", "create", "plan premium"}, {"free", "render", ""}, {"", "create", "everybody"}, {"premium", "read", "everybody"}} {
		if got := inforce.ForPlan(listed(), test.plan, test.operation).From(); got != test.from {
			t.Errorf("%s, %s: from %q, want %q", test.plan, test.operation, got, test.from)
		}
	}
	without := listed()
	without.DefaultPlan = ""
	if got := inforce.PlanOf(without, nil); got != "" {
		t.Errorf("the plan of an account without any is %q", got)
	}
}
