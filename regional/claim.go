package regional

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// manner is how a claim takes its cost.
type manner uint8

const (
	spends  manner = iota
	holds          // to be settled
	watches        // takes nothing, and says what it would be told
)

// claim is what a decision wants of one budget. It belongs to one goroutine.
type claim struct {
	limiter *Limiter
	key     lease.Key
	budget  *holder.Budget
	cost    decision.Cost
	version int64 // of the policy that the caller knows; 0: any
	manner  manner
	slots   bool // it is a reservation, and may be of slots

	tokens int64         // the cost, once it is known; 0 before
	policy *lease.Policy // that decided; nil where none is known
	tried  time.Duration // when it was tried last; only for the decision log
	over   ending        // why it waits no longer; the zero value while it may

	// What it has taken, after an admission.
	held     uint64        // the number of its hold; 0: none
	until    time.Duration // when the hold ends
	borrowed loan          // of the policy's local allowance
}

// ending is why a wait is over.
type ending struct {
	problem string        // for people; empty: it is not over
	since   time.Duration // when it began
	timeUp  bool          // nobody answered in the time that was given; else the caller or this limiter ended it
	inLine  bool          // it stood in line
}

// try decides the claim by what is known here; decided is false when only news can
// tell. A denial has taken nothing.
func (c *claim) try() (d decision.Answer, decided bool) {
	b := c.budget
	o := b.Outlook()
	c.tokens, c.held, c.borrowed = 0, 0, loan{}
	c.looked(o)
	if c.cost.Given {
		c.tokens = c.cost.Tokens
	}
	switch {
	case c.tokens < 0:
		return denied(b, pb.Reason_REASON_INVALID, "the cost is negative"), true
	case o == nil:
		if problem := keyProblem(c.key); problem != "" {
			return denied(b, pb.Reason_REASON_INVALID, problem), true
		}
	case o.Policy != nil:
		if reason, detail := c.ruledOut(o.Policy); reason != pb.Reason_REASON_UNSPECIFIED {
			return denied(b, reason, detail), true
		}
		if left, ok := c.take(o); ok {
			allowed(&d, o, left+c.budget.Beyond())
			return d, true
		}
	}
	return c.judged()
}

// looked notes, for the decision log, by which policy the claim is decided and since
// when.
func (c *claim) looked(o *holder.Outlook) {
	if c.limiter.cfg.DecisionLog == nil {
		return
	}
	c.tried, c.policy = c.limiter.cfg.DecisionLog.Mono(), nil
	if o != nil {
		c.policy = o.Policy
	}
}

// ruledOut says why the policy does not even look at the balance.
func (c *claim) ruledOut(p *lease.Policy) (pb.Reason, string) {
	switch {
	case c.version > 0 && c.version < p.Rule.Version:
		return pb.Reason_REASON_REFRESH, olderPolicy
	case p.Disabled && p.DisabledBecause != "":
		return pb.Reason_REASON_DISABLED, disabled + ": " + p.DisabledBecause
	case p.Disabled:
		return pb.Reason_REASON_DISABLED, disabled
	case p.Rule.Kind == lease.Concurrency && !c.slots:
		return pb.Reason_REASON_INVALID, slotsReserved
	}
	if c.version > p.Rule.Version {
		c.limiter.askPolicy(c.key)
	}
	settled, problem := holder.CheckCost(p, c.cost.Tokens, c.cost.Given)
	if problem != "" {
		return pb.Reason_REASON_INVALID, problem
	}
	c.tokens = settled
	return pb.Reason_REASON_UNSPECIFIED, ""
}

// take takes the cost, if the credit is here. Slots of work whose time is over are
// here too.
func (c *claim) take(o *holder.Outlook) (left int64, ok bool) {
	if c.tokens == 0 {
		return c.budget.Credit(), !o.Stopped
	}
	if left, ok = c.takeOnce(o); ok {
		return left, true
	}
	c.budget.Expire(c.limiter.cfg.Clock.Mono())
	return c.takeOnce(o)
}

func (c *claim) takeOnce(o *holder.Outlook) (left int64, ok bool) {
	switch c.manner {
	case spends:
		return c.budget.Spend(c.tokens)
	case holds:
		id := c.limiter.holdNumbers.Add(1)
		lasts := o.Policy.HoldTime()
		if !c.slots { // settled in a moment, and not to end before that
			lasts = max(lasts, lease.DefaultHold)
		}
		until := c.limiter.cfg.Clock.Mono() + lasts
		if left, ok = c.budget.Hold(id, c.tokens, until, o.Policy.Rule.Kind == lease.Concurrency); ok {
			c.held, c.until = id, until
		}
		return left, ok
	case watches:
	}
	left = c.budget.Credit()
	return left, left >= c.tokens
}

