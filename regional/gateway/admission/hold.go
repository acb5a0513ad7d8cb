package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/regional/decision"
)

// ErrNoReservation is returned by [Settle] where nothing is held: the mode is
// Spend, or the policy admitted without authority.
var ErrNoReservation = errors.New("nothing is reserved for this request: settle costs in mode Late alone")

// Hold is the credit that one admitted request holds. Its methods may be called
// concurrently, and those of a nil Hold do nothing.
type Hold struct {
	reservation decision.Reservation
	mode        Mode
	bound       decision.Cost
	timeout     time.Duration

	mu   sync.Mutex
	done bool                // settled
	last decision.Settlement // of the call that settled it
}

// Settle ends the reservation with the actual cost, in tokens; of slots always 0.
// Of what was settled before, the earlier settlement is told again. One that was
// refused, such as for a cost above the bound, may be tried again.
func (h *Hold) Settle(ctx context.Context, cost int64) decision.Settlement {
	if h == nil {
		return decision.Settlement{Detail: ErrNoReservation.Error()}
	}
	if h.mode == Slots && cost != 0 {
		return decision.Settlement{Detail: "slots are given back, not paid for: settle them with 0"}
	}
	return h.settle(ctx, cost)
}

// End ends what the handler has not settled: slots are given back, and of a late
// cost the whole bound counts. It outlives the end of ctx, for a bounded time.
func (h *Hold) End(ctx context.Context) decision.Settlement {
	if h == nil {
		return decision.Settlement{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.timeout)
	defer cancel()
	if h.mode == Slots {
		return h.settle(ctx, 0)
	}
	if !h.bound.Given {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.done {
			return h.last
		}
		return decision.Settlement{Detail: "the request named no cost: its reservation counts as spent when its time is over"}
	}
	return h.settle(ctx, h.bound.Tokens)
}

// settle settles once. A panic of the reservation leaves it unsettled.
func (h *Hold) settle(ctx context.Context, cost int64) (s decision.Settlement) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return h.last
	}
	defer func() {
		if broken := recover(); broken != nil {
			s = decision.Settlement{Detail: fmt.Sprintf("the settlement panicked: %.200v", broken)}
		}
		h.done, h.last = s.Settled, s
	}()
	return h.reservation.Settle(ctx, cost)
}

// contextKey of what a handler may ask about its own admission.
type contextKey struct{}

// admitted is what a request was admitted with.
type admitted struct {
	answer decision.Answer
	hold   *Hold
}

// NewContext lets a handler find its answer and its hold, which may be nil.
func NewContext(ctx context.Context, a decision.Answer, hold *Hold) context.Context {
	return context.WithValue(ctx, contextKey{}, admitted{a, hold})
}

// AnswerOf is the answer that admitted the request whose context is ctx; false
// outside of one.
func AnswerOf(ctx context.Context) (decision.Answer, bool) {
	found, ok := ctx.Value(contextKey{}).(admitted)
	return found.answer, ok
}

// Settle ends the reservation of the request whose context is ctx with its actual
// cost, in tokens. The error is ErrNoReservation where there is none. It may be
// called from the handler's goroutines while the handler runs.
func Settle(ctx context.Context, cost int64) (decision.Settlement, error) {
	found, ok := ctx.Value(contextKey{}).(admitted)
	if !ok || found.hold == nil {
		return decision.Settlement{}, ErrNoReservation
	}
	return found.hold.Settle(ctx, cost), nil
}
