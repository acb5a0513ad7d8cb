package envoy

import (
	"slices"

	ratelimitcommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// Bounds of a request. A decision has one budget and up to maxBudgets-1 further
// ones.
const (
	maxDescriptors = 64
	maxBudgets     = 16
)

// plan is what a request asks for, and what is wrong with it.
type plan struct {
	domain  string  // the label of metrics: a domain of the mapping, or otherDomain
	problem problem // of the request as a whole
	marks   []mark  // one for each descriptor
	budgets []budget
	late    bool
}

// mark is what a descriptor came to: a budget, a problem, or nothing that matches.
type mark struct {
	budget  int // an index of plan.budgets, or -1
	problem problem
}

func (m mark) unmatched() bool { return m.budget < 0 && m.problem == "" }

// budget is one of the budgets that a request names, in the order in which they
// first stand there.
type budget struct {
	key    lease.Key
	cost   decision.Cost
	query  bool // all descriptors of it are queries
	shared bool // its account is fixed, so its numbers are nobody's own
}

// otherDomain is the label of all domains that the mapping does not name.
const otherDomain = "other"

// plan reads a request.
func (m *Mapping) plan(req *ratelimit.RateLimitRequest) plan {
	p := plan{domain: otherDomain}
	if m != nil && len(m.domains[req.GetDomain()]) > 0 {
		p.domain = req.GetDomain()
	}
	descriptors := req.GetDescriptors()
	if req.GetDomain() == "" || len(descriptors) == 0 || len(descriptors) > maxDescriptors {
		p.problem = problemRequest
		return p
	}
	var late, prompt bool
	for _, d := range descriptors {
		rule, found, problem := m.descriptor(req.GetDomain(), d)
		at := mark{budget: -1, problem: problem}
		if rule != nil && problem == "" {
			late, prompt = late || rule.late, prompt || !rule.late
			at = p.add(found, rule, req.GetHitsAddend(), d)
		}
		p.marks = append(p.marks, at)
	}
	p.late = late
	switch {
	case late && prompt:
		p.problem = problemMixed
	case len(p.budgets) > maxBudgets:
		p.problem = problemRequest
	}
	return p
}

// descriptor finds the rule and the budget of a descriptor.
func (m *Mapping) descriptor(domain string, d *ratelimitcommon.RateLimitDescriptor) (*rule, lease.Key, problem) {
	switch {
	case d.GetIsNegativeHits():
		return nil, lease.Key{}, problemNegative
	case d.GetLimit() != nil:
		return nil, lease.Key{}, problemOverride
	case len(d.GetEntries()) > maxEntries:
		return nil, lease.Key{}, problemForm
	}
	entries := make([]entry, 0, len(d.GetEntries()))
	for _, e := range d.GetEntries() {
		entries = append(entries, entry{key: e.GetKey(), value: e.GetValue()})
	}
	return m.match(domain, entries)
}

// add adds what a descriptor costs to its budget.
func (p *plan) add(key lease.Key, r *rule, requestHits uint32, d *ratelimitcommon.RateLimitDescriptor) mark {
	cost, query, ok := costOf(r, requestHits, d)
	if !ok {
		return mark{budget: -1, problem: problemHits}
	}
	i := slices.IndexFunc(p.budgets, func(b budget) bool { return b.key == key })
	if i < 0 {
		p.budgets = append(p.budgets, budget{key: key, cost: cost, query: query, shared: r.account.isFixed()})
		return mark{budget: len(p.budgets) - 1}
	}
	b := &p.budgets[i]
	b.shared = b.shared || r.account.isFixed()
	switch {
	case query:
	case b.query:
		b.cost, b.query = cost, false
	case !cost.Given || !b.cost.Given, cost.Tokens > pb.MaxCapacityTokens-b.cost.Tokens:
		return mark{budget: -1, problem: problemHits} // the policy's default is not known here
	default:
		b.cost.Tokens += cost.Tokens
	}
	return mark{budget: i}
}

// costOf is what a descriptor costs. It is not ok if no budget could ever hold
// that much: hits that were negative before they were sent look like this.
func costOf(r *rule, requestHits uint32, d *ratelimitcommon.RateLimitDescriptor) (cost decision.Cost, query, ok bool) {
	switch own := d.GetHitsAddend(); {
	case own != nil && own.GetValue() == 0:
		return decision.Tokens(0), true, true
	case own != nil && own.GetValue() > pb.MaxCapacityTokens:
		return decision.Cost{}, false, false
	case own != nil:
		return decision.Tokens(int64(own.GetValue())), false, true
	case requestHits > 0:
		return decision.Tokens(int64(requestHits)), false, true
	case r.cost == 0:
		return decision.Cost{}, false, true
	}
	return decision.Tokens(r.cost), false, true
}
