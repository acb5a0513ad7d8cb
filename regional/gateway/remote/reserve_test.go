package remote_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/remote"
)

func TestCase45Reserve(t *testing.T) {
	l := newLimiter()
	l.capacity = 100
	client := newClient(t, remote.Config{}, l)
	if r, a := client.Reserve(t.Context(), request("acme", 900)); r != nil || a.Reason != pb.Reason_REASON_EXHAUSTED || l.spent["acme"] != 0 {
		t.Fatalf("900 of 100: %v, %+v, %d spent", r, a, l.spent["acme"])
	}
	r, a := client.Reserve(t.Context(), request("acme", 50))
	if r == nil || !a.Allowed || r.ID() != "0123456789abcdef0123456789abcdef" || r.Expires() != time.Minute {
		t.Fatalf("50 of 100: %v, %+v", r, a)
	}
	if s := r.Settle(t.Context(), 60); s.Settled || s.Detail != "more than was reserved" {
		t.Errorf("60 of 50: %+v", s)
	}
	if s := r.Settle(t.Context(), -1); s.Settled || s.Detail != "cost_tokens: must be 0 or more, is -1" {
		t.Errorf("-1 of 50: %+v", s)
	}
	want := decision.Settlement{Settled: true, Returned: 20}
	for range 2 {
		if s := r.Settle(t.Context(), 30); s != want {
			t.Errorf("30 of 50: %+v, want %+v", s, want)
		}
	}
	if len(l.settles) != 2 || l.spent["acme"] != 30 { // that of 60, and one of 30
		t.Errorf("%d settlements were sent, %d is spent", len(l.settles), l.spent["acme"])
	}
}

// TestSettleWhereReserved: a reservation is settled at the limiter that made it, also
// when that is not the key's own, and again if the answer was lost.
func TestSettleWhereReserved(t *testing.T) {
	req := request("acme", 5)
	client, own, other := pair(t, remote.Config{}, req)
	own.fail = failing(1, connect.CodeUnavailable)
	r, a := client.Reserve(t.Context(), req)
	if r == nil || !a.Allowed || other.asked() != 1 {
		t.Fatalf("reserved: %v, %+v", r, a)
	}
	other.set(func() { other.fail = failing(1, connect.CodeUnavailable) })
	if s := r.Settle(t.Context(), 2); !s.Settled || s.Returned != 3 || len(other.settles) != 2 || len(own.settles) != 0 {
		t.Errorf("settled: %+v, sent %d and %d times", s, len(own.settles), len(other.settles))
	}
}

func TestSettleByID(t *testing.T) {
	req := request("acme", 5)
	client, own, other := pair(t, remote.Config{}, req)
	r, _ := client.Reserve(t.Context(), req)
	if s := client.Settle(t.Context(), req.Key, r.ID(), 4); !s.Settled || s.Returned != 1 || len(own.settles) != 1 || len(other.settles) != 0 {
		t.Errorf("settled by another: %+v", s)
	}
	if s := client.Settle(t.Context(), req.Key, "short", 4); s.Settled || s.Detail == "" || len(own.settles) != 1 {
		t.Errorf("an ID that cannot be: %+v", s)
	}
}

func TestSettleFails(t *testing.T) {
	l := newLimiter()
	client := newClient(t, remote.Config{}, l)
	r, _ := client.Reserve(t.Context(), request("acme", 5))
	l.set(func() { l.fail = failing(2, connect.CodeUnavailable) })
	if s := r.Settle(t.Context(), 5); s.Settled || s.Detail != "no limiter answered: unavailable: broken" {
		t.Errorf("unanswered: %+v", s)
	}
	if s := r.Settle(t.Context(), 5); !s.Settled {
		t.Errorf("again: %+v", s)
	}
}

func TestReserveContradictions(t *testing.T) {
	l := newLimiter()
	client := newClient(t, remote.Config{}, l)
	several := request("acme", 1)
	several.Also = []decision.Part{request("umbrella", 1).Part}
	if r, a := client.Reserve(t.Context(), several); r != nil || a.Reason != pb.Reason_REASON_INVALID || l.asked() != 0 {
		t.Errorf("several budgets: %v, %+v", r, a)
	}
	l.reserved = func(_ *pb.ReserveRequest, resp *pb.ReserveResponse) { resp.ReservationId = "" }
	if r, a := client.Reserve(t.Context(), request("acme", 1)); r != nil || a.Allowed || a.Reason != pb.Reason_REASON_UNAVAILABLE {
		t.Errorf("allowed without a reservation: %v, %+v", r, a)
	}
	l.set(func() { l.change = func(_ *pb.CheckRequest, resp *pb.CheckResponse) { resp.Shadow = true } })
	r, a := client.Reserve(t.Context(), request("acme", 1))
	if r == nil || !a.Allowed {
		t.Fatalf("shadow: %v, %+v", r, a)
	}
	if s := r.Settle(t.Context(), 1); !s.Settled || len(l.settles) != 0 {
		t.Errorf("nothing was held: %+v, %d settlements sent", s, len(l.settles))
	}
	l.set(func() { l.fail = failing(2, connect.CodeUnavailable) })
	if r, a := client.Reserve(t.Context(), request("acme", 1)); r != nil || a.Reason != pb.Reason_REASON_UNAVAILABLE {
		t.Errorf("unanswered: %v, %+v", r, a)
	}
}
