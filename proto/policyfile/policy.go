package policyfile

import (
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// reader reads policies of one file.
type reader struct {
	*strictyaml.Parser

	operations map[string]int // where each stood first
}

// policy reads one policy.
func (r reader) policy(node *strictyaml.Node, path string) *tokenleasev1.Policy {
	out := &tokenleasev1.Policy{
		DefaultCostTokens: 1,
		MaxSharePercent:   tokenleasev1.MaxSharePercent,
		Reclaim:           tokenleasev1.Reclaim_RECLAIM_PROOF,
		OnUnavailable:     tokenleasev1.Unavailability_UNAVAILABILITY_REJECT,
	}
	before := r.Troubles()
	fields := []strictyaml.Field{
		{Name: "operation", Required: true, Read: func(v *strictyaml.Node, at string) { out.Operation = r.operation(v, at) }},
	}
	fields = append(fields, r.ruleFields(out)...)
	fields = append(fields, r.costFields(out)...)
	fields = append(fields, r.conductFields(out)...)
	if !r.Mapping(node, path, fields) {
		return out
	}
	r.oneRule(node, path)
	if r.Troubles() > before {
		return out // what follows needs every field
	}
	r.together(out, node, path)
	return out
}

// costFields read what an operation costs, and how much of it one limiter may hold.
func (r reader) costFields(out *tokenleasev1.Policy) []strictyaml.Field {
	return []strictyaml.Field{
		{Name: "cost", Read: func(v *strictyaml.Node, at string) { out.DefaultCostTokens = r.Number(v, at, "tokens") }},
		{Name: "max-cost", Read: func(v *strictyaml.Node, at string) { out.MaxCostTokens = r.positive(v, at) }},
		{Name: "allow-zero-cost", Read: func(v *strictyaml.Node, at string) { out.AllowZeroCost = r.Boolean(v, at) }},
		{Name: "max-share", Read: func(v *strictyaml.Node, at string) {
			out.MaxSharePercent = int32(r.Percent(v, at, 1, tokenleasev1.MaxSharePercent))
		}},
		{Name: "hold", Read: func(v *strictyaml.Node, at string) { out.HoldNs = r.hold(v, at) }},
		{Name: "postpaid", Read: func(v *strictyaml.Node, at string) { out.Postpaid = r.Boolean(v, at) }},
	}
}

// conductFields read what is done beside counting.
func (r reader) conductFields(out *tokenleasev1.Policy) []strictyaml.Field {
	return []strictyaml.Field{
		{Name: "shadow", Read: func(v *strictyaml.Node, at string) { out.Shadow = r.Boolean(v, at) }},
		{Name: "disabled", Read: func(v *strictyaml.Node, at string) { out.Disabled = r.Boolean(v, at) }},
		{Name: "disabled-because", Read: func(v *strictyaml.Node, at string) {
			out.DisabledBecause = r.Text(v, at, tokenleasev1.MaxBecauseBytes)
		}},
		{Name: "max-staleness", Read: func(v *strictyaml.Node, at string) {
			out.MaxStalenessNs = int64(r.Duration(v, at, tokenleasev1.MinStaleness, tokenleasev1.MaxStaleness))
		}},
		{Name: "reclaim", Read: func(v *strictyaml.Node, at string) {
			if r.Choice(v, at, "proof", "deadline") == "deadline" {
				out.Reclaim = tokenleasev1.Reclaim_RECLAIM_DEADLINE
			}
		}},
		{Name: "reclaim-margin", Read: func(v *strictyaml.Node, at string) {
			out.ReclaimMarginNs = int64(r.Duration(v, at, tokenleasev1.MinReclaimMargin, tokenleasev1.MaxReclaimMargin))
		}},
		{Name: "on-unavailable", Read: func(v *strictyaml.Node, at string) {
			if r.Choice(v, at, "reject", "local") == "local" {
				out.OnUnavailable = tokenleasev1.Unavailability_UNAVAILABILITY_LOCAL
			}
		}},
		{Name: "local", Read: func(v *strictyaml.Node, at string) { out.Local = r.local(v, at) }},
	}
}

// together records which fields of a policy contradict one another.
func (r reader) together(out *tokenleasev1.Policy, node *strictyaml.Node, path string) {
	before := r.Troubles()
	fault := func(field, format string, args ...any) {
		r.Faultf(strictyaml.LineOf(node, field), strictyaml.Join(path, field), format, args...)
	}
	if cost, most := out.GetDefaultCostTokens(), out.GetMaxCostTokens(); most > 0 && cost > most {
		fault("cost", "%d is above max-cost, which is %d", cost, most)
	} else if cost == 0 && !out.GetAllowZeroCost() {
		fault("cost", "0 needs allow-zero-cost: true, or want 1 or more")
	}
	if out.GetPostpaid() && out.GetConcurrency() != nil {
		fault("postpaid", "slots cannot be postpaid: remove it")
	}
	if out.GetLocal() != nil && out.GetConcurrency() != nil {
		fault("local", "slots have no local allowance, which is spent: remove it, and want on-unavailable: reject")
	}
	if out.GetDisabledBecause() != "" && !out.GetDisabled() {
		fault("disabled-because", "the operation is not disabled: want disabled: true, or remove it")
	}
	reclaim(out, fault)
	local := out.GetOnUnavailable() == tokenleasev1.Unavailability_UNAVAILABILITY_LOCAL
	if local && out.GetLocal() == nil {
		fault("on-unavailable", "local needs its numbers: want the field local, such as local: {capacity: 5, refill: 1 per 1s, for: 10m}")
	} else if !local && out.GetLocal() != nil {
		fault("local", "is out of use: want on-unavailable: local, or remove it")
	}
	if r.Troubles() > before {
		return
	}
	if err := out.Validate(); err != nil {
		r.Faultf(node.Line, path, "%v", err) // a rule that is not checked here
	}
}

// reclaim records what is missing of how lost credit is reclaimed, or too much.
func reclaim(out *tokenleasev1.Policy, fault func(field, format string, args ...any)) {
	switch deadline := out.GetReclaim() == tokenleasev1.Reclaim_RECLAIM_DEADLINE; {
	case !deadline && out.GetReclaimMarginNs() != 0:
		fault("reclaim-margin", "is out of use: want reclaim: deadline, or remove it")
	case deadline && out.GetConcurrency() != nil:
		fault("reclaim", "no deadline ends the work that holds a slot: want proof")
	case deadline && out.GetPostpaid():
		fault("reclaim", "with a deadline what a silent limiter owes is lost: want proof, or no postpaid")
	case deadline && out.GetMaxStalenessNs() == 0:
		fault("reclaim", "deadline needs to know when limiters stop: want the field max-staleness, such as max-staleness: 30s")
	case deadline && out.GetReclaimMarginNs() == 0:
		fault("reclaim", "deadline needs a margin for slow clocks and pauses: want the field reclaim-margin, such as reclaim-margin: 15s")
	}
}

// operation reads the name of an operation, which stands once in a file.
func (r reader) operation(node *strictyaml.Node, path string) string {
	before := r.Troubles()
	name := r.Name(node, path, tokenleasev1.MaxOperationBytes, "report.create")
	first := r.operations[name]
	switch {
	case r.Troubles() > before:
	case first != 0:
		r.Faultf(node.Line, path, "%s has a policy already, in line %d: want one for each operation", strictyaml.Quote(name), first)
	default:
		r.operations[name] = node.Line
	}
	return name
}

// positive reads a number of tokens that is not 0.
func (r reader) positive(node *strictyaml.Node, path string) int64 {
	before := r.Troubles()
	n := r.Number(node, path, "tokens")
	if n == 0 && r.Troubles() == before {
		r.Faultf(node.Line, path, "0 is not a limit: want 1 or more, or leave the field out")
	}
	return n
}

// hold reads how long a reservation lasts, in nanoseconds. The usual time is as if
// it were left out.
func (r reader) hold(node *strictyaml.Node, path string) int64 {
	hold := r.Duration(node, path, tokenleasev1.MinHold, tokenleasev1.MaxHold)
	if hold == tokenleasev1.DefaultHold {
		return 0
	}
	return int64(hold)
}
