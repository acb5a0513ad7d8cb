package remote_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/remote"
)

// hinting is a client whose account acme has been denied a cost of 50 of 40 tokens,
// with 10 s to wait, at the clock's present.
func hinting(t *testing.T, cfg remote.Config) (*remote.Client, *limiter, *clock) {
	t.Helper()
	l, c := newLimiter(), newClock()
	cfg.Now = c.read
	client := newClient(t, cfg, l)
	if a := client.Decide(t.Context(), request("acme", 50)); a.Reason != pb.Reason_REASON_EXHAUSTED {
		t.Fatalf("50 of 40: %+v", a)
	}
	return client, l, c
}

// TestCase41DenialReplayed: a denial with 10 s to wait says 1 s nine seconds later,
// and at its end the limiter is asked again.
func TestCase41DenialReplayed(t *testing.T) {
	client, l, c := hinting(t, remote.Config{})
	c.pass(9 * time.Second)
	a := client.Decide(t.Context(), request("acme", 50))
	if a.Allowed || a.Reason != pb.Reason_REASON_EXHAUSTED || !a.HasRetry || a.RetryIn != time.Second || a.RetrySeconds() != 1 || l.asked() != 1 {
		t.Errorf("after 9 s: %+v, asked %d times", a, l.asked())
	}
	if a.Limit != 40 || a.Remaining != 0 || a.PolicyVersion != 1 || !a.RetryAt.Equal(time.UnixMilli(1_010_000)) || !strings.Contains(a.Detail, "without asking again") {
		t.Errorf("the hint tells %+v", a)
	}
	c.pass(time.Second - 1)
	if a := client.Decide(t.Context(), request("acme", 50)); a.RetryIn != 1 || a.RetrySeconds() != 1 || l.asked() != 1 {
		t.Errorf("a nanosecond before: %+v, asked %d times", a, l.asked())
	}
	l.set(func() { l.capacity = 100 })
	c.pass(1)
	if a := client.Decide(t.Context(), request("acme", 50)); !a.Allowed || l.asked() != 2 {
		t.Errorf("at 10 s: %+v, asked %d times", a, l.asked())
	}
}

// TestHintCovers: which requests a denial of 50 tokens answers.
func TestHintCovers(t *testing.T) {
	with := func(cost int64, change func(*decision.Request)) decision.Request {
		req := request("acme", cost)
		if change != nil {
			change(&req)
		}
		return req
	}
	for _, test := range []struct {
		name    string
		req     decision.Request
		covered bool
	}{
		{"the same cost", with(50, nil), true},
		{"a higher cost", with(51, nil), true},
		{"a lower cost", with(49, nil), false},
		{"the default cost", with(0, func(r *decision.Request) { r.Cost = decision.Cost{} }), false},
		{"the version that denied", with(50, func(r *decision.Request) { r.PolicyVersion = 1 }), true},
		{"another version", with(50, func(r *decision.Request) { r.PolicyVersion = 2 }), false},
		{"a decision ID, which may have been admitted", with(50, func(r *decision.Request) { r.ID = "id-1" }), false},
		{"may wait for its turn", with(50, func(r *decision.Request) { r.MaxWait = time.Second }), false},
		{"several budgets", with(50, func(r *decision.Request) { r.Also = []decision.Part{request("all", 1).Part} }), false},
		{"another account", request("umbrella", 50), false},
		{"case 49: another account", request("Acme", 50), false},
		{"another operation", with(50, func(r *decision.Request) { r.Key.Operation = "report.read" }), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			client, l, _ := hinting(t, remote.Config{})
			client.Decide(t.Context(), test.req)
			client.DecideAll(t.Context(), []decision.Request{test.req})
			client.Reserve(t.Context(), test.req)
			want := 1
			if !test.covered {
				want = 4
				if len(test.req.Also) > 0 {
					want = 3 // a reservation has one budget
				}
			}
			// Another denial of the same kind may have made a hint of its own.
			if got := l.asked(); (got == 1) != test.covered || got > want {
				t.Errorf("asked %d times, want %d", got, want)
			}
		})
	}
}

