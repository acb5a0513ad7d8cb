package remote

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// memory is a network of one server, in memory.
type memory struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	dials atomic.Int64
	cuts  []func() // one for each connection: from then on nothing passes it
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), done: make(chan struct{})} }

func (m *memory) Accept() (net.Conn, error) {
	select {
	case conn := <-m.conns:
		return conn, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error   { m.once.Do(func() { close(m.done) }); return nil }
func (m *memory) Addr() net.Addr { return &net.TCPAddr{} }

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	m.dials.Add(1)
	cut := &cuttable{Conn: client, silent: make(chan struct{}), closed: make(chan struct{})}
	m.cuts = append(m.cuts, func() { close(cut.silent) })
	select {
	case m.conns <- server:
		return cut, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cuttable is a connection that can be cut silently: what is written is lost, and
// nothing comes.
type cuttable struct {
	net.Conn

	silent, closed chan struct{}
	once           sync.Once
}

func (c *cuttable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.silent:
		<-c.closed
		return 0, io.EOF
	default:
		return n, err
	}
}

func (c *cuttable) Write(p []byte) (int, error) {
	select {
	case <-c.silent:
		return len(p), nil
	default:
		return c.Conn.Write(p)
	}
}

func (c *cuttable) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// always is a limiter that admits, unless it is to hang.
type always struct {
	tokenleasev1connect.UnimplementedLimiterHandler

	hang  atomic.Int64 // so many requests
	waits chan time.Duration
}

func (a *always) Check(ctx context.Context, _ *connect.Request[pb.CheckRequest]) (*connect.Response[pb.CheckResponse], error) {
	if a.hang.Add(-1) >= 0 {
		start := time.Now()
		<-ctx.Done()
		a.waits <- time.Since(start)
		return nil, ctx.Err()
	}
	return connect.NewResponse(&pb.CheckResponse{Allowed: true, Reason: pb.Reason_REASON_ALLOWED}), nil
}

// inMemory runs a test against a server in memory, in a bubble whose time passes as
// soon as all wait.
func inMemory(t *testing.T, cfg Config, test func(*testing.T, *Client, *memory, *always)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network, service := newMemory(), &always{waits: make(chan time.Duration, 10)}
		mux := http.NewServeMux()
		mux.Handle(tokenleasev1connect.NewLimiterHandler(service))
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{Handler: mux, Protocols: &protocols}
		go server.Serve(network) // ends with Close
		transport := httpClient(nil, network.dial)
		cfg.URLs, cfg.HTTPClient = []string{"http://limiter"}, transport
		client, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		test(t, client, network, service)
		transport.CloseIdleConnections()
		server.Close()
		synctest.Wait()
	})
}

func check() decision.Request {
	return decision.Request{Part: decision.Part{Key: lease.Key{Account: "acme", Operation: "report.create"}, Cost: decision.Tokens(1)}}
}

// TestCase35SilentCut: a connection that is cut silently is found by pings, within
// four seconds of silence, and the next decision goes over another.
func TestCase35SilentCut(t *testing.T) {
	inMemory(t, Config{}, func(t *testing.T, client *Client, network *memory, _ *always) {
		if a := client.Decide(t.Context(), check()); !a.Allowed {
			t.Fatalf("before: %+v", a)
		}
		network.cuts[0]()
		start := time.Now()
		failed := 0
		for !client.Decide(t.Context(), check()).Allowed {
			if failed++; failed > 100 {
				t.Fatal("the cut is never found")
			}
		}
		if took := time.Since(start); took > pingAfter+pingTimeout+DefaultTimeout || network.dials.Load() != 2 {
			t.Errorf("found after %v, with %d connections", took, network.dials.Load())
		}
	})
}

// TestSilentLimiter: one that does not answer is asked again in time.
func TestSilentLimiter(t *testing.T) {
	for _, test := range []struct {
		name    string
		cfg     Config
		wait    time.Duration
		hang    int64
		allowed bool
		took    time.Duration
		waits   []time.Duration
	}{
		{"once", Config{}, 0, 1, true, 600 * time.Millisecond, []time.Duration{600 * time.Millisecond}},
		{"twice", Config{}, 0, 2, false, 900 * time.Millisecond, []time.Duration{600 * time.Millisecond, 300 * time.Millisecond}},
		{"once, with time to wait for a turn", Config{Timeout: 3 * time.Second}, time.Minute, 1, true, 62 * time.Second, []time.Duration{62 * time.Second}},
		{"no retry", Config{NoRetry: true}, 0, 1, false, 900 * time.Millisecond, []time.Duration{900 * time.Millisecond}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inMemory(t, test.cfg, func(t *testing.T, client *Client, _ *memory, service *always) {
				service.hang.Store(test.hang)
				req := check()
				req.MaxWait = test.wait
				start := time.Now()
				a := client.Decide(t.Context(), req)
				if took := time.Since(start); a.Allowed != test.allowed || took != test.took {
					t.Errorf("after %v: %+v; want %v after %v", took, a, test.allowed, test.took)
				}
				for _, want := range test.waits {
					// The limiter is told the deadline in milliseconds.
					if got := <-service.waits; got > want || got < want-2*time.Millisecond {
						t.Errorf("the limiter waited for %v, want %v", got, want)
					}
				}
			})
		})
	}
}

