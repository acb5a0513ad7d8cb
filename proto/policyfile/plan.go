package policyfile

import (
	"strings"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// readPlans reads the list of plans, each of another name.
func readPlans(p *strictyaml.Parser, list *strictyaml.Node, path string) []*tokenleasev1.Plan {
	var plans []*tokenleasev1.Plan
	once := unique{p, map[string]int{}}
	p.List(list, path, "plan", "plans", func(item *strictyaml.Node, at string) {
		plan := &tokenleasev1.Plan{}
		p.Mapping(item, at, []strictyaml.Field{
			{Name: "plan", Required: true, Read: func(v *strictyaml.Node, at string) {
				plan.Name = once.name(v, at, "plan", func() string { return ReadPlanName(p, v, at) })
			}},
			{Name: "policies", Read: func(v *strictyaml.Node, at string) { plan.Policies = ReadPolicies(p, v, at) }},
		})
		plans = append(plans, plan)
	})
	return plans
}

// readAccounts reads the list of accounts, each of which has something of its own.
func readAccounts(p *strictyaml.Parser, list *strictyaml.Node, path string) []*tokenleasev1.AccountPolicies {
	var accounts []*tokenleasev1.AccountPolicies
	once := unique{p, map[string]int{}}
	p.List(list, path, "account", "accounts", func(item *strictyaml.Node, at string) {
		account := &tokenleasev1.AccountPolicies{}
		before := p.Troubles()
		isMapping := p.Mapping(item, at, []strictyaml.Field{
			{Name: "account", Required: true, Read: func(v *strictyaml.Node, at string) {
				account.Account = once.name(v, at, "account", func() string { return ReadAccountName(p, v, at) })
			}},
			{Name: "plan", Read: func(v *strictyaml.Node, at string) { account.Plan = ReadPlanName(p, v, at) }},
			{Name: "policies", Read: func(v *strictyaml.Node, at string) { account.Policies = ReadPolicies(p, v, at) }},
		})
		if isMapping && p.Troubles() == before && account.GetPlan() == "" && len(account.GetPolicies()) == 0 {
			p.Faultf(item.Line, at, "has nothing of its own: want a plan or policies, or remove the account")
		}
		accounts = append(accounts, account)
	})
	return accounts
}

// ReadAccountName reads the name of an account, in its own case. One that YAML
// takes for something else than a text, such as 007 or true, needs quotes.
func ReadAccountName(p *strictyaml.Parser, node *strictyaml.Node, path string) string {
	return p.Name(node, path, tokenleasev1.MaxAccountBytes, "Acme")
}

// ReadPlanName reads the name of a plan.
func ReadPlanName(p *strictyaml.Parser, node *strictyaml.Node, path string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	before := p.Troubles()
	name := p.Name(node, path, tokenleasev1.MaxHolderNameBytes, "premium")
	switch {
	case p.Troubles() > before:
	case strings.Trim(name, letters) != "":
		p.Faultf(node.Line, path, "%s is no name of a plan: want letters, digits, '.', '_' and '-' alone", strictyaml.Quote(name))
	case name == "." || name == "..":
		p.Faultf(node.Line, path, "%s is no name of a plan: want a name such as premium", strictyaml.Quote(name))
	}
	return name
}

// readDefaultPlan reads the name of a plan, or an empty text in quotes for none.
func readDefaultPlan(p *strictyaml.Parser, node *strictyaml.Node, path string) string {
	if strictyaml.IsEmptyText(node) {
		return ""
	}
	return ReadPlanName(p, node, path)
}

// unique holds names of a list to standing once.
type unique struct {
	*strictyaml.Parser

	lines map[string]int // where each stood first
}

// name reads one. The word is what it names.
func (u unique) name(node *strictyaml.Node, path, word string, read func() string) string {
	before := u.Troubles()
	name := read()
	first := u.lines[name]
	switch {
	case u.Troubles() > before:
	case first != 0:
		u.Faultf(node.Line, path, "%s stands already, in line %d: want each %s once", strictyaml.Quote(name), first, word)
	default:
		u.lines[name] = node.Line
	}
	return name
}