// TestNoHints: which denials make none.
func TestNoHints(t *testing.T) {
	for _, test := range []struct {
		name   string
		cfg    remote.Config
		change func(*pb.CheckResponse)
		req    func(*decision.Request)
	}{
		{"turned off", remote.Config{HintFor: -1}, nil, nil},
		{"no wait", remote.Config{}, func(r *pb.CheckResponse) { r.HasRetry = false }, nil},
		{"a wait that is over", remote.Config{}, func(r *pb.CheckResponse) { r.RetryInNs = 0 }, nil},
		{"shadow", remote.Config{}, func(r *pb.CheckResponse) { r.Shadow, r.Allowed = true, true }, nil},
		{"fallback", remote.Config{}, func(r *pb.CheckResponse) { r.Reason, r.Allowed = pb.Reason_REASON_FALLBACK, true }, nil},
		{"unavailable", remote.Config{}, func(r *pb.CheckResponse) { r.Reason = pb.Reason_REASON_UNAVAILABLE }, nil},
		{"overloaded", remote.Config{}, func(r *pb.CheckResponse) { r.Reason = pb.Reason_REASON_OVERLOADED }, nil},
		{"several budgets", remote.Config{}, nil, func(r *decision.Request) { r.Also = []decision.Part{request("all", 1).Part} }},
		{"waited for its turn", remote.Config{}, nil, func(r *decision.Request) { r.MaxWait = time.Millisecond }},
		{"recorded", remote.Config{}, func(r *pb.CheckResponse) { r.Replayed = true }, func(r *decision.Request) { r.ID = "id-1" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLimiter()
			if test.change != nil {
				l.change = func(_ *pb.CheckRequest, resp *pb.CheckResponse) { test.change(resp) }
			}
			test.cfg.Now = newClock().read
			client := newClient(t, test.cfg, l)
			req := request("acme", 50)
			if test.req != nil {
				test.req(&req)
			}
			client.Decide(t.Context(), req)
			client.Decide(t.Context(), request("acme", 50))
			if l.asked() != 2 {
				t.Errorf("asked %d times, want 2", l.asked())
			}
		})
	}
}

// TestHintEnds: what ends a hint before its wait is over.
func TestHintEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  remote.Config
		act  func(*testing.T, *remote.Client, *limiter, *clock)
		ends bool
	}{
		{"nothing", remote.Config{}, func(*testing.T, *remote.Client, *limiter, *clock) {}, false},
		{"its longest time", remote.Config{HintFor: 3 * time.Second}, func(_ *testing.T, _ *remote.Client, _ *limiter, c *clock) { c.pass(3 * time.Second) }, true},
		{"not before", remote.Config{HintFor: 3 * time.Second}, func(_ *testing.T, _ *remote.Client, _ *limiter, c *clock) { c.pass(3*time.Second - 1) }, false},
		{"an answer of the same version", remote.Config{}, func(t *testing.T, client *remote.Client, _ *limiter, _ *clock) {
			client.Decide(t.Context(), request("acme", 5))
		}, false},
		{"an answer of another version", remote.Config{}, func(t *testing.T, client *remote.Client, l *limiter, _ *clock) {
			l.set(func() { l.version = 2 })
			client.Decide(t.Context(), request("acme", 5))
		}, true},
		{"another version told to another account", remote.Config{}, func(t *testing.T, client *remote.Client, l *limiter, _ *clock) {
			l.set(func() { l.version = 2 })
			client.Decide(t.Context(), request("umbrella", 5))
		}, false},
		{"another version in the part of a decision on several", remote.Config{}, func(t *testing.T, client *remote.Client, l *limiter, _ *clock) {
			l.set(func() {
				l.change = func(req *pb.CheckRequest, resp *pb.CheckResponse) {
					resp.Parts = []*pb.CheckPartResponse{{Key: req.GetKey(), PolicyVersion: 1}, {Key: req.GetAlso()[0].GetKey(), PolicyVersion: 2}}
				}
			})
			req := request("all", 1)
			req.Also = []decision.Part{request("acme", 1).Part}
			client.Decide(t.Context(), req)
			l.set(func() { l.change = nil })
		}, true},
		{"an admission of such a cost", remote.Config{}, func(t *testing.T, client *remote.Client, l *limiter, _ *clock) {
			l.set(func() { l.capacity = 60 })
			req := request("acme", 55)
			req.ID = "id-1" // goes past the hint
			client.Decide(t.Context(), req)
		}, true},
		{"a settlement", remote.Config{}, func(t *testing.T, client *remote.Client, _ *limiter, _ *clock) {
			r, _ := client.Reserve(t.Context(), request("acme", 5))
			if s := r.Settle(t.Context(), 1); !s.Settled {
				t.Errorf("settled: %+v", s)
			}
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			client, l, c := hinting(t, test.cfg)
			test.act(t, client, l, c)
			before := l.asked()
			client.Decide(t.Context(), request("acme", 50))
			if ended := l.asked() > before; ended != test.ends {
				t.Errorf("the hint has ended: %v, want %v", ended, test.ends)
			}
		})
	}
}

