package admission_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/admission"
)

func request() decision.Request {
	return decision.Request{Part: decision.Part{Key: lease.Key{Account: "acme", Operation: "report.create"}, Cost: decision.Tokens(50)}}
}

func allowed() decision.Answer {
	return decision.Answer{Allowed: true, Reason: pb.Reason_REASON_ALLOWED}
}

// decider answers by a function; it cannot reserve.
type decider func(context.Context, decision.Request) decision.Answer

func (d decider) Decide(ctx context.Context, req decision.Request) decision.Answer {
	return d(ctx, req)
}

// reserver reserves by a function.
type reserver func(context.Context, decision.Request) (decision.Reservation, decision.Answer)

func (r reserver) Reserve(ctx context.Context, req decision.Request) (decision.Reservation, decision.Answer) {
	return r(ctx, req)
}

func (r reserver) Decide(ctx context.Context, req decision.Request) decision.Answer {
	_, a := r(ctx, req)
	return a
}

// bounded is a reservation of a bound that remembers what it was settled with.
type bounded struct {
	bound   int64
	calls   []int64
	settled *decision.Settlement
	broken  bool
}

func (*bounded) ID() string             { return "r1" }
func (*bounded) Expires() time.Duration { return time.Minute }

func (b *bounded) Settle(ctx context.Context, cost int64) decision.Settlement {
	b.calls = append(b.calls, cost)
	switch {
	case b.broken:
		panic("broken")
	case ctx.Err() != nil:
		return decision.Settlement{Detail: "the caller is gone"}
	case b.settled != nil:
		return *b.settled
	case cost > b.bound:
		return decision.Settlement{Detail: "more than was reserved"}
	}
	b.settled = &decision.Settlement{Settled: true, Returned: b.bound - cost}
	return *b.settled
}

func holding(r decision.Reservation) admission.Gate {
	return admission.Gate{Decider: reserver(func(context.Context, decision.Request) (decision.Reservation, decision.Answer) {
		return r, allowed()
	})}
}

func TestMissingAnswersDeny(t *testing.T) {
	silent := func(context.Context, decision.Request) decision.Answer { return decision.Answer{Allowed: true} }
	broken := func(context.Context, decision.Request) decision.Answer { panic("a bug") }
	hanging := func(ctx context.Context, _ decision.Request) decision.Answer {
		<-ctx.Done()
		return decision.Unavailable("the caller did not wait")
	}
	reservePanics := reserver(func(context.Context, decision.Request) (decision.Reservation, decision.Answer) { panic("a bug") })
	holdsNothing := reserver(func(context.Context, decision.Request) (decision.Reservation, decision.Answer) { return nil, allowed() })
	tests := []struct {
		name    string
		decider decision.Decider
		mode    admission.Mode
		detail  string
	}{
		{"no reason", decider(silent), admission.Spend, "the limiter gave no answer"},
		{"panic", decider(broken), admission.Spend, "the limiter panicked: a bug"},
		{"time-out", decider(hanging), admission.Spend, "the caller did not wait"},
		{"panic while reserving", reservePanics, admission.Late, "the limiter panicked: a bug"},
		{"nothing held", holdsNothing, admission.Slots, "the limiter allowed the reservation and holds nothing for it"},
		{"no reserver", decider(silent), admission.Slots, "this decider cannot reserve"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			gate := admission.Gate{Decider: test.decider, Timeout: time.Millisecond}
			hold, a := gate.Admit(t.Context(), request(), test.mode)
			if hold != nil || a.Allowed || a.Reason != pb.Reason_REASON_UNAVAILABLE || a.Detail != test.detail {
				t.Errorf("hold %v, answer %+v", hold, a)
			}
		})
	}
}

