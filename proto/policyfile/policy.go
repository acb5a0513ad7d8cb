package policyfile

import (
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// laterRule is what to say of rules that are planned.
const laterRule = "this rule is not available yet: want token-bucket"

// reader reads policies of one file.
type reader struct {
	*strictyaml.Parser

	lines map[string]int // where each operation stood first
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
	costLine := node.Line
	ok := r.Mapping(node, path, []strictyaml.Field{
		{Name: "operation", Required: true, Read: func(v *strictyaml.Node, at string) { out.Operation = r.operation(v, at) }},
		{Name: "token-bucket", Required: true, Read: func(v *strictyaml.Node, at string) { out.Rule = r.tokenBucket(v, at) }},
		{Name: "cost", Read: func(v *strictyaml.Node, at string) {
			out.DefaultCostTokens, costLine = r.Number(v, at, "tokens"), v.Line
		}},
		{Name: "max-cost", Read: func(v *strictyaml.Node, at string) { out.MaxCostTokens = r.positive(v, at) }},
		{Name: "allow-zero-cost", Read: func(v *strictyaml.Node, at string) { out.AllowZeroCost = r.Boolean(v, at) }},
		{Name: "max-share", Read: func(v *strictyaml.Node, at string) {
			out.MaxSharePercent = int32(r.Percent(v, at, 1, tokenleasev1.MaxSharePercent))
		}},
		{Name: "reclaim", Read: func(v *strictyaml.Node, at string) { r.soon(v, at, "proof", "deadline") }},
		{Name: "on-unavailable", Read: func(v *strictyaml.Node, at string) { r.soon(v, at, "reject", "local") }},
		{Name: "rolling-window", Refused: laterRule},
		{Name: "fixed-window", Refused: laterRule},
		{Name: "concurrency", Refused: laterRule},
	})
	if !ok || r.Troubles() > before {
		return out // what follows needs every field
	}
	if cost, most := out.GetDefaultCostTokens(), out.GetMaxCostTokens(); most > 0 && cost > most {
		r.Faultf(costLine, strictyaml.Join(path, "cost"), "%d is above max-cost, which is %d", cost, most)
	} else if cost == 0 && !out.GetAllowZeroCost() {
		r.Faultf(costLine, strictyaml.Join(path, "cost"), "0 needs allow-zero-cost: true, or want 1 or more")
	} else if err := out.Validate(); err != nil {
		r.Faultf(node.Line, path, "%v", err) // a rule that is not checked here
	}
	return out
}

// operation reads the name of an operation, which stands once in a file.
func (r reader) operation(node *strictyaml.Node, path string) string {
	before := r.Troubles()
	name := r.Name(node, path, tokenleasev1.MaxOperationBytes, "report.create")
	first := r.lines[name]
	switch {
	case r.Troubles() > before:
	case first != 0:
		r.Faultf(node.Line, path, "%s has a policy already, in line %d: want one for each operation", strictyaml.Quote(name), first)
	default:
		r.lines[name] = node.Line
	}
	return name
}

// tokenBucket reads the rule.
func (r reader) tokenBucket(node *strictyaml.Node, path string) *tokenleasev1.Policy_TokenBucket {
	bucket := &tokenleasev1.TokenBucket{}
	r.Mapping(node, path, []strictyaml.Field{
		{Name: "capacity", Required: true, Read: func(v *strictyaml.Node, at string) {
			bucket.CapacityTokens = r.Count(v, at, "tokens", 0, tokenleasev1.MaxCapacityTokens)
		}},
		{Name: "refill", Read: func(v *strictyaml.Node, at string) {
			tokens, interval := r.Rate(v, at, strictyaml.Rate{
				Name: "refill", Does: "refills", Counted: "tokens", Zero: "a fixed quota", Longest: tokenleasev1.MaxRefillInterval,
			})
			bucket.RefillTokens, bucket.RefillIntervalNs = tokens, int64(interval)
		}},
	})
	return &tokenleasev1.Policy_TokenBucket{TokenBucket: bucket}
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

// soon reads a word of which only one is available, another only later.
func (r reader) soon(node *strictyaml.Node, path, now, later string) {
	if node.Value == later {
		r.Faultf(node.Line, path, "%s is not available yet: want %s", later, now)
		return
	}
	r.Choice(node, path, now)
}
