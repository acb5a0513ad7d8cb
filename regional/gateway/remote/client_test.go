package remote_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/remote"
)

var errBroken = errors.New("broken")

// TestDecide: all of a request reaches the limiter, and all of its answer the caller.
func TestDecide(t *testing.T) {
	l := newLimiter()
	want := decision.Answer{
		Allowed: true, Reason: pb.Reason_REASON_EXHAUSTED, Limit: 40, Remaining: 3, Window: 2 * time.Second,
		HasRetry: true, RetryIn: 1500 * time.Millisecond, RetryAt: time.UnixMilli(1_767_225_600_000), PolicyVersion: 7, GrantID: "g1-0-1",
		Replayed: true, Shadow: true, NotStrict: true, Debt: 4, Detail: "why",
		Parts: []decision.PartAnswer{{
			Key: lease.Key{Account: "acme", Operation: "report.create"}, Reason: pb.Reason_REASON_EXHAUSTED, Limit: 40, Remaining: 3,
			HasRetry: true, RetryIn: time.Second, PolicyVersion: 7, GrantID: "g1-0-1",
		}},
	}
	l.change = func(_ *pb.CheckRequest, resp *pb.CheckResponse) {
		wire := want.Wire()
		*resp = pb.CheckResponse{
			Allowed: wire.Allowed, Reason: wire.Reason, LimitTokens: wire.LimitTokens, RemainingTokens: wire.RemainingTokens,
			HasRetry: wire.HasRetry, RetryInNs: wire.RetryInNs, RetryUnixMs: wire.RetryUnixMs, PolicyVersion: wire.PolicyVersion,
			GrantId: wire.GrantId, Detail: wire.Detail, Replayed: wire.Replayed, Shadow: wire.Shadow, WindowNs: wire.WindowNs,
			NotStrict: wire.NotStrict, DebtTokens: wire.DebtTokens, Parts: wire.Parts,
		}
	}
	req := request("acme", 5)
	req.ID, req.PolicyVersion, req.MaxWait, req.Priority = "id-1", 7, 250*time.Millisecond, pb.Priority_PRIORITY_HIGH
	req.Also = []decision.Part{{Key: lease.Key{Account: "acme", Operation: "all"}}}
	got := newClient(t, remote.Config{}, l).Decide(t.Context(), req)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the answer differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]*pb.CheckRequest{req.Wire()}, l.checks, protocmp.Transform()); diff != "" {
		t.Errorf("the request differs (-want +got):\n%s", diff)
	}
}

func TestRetry(t *testing.T) {
	tests := []struct {
		name   string
		id     string
		fail   func(context.Context) error
		cfg    remote.Config
		asked  int
		reason pb.Reason
		detail string
	}{
		{"none is needed", "", nil, remote.Config{}, 1, pb.Reason_REASON_ALLOWED, ""},
		{"one failure", "", failing(1, connect.CodeUnavailable), remote.Config{}, 2, pb.Reason_REASON_ALLOWED, ""},
		{"one failure, with an ID", "mine", failing(1, connect.CodeInternal), remote.Config{}, 2, pb.Reason_REASON_ALLOWED, ""},
		{"two failures", "", failing(2, connect.CodeUnavailable), remote.Config{}, 2, pb.Reason_REASON_UNAVAILABLE, "no limiter answered: unavailable: broken"},
		{"no retry", "", failing(1, connect.CodeUnavailable), remote.Config{NoRetry: true}, 1, pb.Reason_REASON_UNAVAILABLE, "no limiter answered: unavailable: broken"},
		{"refused for what it is", "", failing(1, connect.CodeInvalidArgument), remote.Config{}, 1, pb.Reason_REASON_INVALID, "broken"},
		{"refused for who asks", "", failing(1, connect.CodeUnauthenticated), remote.Config{}, 1, pb.Reason_REASON_UNAVAILABLE, "no limiter answered: unauthenticated: broken"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLimiter()
			l.fail = test.fail
			l.change = func(_ *pb.CheckRequest, resp *pb.CheckResponse) { resp.Replayed = len(l.checks) > 1 }
			req := request("acme", 5)
			req.ID = test.id
			a := newClient(t, test.cfg, l).Decide(t.Context(), req)
			if a.Reason != test.reason || a.Detail != test.detail || a.Allowed != (test.reason == pb.Reason_REASON_ALLOWED) {
				t.Errorf("answer %+v, want %v, %q", a, test.reason, test.detail)
			}
			if a.Allowed && a.Replayed != (test.id != "" && test.asked > 1) {
				t.Errorf("replayed: %v", a.Replayed) // an ID of the client's own is nobody's business
			}
			ids := l.ids()
			if len(ids) != test.asked || len(slices.Compact(slices.Clone(ids))) != 1 {
				t.Fatalf("asked under the IDs %q, want %d times the same", ids, test.asked)
			}
			switch {
			case test.cfg.NoRetry && ids[0] != "", test.id != "" && ids[0] != test.id:
				t.Errorf("asked under the ID %q", ids[0])
			case !test.cfg.NoRetry && ids[0] == "":
				t.Error("asked without an ID, although it may be repeated")
			}
		})
	}
}