// TestAdmittedWithoutAuthority: shadow and fallback admit with nothing to hold.
func TestAdmittedWithoutAuthority(t *testing.T) {
	for _, a := range []decision.Answer{
		{Allowed: true, Shadow: true, Reason: pb.Reason_REASON_EXHAUSTED},
		{Allowed: true, Reason: pb.Reason_REASON_FALLBACK},
	} {
		gate := admission.Gate{Decider: reserver(func(context.Context, decision.Request) (decision.Reservation, decision.Answer) { return nil, a })}
		hold, got := gate.Admit(t.Context(), request(), admission.Late)
		if hold != nil || !got.Allowed || got.Reason != a.Reason {
			t.Errorf("hold %v, answer %+v", hold, got)
		}
	}
}

// TestDeniedHoldsNothing: a reserver that denies and yet returns a reservation gets
// all of it back.
func TestDeniedHoldsNothing(t *testing.T) {
	r := &bounded{bound: 50}
	gate := admission.Gate{Decider: reserver(func(context.Context, decision.Request) (decision.Reservation, decision.Answer) {
		return r, decision.Answer{Reason: pb.Reason_REASON_EXHAUSTED}
	})}
	hold, a := gate.Admit(t.Context(), request(), admission.Late)
	if hold != nil || a.Reason != pb.Reason_REASON_EXHAUSTED || r.settled == nil || r.settled.Returned != 50 {
		t.Errorf("hold %v, answer %+v, settled %+v", hold, a, r.settled)
	}
}

func TestNamesAreChecked(t *testing.T) {
	gate := admission.Gate{Decider: decider(func(context.Context, decision.Request) decision.Answer {
		t.Error("the decider was asked")
		return allowed()
	})}
	with := func(change func(*decision.Request)) decision.Request {
		req := request()
		change(&req)
		return req
	}
	tests := []struct {
		req    decision.Request
		detail string
	}{
		{with(func(r *decision.Request) { r.Key.Account = "" }), "account: must have 1 to 256 bytes, has 0"},
		{with(func(r *decision.Request) { r.Key.Operation = strings.Repeat("o", 10<<20) }), "operation: must have 1 to 128 bytes, has 10485760"},
		{with(func(r *decision.Request) { r.Key.Account = "a\xff" }), "account: must be UTF-8, is not at byte 1"},
		{with(func(r *decision.Request) { r.Also = []decision.Part{{Key: lease.Key{Account: "a\n", Operation: "o"}}} }), "also[0].account: must have no control characters, has U+000A at byte 1"},
	}
	for _, test := range tests {
		_, a := gate.Admit(t.Context(), test.req, admission.Spend)
		if a.Allowed || a.Reason != pb.Reason_REASON_INVALID || a.Detail != test.detail {
			t.Errorf("answer %+v, want the detail %q", a, test.detail)
		}
	}
}

// TestDeadline: a request that may wait for its turn gets that time on top.
func TestDeadline(t *testing.T) {
	for _, test := range []struct{ timeout, wait, want time.Duration }{
		{0, 0, admission.DefaultTimeout},
		{time.Minute, time.Hour, 11 * time.Minute}, // a wait has its bound
		{time.Minute, -time.Hour, time.Minute},
	} {
		var left time.Duration
		gate := admission.Gate{Timeout: test.timeout, Decider: decider(func(ctx context.Context, _ decision.Request) decision.Answer {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			return allowed()
		})}
		req := request()
		req.MaxWait = test.wait
		gate.Admit(t.Context(), req, admission.Spend)
		if left > test.want || left < test.want-30*time.Second {
			t.Errorf("%v and a wait of %v: %v left, want %v", test.timeout, test.wait, left, test.want)
		}
	}
}

