package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	envoyratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	envoyservice "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
	"github.com/tokenlease/tokenlease/regional/gateway/forwardauth"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
	"github.com/tokenlease/tokenlease/regional/gateway/httplimit"
	"github.com/tokenlease/tokenlease/regional/gateway/plainjson"
	"github.com/tokenlease/tokenlease/regional/gateway/remote"
)

// verdict is what a gateway learns through any surface.
type verdict struct {
	allowed   bool
	permanent bool   // denied without a time to try again
	retry     int64  // seconds, as the surface tells them; 0: none
	remaining int64  // -1: not told
	reason    string // empty: not told
	text      string // all that was told, for messages and for what must not be in it
}

// surface is one form in which a gateway asks.
type surface struct {
	name  string
	check func(ctx context.Context, account, operation string, cost int64) verdict
}

// byDefault asks for the policy's default cost.
const byDefault = -1 << 62

// surfaces are all forms over the limiter of one region.
func (s *stack) surfaces(r *stackRegion) []surface {
	s.t.Helper()
	mux := http.NewServeMux()
	r.Mount(mux, edge.Options())
	rpc := &http.Client{Transport: &wireless{handler: mux}}
	client, err := remote.New(remote.Config{URLs: []string{"http://limiter"}, HTTPClient: rpc})
	if err != nil {
		s.t.Fatal(err)
	}
	limiter := tokenleasev1connect.NewLimiterClient(rpc, "http://limiter")
	return []surface{
		{"library", func(ctx context.Context, account, operation string, cost int64) verdict {
			return fromAnswer(r.Decide(ctx, requestOf(account, operation, cost)))
		}},
		{"RPC", func(ctx context.Context, account, operation string, cost int64) verdict {
			resp, err := limiter.Check(ctx, connect.NewRequest(requestOf(account, operation, cost).Wire()))
			if err != nil {
				return verdict{reason: connect.CodeOf(err).String(), text: err.Error()}
			}
			return fromAnswer(decision.AnswerFromWire(resp.Msg))
		}},
		{"remote client", func(ctx context.Context, account, operation string, cost int64) verdict {
			return fromAnswer(client.Decide(ctx, requestOf(account, operation, cost)))
		}},
		{"middleware", overHTTP(s.t, s.middleware(r), func(account, operation string, cost int64) *http.Request {
			req := newRequest(http.MethodPost, "/work", "")
			return withBudget(req, account, operation, cost)
		})},
		{"forward-auth", overHTTP(s.t, s.forwardAuth(r), func(account, operation string, cost int64) *http.Request {
			req := newRequest(http.MethodGet, "/forward-auth", "")
			req.RemoteAddr = "127.0.0.1:1"
			return withBudget(req, account, operation, cost)
		})},
		{"plain decisions", overHTTP(s.t, s.plain(r), func(account, operation string, cost int64) *http.Request {
			body := map[string]any{"verifiedAccount": account, "operation": operation}
			if cost != byDefault {
				body["cost"] = cost
			}
			return newJSON("/internal/rate-decisions", body)
		})},
		{"plain checks", overHTTP(s.t, s.plain(r), func(account, operation string, cost int64) *http.Request {
			body := map[string]any{"apiKey": account, "endpoint": operation}
			if cost != byDefault {
				body["requestCount"] = cost
			}
			return newJSON("/v1/ratelimit/check", body)
		})},
		{"Envoy", s.envoy(r)},
	}
}

func requestOf(account, operation string, cost int64) decision.Request {
	req := decision.Request{Part: decision.Part{Key: lease.Key{Account: account, Operation: operation}}}
	if cost != byDefault {
		req.Cost = decision.Tokens(cost)
	}
	return req
}

func fromAnswer(a decision.Answer) verdict {
	return verdict{
		allowed: a.Allowed, permanent: !a.Allowed && !a.HasRetry, retry: a.RetrySeconds(), remaining: a.Remaining,
		reason: strings.ToLower(strings.TrimPrefix(a.Reason.String(), "REASON_")), text: fmt.Sprintf("%+v", a),
	}
}

// middleware is a handler behind the limit; headers say who asks and what for.
func (s *stack) middleware(r *stackRegion) http.Handler {
	limit := httplimit.New(r, httplimit.Config{
		IDHeader: "Idempotency-Key",
		Request: func(req *http.Request) (decision.Request, error) {
			cost := int64(byDefault)
			if given := req.Header.Get("X-Cost"); given != "" {
				var err error
				if cost, err = strconv.ParseInt(given, 10, 64); err != nil {
					return decision.Request{}, err
				}
			}
			return requestOf(req.Header.Get("X-Account"), req.Header.Get("X-Operation"), cost), nil
		},
		Writer: httpanswer.Writer{Legacy: true},
	})
	return limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "done") }))
}

