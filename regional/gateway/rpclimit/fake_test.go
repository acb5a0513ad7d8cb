package rpclimit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
	"github.com/tokenlease/tokenlease/regional/gateway/rpclimit"
)

// fake is a limiter that answers each account as it was told to, and holds one
// slot of 50 tokens for each.
type fake struct {
	mu       sync.Mutex
	answers  map[string]decision.Answer
	requests []decision.Request
	settled  chan int64 // costs, as settled
	held     map[string]bool
}

func newFake() *fake {
	return &fake{settled: make(chan int64, 10), held: map[string]bool{}, answers: map[string]decision.Answer{
		"acme": {Allowed: true, Reason: pb.Reason_REASON_ALLOWED, Limit: 40, Remaining: 35, Window: 2 * time.Second, PolicyVersion: 3, GrantID: "g1"},
		"exhausted": {
			Reason: pb.Reason_REASON_EXHAUSTED, Limit: 40, Window: 2 * time.Second, PolicyVersion: 3,
			HasRetry: true, RetryIn: 400 * time.Millisecond, GrantID: "g1",
		},
		"quota":       {Reason: pb.Reason_REASON_EXHAUSTED, Limit: 1},
		"greedy":      {Reason: pb.Reason_REASON_COST_ABOVE_CAPACITY, Limit: 5},
		"unavailable": decision.Unavailable("dial tcp 10.0.0.1:8080"),
		"overloaded":  {Reason: pb.Reason_REASON_OVERLOADED},
		"disabled":    {Reason: pb.Reason_REASON_DISABLED, Detail: "closed for the audit"},
		"invalid":     decision.Invalid("the cost is negative"),
		"refresh":     {Reason: pb.Reason_REASON_REFRESH, PolicyVersion: 4},
		"no-policy":   {Reason: pb.Reason_REASON_NO_POLICY},
		"shadow":      {Allowed: true, Shadow: true, Reason: pb.Reason_REASON_EXHAUSTED, Limit: 40},
		"nothing":     {},
	}}
}

func (f *fake) Decide(_ context.Context, req decision.Request) decision.Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, req)
	if req.Key.Account == "panic" {
		panic("a bug")
	}
	return f.answers[req.Key.Account]
}

func (f *fake) Reserve(ctx context.Context, req decision.Request) (decision.Reservation, decision.Answer) {
	a := f.Decide(ctx, req)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[req.Key.Account] {
		a.Allowed, a.Reason = false, pb.Reason_REASON_EXHAUSTED
	}
	if !a.Allowed {
		return nil, a
	}
	f.held[req.Key.Account] = true
	return &slot{f: f, account: req.Key.Account}, a
}

func (f *fake) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

type slot struct {
	f       *fake
	account string
}

func (*slot) ID() string             { return "r1" }
func (*slot) Expires() time.Duration { return time.Minute }

func (s *slot) Settle(_ context.Context, cost int64) decision.Settlement {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.held[s.account] = false
	s.f.settled <- cost
	return decision.Settlement{Settled: true, Returned: 50 - cost}
}

// identify takes the account from the metadata.
func identify(_ context.Context, call rpclimit.Call) (decision.Request, error) {
	account := call.Header.Get("X-Account")
	if account == "stranger" {
		return decision.Request{}, errors.New("the secret reason")
	}
	return decision.Request{Part: decision.Part{Key: lease.Key{Account: account, Operation: call.Procedure}, Cost: decision.Tokens(50)}}, nil
}

func config() rpclimit.Config {
	return rpclimit.Config{Request: identify, Writer: httpanswer.Writer{Jitter: func() float64 { return 0.5 }}}
}

// told is what a caller of either protocol is told of a denial.
type told struct {
	Code     string
	Message  string
	Reason   string        // of google.rpc.ErrorInfo
	Version  string        // of its metadata
	Delay    time.Duration // of google.rpc.RetryInfo
	Header   string        // RateLimit
	After    string        // Retry-After
	Pushback string        // of gRPC alone
}

// denials are those of each account. Connect and gRPC tell the same.
func denials() map[string]told {
	const (
		later    = "Try again after the time that Retry-After says."
		undecide = "Whether the quota admits the request could not be decided. " + later
	)
	return map[string]told{
		"exhausted": {
			"resource_exhausted", "The quota is used up for now. " + later, "EXHAUSTED", "3", 400 * time.Millisecond,
			`"default";r=0;t=1`, "1", "400",
		},
		"quota": {"resource_exhausted", "The quota is used up, and nobody knows for how long.", "EXHAUSTED", "", 0, `"default";r=0`, "", "-1"},
		"greedy": {
			"resource_exhausted", "The request costs more than the quota can ever admit. Ask for less at a time: waiting does not help.",
			"COST_ABOVE_CAPACITY", "", 0, `"default";r=0`, "", "-1",
		},
		"unavailable": {"unavailable", undecide, "UNAVAILABLE", "", 3 * time.Second, "", "3", "3000"},
		"nothing":     {"unavailable", undecide, "UNAVAILABLE", "", 3 * time.Second, "", "3", "3000"},
		"panic":       {"unavailable", undecide, "UNAVAILABLE", "", 3 * time.Second, "", "3", "3000"},
		"overloaded":  {"unavailable", "Too many requests are being decided at once. " + later, "OVERLOADED", "", 3 * time.Second, "", "3", "3000"},
		"disabled":    {"permission_denied", "The operation is disabled.", "DISABLED", "", 0, "", "", "-1"},
		"invalid":     {"invalid_argument", "the cost is negative", "INVALID", "", 0, "", "", "-1"},
		"stranger":    {"invalid_argument", "The request is not valid.", "INVALID", "", 0, "", "", "-1"},
		"":            {"invalid_argument", "The request is not valid.", "INVALID", "", 0, "", "", "-1"},
		"refresh": {
			"failed_precondition", "The request names an older version of the policy than the one in force. Read that version and ask again.",
			"REFRESH", "4", 0, "", "", "-1",
		},
		"no-policy": {
			"internal", "No quota is configured for the operation. The operator of this service has to add one.", "NO_POLICY", "", 0, "", "", "-1",
		},
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		cfg  rpclimit.Config
		want string
	}{
		{rpclimit.Config{}, "rpclimit: no Request: without it nobody knows who asks"},
		{rpclimit.Config{Request: identify, Mode: -1}, "rpclimit: mode -1 is not known"},
		{rpclimit.Config{Request: identify, Timeout: -1}, "rpclimit: the timeout -1ns is negative"},
	} {
		if _, err := rpclimit.Connect(newFake(), test.cfg); err == nil || err.Error() != test.want {
			t.Errorf("Connect: %v, want %s", err, test.want)
		}
		if _, _, err := rpclimit.GRPC(newFake(), test.cfg); err == nil || err.Error() != test.want {
			t.Errorf("GRPC: %v, want %s", err, test.want)
		}
	}
	if err := (rpclimit.Config{Request: identify}).Validate(nil); err == nil {
		t.Error("no decider is valid")
	}
}
