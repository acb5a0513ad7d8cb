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

// Parse reads a policy file. The name is used in messages only.
//
// The policies are in the order of the file, complete and valid. If anything is
// wrong there are none, and the error is a [Faults] that tells all of it.
func Parse(name string, data []byte) ([]*tokenleasev1.Policy, error) {
	p := strictyaml.New(name)
	var policies []*tokenleasev1.Policy
	if top := p.Document(data, "a list of policies"); top != nil {
		p.Mapping(top, "", []strictyaml.Field{{Name: "policies", Required: true, Read: func(list *strictyaml.Node, path string) {
			policies = ReadPolicies(p, list, path)
		}}})
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return policies, nil
}

// ReadPolicies reads a list of policies that stands in another file. They are
// valid unless the parser met faults.
func ReadPolicies(p *strictyaml.Parser, list *strictyaml.Node, path string) []*tokenleasev1.Policy {
	var policies []*tokenleasev1.Policy
	lines := map[string]int{} // where each operation stood first
	p.List(list, path, "policy", "policies", func(item *strictyaml.Node, at string) {
		r := reader{p, lines}
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
