package rpclimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/admission"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// Call is what is known of a call before its handler runs.
type Call struct {
	// Procedure is the full name, such as "/acme.reports.v1.Reports/Create".
	Procedure string
	// Header is the request's metadata, under canonical names.
	Header http.Header
	// Peer is the network address of the caller, where the server knows it.
	Peer string
	// Stream says that the call is a stream, of any kind.
	Stream bool
	// Message is the request of a unary call; nil of streams.
	Message any
}

// Config of the interceptors.
type Config struct {
	// Request tells who asks, what for, and whatever else the decision needs. The
	// account must have been verified. If it fails or names no account, the call is
	// refused as invalid_argument. Required.
	Request func(context.Context, Call) (decision.Request, error)
	// Exempt says that a call is not limited. nil: all are.
	Exempt func(Call) bool
	// Mode says when credit is taken and given back. Slots and Late need a decider
	// that is a decision.Reserver.
	Mode admission.Mode
	// ModeOf tells the mode of one call. nil: Mode.
	ModeOf func(Call) admission.Mode
	// Timeout bounds a decision, beyond the MaxWait of its request, and a
	// settlement. 0: admission.DefaultTimeout.
	Timeout time.Duration
	// Writer writes the metadata and chooses the words.
	Writer httpanswer.Writer
	// OnAnswer, if not nil, sees each answer before the handler runs. Of a call that
	// told no budget, the decision.Request is empty.
	OnAnswer func(context.Context, Call, decision.Request, decision.Answer)
	// OnSettled, if not nil, sees how the hold of a call in mode Slots or Late
	// ended, after its handler.
	OnSettled func(context.Context, Call, decision.Settlement)
}

// Validate says what is wrong with the config for a decider.
func (c Config) Validate(decider decision.Decider) error {
	var request error
	if c.Request == nil {
		request = errors.New("no Request: without it nobody knows who asks")
	}
	if c.Mode < admission.Spend || c.Mode > admission.Late {
		request = errors.Join(request, fmt.Errorf("mode %d is not known", c.Mode))
	}
	gate := admission.Gate{Decider: decider, Timeout: c.Timeout}
	err := errors.Join(request, gate.Validate(c.Mode != admission.Spend || c.ModeOf != nil), c.Writer.Validate())
	if err != nil {
		return fmt.Errorf("rpclimit: %w", err)
	}
	return nil
}

// Settle ends the reservation of the call whose context is ctx with its actual
// cost, in tokens; slots may be given back early with 0. The error is
// admission.ErrNoReservation where nothing is reserved. Without a settlement the
// whole bound counts when the handler returns.
func Settle(ctx context.Context, cost int64) (decision.Settlement, error) {
	return admission.Settle(ctx, cost)
}

// limiter decides on the calls of a server.
type limiter struct {
	gate admission.Gate
	cfg  Config
}

func newLimiter(decider decision.Decider, cfg Config) (*limiter, error) {
	if err := cfg.Validate(decider); err != nil {
		return nil, err
	}
	return &limiter{gate: admission.Gate{Decider: decider, Timeout: cfg.Timeout}, cfg: cfg}, nil
}

// exempt says that the call is not limited.
func (l *limiter) exempt(call Call) bool { return l.cfg.Exempt != nil && l.cfg.Exempt(call) }

// admit decides on a call.
func (l *limiter) admit(ctx context.Context, call Call) (*admission.Hold, decision.Answer) {
	req, hold, a := l.ask(ctx, call)
	if l.cfg.OnAnswer != nil {
		l.cfg.OnAnswer(ctx, call, req, a)
	}
	if req.Key.Account == "" {
		a.Detail = "" // it is about how the server finds its callers
	}
	return hold, a
}

func (l *limiter) ask(ctx context.Context, call Call) (decision.Request, *admission.Hold, decision.Answer) {
	req, err := l.cfg.Request(ctx, call)
	if err == nil {
		err = admission.CheckKeys(req)
	}
	if err != nil {
		return decision.Request{}, nil, decision.Invalid(fmt.Sprintf("the call tells no budget: %v", err))
	}
	mode := l.cfg.Mode
	if l.cfg.ModeOf != nil {
		mode = l.cfg.ModeOf(call)
	}
	hold, a := l.gate.Admit(ctx, req, mode)
	return req, hold, a
}

// end gives back what is held.
func (l *limiter) end(ctx context.Context, call Call, hold *admission.Hold) {
	if hold == nil {
		return
	}
	s := hold.End(ctx)
	if l.cfg.OnSettled != nil {
		l.cfg.OnSettled(ctx, call, s)
	}
}
