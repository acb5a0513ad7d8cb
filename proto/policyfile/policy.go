package policyfile

import (
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// root reads the top of a file.
func (p *parser) root(node *yaml.Node) []*tokenleasev1.Policy {
	var policies []*tokenleasev1.Policy
	p.mapping(node, "", []field{{name: "policies", required: true, read: func(list *yaml.Node, path string) {
		if list.Kind != yaml.SequenceNode {
			p.wrongKind(list, path, "want a list of policies")
			return
		}
		if len(list.Content) == 0 {
			p.faultf(list.Line, path, "is an empty list: want at least one policy")
		}
		lines := map[string]int{} // where each operation stood first
		for i, item := range list.Content {
			policies = append(policies, p.policy(item, path+"["+strconv.Itoa(i)+"]", lines))
		}
	}}})
	return policies
}

// policy reads one policy. The lines are those of the operations before.
func (p *parser) policy(node *yaml.Node, path string, lines map[string]int) *tokenleasev1.Policy {
	out := &tokenleasev1.Policy{
		DefaultCostTokens: 1,
		MaxSharePercent:   tokenleasev1.MaxSharePercent,
		Reclaim:           tokenleasev1.Reclaim_RECLAIM_PROOF,
		OnUnavailable:     tokenleasev1.Unavailability_UNAVAILABILITY_REJECT,
	}
	before := p.troubles()
	costLine := node.Line
	ok := p.mapping(node, path, []field{
		{name: "operation", required: true, read: func(v *yaml.Node, at string) { out.Operation = p.operation(v, at, lines) }},
		{name: "token-bucket", required: true, read: func(v *yaml.Node, at string) { out.Rule = p.tokenBucket(v, at) }},
		{name: "cost", read: func(v *yaml.Node, at string) { out.DefaultCostTokens, costLine = p.number(v, at), v.Line }},
		{name: "max-cost", read: func(v *yaml.Node, at string) { out.MaxCostTokens = p.positive(v, at) }},
		{name: "allow-zero-cost", read: func(v *yaml.Node, at string) { out.AllowZeroCost = p.boolean(v, at) }},
		{name: "max-share", read: func(v *yaml.Node, at string) { out.MaxSharePercent = p.percent(v, at) }},
		{name: "reclaim", read: func(v *yaml.Node, at string) { p.choice(v, at, "proof", "deadline") }},
		{name: "on-unavailable", read: func(v *yaml.Node, at string) { p.choice(v, at, "reject", "local") }},
	})
	if !ok || p.troubles() > before {
		return out // what follows needs every field
	}
	if cost, most := out.GetDefaultCostTokens(), out.GetMaxCostTokens(); most > 0 && cost > most {
		p.faultf(costLine, join(path, "cost"), "%d is above max-cost, which is %d", cost, most)
	} else if cost == 0 && !out.GetAllowZeroCost() {
		p.faultf(costLine, join(path, "cost"), "0 needs allow-zero-cost: true, or want 1 or more")
	} else if err := out.Validate(); err != nil {
		p.faultf(node.Line, path, "%v", err) // a rule that is not checked here
	}
	return out
}

// operation reads the name of an operation, which stands once in a file.
func (p *parser) operation(node *yaml.Node, path string, lines map[string]int) string {
	if node.Kind != yaml.ScalarNode || isEmpty(node) {
		p.wrongKind(node, path, "want a name such as report.create")
		return ""
	}
	name := node.Value
	switch {
	case isPlain(node) && node.ShortTag() != "!!str":
		p.faultf(node.Line, path, "%s reads as something else than a name: put it in quotes", quote(name))
	case len(name) == 0 || len(name) > tokenleasev1.MaxOperationBytes:
		p.faultf(node.Line, path, "has %d bytes: want 1 to %d", len(name), tokenleasev1.MaxOperationBytes)
	case strings.ContainsFunc(name, unicode.IsControl):
		p.faultf(node.Line, path, "%s has a control character: remove it", quote(name))
	case lines[name] != 0:
		p.faultf(node.Line, path, "%s has a policy already, in line %d: want one for each operation", quote(name), lines[name])
	}
	if lines[name] == 0 {
		lines[name] = node.Line
	}
	return name
}

// tokenBucket reads the rule.
func (p *parser) tokenBucket(node *yaml.Node, path string) *tokenleasev1.Policy_TokenBucket {
	bucket := &tokenleasev1.TokenBucket{}
	p.mapping(node, path, []field{
		{name: "capacity", required: true, read: func(v *yaml.Node, at string) {
			bucket.CapacityTokens = p.number(v, at)
			if bucket.GetCapacityTokens() > tokenleasev1.MaxCapacityTokens {
				p.faultf(v.Line, at, "%d is too large: want at most %d", bucket.GetCapacityTokens(), int64(tokenleasev1.MaxCapacityTokens))
			}
		}},
		{name: "refill", read: func(v *yaml.Node, at string) {
			bucket.RefillTokens, bucket.RefillIntervalNs = p.refill(v, at)
		}},
	})
	return &tokenleasev1.Policy_TokenBucket{TokenBucket: bucket}
}

// positive reads a number of tokens that is not 0.
func (p *parser) positive(node *yaml.Node, path string) int64 {
	before := p.troubles()
	n := p.number(node, path)
	if n == 0 && p.troubles() == before {
		p.faultf(node.Line, path, "0 is not a limit: want 1 or more, or leave the field out")
	}
	return n
}

// boolean reads true or false, and nothing that YAML takes for them.
func (p *parser) boolean(node *yaml.Node, path string) bool {
	if !isPlain(node) || node.Value != "true" && node.Value != "false" {
		p.wrongKind(node, path, "want true or false")
	}
	return node.Value == "true"
}

// percent reads a share such as 50%.
func (p *parser) percent(node *yaml.Node, path string) int32 {
	digits, found := strings.CutSuffix(node.Value, "%")
	n, err := strconv.ParseInt(digits, 10, 32)
	if !isPlain(node) || !found || numberProblem(digits) != "" || err != nil || n < 1 || n > tokenleasev1.MaxSharePercent {
		p.wrongKind(node, path, "want 1% to 100%, in whole percent")
	}
	return int32(n)
}

// choice reads a word of which only one is available, another only later.
func (p *parser) choice(node *yaml.Node, path, now, later string) {
	switch {
	case !isPlain(node) || node.Value != now && node.Value != later:
		p.wrongKind(node, path, "want "+now)
	case node.Value == later:
		p.faultf(node.Line, path, "%s is not available yet: want %s", later, now)
	}
}