func TestIDsDiffer(t *testing.T) {
	l := newLimiter()
	client := newClient(t, remote.Config{}, l)
	for range 20 {
		client.Decide(t.Context(), request("acme", 1))
	}
	ids := l.ids()
	slices.Sort(ids)
	if got := len(slices.Compact(ids)); got != 20 {
		t.Errorf("20 requests have %d IDs", got)
	}
}

// TestMissingAnswers: what a limiter leaves out is no permission.
func TestMissingAnswers(t *testing.T) {
	l := newLimiter()
	l.change = func(_ *pb.CheckRequest, resp *pb.CheckResponse) { resp.Reason = pb.Reason_REASON_UNSPECIFIED }
	if a := newClient(t, remote.Config{}, l).Decide(t.Context(), request("acme", 1)); a.Allowed || a.Reason != pb.Reason_REASON_UNAVAILABLE {
		t.Errorf("allowed without a reason: %+v", a)
	}
	nobody := newClient(t, remote.Config{URLs: []string{"http://127.0.0.1:1"}})
	a := nobody.Decide(t.Context(), request("acme", 1))
	if a.Allowed || a.Reason != pb.Reason_REASON_UNAVAILABLE || !strings.HasPrefix(a.Detail, "no limiter answered: unavailable: ") {
		t.Errorf("nobody listens: %+v", a)
	}
}

func TestInvalidIsNotSent(t *testing.T) {
	l := newLimiter()
	client := newClient(t, remote.Config{}, l)
	for _, test := range []struct {
		req    decision.Request
		detail string
	}{
		{request("", 1), "key.account: must have 1 to 256 bytes, has 0"},
		{request("acme", -1), "cost_tokens: must be 0 or more, is -1"},
	} {
		if a := client.Decide(t.Context(), test.req); a.Allowed || a.Reason != pb.Reason_REASON_INVALID || a.Detail != test.detail {
			t.Errorf("answer %+v, want %q", a, test.detail)
		}
	}
	if l.asked() != 0 {
		t.Errorf("%d invalid requests were sent", l.asked())
	}
}

func TestLongErrorsAreCut(t *testing.T) {
	l := newLimiter()
	l.fail = func(context.Context) error {
		return connect.NewError(connect.CodeInvalidArgument, errors.New(strings.Repeat("x", 10_000)))
	}
	if a := newClient(t, remote.Config{}, l).Decide(t.Context(), request("acme", 1)); len(a.Detail) != 200 {
		t.Errorf("a detail of %d bytes", len(a.Detail))
	}
}

