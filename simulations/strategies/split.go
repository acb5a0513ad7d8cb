package strategies

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

// split is a bucket in each limiter, and nothing between them: an in-process
// limiter such as x/time/rate, or a counter per region. With one part, each
// limiter has the whole budget, and together they admit as many times too much as
// there are limiters (independent). With as many parts as limiters, the sum is
// the budget, and a busy region is denied what idle ones have (static).
//
// A crash loses the count: the next start has a full bucket. So does a second
// start beside the first. Both are what such limiters do.
//
// It leaves out limiters that come and go: the number of parts is fixed.
type split struct {
	alone
	w     *world
	parts int
	all   []portion // by process
}

// portion is what one process has.
type portion struct {
	*process
	buckets buckets
}

func newSplit(w *world, parts int) *split { return &split{w: w, parts: parts} }

func (s *split) started(p *process)   { s.all = append(s.all, portion{p, s.w.newBuckets()}) }
func (s *split) ended(*process, bool) {}

func (s *split) check(p *process, a workload.Arrival) {
	now, rule := s.w.mono(&p.machine), s.part(p, s.w.rules[a.Key])
	switch {
	case a.Cost > rule.Capacity:
		s.w.end(a, measure.Refused) // its part will never do
	case s.all[p.id].buckets.of(a.Key, rule, now).take(now, a.Cost):
		s.w.end(a, measure.Admitted)
	default:
		s.w.end(a, measure.Exhausted)
	}
}

// part is the process's part of a rule. The first limiters have a token more
// where the capacity does not divide; the refill divides exactly.
func (s *split) part(p *process, rule lease.Rule) lease.Rule {
	n := int64(s.parts)
	if n == 1 {
		return rule
	}
	rest := rule.Capacity % n
	rule.Capacity /= n
	if int64(p.node) < rest {
		rule.Capacity++
	}
	common := divisor(rule.Refill.Tokens, n)
	rule.Refill.Tokens /= common
	rule.Refill.Interval *= time.Duration(n / common)
	return rule
}

// divisor is the greatest common one.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (s *split) ruled(key int, before lease.Rule) {
	for _, one := range s.all {
		before, rule := s.part(one.process, before), s.part(one.process, s.w.rules[key])
		one.buckets.rule(key, before, rule, s.w.mono(&one.machine))
	}
	s.w.rec.Judge(key).Bind(s.w.now)
}

// balance has all credit held; with one part each, far more than the budget.
func (s *split) balance(b *measure.Balance) {
	for _, one := range s.all {
		if one.alive {
			ruleOf := func(key int) lease.Rule { return s.part(one.process, s.w.rules[key]) }
			b.Held[one.region] += one.buckets.total(s.w.mono(&one.machine), ruleOf)
		}
	}
}
