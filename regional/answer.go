package regional

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// details tell people what a denial means.
var details = map[pb.Reason]string{
	pb.Reason_REASON_EXHAUSTED:           "the budget is used up for now",
	pb.Reason_REASON_COST_ABOVE_CAPACITY: "the cost is above what the policy's capacity and max-share can ever admit",
	pb.Reason_REASON_UNAVAILABLE:         "too little credit is held here and the broker does not answer",
	pb.Reason_REASON_NO_POLICY:           "no policy rules this operation: apply one with `tokenlease policy apply`",
}

// What people are told of answers that need more than their reason.
const (
	tooMuchAsked   = "more is asked for than there is, here and in other regions"
	stopping       = "this limiter is stopping"
	noAnswer       = "the broker did not answer in time"
	noTurn         = "the turn of the request did not come in the time that it lets itself wait"
	callerLeft     = "the caller did not wait for the broker's answer"
	tooManyWait    = "too many checks are waiting for the broker"
	olderPolicy    = "the request names an older policy version than the one in force: take policy_version of this answer and ask again"
	slotsReserved  = "the policy counts slots of work in progress: reserve a slot and settle it when the work ends"
	localAllowance = "the broker does not answer: the policy's local allowance admitted this"
	disabled       = "an operator has disabled the operation"
	tooStale       = "the brokers have not answered for longer than the policy's max-staleness: what is held here may not be spent"
)

// allowed is an admission after which left tokens remain here.
func allowed(d *decision.Answer, o *holder.Outlook, left int64) {
	d.Allowed, d.Reason, d.Remaining, d.GrantID = true, pb.Reason_REASON_ALLOWED, left, o.GrantID
	d.Limit, d.PolicyVersion = o.Policy.Rule.Capacity, o.Policy.Rule.Version
	d.Window, d.NotStrict = o.Window, o.NotStrict
}

// ruled tells the numbers of the policy that decided.
func ruled(d *decision.Answer, p *lease.Policy) {
	d.Limit, d.Window, d.PolicyVersion = p.Rule.Capacity, p.Rule.Per(), p.Rule.Version
	d.NotStrict = !p.Strict()
}

// denied is a denial. It has spent nothing.
func denied(b *holder.Budget, reason pb.Reason, detail string) decision.Answer {
	if silent := detail == noAnswer || detail == details[pb.Reason_REASON_UNAVAILABLE]; silent && b.Stale() {
		detail = tooStale
	}
	d := decision.Answer{Reason: reason, Remaining: b.Remaining(), Debt: b.Debt(), Detail: detail}
	if o := b.Outlook(); o != nil && o.Policy != nil {
		ruled(&d, o.Policy)
	}
	return d
}

// retryIn tells when waiting will have helped.
func (l *Limiter) retryIn(d *decision.Answer, wait time.Duration) {
	d.HasRetry, d.RetryIn, d.RetryAt = true, wait, l.cfg.Clock.Now().Add(wait)
}

// counted counts the answer to one request about the key and returns it.
func (l *Limiter) counted(key lease.Key, d decision.Answer) decision.Answer {
	l.obs.answered(key, &d)
	return d
}
