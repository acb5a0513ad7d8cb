package policyfile

import (
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// MaxFileBytes is the largest file that Parse reads.
const MaxFileBytes = strictyaml.MaxFileBytes

// Fault is one thing that is wrong with a file.
type Fault = strictyaml.Fault

// Faults is everything that is wrong with a file, in order of lines. It is the
// error of Parse and is never empty there.
type Faults = strictyaml.Faults

// Document is what a policy file says. Versions and times are not set.
type Document struct {
	// Policies for everybody, each of another operation.
	Policies []*tokenleasev1.Policy
	// Plans, each of another name.
	Plans []*tokenleasev1.Plan
	// DefaultPlan of accounts without one; nil: the file does not say; empty: none.
	DefaultPlan *string
	// Accounts with what they have of their own, each once.
	Accounts []*tokenleasev1.AccountPolicies
}

// IsEmpty says whether a document says nothing.
func (d Document) IsEmpty() bool {
	return len(d.Policies) == 0 && len(d.Plans) == 0 && d.DefaultPlan == nil && len(d.Accounts) == 0
}

// Parse reads a policy file. The name is used in messages only.
//
// Everything is in the order of the file, complete and valid. If anything is wrong
// the document is empty, and the error is a [Faults] that tells all of it. Whether
// the plans that accounts are on exist is not known here.
func Parse(name string, data []byte) (Document, error) {
	p := strictyaml.New(name)
	var d Document
	if top := p.Document(data, "policies, plans or accounts"); top != nil {
		d = readDocument(p, top)
	}
	if err := p.Err(); err != nil {
		return Document{}, err
	}
	return d, nil
}

// readDocument reads the top of a file.
func readDocument(p *strictyaml.Parser, top *strictyaml.Node) Document {
	var d Document
	before := p.Troubles()
	isMapping := p.Mapping(top, "", []strictyaml.Field{
		{Name: "policies", Read: func(v *strictyaml.Node, at string) { d.Policies = ReadPolicies(p, v, at) }},
		{Name: "plans", Read: func(v *strictyaml.Node, at string) { d.Plans = readPlans(p, v, at) }},
		{Name: "default-plan", Read: func(v *strictyaml.Node, at string) { d.DefaultPlan = new(readDefaultPlan(p, v, at)) }},
		{Name: "accounts", Read: func(v *strictyaml.Node, at string) { d.Accounts = readAccounts(p, v, at) }},
	})
	if isMapping && d.IsEmpty() && p.Troubles() == before {
		p.Faultf(top.Line, "", "the file has no fields: want policies, plans or accounts")
	}
	return d
}

// ReadPolicies reads a list of policies that stands in another file. They are
// valid unless the parser met faults.
func ReadPolicies(p *strictyaml.Parser, list *strictyaml.Node, path string) []*tokenleasev1.Policy {
	var policies []*tokenleasev1.Policy
	operations := map[string]int{} // where each stood first
	p.List(list, path, "policy", "policies", func(item *strictyaml.Node, at string) {
		r := reader{p, operations}
		policies = append(policies, r.policy(item, at))
	})
	return policies
}

// ReadPolicy reads one policy that stands in another file. It is valid unless the
// parser met faults.
func ReadPolicy(p *strictyaml.Parser, node *strictyaml.Node, path string) *tokenleasev1.Policy {
	r := reader{p, map[string]int{}}
	return r.policy(node, path)
}
