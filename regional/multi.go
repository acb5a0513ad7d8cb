package regional

import (
	"fmt"
	"slices"
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// several is a job over several budgets: all are spent, or none.
//
// # Why compensation cannot over-admit
//
// Each attempt takes the budgets' costs as holds, one after the other. A hold is
// taken out of the credit by the same swap as a spend, so what one attempt holds
// nobody else can spend. When all are held, each is settled at its full cost: held
// tokens become spent ones, and no credit moves. When one is denied, each hold is
// settled at 0, which puts back exactly what that hold took, once, and only while
// its grant lives; so the credit is never more than it would be without the
// attempt. If the process dies in between, or the epoch ends, what is held counts
// as spent: too much, never too little. What others see meanwhile is less credit
// than there is, which can deny them and cannot admit them.
//
// # Why it gets on
//
// An attempt never waits while it holds anything: where only news can tell it gives
// all back first. All attempts take budgets in the order of their keys, so of
// several that compete for the same ones the one that has taken the first of them
// is ahead of the others in the rest too, and they do not fail by one another in
// turns for ever.
type several struct {
	limiter  *Limiter
	claims   []claim // in the order of the request
	order    []int   // by key
	answers  []decision.Answer
	watchAll bool // take nothing
}

func (l *Limiter) several(req *decision.Request) *several {
	s := &several{limiter: l, answers: make([]decision.Answer, 1+len(req.Also))}
	s.add(req.Part)
	s.claims[0].version = req.PolicyVersion
	for _, p := range req.Also {
		s.add(p)
	}
	slices.SortFunc(s.order, func(a, b int) int { return s.claims[a].key.Compare(s.claims[b].key) })
	return s
}

func (s *several) add(p decision.Part) {
	s.order = append(s.order, len(s.claims))
	s.claims = append(s.claims, claim{limiter: s.limiter, key: p.Key, budget: s.limiter.known(p.Key), cost: p.Cost, manner: holds})
}

// attempt implements job. It looks before it takes, so that one that is denied
// anyway does not take credit from under others for a moment, nor wake those that
// wait for it.
func (s *several) attempt() (d decision.Answer, watch *claim, decided bool) {
	unknown, failed := s.try(watches)
	if !failed && !s.watchAll {
		unknown, failed = s.try(holds)
	}
	if unknown != nil {
		return decision.Answer{}, unknown, false
	}
	if !failed && !s.watchAll {
		for i := range s.claims {
			s.claims[i].settle()
		}
	}
	worst := s.worst()
	return s.answer(worst), &s.claims[worst], true
}

// try goes through the parts in the given manner. After the first that is not
// admitted, what was taken is given back and the others are only looked at: what
// they would be told is part of the answer. unknown is the first that only news can
// tell.
func (s *several) try(how manner) (unknown *claim, failed bool) {
	for _, i := range s.order {
		c := &s.claims[i]
		c.manner = how
		answer, known := c.try()
		s.answers[i] = answer
		switch {
		case known && answer.Allowed:
			continue
		case !known && unknown == nil:
			unknown = c
		case !known:
			c.budget.Refused(max(1, c.tokens)) // asked for at the same time
		}
		if !failed {
			failed, how = true, watches
			s.release()
		}
	}
	return unknown, failed
}

// release gives back what the attempt has taken.
func (s *several) release() {
	for i := range s.claims {
		s.claims[i].release()
	}
}

// giveUp implements job. When the time is up, budgets of which nobody answered may
// have a local allowance, so it is one more attempt; else nothing is taken.
func (s *several) giveUp(over ending) decision.Answer {
	s.watchAll = !over.timeUp || over.inLine
	for i := range s.claims {
		s.claims[i].over = over
	}
	d, _, _ := s.attempt()
	if s.watchAll && d.Allowed { // it would be, now: too late
		for i := range s.claims {
			s.claims[i].late(&s.answers[i])
		}
		d = s.answer(s.worst())
	}
	return d
}

// late makes the admission d of a claim that waits no longer, and whose cost is not
// taken, what it is without the cost: a denial, unless the policy is in shadow mode
// or there is nothing to take.
func (c *claim) late(d *decision.Answer) {
	if c.tokens > 0 && !d.Shadow {
		*d = c.lenient(denied(c.budget, pb.Reason_REASON_UNAVAILABLE, c.over.problem), false)
	}
}

// gravity orders reasons: that of an answer is the gravest of its parts. First what
// asking again cannot cure, then what keeps anything from being known, and last
// what time alone cures.
var gravity = [...]pb.Reason{
	pb.Reason_REASON_ALLOWED,
	pb.Reason_REASON_FALLBACK,
	pb.Reason_REASON_EXHAUSTED,
	pb.Reason_REASON_COST_ABOVE_CAPACITY,
	pb.Reason_REASON_UNAVAILABLE,
	pb.Reason_REASON_DISABLED,
	pb.Reason_REASON_NO_POLICY,
	pb.Reason_REASON_REFRESH,
	pb.Reason_REASON_INVALID,
}

// worst is the part whose reason counts: a denial before an admission, then the
// gravest, then the first in the order of the request.
func (s *several) worst() int {
	weight := func(d *decision.Answer) int {
		w := slices.Index(gravity[:], d.Reason)
		if !d.Allowed {
			w += len(gravity)
		}
		return w
	}
	worst := 0
	for i := range s.answers {
		if weight(&s.answers[i]) > weight(&s.answers[worst]) {
			worst = i
		}
	}
	return worst
}

// answer puts the parts together. The numbers of a denial are those of its worst
// part, those of an admission are those of the request's own key. The wait is the
// longest of all parts that are denied, and told only if each of them has one.
func (s *several) answer(worst int) decision.Answer {
	from := 0
	if !s.answers[worst].Allowed {
		from = worst
	}
	d := s.answers[from]
	d.Reason, d.Shadow, d.Detail = s.answers[worst].Reason, false, s.answers[worst].Detail
	if d.Detail != "" {
		d.Detail = fmt.Sprintf("budget %d of %d: %s", worst+1, len(s.answers), d.Detail)
	}
	d.HasRetry, d.RetryIn = !d.Allowed, 0
	d.Parts = make([]decision.PartAnswer, len(s.answers))
	for i := range s.answers {
		a := &s.answers[i]
		d.Parts[i] = decision.PartAnswer{
			Key: s.claims[i].key, Reason: a.Reason, Limit: a.Limit, Remaining: a.Remaining,
			HasRetry: a.HasRetry, RetryIn: a.RetryIn, PolicyVersion: a.PolicyVersion, GrantID: a.GrantID,
		}
		if !d.Allowed { // what was held is back
			d.Parts[i].GrantID, d.Parts[i].Remaining = "", s.claims[i].budget.Remaining()
		}
		d.NotStrict = d.NotStrict || a.NotStrict
		d.Shadow = d.Shadow || d.Allowed && a.Shadow
		if !a.Allowed {
			d.HasRetry = d.HasRetry && a.HasRetry
			if a.RetryIn >= d.RetryIn {
				d.RetryIn, d.RetryAt = a.RetryIn, a.RetryAt
			}
		}
	}
	if !d.HasRetry {
		d.RetryIn, d.RetryAt = 0, time.Time{}
	}
	return d
}