func TestHold(t *testing.T) {
	tests := []struct {
		name  string
		mode  admission.Mode
		given bool
		steps func(context.Context, *admission.Hold) decision.Settlement
		want  decision.Settlement
		calls []int64
	}{
		{"late, settled by the handler", admission.Late, true, func(ctx context.Context, h *admission.Hold) decision.Settlement {
			h.Settle(ctx, 30)
			return h.End(ctx)
		}, decision.Settlement{Settled: true, Returned: 20}, []int64{30}},
		{"late, left to the end", admission.Late, true, func(ctx context.Context, h *admission.Hold) decision.Settlement {
			return h.End(ctx)
		}, decision.Settlement{Settled: true}, []int64{50}},
		{"late, refused, then at the bound", admission.Late, true, func(ctx context.Context, h *admission.Hold) decision.Settlement {
			if s := h.Settle(ctx, 60); s.Settled || s.Detail != "more than was reserved" {
				t.Errorf("60 of 50: %+v", s)
			}
			return h.End(ctx)
		}, decision.Settlement{Settled: true}, []int64{60, 50}},
		{"late, without a cost", admission.Late, false, func(ctx context.Context, h *admission.Hold) decision.Settlement {
			return h.End(ctx)
		}, decision.Settlement{Detail: "the request named no cost: its reservation counts as spent when its time is over"}, nil},
		{"late, without a cost, settled", admission.Late, false, func(ctx context.Context, h *admission.Hold) decision.Settlement {
			h.Settle(ctx, 10)
			return h.End(ctx)
		}, decision.Settlement{Settled: true, Returned: 40}, []int64{10}},
		{"slots", admission.Slots, true, func(ctx context.Context, h *admission.Hold) decision.Settlement {
			if s := h.Settle(ctx, 1); s.Settled || s.Detail != "slots are given back, not paid for: settle them with 0" {
				t.Errorf("slots settled with 1: %+v", s)
			}
			return h.End(ctx)
		}, decision.Settlement{Settled: true, Returned: 50}, []int64{0}},
		{"the caller is gone", admission.Slots, true, func(ctx context.Context, h *admission.Hold) decision.Settlement {
			gone, cancel := context.WithCancel(ctx)
			cancel()
			return h.End(gone)
		}, decision.Settlement{Settled: true, Returned: 50}, []int64{0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := &bounded{bound: 50}
			req := request()
			req.Cost.Given = test.given
			hold, a := holding(r).Admit(t.Context(), req, test.mode)
			if hold == nil || !a.Allowed {
				t.Fatalf("hold %v, answer %+v", hold, a)
			}
			if got := test.steps(t.Context(), hold); got != test.want {
				t.Errorf("ended with %+v, want %+v", got, test.want)
			}
			if got, want := len(r.calls), len(test.calls); got != want {
				t.Fatalf("settled with %v, want %v", r.calls, test.calls)
			}
			for i := range test.calls {
				if r.calls[i] != test.calls[i] {
					t.Errorf("settled with %v, want %v", r.calls, test.calls)
				}
			}
		})
	}
}

// TestRepetitionDoesNotShareAHold: while the first request of a caller's ID is at
// work, a repetition does not start, and leaves the hold to the first.
func TestRepetitionDoesNotShareAHold(t *testing.T) {
	const detail = "the decision of this ID is being worked on already: wait until that has ended, or use a new decision ID"
	for _, a := range []decision.Answer{
		{Allowed: true, Reason: pb.Reason_REASON_ALLOWED},
		{Allowed: true, Reason: pb.Reason_REASON_EXHAUSTED, Shadow: true},
		{Allowed: true, Reason: pb.Reason_REASON_FALLBACK},
		{Reason: pb.Reason_REASON_EXHAUSTED}, // with a hold, which no limiter has for it
	} {
		for _, mode := range []admission.Mode{admission.Slots, admission.Late} {
			r := &bounded{bound: 50}
			gate := admission.Gate{Decider: reserver(func(context.Context, decision.Request) (decision.Reservation, decision.Answer) { return r, a })}
			req := request()
			a.Replayed = true
			req.ID = "one"
			hold, got := gate.Admit(t.Context(), req, mode)
			if hold != nil || got.Allowed || got.Reason != pb.Reason_REASON_INVALID || got.Detail != detail || len(r.calls) > 0 {
				t.Errorf("a repetition: hold %v, answer %+v, settled with %v", hold, got, r.calls)
			}
			if !a.Allowed {
				continue
			}
			req.ID = "" // the repetition is a remote client's own
			if hold, got := gate.Admit(t.Context(), req, mode); hold == nil || !got.Allowed {
				t.Errorf("without an ID: hold %v, answer %+v", hold, got)
			}
			a.Replayed = false
			req.ID = "one"
			if hold, got := gate.Admit(t.Context(), req, mode); hold == nil || !got.Allowed {
				t.Errorf("the first: hold %v, answer %+v", hold, got)
			}
		}
	}
}

