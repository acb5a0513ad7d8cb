package scenario

import (
	"fmt"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	"github.com/tokenlease/tokenlease/proto/policywire"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// policies reads the policies that are there at first.
func (r *reader) policies(node *strictyaml.Node, path string) {
	before := r.Troubles()
	for i, p := range policyfile.ReadPolicies(r.Parser, node, path) {
		r.policyNodes = append(r.policyNodes, node.Content[i])
		r.checkSimulated(p, node.Content[i], fmt.Sprintf("%s[%d]", path, i))
		r.sc.Policies = append(r.sc.Policies, policyOf(p, 1))
	}
	r.unsurePolicies = r.Troubles() > before
}

// checkSimulated refuses what a policy says and scenarios leave out: they are about
// what is strict.
func (r *reader) checkSimulated(p *tokenleasev1.Policy, node *strictyaml.Node, path string) {
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"postpaid", p.GetPostpaid()}, {"shadow", p.GetShadow()}, {"disabled", p.GetDisabled()}, {"on-unavailable", p.GetLocal() != nil},
	} {
		if f.has {
			r.fieldf(node, path, f.name, "is not simulated: remove it")
		}
	}
}

// policyOf is a valid policy as the core has it.
func policyOf(p *tokenleasev1.Policy, version int64) lease.Policy {
	policy := policywire.From(p)
	policy.Rule.Version = version
	return policy
}

// ruled is the policy of an operation, and whether it has one. If it has none,
// that is recorded.
func (r *reader) ruled(operation string, line int, path string) (lease.Policy, bool) {
	known := make([]string, len(r.sc.Policies))
	for i, p := range r.sc.Policies {
		if p.Operation == operation {
			return p, true
		}
		known[i] = p.Operation
	}
	if operation != "" && !r.unsurePolicies {
		r.Faultf(line, path, "%s has no policy at first: want %s", strictyaml.Quote(operation), oneOf(known))
	}
	return lease.Policy{}, false
}
