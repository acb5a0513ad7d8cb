package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// DefaultTimeout bounds a decision beyond the request's own MaxWait. It is enough
// for a first grant from a broker on the other side of the world.
const DefaultTimeout = time.Second

// Mode says when credit is taken and given back.
type Mode int

// The modes; see the package's comment.
const (
	Spend Mode = iota
	Slots
	Late
)

// Gate decides whether work may start.
type Gate struct {
	// Decider that is asked. Slots and Late need one that is a decision.Reserver.
	Decider decision.Decider
	// Timeout of a decision, beyond the MaxWait of its request, and of a
	// settlement. 0: DefaultTimeout.
	Timeout time.Duration
}

// Validate says what is missing for the modes that are used.
func (g Gate) Validate(reserves bool) error {
	if g.Decider == nil {
		return errors.New("no decider: give a limiter, or a client of one")
	}
	if g.Timeout < 0 {
		return fmt.Errorf("the timeout %v is negative", g.Timeout)
	}
	if _, ok := g.Decider.(decision.Reserver); reserves && !ok {
		return fmt.Errorf("slots and late costs need a decision.Reserver, and %T is none", g.Decider)
	}
	return nil
}

func (g Gate) timeout() time.Duration {
	if g.Timeout <= 0 {
		return DefaultTimeout
	}
	return g.Timeout
}

// Admit decides on a request. The hold is nil unless the mode reserves and the
// answer is admitted; its End must be called when the work has ended. In those modes
// an ID of the request admits once: two pieces of work must not share one hold.
func (g Gate) Admit(ctx context.Context, req decision.Request, mode Mode) (*Hold, decision.Answer) {
	if err := CheckKeys(req); err != nil {
		return nil, decision.Invalid(err.Error())
	}
	wait := min(max(0, req.MaxWait), pb.MaxCheckWaitMillis*time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, g.timeout()+wait)
	defer cancel()
	if mode == Spend {
		return nil, g.decide(ctx, req)
	}
	return g.reserve(ctx, req, mode)
}

// CheckKeys says what is wrong with the names of the request's budgets. An empty
// account must never become a budget that all share.
func CheckKeys(req decision.Request) error {
	if err := checkKey(req.Key); err != nil {
		return err
	}
	for i, part := range req.Also {
		if err := checkKey(part.Key); err != nil {
			return fmt.Errorf("also[%d].%w", i, err)
		}
	}
	return nil
}

func checkKey(key lease.Key) error {
	return (&pb.BudgetKey{Account: key.Account, Operation: key.Operation}).Validate()
}

// decide asks the decider; its panic denies.
func (g Gate) decide(ctx context.Context, req decision.Request) (a decision.Answer) {
	defer func() {
		if broken := recover(); broken != nil {
			a = panicked(broken)
		}
	}()
	return answered(g.Decider.Decide(ctx, req))
}

// reserve asks the reserver; its panic denies.
func (g Gate) reserve(ctx context.Context, req decision.Request, mode Mode) (hold *Hold, a decision.Answer) {
	defer func() {
		if broken := recover(); broken != nil {
			hold, a = nil, panicked(broken)
		}
	}()
	reserver, ok := g.Decider.(decision.Reserver)
	if !ok {
		return nil, decision.Unavailable("this decider cannot reserve")
	}
	reservation, a := reserver.Reserve(ctx, req)
	a = answered(a)
	if a.Replayed && req.ID != "" && (reservation != nil || httpanswer.Admitted(a)) {
		return nil, decision.Invalid(workedOn)
	}
	if reservation != nil {
		hold = &Hold{reservation: reservation, mode: mode, bound: req.Cost, timeout: g.timeout()}
	}
	switch admitted := httpanswer.Admitted(a); {
	case admitted && hold == nil && !a.Shadow && a.Reason != pb.Reason_REASON_FALLBACK:
		return nil, decision.Unavailable("the limiter allowed the reservation and holds nothing for it")
	case !admitted && hold != nil:
		hold.settle(context.WithoutCancel(ctx), 0) // nothing starts that could use it
		return nil, a
	}
	return hold, a
}

// workedOn is the answer to a repetition while the hold of the first request is
// open. The hold belongs to the first, which ends it.
const workedOn = "the decision of this ID is being worked on already: wait until that has ended, or use a new decision ID"

// answered gives an answer without a reason one.
func answered(a decision.Answer) decision.Answer {
	if a.Reason == pb.Reason_REASON_UNSPECIFIED {
		return decision.Unavailable("the limiter gave no answer")
	}
	return a
}

func panicked(value any) decision.Answer {
	return decision.Unavailable(fmt.Sprintf("the limiter panicked: %.200v", value))
}