// TestOneLimiterForAKey: a key is always asked for at the same limiter, and keys are
// spread over all.
func TestOneLimiterForAKey(t *testing.T) {
	limiters := []*limiter{newLimiter(), newLimiter(), newLimiter()}
	client := newClient(t, remote.Config{}, limiters...)
	for range 3 {
		for i := range 20 {
			client.Decide(t.Context(), request(fmt.Sprintf("account-%d", i), 1))
		}
	}
	seen := map[string]int{}
	for n, l := range limiters {
		if l.asked() == 0 {
			t.Errorf("limiter %d was never asked", n)
		}
		for _, check := range l.checks {
			account := check.GetKey().GetAccount()
			if other, known := seen[account]; known && other != n {
				t.Fatalf("%s was asked for at limiters %d and %d", account, other, n)
			}
			seen[account] = n
		}
	}
}

// pair is a client of two limiters, the one that a key belongs to first.
func pair(t *testing.T, cfg remote.Config, req decision.Request) (client *remote.Client, own, other *limiter) {
	t.Helper()
	own, other = newLimiter(), newLimiter()
	if lease.ShardOf(req.Key, 2) == 1 {
		return newClient(t, cfg, other, own), own, other
	}
	return newClient(t, cfg, own, other), own, other
}

// TestFailover: the other limiter answers for one that failed, for a second.
func TestFailover(t *testing.T) {
	c := newClock()
	req := request("acme", 1)
	client, own, other := pair(t, remote.Config{Now: c.read}, req)
	own.fail = failing(1, connect.CodeUnavailable)
	ask := func(wantOwn, wantOther int) {
		t.Helper()
		if a := client.Decide(t.Context(), req); !a.Allowed {
			t.Errorf("answer %+v", a)
		}
		if own.asked() != wantOwn || other.asked() != wantOther {
			t.Errorf("asked %d and %d times, want %d and %d", own.asked(), other.asked(), wantOwn, wantOther)
		}
	}
	ask(1, 1)
	if own.ids()[0] != other.ids()[0] {
		t.Error("the other limiter was asked under another ID")
	}
	ask(1, 2)
	c.pass(time.Second - 1)
	ask(1, 3)
	c.pass(1)
	ask(2, 3)
}

// TestBothFailing: with both left out a moment ago, the key's own comes first.
func TestBothFailing(t *testing.T) {
	req := request("acme", 1)
	client, own, other := pair(t, remote.Config{Now: newClock().read}, req)
	own.fail, other.fail = failing(1, connect.CodeUnavailable), failing(1, connect.CodeUnavailable)
	if a := client.Decide(t.Context(), req); a.Allowed {
		t.Errorf("answer %+v", a)
	}
	if a := client.Decide(t.Context(), req); !a.Allowed || own.asked() != 2 || other.asked() != 1 {
		t.Errorf("answer %+v, asked %d and %d times", a, own.asked(), other.asked())
	}
}

// TestCallerGivesUp: then nobody else is asked, and the limiter is not to blame.
func TestCallerGivesUp(t *testing.T) {
	req := request("acme", 1)
	client, own, other := pair(t, remote.Config{}, req)
	ctx, cancel := context.WithCancel(t.Context())
	own.fail = func(called context.Context) error { cancel(); <-called.Done(); return called.Err() }
	if a := client.Decide(ctx, req); a.Allowed || a.Reason != pb.Reason_REASON_UNAVAILABLE {
		t.Errorf("answer %+v", a)
	}
	own.set(func() { own.fail = nil })
	if a := client.Decide(t.Context(), req); !a.Allowed || other.asked() != 0 {
		t.Errorf("answer %+v, the other was asked %d times", a, other.asked())
	}
}