// TestDefaultCostHint: a denial of the default cost answers for that alone.
func TestDefaultCostHint(t *testing.T) {
	l := newLimiter()
	l.capacity = 0
	client := newClient(t, remote.Config{Now: newClock().read}, l)
	unpriced := request("acme", 0)
	unpriced.Cost = decision.Cost{}
	for _, step := range []struct {
		req   decision.Request
		asked int
	}{{unpriced, 1}, {unpriced, 1}, {request("acme", 9), 2}, {request("acme", 3), 3}, {request("acme", 5), 3}, {unpriced, 3}} {
		if a := client.Decide(t.Context(), step.req); a.Allowed || l.asked() != step.asked {
			t.Errorf("%+v: %+v, asked %d times, want %d", step.req.Cost, a, l.asked(), step.asked)
		}
	}
}

// TestHintsAreBounded: the oldest key goes first.
func TestHintsAreBounded(t *testing.T) {
	l := newLimiter()
	client := newClient(t, remote.Config{MaxHints: 3, Now: newClock().read}, l)
	ask := func(n int) bool { // whether the limiter was asked
		before := l.asked()
		client.Decide(t.Context(), request(fmt.Sprintf("account-%d", n), 50))
		return l.asked() > before
	}
	for n := range 4 {
		ask(n)
	}
	for _, n := range []int{1, 2, 3} {
		if ask(n) {
			t.Errorf("the hint of account %d is gone", n)
		}
	}
	if !ask(0) {
		t.Error("four hints are kept, of three")
	}
	if !ask(1) {
		t.Error("account 1 was the oldest, and is still kept")
	}
}

// TestTenantsHintsArePrivate: two accounts through one client with hints see their
// own numbers alone.
func TestTenantsHintsArePrivate(t *testing.T) {
	client, l, _ := hinting(t, remote.Config{})
	a := client.Decide(t.Context(), request("umbrella", 50))
	if a.Detail != "" || a.Remaining != 40 || l.asked() != 2 {
		t.Errorf("umbrella is told %+v, asked %d times", a, l.asked())
	}
	if a := client.Decide(t.Context(), request("umbrella", 30)); !a.Allowed || a.Remaining != 10 {
		t.Errorf("umbrella is told %+v", a)
	}
	if a := client.Decide(t.Context(), request("acme", 40)); !a.Allowed || a.Remaining != 0 {
		t.Errorf("acme is told %+v", a)
	}
	for _, account := range []string{"acme", "umbrella"} {
		a := client.Decide(t.Context(), request(account, 50))
		if other := map[string]string{"acme": "umbrella", "umbrella": "acme"}[account]; strings.Contains(fmt.Sprintf("%+v", a), other) {
			t.Errorf("%s is told %+v", account, a)
		}
	}
}

// TestHintsOfBatches: batches make hints and are answered by them.
func TestHintsOfBatches(t *testing.T) {
	l := newLimiter()
	client := newClient(t, remote.Config{Now: newClock().read}, l)
	reqs := []decision.Request{request("acme", 50), request("umbrella", 1)}
	client.DecideAll(t.Context(), reqs)
	answers := client.DecideAll(t.Context(), reqs)
	if answers[0].Allowed || answers[0].Detail == "" || !answers[1].Allowed || l.asked() != 3 {
		t.Errorf("answers %+v, asked %d times", answers, l.asked())
	}
}