func (s *stack) forwardAuth(r *stackRegion) http.Handler {
	handler, err := forwardauth.New(forwardauth.Config{
		Decider: r, Proxies: loopback(), AccountHeader: "X-Account", OperationHeader: "X-Operation", CostHeader: "X-Cost",
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return handler
}

func (s *stack) plain(r *stackRegion) http.Handler {
	api, err := plainjson.New(plainjson.Config{
		Decider: r, Ready: r.Ready, Account: func(key string) (string, error) { return key, nil },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	mux := http.NewServeMux()
	api.Mount(mux)
	return mux
}

// envoy asks by the generated client of Envoy's own API over a connection in memory.
func (s *stack) envoy(r *stackRegion) func(context.Context, string, string, int64) verdict {
	s.t.Helper()
	mapping, err := envoy.ParseMapping("mapping.yaml", []byte(`rules:
  - domain: api
    entries:
      - key: operation
      - key: account
    account: {entry: account}
    operation: {entry: operation}
    cost: policy
`))
	if err != nil {
		s.t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	envoy.New(envoy.Config{Decider: r, Mapping: mapping}).Register(server)
	served := make(chan struct{})
	go func() { // ends with Stop
		defer close(served)
		_ = server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:envoy", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		s.t.Fatal(err)
	}
	s.ends = append(s.ends, func() {
		_ = conn.Close()
		server.Stop()
		<-served
	})
	client := envoyservice.NewRateLimitServiceClient(conn)
	return func(ctx context.Context, account, operation string, cost int64) verdict {
		req := &envoyservice.RateLimitRequest{Domain: "api", Descriptors: []*envoyratelimit.RateLimitDescriptor{{
			Entries: []*envoyratelimit.RateLimitDescriptor_Entry{{Key: "operation", Value: operation}, {Key: "account", Value: account}},
		}}}
		if cost != byDefault {
			req.HitsAddend = uint32(cost)
		}
		resp, err := client.ShouldRateLimit(ctx, req)
		if err != nil {
			return verdict{reason: "unavailable", text: err.Error()}
		}
		st := resp.GetStatuses()[0]
		v := verdict{
			allowed: resp.GetOverallCode() == envoyservice.RateLimitResponse_OK, remaining: int64(st.GetLimitRemaining()),
			permanent: st.GetCode() == envoyservice.RateLimitResponse_OVER_LIMIT && st.GetDurationUntilReset() == nil, text: resp.String(),
		}
		if d := st.GetDurationUntilReset(); d != nil {
			v.retry = decision.Answer{HasRetry: true, RetryIn: d.AsDuration()}.RetrySeconds()
		}
		return v
	}
}

func newRequest(method, path, body string) *http.Request {
	req, err := http.NewRequest(method, "http://gateway"+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	return req
}

func newJSON(path string, body map[string]any) *http.Request {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	req := newRequest(http.MethodPost, path, string(text))
	req.Header.Set("Content-Type", "application/json")
	return req
}

func withBudget(req *http.Request, account, operation string, cost int64) *http.Request {
	req.Header.Set("X-Account", account)
	req.Header.Set("X-Operation", operation)
	if cost != byDefault {
		req.Header.Set("X-Cost", strconv.FormatInt(cost, 10))
	}
	return req
}

// overHTTP asks a handler, and reads what HTTP tells.
func overHTTP(t *testing.T, handler http.Handler, request func(account, operation string, cost int64) *http.Request) func(context.Context, string, string, int64) verdict {
	t.Helper()
	return func(ctx context.Context, account, operation string, cost int64) verdict {
		req := request(account, operation, cost).WithContext(ctx)
		resp, err := (&wireless{handler: handler}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fromHTTP(t, resp, string(body))
	}
}

func fromHTTP(t *testing.T, resp *http.Response, body string) verdict {
	t.Helper()
	v := verdict{allowed: resp.StatusCode == http.StatusOK, remaining: -1, text: fmt.Sprintf("%d %v\n%s", resp.StatusCode, resp.Header, body)}
	after := resp.Header.Get("Retry-After")
	if after != "" {
		var err error
		if v.retry, err = strconv.ParseInt(after, 10, 64); err != nil || v.retry < 1 {
			t.Errorf("Retry-After is %q", after)
		}
	}
	v.permanent = !v.allowed && after == ""
	if field := resp.Header.Get(httpanswer.FieldRateLimit); field != "" {
		_, rest, _ := strings.Cut(field, ";r=")
		digits, _, _ := strings.Cut(rest, ";")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			t.Errorf("RateLimit is %q", field)
		}
		v.remaining = n
	}
	var told struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal([]byte(body), &told) == nil {
		v.reason = told.Reason
	}
	switch {
	case v.reason == "" && v.allowed:
		v.reason = "allowed"
	case (v.reason == "exhausted" || v.reason == "cost_above_capacity" || v.reason == "cost-above-capacity") != (resp.StatusCode == http.StatusTooManyRequests):
		t.Errorf("reason %q with status %d", v.reason, resp.StatusCode)
	}
	return v
}
