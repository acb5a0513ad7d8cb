package rpclimit_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/admission"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
	"github.com/tokenlease/tokenlease/regional/gateway/rpclimit"
)

// errShared is an error that all calls of a handler share.
var errShared = connect.NewError(connect.CodeNotFound, errors.New("no such report"))

// application is a service behind the limit; any service will do.
type application struct {
	tokenleasev1connect.UnimplementedLimiterHandler

	check  func(context.Context) error
	stream func(context.Context) error
}

func (a application) Check(ctx context.Context, _ *connect.Request[pb.CheckRequest]) (*connect.Response[pb.CheckResponse], error) {
	if err := a.check(ctx); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.CheckResponse{Detail: "done"}), nil
}

func (a application) CheckStream(ctx context.Context, stream *connect.BidiStream[pb.CheckStreamRequest, pb.CheckStreamResponse]) error {
	if err := a.stream(ctx); err != nil {
		return err
	}
	for {
		if _, err := stream.Receive(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := stream.Send(&pb.CheckStreamResponse{}); err != nil {
			return err
		}
	}
}

// connectClient calls the application over a protocol.
func connectClient(t *testing.T, d decision.Decider, cfg rpclimit.Config, app application, protocol connect.ClientOption) tokenleasev1connect.LimiterClient {
	t.Helper()
	interceptor, err := rpclimit.Connect(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(tokenleasev1connect.NewLimiterHandler(app, connect.WithInterceptors(interceptor)))
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(complaints{t}, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	// The same interceptor at a client changes nothing.
	return tokenleasev1connect.NewLimiterClient(server.Client(), server.URL, protocol, connect.WithInterceptors(interceptor))
}

// complaints fail the test with what the server complains about, such as a field
// that may not be a trailer.
type complaints struct{ t *testing.T }

func (c complaints) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "trailer") {
		c.t.Errorf("the server complains: %s", p)
	}
	return len(p), nil
}

func protocols() map[string]connect.ClientOption {
	return map[string]connect.ClientOption{
		"connect": connect.WithClientOptions(), "grpc": connect.WithGRPC(), "grpc-web": connect.WithGRPCWeb(),
	}
}

func request(account string) *connect.Request[pb.CheckRequest] {
	req := connect.NewRequest(&pb.CheckRequest{})
	req.Header().Set("X-Account", account)
	return req
}

// startStream opens a stream and says how it begins: with a message, or an error.
func startStream(t *testing.T, client tokenleasev1connect.LimiterClient, account string) (*connect.BidiStreamForClient[pb.CheckStreamRequest, pb.CheckStreamResponse], error) {
	t.Helper()
	stream := client.CheckStream(t.Context())
	t.Cleanup(func() { // before the server waits for it
		stream.CloseRequest()
		stream.CloseResponse()
	})
	stream.RequestHeader().Set("X-Account", account)
	if err := stream.Send(&pb.CheckStreamRequest{}); err != nil && !errors.Is(err, io.EOF) {
		return stream, err
	}
	_, err := stream.Receive()
	return stream, err
}

func read(t *testing.T, err error) told {
	t.Helper()
	var e *connect.Error
	if !errors.As(err, &e) {
		t.Fatalf("not an error of Connect: %v", err)
	}
	got := told{
		Code: e.Code().String(), Message: e.Message(), Header: e.Meta().Get(httpanswer.FieldRateLimit), After: e.Meta().Get("Retry-After"),
	}
	for _, detail := range e.Details() {
		value, err := detail.Value()
		if err != nil {
			t.Fatal(err)
		}
		switch v := value.(type) {
		case *errdetails.ErrorInfo:
			if v.GetDomain() != "tokenlease" {
				t.Errorf("domain %q", v.GetDomain())
			}
			got.Reason, got.Version = v.GetReason(), v.GetMetadata()["policy_version"]
		case *errdetails.RetryInfo:
			got.Delay = v.GetRetryDelay().AsDuration()
		}
	}
	return got
}

func TestConnectDenials(t *testing.T) {
	unreachable := func(context.Context) error { t.Error("the handler was reached"); return nil }
	for name, protocol := range protocols() {
		t.Run(name, func(t *testing.T) {
			client := connectClient(t, newFake(), config(), application{check: unreachable, stream: unreachable}, protocol)
			for account, want := range denials() {
				want.Pushback = ""
				_, err := client.Check(t.Context(), request(account))
				if diff := cmp.Diff(want, read(t, err)); diff != "" {
					t.Errorf("unary call of %q (-want +got):\n%s", account, diff)
				}
				var e *connect.Error
				if errors.As(err, &e) && name == "connect" && e.Meta().Get("Cache-Control") != "no-store" {
					t.Errorf("caches may keep the denial of %q: %v", account, e.Meta())
				}
				_, err = startStream(t, client, account)
				if diff := cmp.Diff(want, read(t, err)); diff != "" {
					t.Errorf("stream of %q (-want +got):\n%s", account, diff)
				}
			}
		})
	}
}

func TestConnectAdmitted(t *testing.T) {
	for name, protocol := range protocols() {
		t.Run(name, func(t *testing.T) {
			sees := func(ctx context.Context) error {
				if a, ok := admission.AnswerOf(ctx); !ok || a.Remaining != 35 {
					t.Errorf("the handler sees %+v, %v", a, ok)
				}
				return nil
			}
			d := newFake()
			client := connectClient(t, d, config(), application{check: sees, stream: sees}, protocol)
			resp, err := client.Check(t.Context(), request("acme"))
			if err != nil || resp.Msg.GetDetail() != "done" || resp.Header().Get(httpanswer.FieldRateLimit) != `"default";r=35` {
				t.Fatalf("unary: %v, %v", resp, err)
			}
			stream, err := startStream(t, client, "acme")
			if err != nil || stream.ResponseHeader().Get(httpanswer.FieldPolicy) != `"default";q=40;w=2` {
				t.Fatalf("stream: %v, %v", stream.ResponseHeader(), err)
			}
			if err := stream.Send(&pb.CheckStreamRequest{}); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Receive(); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(stream.CloseRequest(), stream.CloseResponse()); err != nil {
				t.Fatal(err)
			}
			if d.asked() != 2 {
				t.Errorf("a call and a stream of two messages were decided %d times, want 2", d.asked())
			}
			if got := d.requests[0].Key.Operation; got != "/tokenlease.v1.Limiter/Check" {
				t.Errorf("the procedure is told as %q", got)
			}
		})
	}
}

func TestConnectShadow(t *testing.T) {
	fine := func(context.Context) error { return nil }
	client := connectClient(t, newFake(), config(), application{check: fine}, connect.WithClientOptions())
	resp, err := client.Check(t.Context(), request("shadow"))
	if err != nil || resp.Header().Get(httpanswer.FieldShadow) != "exhausted" {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestConnectHandlerErrors: an error of an admitted call keeps its code and tells
// the fields, and one that all calls share is not written to.
func TestConnectHandlerErrors(t *testing.T) {
	for _, test := range []struct {
		err  error
		code connect.Code
		text string
	}{
		{errShared, connect.CodeNotFound, "no such report"},
		{errors.New("plain"), connect.CodeUnknown, "plain"},
		{context.DeadlineExceeded, connect.CodeDeadlineExceeded, "context deadline exceeded"},
		{context.Canceled, connect.CodeCanceled, "context canceled"},
	} {
		fails := func(context.Context) error { return test.err }
		client := connectClient(t, newFake(), config(), application{check: fails}, connect.WithClientOptions())
		_, err := client.Check(t.Context(), request("acme"))
		got := read(t, err)
		if got.Code != test.code.String() || got.Message != test.text || got.Header != `"default";r=35` {
			t.Errorf("%v is told as %+v", test.err, got)
		}
	}
	if len(errShared.Meta()) != 0 {
		t.Errorf("the shared error has %v", errShared.Meta())
	}
}

func TestConnectExempt(t *testing.T) {
	d := newFake()
	cfg := config()
	cfg.Exempt = func(call rpclimit.Call) bool { return strings.Contains(call.Procedure, "Limiter/") }
	fine := func(context.Context) error { return nil }
	client := connectClient(t, d, cfg, application{check: fine, stream: fine}, connect.WithClientOptions())
	resp, err := client.Check(t.Context(), request("exhausted"))
	if err != nil || resp.Header().Get(httpanswer.FieldRateLimit) != "" {
		t.Errorf("unary: %v, %v", resp, err)
	}
	if _, err := startStream(t, client, "exhausted"); err != nil {
		t.Errorf("stream: %v", err)
	}
	if d.asked() != 0 {
		t.Errorf("%d exempt calls were decided", d.asked())
	}
}

// TestConnectSlots: a stream holds its slot until it ends.
func TestConnectSlots(t *testing.T) {
	d := newFake()
	cfg := config()
	cfg.Mode = admission.Slots
	fine := func(context.Context) error { return nil }
	client := connectClient(t, d, cfg, application{check: fine, stream: fine}, connect.WithClientOptions())
	stream, err := startStream(t, client, "acme")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Check(t.Context(), request("acme")); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("while the stream holds the slot: %v", err)
	}
	if err := errors.Join(stream.CloseRequest(), stream.CloseResponse()); err != nil {
		t.Fatal(err)
	}
	if cost := <-d.settled; cost != 0 {
		t.Errorf("the slot was settled with %d", cost)
	}
	if _, err := client.Check(t.Context(), request("acme")); err != nil {
		t.Errorf("after the stream: %v", err)
	}
	<-d.settled
}

func TestConnectLateCost(t *testing.T) {
	d := newFake()
	cfg := config()
	cfg.ModeOf = func(rpclimit.Call) admission.Mode { return admission.Late }
	ended := make(chan decision.Settlement, 2)
	cfg.OnSettled = func(_ context.Context, _ rpclimit.Call, s decision.Settlement) { ended <- s }
	settles := func(ctx context.Context) error { _, err := rpclimit.Settle(ctx, 30); return err }
	forgets := func(context.Context) error { return nil }
	for _, test := range []struct {
		check func(context.Context) error
		cost  int64
	}{{settles, 30}, {forgets, 50}} {
		client := connectClient(t, d, cfg, application{check: test.check}, connect.WithClientOptions())
		if _, err := client.Check(t.Context(), request("acme")); err != nil {
			t.Fatal(err)
		}
		if cost := <-d.settled; cost != test.cost {
			t.Errorf("settled with %d, want %d", cost, test.cost)
		}
		if s := <-ended; !s.Settled || s.Returned != 50-test.cost {
			t.Errorf("ended as %+v", s)
		}
	}
}

func TestOnAnswer(t *testing.T) {
	cfg := config()
	var detail string
	cfg.OnAnswer = func(_ context.Context, call rpclimit.Call, req decision.Request, a decision.Answer) {
		if _, ok := call.Message.(*pb.CheckRequest); !ok || call.Stream || call.Peer == "" || req.Key.Account != "" {
			t.Errorf("the hook is told of %+v, %+v", call, req)
		}
		detail = a.Detail
	}
	client := connectClient(t, newFake(), cfg, application{}, connect.WithClientOptions())
	client.Check(t.Context(), request("stranger"))
	if detail != "the call tells no budget: the secret reason" {
		t.Errorf("the operator sees %q", detail)
	}
}