// TestRepetitionOfADenialIsTold: it holds nothing, and is told again as it was.
func TestRepetitionOfADenialIsTold(t *testing.T) {
	gate := admission.Gate{Decider: reserver(func(context.Context, decision.Request) (decision.Reservation, decision.Answer) {
		return nil, decision.Answer{Reason: pb.Reason_REASON_EXHAUSTED, Replayed: true}
	})}
	req := request()
	req.ID = "one"
	if hold, a := gate.Admit(t.Context(), req, admission.Slots); hold != nil || a.Reason != pb.Reason_REASON_EXHAUSTED || !a.Replayed {
		t.Errorf("hold %v, answer %+v", hold, a)
	}
}

func TestBrokenSettlement(t *testing.T) {
	r := &bounded{bound: 50, broken: true}
	hold, _ := holding(r).Admit(t.Context(), request(), admission.Late)
	if s := hold.End(t.Context()); s.Settled || s.Detail != "the settlement panicked: broken" {
		t.Errorf("a broken settlement: %+v", s)
	}
	r.broken = false
	if s := hold.End(t.Context()); !s.Settled {
		t.Errorf("the next one: %+v", s)
	}
}

func TestContext(t *testing.T) {
	if _, err := admission.Settle(t.Context(), 1); !errors.Is(err, admission.ErrNoReservation) {
		t.Errorf("outside of a request: %v", err)
	}
	if _, ok := admission.AnswerOf(t.Context()); ok {
		t.Error("an answer outside of a request")
	}
	spent := admission.NewContext(t.Context(), allowed(), nil)
	if _, err := admission.Settle(spent, 1); !errors.Is(err, admission.ErrNoReservation) {
		t.Errorf("in mode Spend: %v", err)
	}
	if a, ok := admission.AnswerOf(spent); !ok || !a.Allowed {
		t.Errorf("the answer: %+v, %v", a, ok)
	}
	hold, a := holding(&bounded{bound: 50}).Admit(t.Context(), request(), admission.Late)
	if s, err := admission.Settle(admission.NewContext(t.Context(), a, hold), 20); err != nil || s.Returned != 30 {
		t.Errorf("settled: %+v, %v", s, err)
	}
	var none *admission.Hold
	if s := none.Settle(t.Context(), 1); s.Settled || s.Detail == "" {
		t.Errorf("no hold settled: %+v", s)
	}
	if s := none.End(t.Context()); s.Settled {
		t.Errorf("no hold ended: %+v", s)
	}
}

func TestValidate(t *testing.T) {
	d := decider(func(context.Context, decision.Request) decision.Answer { return allowed() })
	tests := []struct {
		gate     admission.Gate
		reserves bool
		want     string
	}{
		{admission.Gate{Decider: d}, false, ""},
		{holding(nil), true, ""},
		{admission.Gate{}, false, "no decider: give a limiter, or a client of one"},
		{admission.Gate{Decider: d, Timeout: -1}, false, "the timeout -1ns is negative"},
		{admission.Gate{Decider: d}, true, "slots and late costs need a decision.Reserver, and admission_test.decider is none"},
	}
	for _, test := range tests {
		got := ""
		if err := test.gate.Validate(test.reserves); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
