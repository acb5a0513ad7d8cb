package remote_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/edge"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/remote"
)

// limiter is a server of the Limiter service: each account has capacity tokens of
// each operation, which do not refill. It remembers what it was asked.
type limiter struct {
	tokenleasev1connect.UnimplementedLimiterHandler

	capacity int64
	wait     time.Duration // told with denials

	mu       sync.Mutex
	version  int64
	spent    map[string]int64
	checks   []*pb.CheckRequest
	settles  []*pb.SettleRequest
	batches  []int                                         // sizes
	fail     func(context.Context) error                   // before each answer, if not nil
	change   func(*pb.CheckRequest, *pb.CheckResponse)     // each answer, if not nil
	rebatch  func(*pb.CheckBatchResponse)                  // likewise
	bounds   map[string]int64                              // of reservations
	reserved func(*pb.ReserveRequest, *pb.ReserveResponse) // likewise
}

func newLimiter() *limiter {
	return &limiter{capacity: 40, wait: 10 * time.Second, version: 1, spent: map[string]int64{}, bounds: map[string]int64{}}
}

// serve starts the limiter and returns its URL.
func (l *limiter) serve(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(tokenleasev1connect.NewLimiterHandler(l, edge.Options()))
	server := httptest.NewUnstartedServer(mux)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server.Config.Protocols = &protocols
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func (l *limiter) decide(req *pb.CheckRequest) *pb.CheckResponse {
	l.checks = append(l.checks, req)
	cost := int64(1)
	if req.CostTokens != nil {
		cost = req.GetCostTokens()
	}
	account := req.GetKey().GetAccount()
	left := l.capacity - l.spent[account]
	resp := &pb.CheckResponse{LimitTokens: l.capacity, RemainingTokens: left, PolicyVersion: l.version}
	if cost > left {
		resp.Reason, resp.HasRetry, resp.RetryInNs = pb.Reason_REASON_EXHAUSTED, l.wait > 0, int64(l.wait)
		resp.RetryUnixMs = 1_000_000 + l.wait.Milliseconds()
	} else {
		l.spent[account] += cost
		resp.Allowed, resp.Reason, resp.RemainingTokens, resp.GrantId = true, pb.Reason_REASON_ALLOWED, left-cost, "g1-0-1"
	}
	if l.change != nil {
		l.change(req, resp)
	}
	return resp
}

// enter takes the lock, after whatever fails.
func (l *limiter) enter(ctx context.Context) error {
	l.mu.Lock()
	fail := l.fail
	if fail == nil {
		return nil
	}
	l.mu.Unlock()
	err := fail(ctx)
	l.mu.Lock()
	return err
}

func (l *limiter) Check(ctx context.Context, req *connect.Request[pb.CheckRequest]) (*connect.Response[pb.CheckResponse], error) {
	err := l.enter(ctx)
	defer l.mu.Unlock()
	resp := l.decide(req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(resp), nil
}

func (l *limiter) CheckBatch(ctx context.Context, req *connect.Request[pb.CheckBatchRequest]) (*connect.Response[pb.CheckBatchResponse], error) {
	err := l.enter(ctx)
	defer l.mu.Unlock()
	resp := &pb.CheckBatchResponse{}
	for _, check := range req.Msg.GetChecks() {
		resp.Results = append(resp.Results, &pb.CheckResult{Response: l.decide(check)})
	}
	l.batches = append(l.batches, len(resp.GetResults()))
	if l.rebatch != nil {
		l.rebatch(resp)
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(resp), nil
}

func (l *limiter) Reserve(ctx context.Context, req *connect.Request[pb.ReserveRequest]) (*connect.Response[pb.ReserveResponse], error) {
	err := l.enter(ctx)
	defer l.mu.Unlock()
	resp := &pb.ReserveResponse{Response: l.decide(req.Msg.GetCheck())}
	if resp.GetResponse().GetAllowed() {
		resp.ReservationId, resp.ReservedTokens = "0123456789abcdef0123456789abcdef", req.Msg.GetCheck().GetCostTokens()
		resp.ExpiresInNs = int64(time.Minute)
		l.bounds[resp.GetReservationId()] = resp.GetReservedTokens()
	}
	if l.reserved != nil {
		l.reserved(req.Msg, resp)
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(resp), nil
}

func (l *limiter) Settle(ctx context.Context, req *connect.Request[pb.SettleRequest]) (*connect.Response[pb.SettleResponse], error) {
	err := l.enter(ctx)
	defer l.mu.Unlock()
	l.settles = append(l.settles, req.Msg)
	bound, known := l.bounds[req.Msg.GetReservationId()]
	resp := &pb.SettleResponse{Detail: "no such reservation"}
	switch cost := req.Msg.GetCostTokens(); {
	case known && cost > bound:
		resp.Detail = "more than was reserved"
	case known:
		l.spent[req.Msg.GetKey().GetAccount()] -= bound - cost
		resp = &pb.SettleResponse{Settled: true, ReturnedTokens: bound - cost}
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(resp), nil
}

// asked is how many checks it was asked.
func (l *limiter) asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.checks)
}

// ids are the decision IDs that it was asked under.
func (l *limiter) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]string, 0, len(l.checks))
	for _, check := range l.checks {
		ids = append(ids, check.GetDecisionId())
	}
	return ids
}

// set changes the limiter under its lock.
func (l *limiter) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// failing fails the next n answers, after deciding.
func failing(n int, code connect.Code) func(context.Context) error {
	var mu sync.Mutex
	return func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if n--; n >= 0 {
			return connect.NewError(code, errBroken)
		}
		return nil
	}
}

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newClient makes a client of limiters that are being served.
func newClient(t *testing.T, cfg remote.Config, limiters ...*limiter) *remote.Client {
	t.Helper()
	for _, l := range limiters {
		cfg.URLs = append(cfg.URLs, l.serve(t))
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute // nothing here is to fail because a machine is slow
	}
	if cfg.HTTPClient == nil {
		client := remote.HTTPClient(nil)
		t.Cleanup(client.CloseIdleConnections)
		cfg.HTTPClient = client
	}
	client, err := remote.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func request(account string, cost int64) decision.Request {
	return decision.Request{Part: decision.Part{Key: lease.Key{Account: account, Operation: "report.create"}, Cost: decision.Tokens(cost)}}
}