// judged is what is known of a claim that found no credit.
func (c *claim) judged() (d decision.Answer, decided bool) {
	b, l := c.budget, c.limiter
	if l.stopped.Load() {
		return c.lenient(denied(b, pb.Reason_REASON_UNAVAILABLE, stopping), false), true
	}
	v := b.Judge(c.tokens, l.cfg.Clock.Mono())
	if v.Reason == pb.Reason_REASON_UNSPECIFIED {
		if c.over.problem == "" {
			return decision.Answer{}, false
		}
		return c.unanswered(), true
	}
	b.Denied()
	d = denied(b, v.Reason, details[v.Reason])
	if v.HasRetry {
		l.retryIn(&d, v.RetryIn)
	}
	return c.lenient(d, v.Reason == pb.Reason_REASON_UNAVAILABLE), true
}

// unanswered is the decision on a claim whose wait is over.
func (c *claim) unanswered() decision.Answer {
	b := c.budget
	b.Denied()
	if b.Unanswered(c.over.since) == pb.Reason_REASON_EXHAUSTED {
		return c.lenient(denied(b, pb.Reason_REASON_EXHAUSTED, tooMuchAsked), false)
	}
	return c.lenient(denied(b, pb.Reason_REASON_UNAVAILABLE, c.over.problem), c.alone())
}

// alone says that the claim's wait shows that no authority is reached: it was at
// least as long as an answer may take, however long the request was to wait, and
// none came.
func (c *claim) alone() bool {
	cfg := &c.limiter.cfg
	at, answered := c.budget.Answered()
	return c.over.timeUp && cfg.Clock.Mono()-c.over.since >= cfg.FirstGrantWait && (!answered || at < c.over.since)
}

// lenient is the denial d, or an admission where the policy has one for it. alone
// says that no authority is reached.
func (c *claim) lenient(d decision.Answer, alone bool) decision.Answer {
	o := c.budget.Outlook()
	if o == nil || o.Policy == nil {
		return d
	}
	if d.Reason == pb.Reason_REASON_UNAVAILABLE && alone && c.borrow(o) {
		d.Allowed, d.Reason, d.Detail = true, pb.Reason_REASON_FALLBACK, localAllowance
		return d
	}
	switch d.Reason {
	case pb.Reason_REASON_EXHAUSTED, pb.Reason_REASON_COST_ABOVE_CAPACITY, pb.Reason_REASON_UNAVAILABLE:
		if o.Policy.Shadow {
			d.Allowed, d.Shadow = true, true
		}
	}
	return d
}

// borrow takes the cost from the policy's local allowance.
func (c *claim) borrow(o *holder.Outlook) bool {
	l := c.limiter
	if o.Policy.Local.For == 0 || o.Stopped || !l.Ready() || c.tokens <= 0 {
		return false
	}
	if c.manner == watches {
		return l.fallback.could(c.budget, o.Policy, c.tokens, l.cfg.Clock.Mono())
	}
	taken, ok := l.fallback.take(c.budget, o.Policy, c.tokens, l.cfg.Clock.Mono())
	c.borrowed = taken
	return ok
}

// settle ends what the claim holds: its cost is spent.
func (c *claim) settle() {
	if c.held != 0 {
		c.budget.Settle(c.held, c.tokens, false)
	}
}

// release gives back what the claim has taken.
func (c *claim) release() {
	if c.held != 0 {
		c.budget.Settle(c.held, 0, false)
	}
	if c.borrowed.tokens != 0 {
		c.limiter.fallback.giveBack(c.budget, c.borrowed, c.borrowed.tokens)
	}
	c.held, c.borrowed = 0, loan{}
}

// attempt implements job.
func (c *claim) attempt() (d decision.Answer, watch *claim, decided bool) {
	d, decided = c.try()
	return d, c, decided
}

// giveUp implements job. It takes no credit.
func (c *claim) giveUp(over ending) decision.Answer {
	c.over = over
	o := c.budget.Outlook()
	c.looked(o)
	if o != nil && o.Policy != nil {
		if reason, detail := c.ruledOut(o.Policy); reason != pb.Reason_REASON_UNSPECIFIED {
			return denied(c.budget, reason, detail)
		}
		if c.tokens == 0 { // costs nothing, and needs no turn
			d, _ := c.try()
			return d
		}
	}
	d, _ := c.judged()
	return d
}
