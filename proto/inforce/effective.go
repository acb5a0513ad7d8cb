package inforce

import (
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Effective is what rules one operation for somebody.
type Effective struct {
	// Policy that rules. Its fields plan and account say for whom it stands. Nil:
	// there is none, and everything is denied.
	Policy *pb.Policy
	// Disabled is set where an operator has disabled the operation for everybody:
	// everything is denied.
	Disabled *pb.DisabledOperation
}

// From says for whom the policy stands: "account Acme", "plan premium" or "everybody";
// empty without one.
func (e Effective) From() string {
	switch {
	case e.Policy == nil:
		return ""
	case e.Policy.GetAccount() != "":
		return "account " + e.Policy.GetAccount()
	case e.Policy.GetPlan() != "":
		return "plan " + e.Policy.GetPlan()
	}
	return "everybody"
}

// PlanOf is the plan that an account is on: its own or the default one, empty for
// none. What the account has of its own may be nil.
func PlanOf(listed *pb.ListPoliciesResponse, own *pb.AccountPolicies) string {
	if own.GetPlan() != "" {
		return own.GetPlan()
	}
	return listed.GetDefaultPlan()
}

// ForAccount is what rules an operation for an account. What the account has of its
// own may be nil.
func ForAccount(listed *pb.ListPoliciesResponse, own *pb.AccountPolicies, operation string) Effective {
	if p := find(own.GetPolicies(), operation); p != nil {
		p.Account, p.Plan = own.GetAccount(), ""
		return Effective{p, disabled(listed, operation)}
	}
	return ForPlan(listed, PlanOf(listed, own), operation)
}

// ForPlan is what rules an operation for the accounts of a plan that have none of
// their own. Without a plan it is the policy for everybody. Of a plan that is not
// listed nothing is known, and nothing is admitted.
func ForPlan(listed *pb.ListPoliciesResponse, plan, operation string) Effective {
	e := Effective{Disabled: disabled(listed, operation)}
	if plan != "" && Plan(listed, plan) == nil {
		return e
	}
	if e.Policy = find(Plan(listed, plan).GetPolicies(), operation); e.Policy != nil {
		e.Policy.Account, e.Policy.Plan = "", plan
		return e
	}
	if e.Policy = find(listed.GetPolicies(), operation); e.Policy != nil {
		e.Policy.Account, e.Policy.Plan = "", ""
	}
	return e
}

// Plan is the plan of a name, or nil.
func Plan(listed *pb.ListPoliciesResponse, name string) *pb.Plan {
	for _, plan := range listed.GetPlans() {
		if plan.GetName() == name {
			return plan
		}
	}
	return nil
}

// Operations are those that a policy rules for an account, and those that are
// disabled, in order. What the account has of its own may be nil.
func Operations(listed *pb.ListPoliciesResponse, own *pb.AccountPolicies) []string {
	var all []string
	for _, policies := range [][]*pb.Policy{own.GetPolicies(), Plan(listed, PlanOf(listed, own)).GetPolicies(), listed.GetPolicies()} {
		for _, p := range policies {
			all = append(all, p.GetOperation())
		}
	}
	for _, d := range listed.GetDisabled() {
		all = append(all, d.GetOperation())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// find is a copy of the policy of an operation, or nil.
func find(policies []*pb.Policy, operation string) *pb.Policy {
	for _, p := range policies {
		if p.GetOperation() == operation {
			return proto.CloneOf(p)
		}
	}
	return nil
}

func disabled(listed *pb.ListPoliciesResponse, operation string) *pb.DisabledOperation {
	for _, d := range listed.GetDisabled() {
		if d.GetOperation() == operation {
			return d
		}
	}
	return nil
}

// Assign has a request put an account on a plan, empty for none of its own, and keep
// the policies that it has. What the account has was read after the version, the one
// that was in force: so a change of it since then is refused, and not lost. A version
// that the request names itself stays.
func Assign(request *pb.ApplyPoliciesRequest, own *pb.AccountPolicies, plan string, version int64) {
	if request.GetIfVersion() == 0 {
		request.IfVersion = version
	}
	request.Accounts, request.RemoveAccounts = nil, nil
	if plan == "" && len(own.GetPolicies()) == 0 {
		request.RemoveAccounts = []string{own.GetAccount()}
		return
	}
	request.Accounts = []*pb.AccountPolicies{{Account: own.GetAccount(), Plan: plan, Policies: own.GetPolicies()}}
}