// TestHintTimes: a hint ends no later than the wait can be over at the limiter, and
// its own wait is counted from when the answer was heard, never too short.
func TestHintTimes(t *testing.T) {
	sent := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h := newHints(time.Minute, 1)
	denied := decision.Answer{Reason: pb.Reason_REASON_EXHAUSTED, HasRetry: true, RetryIn: time.Second}
	h.learn(check(), denied, sent, sent.Add(200*time.Millisecond))
	if a, ok := h.answer(check(), sent.Add(time.Second-1)); !ok || a.RetryIn != 200*time.Millisecond+1 {
		t.Errorf("just before the end: %+v, %v", a, ok)
	}
	if a, ok := h.answer(check(), sent.Add(time.Second)); ok {
		t.Errorf("at the end: %+v", a)
	}
	h.learn(check(), denied, sent, sent.Add(time.Second))
	if len(h.byKey) != 0 {
		t.Error("an answer that took longer than its wait became a hint")
	}
}

// FuzzAnswer: whatever a limiter answers, a contradiction is no permission, and what
// is answered from a hint afterwards is a denial with a wait.
func FuzzAnswer(f *testing.F) {
	add := func(resp *pb.CheckResponse) {
		wire, err := proto.Marshal(resp)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire, int64(1))
	}
	add(&pb.CheckResponse{})
	add(&pb.CheckResponse{Allowed: true, Reason: pb.Reason_REASON_ALLOWED, RemainingTokens: 5})
	add(&pb.CheckResponse{Reason: pb.Reason_REASON_EXHAUSTED, HasRetry: true, RetryInNs: 1 << 62, PolicyVersion: 1})
	add(&pb.CheckResponse{Reason: pb.Reason_REASON_EXHAUSTED, HasRetry: true, RetryInNs: -5})
	add(&pb.CheckResponse{Allowed: true, Reason: pb.Reason_REASON_EXHAUSTED, HasRetry: true, RetryInNs: 5e9})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, wire []byte, cost int64) {
		var resp pb.CheckResponse
		if proto.Unmarshal(wire, &resp) != nil {
			return
		}
		c := &Client{cfg: Config{}.withDefaults(), hints: newHints(DefaultHintFor, 10)}
		req := check()
		req.Cost = decision.Tokens(cost)
		a := c.read(req, &resp, attempt{sent: now, heard: now.Add(time.Millisecond)})
		if httpanswer.Admitted(a) && (!resp.GetAllowed() || resp.GetReason() == pb.Reason_REASON_UNSPECIFIED) {
			t.Errorf("%v was admitted as %+v", &resp, a)
		}
		hinted, ok := c.hints.answer(req, now.Add(time.Second))
		if !ok {
			return
		}
		if httpanswer.Admitted(hinted) || hinted.Reason != pb.Reason_REASON_EXHAUSTED || !hinted.HasRetry || hinted.RetryIn <= 0 || a.Reason != hinted.Reason {
			t.Errorf("%v became the hint %+v", &resp, hinted)
		}
		if hinted.RetryIn > a.RetryIn {
			t.Errorf("the wait grew from %v to %v", a.RetryIn, hinted.RetryIn)
		}
	})
}

// FuzzHints compares the hints with a list of all denials that were ever learned:
// what they answer must follow from one of those.
func FuzzHints(f *testing.F) {
	f.Add([]byte{0, 5, 10, 1, 5, 0, 0, 3, 200, 2, 9, 1, 0, 0, 90})
	f.Add([]byte("a longer text, in which there is a step in every three bytes."))
	f.Fuzz(func(t *testing.T, steps []byte) {
		const keys = 3
		h := newHints(20*time.Second, keys)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		type denial struct {
			account string
			cost    int64
			until   time.Time
		}
		var learned []denial
		for ; len(steps) >= 3; steps = steps[3:] {
			req := check()
			req.Key.Account = string('a' + rune(steps[0]>>4&3)) // four accounts, for three keys
			req.Cost = decision.Tokens(int64(steps[1] & 7))
			wait := time.Duration(steps[2]) * time.Second / 4
			switch steps[0] & 3 {
			case 0:
				a := decision.Answer{Reason: pb.Reason_REASON_EXHAUSTED, HasRetry: true, RetryIn: wait, PolicyVersion: 1}
				h.learn(req, a, now, now)
				learned = append(learned, denial{req.Key.Account, req.Cost.Tokens, now.Add(wait)})
			case 1:
				h.learn(req, decision.Answer{Allowed: true, Reason: pb.Reason_REASON_ALLOWED, PolicyVersion: 1}, now, now)
				if a, ok := h.answer(req, now); ok {
					t.Fatalf("just admitted, and then denied by a hint: %+v", a)
				}
			case 2:
				now = now.Add(wait)
			case 3:
				a, ok := h.answer(req, now)
				follows := false
				for _, d := range learned {
					follows = follows || d.account == req.Key.Account && d.cost <= req.Cost.Tokens && now.Add(a.RetryIn).Equal(d.until)
				}
				if ok && (!follows || a.RetryIn <= 0) {
					t.Fatalf("%+v was answered %+v, which no denial says", req, a)
				}
			}
			if len(h.byKey) > keys || h.order.Len() != len(h.byKey) {
				t.Fatalf("%d keys in the map, %d in the order, of %d", len(h.byKey), h.order.Len(), keys)
			}
		}
	})
}
