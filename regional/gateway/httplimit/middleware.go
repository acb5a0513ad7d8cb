package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/admission"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// Config of the middleware.
type Config struct {
	// Request tells who asks, what for, and whatever else the decision needs. The
	// account must have been verified. Required.
	Request func(*http.Request) (decision.Request, error)
	// Cost tells what the request costs. nil: as Request says, or else the policy.
	Cost func(*http.Request) (decision.Cost, error)
	// IDHeader names the header field of the decision ID, such as Idempotency-Key.
	// Read the package's comment first. Empty: none.
	IDHeader string
	// Mode says when credit is taken and given back. Slots and Late need a decider
	// that is a decision.Reserver.
	Mode admission.Mode
	// ModeOf tells the mode of one request. nil: Mode.
	ModeOf func(*http.Request) admission.Mode
	// Timeout bounds a decision, beyond the MaxWait of its request, and a
	// settlement. 0: admission.DefaultTimeout.
	Timeout time.Duration
	// Writer writes the answers.
	Writer httpanswer.Writer
	// OnAnswer, if not nil, sees each answer before it is written: for logs and
	// metrics. Of a request that told no budget, the decision.Request is empty.
	OnAnswer func(*http.Request, decision.Request, decision.Answer)
	// OnSettled, if not nil, sees how the hold of a request in mode Slots or Late
	// ended, after its handler.
	OnSettled func(*http.Request, decision.Settlement)
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
		return fmt.Errorf("httplimit: %w", err)
	}
	return nil
}

// New makes a middleware that asks decider. It panics if the config is not valid,
// which is known before the first request.
func New(decider decision.Decider, cfg Config) func(http.Handler) http.Handler {
	if err := cfg.Validate(decider); err != nil {
		panic(err)
	}
	gate := admission.Gate{Decider: decider, Timeout: cfg.Timeout}
	return func(next http.Handler) http.Handler { return &limited{gate: gate, cfg: cfg, next: next} }
}

// Settle ends the reservation of the request whose context is ctx with its actual
// cost, in tokens; slots may be given back early with 0. The error is
// admission.ErrNoReservation where nothing is reserved. Without a settlement the
// whole bound counts when the handler returns.
func Settle(ctx context.Context, cost int64) (decision.Settlement, error) {
	return admission.Settle(ctx, cost)
}

// limited is a handler behind the limit.
type limited struct {
	gate admission.Gate
	cfg  Config
	next http.Handler
}

// ServeHTTP decides, and lets the handler work if it may.
func (l *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, hold, a := l.admit(r)
	// What is held is given back whatever panics from here on.
	defer l.end(r, hold)
	if l.cfg.OnAnswer != nil {
		l.cfg.OnAnswer(r, req, a)
	}
	if !httpanswer.Admitted(a) {
		if req.Key.Account == "" {
			a.Detail = "" // it is about how the gateway finds its callers
		}
		l.cfg.Writer.Problem(w, a)
		return
	}
	l.cfg.Writer.Headers(w.Header(), a)
	l.next.ServeHTTP(w, r.WithContext(admission.NewContext(r.Context(), a, hold)))
}

// admit decides on a request.
func (l *limited) admit(r *http.Request) (decision.Request, *admission.Hold, decision.Answer) {
	req, err := l.request(r)
	if err != nil {
		return decision.Request{}, nil, decision.Invalid(err.Error())
	}
	if l.cfg.IDHeader != "" {
		id, problem := decisionID(r.Header.Values(l.cfg.IDHeader))
		if problem != "" {
			return req, nil, decision.Invalid(l.cfg.IDHeader + " " + problem)
		}
		req.ID = id
	}
	mode := l.cfg.Mode
	if l.cfg.ModeOf != nil {
		mode = l.cfg.ModeOf(r)
	}
	hold, a := l.gate.Admit(r.Context(), req, mode)
	return req, hold, a
}

// request finds the budget and the cost.
func (l *limited) request(r *http.Request) (decision.Request, error) {
	req, err := l.cfg.Request(r)
	if err != nil {
		return decision.Request{}, fmt.Errorf("the request tells no budget: %w", err)
	}
	if err := admission.CheckKeys(req); err != nil {
		return decision.Request{}, fmt.Errorf("the request tells no budget: %w", err)
	}
	if l.cfg.Cost != nil {
		if req.Cost, err = l.cfg.Cost(r); err != nil {
			return decision.Request{}, fmt.Errorf("the request tells no cost: %w", err)
		}
	}
	return req, nil
}

// decisionID reads the values of the ID's header field. None, or an empty one, is
// no ID.
func decisionID(values []string) (id, problem string) {
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", ""
	case len(values) > 1:
		return "", "must be sent once"
	case len(values[0]) > pb.MaxDecisionIDBytes:
		return "", fmt.Sprintf("must have at most %d bytes, has %d", pb.MaxDecisionIDBytes, len(values[0]))
	}
	for i := 0; i < len(values[0]); i++ {
		if c := values[0][i]; c <= ' ' || c > '~' {
			return "", fmt.Sprintf("must be printable ASCII without spaces, is not at byte %d", i)
		}
	}
	return values[0], ""
}

// end gives back what is held.
func (l *limited) end(r *http.Request, hold *admission.Hold) {
	if hold == nil {
		return
	}
	s := hold.End(r.Context())
	if l.cfg.OnSettled != nil {
		l.cfg.OnSettled(r, s)
	}
}
