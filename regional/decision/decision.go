package decision

import (
	"context"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Decider decides whether work may start. Its methods may be called concurrently.
type Decider interface {
	// Decide spends what the request asks for, or nothing. It waits no longer than
	// ctx and the request allow. It returns no error: what goes wrong is a reason.
	Decide(ctx context.Context, req Request) Answer
}

// Reserver decides on work whose cost is not known yet, or that holds slots. Its
// methods may be called concurrently.
type Reserver interface {
	Decider
	// Reserve takes the request's cost as a bound, or as a number of slots, until it
	// is settled or its time is over. The request must not have Also. A reservation
	// is returned if the answer is Allowed, and only then.
	Reserve(ctx context.Context, req Request) (Reservation, Answer)
}

// Reservation is credit that is held. Its methods may be called concurrently.
type Reservation interface {
	// ID names the reservation, for [Settlement] by another process.
	ID() string
	// Expires is how long it lasts from when Reserve returned it, or less where time
	// has passed since: then what is not settled counts as spent, and slots are
	// released.
	Expires() time.Duration
	// Settle ends it with the actual cost, in tokens; of slots always 0. Only the
	// first call counts.
	Settle(ctx context.Context, cost int64) Settlement
}

// Settlement is what became of a reservation.
type Settlement struct {
	Settled  bool   // ended by this call or by an earlier one
	Returned int64  // tokens that went back to the region's credit
	Debt     int64  // tokens that the budget owes from now on, and the broker has not recorded yet
	Detail   string // for people: why it was not settled
}

// Cost is what a check asks for.
type Cost struct {
	Tokens int64
	Given  bool // false: the policy's default, whatever Tokens says
}

// Tokens is a given cost.
func Tokens(n int64) Cost { return Cost{Tokens: n, Given: true} }

// Part is one budget of a request.
type Part struct {
	Key  lease.Key
	Cost Cost
}

// Request asks for one decision. The zero values of all but Key ask for the
// simplest.
type Request struct {
	Part

	// Also are further budgets, each another one: all are spent, or none.
	Also []Part
	// ID makes a repeated request get the recorded answer, within the limiter's
	// horizon; with another payload it is invalid. Empty: none.
	ID string
	// PolicyVersion that the caller knows; 0: any. If a newer one is in force, the
	// answer is pb.Reason_REASON_REFRESH.
	PolicyVersion int64
	// MaxWait lets the check wait for its turn, beyond the time that a first grant
	// may take. 0: it does not wait for refill.
	MaxWait time.Duration
	// Priority among those that wait.
	Priority pb.Priority
}

// Answer is the decision on a request. The zero value denies.
type Answer struct {
	Allowed       bool
	Reason        pb.Reason
	Limit         int64         // the budget's capacity, in tokens; 0 where it is not known
	Remaining     int64         // tokens that this region can still admit without asking: never more than the truth
	Window        time.Duration // that Limit is for; 0: none
	HasRetry      bool          // waiting can help
	RetryIn       time.Duration // from when the answer was made
	RetryAt       time.Time     // the same by the wall clock of whoever made the answer; zero without HasRetry
	PolicyVersion int64         // 0 where none is known
	GrantID       string        // the grant that was spent from; empty for denials
	Replayed      bool          // the recorded answer to an earlier request of the same ID
	Shadow        bool          // the policy is in shadow mode: allowed whatever the reason
	NotStrict     bool          // the policy lets more be admitted than its rule
	Debt          int64         // tokens that the budget owes, and the broker is not known to have recorded
	Parts         []PartAnswer  // with Also: one for each budget, that of Part first
	Detail        string        // for people: what it means and what to do
}

// PartAnswer is what one of several budgets says. Of a denied request, parts whose
// reason is allowed have spent nothing.
type PartAnswer struct {
	Key           lease.Key
	Reason        pb.Reason
	Limit         int64
	Remaining     int64
	HasRetry      bool
	RetryIn       time.Duration
	PolicyVersion int64
	GrantID       string
}

// Unavailable is the answer where no limiter could be asked.
func Unavailable(detail string) Answer {
	return Answer{Reason: pb.Reason_REASON_UNAVAILABLE, Detail: detail}
}

// Invalid is the answer to a request that contradicts itself.
func Invalid(detail string) Answer {
	return Answer{Reason: pb.Reason_REASON_INVALID, Detail: detail}
}

// RetrySeconds is the wait in whole seconds, rounded up and at least 1, as
// Retry-After wants it; 0 without a wait.
func (a Answer) RetrySeconds() int64 {
	if !a.HasRetry {
		return 0
	}
	whole := int64(a.RetryIn / time.Second)
	if a.RetryIn%time.Second > 0 {
		whole++
	}
	return max(1, whole)
}