func TestDecideAll(t *testing.T) {
	limiters := []*limiter{newLimiter(), newLimiter()}
	for _, l := range limiters {
		l.capacity = 1
	}
	client := newClient(t, remote.Config{}, limiters...)
	var reqs []decision.Request
	for i := range 1500 {
		reqs = append(reqs, request(fmt.Sprintf("account-%d", i), 1))
	}
	reqs = append(reqs, request("", 1), request("account-7", 1), request("account-8", 0))
	reqs[1502].ID = "id-1"
	answers := client.DecideAll(t.Context(), reqs)
	for i, a := range answers {
		want := pb.Reason_REASON_ALLOWED
		switch i {
		case 1500:
			want = pb.Reason_REASON_INVALID
		case 1501:
			want = pb.Reason_REASON_EXHAUSTED
		}
		if a.Reason != want {
			t.Fatalf("answer %d: %+v, want %v", i, a, want)
		}
	}
	if n := len(limiters[0].batches) + len(limiters[1].batches); n != 2 {
		t.Errorf("asked in %d batches, want 2: %v and %v", n, limiters[0].batches, limiters[1].batches)
	}
	if got := client.DecideAll(t.Context(), nil); len(got) != 0 {
		t.Errorf("no requests have %d answers", len(got))
	}
}

func TestDecideAllInBatches(t *testing.T) {
	l := newLimiter()
	reqs := make([]decision.Request, 1001)
	for i := range reqs {
		reqs[i] = request(fmt.Sprintf("account-%d", i), int64(i%40)+1)
	}
	for i, a := range newClient(t, remote.Config{}, l).DecideAll(t.Context(), reqs) {
		if !a.Allowed || a.Remaining != 40-int64(i%40)-1 {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
	slices.Sort(l.batches)
	if !slices.Equal(l.batches, []int{1, 1000}) {
		t.Errorf("batches of %v", l.batches)
	}
}

func TestDecideAllRetries(t *testing.T) {
	l := newLimiter()
	l.fail = failing(1, connect.CodeUnavailable)
	l.change = func(_ *pb.CheckRequest, resp *pb.CheckResponse) { resp.Replayed = len(l.checks) > 2 }
	client := newClient(t, remote.Config{}, l)
	reqs := []decision.Request{request("acme", 1), request("umbrella", 1)}
	reqs[1].ID = "mine"
	for i, a := range client.DecideAll(t.Context(), reqs) {
		if !a.Allowed || a.Replayed != (i == 1) {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
	if ids := l.ids(); len(ids) != 4 || ids[0] != ids[2] || ids[1] != "mine" || ids[3] != "mine" || ids[0] == "mine" || ids[0] == "" {
		t.Errorf("asked under the IDs %q", ids)
	}
	l.set(func() { l.fail = failing(2, connect.CodeUnavailable) })
	for _, a := range client.DecideAll(t.Context(), reqs) {
		if a.Allowed || a.Reason != pb.Reason_REASON_UNAVAILABLE {
			t.Errorf("answer %+v", a)
		}
	}
	l.set(func() { l.rebatch = func(resp *pb.CheckBatchResponse) { resp.Results = resp.Results[:1] } })
	for _, a := range client.DecideAll(t.Context(), reqs) {
		if a.Allowed || a.Detail != "the limiter answered another number of checks than it was asked" {
			t.Errorf("answer %+v", a)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		cfg  remote.Config
		want string
	}{
		{remote.Config{}, "remote: no limiter URL"},
		{remote.Config{URLs: []string{"limiter:8080"}}, `remote: limiter URL "limiter:8080" is not of the form http://host:port`},
		{remote.Config{URLs: []string{"http://a", ""}}, `remote: limiter URL "" is not of the form http://host:port`},
		{remote.Config{URLs: []string{"http://a"}, Timeout: -1}, "remote: the timeout and the number of hints must not be negative"},
		{remote.Config{URLs: []string{"http://a"}, MaxHints: -1}, "remote: the timeout and the number of hints must not be negative"},
	} {
		if _, err := remote.New(test.cfg); err == nil || err.Error() != test.want {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}
