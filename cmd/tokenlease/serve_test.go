package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/proto/identity"
)

// Health is open to everybody: what is sent to it is neither decompressed nor read
// beyond what the name of a service needs.
func TestHealthReadsLittle(t *testing.T) {
	mux := newMux(prometheus.NewRegistry(), func() bool { return true }, "service")
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 64<<10))
	_ = z.Close()
	for _, test := range []struct {
		name, encoding string
		body           []byte
		want           string
	}{
		{"a question", "", []byte("{}"), "SERVING"},
		{"one that is too long", "", []byte(strings.Repeat(" ", maxSmallBytes) + "{}"), "resource_exhausted"},
		{"a compressed one", "gzip", bomb.Bytes(), "unimplemented"},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/grpc.health.v1.Health/Check", bytes.NewReader(test.body))
		req.Header.Set("Content-Type", "application/json")
		if test.encoding != "" {
			req.Header.Set("Content-Encoding", test.encoding)
		}
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, req)
		if !strings.Contains(rec.Body.String(), test.want) {
			t.Errorf("%s: %d %s, want %s", test.name, rec.Code, rec.Body, test.want)
		}
	}
}

// Health checks whose bodies do not come take the places of each other alone.
func TestHealthChecksAreBounded(t *testing.T) {
	mux := newMux(prometheus.NewRegistry(), func() bool { return true }, "service")
	ask := func(ctx context.Context, method, path string, body io.Reader) int {
		req := httptest.NewRequestWithContext(ctx, method, path, body)
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, req)
		return rec.Code
	}
	const check = "/grpc.health.v1.Health/Check"
	done := make(chan int, maxHealthChecks)
	var bodies []*io.PipeWriter
	for range maxHealthChecks {
		body, rest := io.Pipe()
		bodies = append(bodies, rest)
		go func() { done <- ask(t.Context(), http.MethodPost, check, body) }() // ends with the body
		_, _ = io.WriteString(rest, "{")                                       // is read, so it is under way
	}
	if got := ask(t.Context(), http.MethodPost, check, strings.NewReader("{}")); got != http.StatusServiceUnavailable {
		t.Errorf("one more: %d, want 503", got)
	}
	if got := ask(t.Context(), http.MethodGet, "/readyz", nil); got != http.StatusOK {
		t.Errorf("readyz meanwhile: %d, want 200", got)
	}
	for _, rest := range bodies {
		_, _ = io.WriteString(rest, "}")
		_ = rest.Close()
		if got := <-done; got != http.StatusOK {
			t.Fatalf("a check whose body came: %d, want 200", got)
		}
	}
}

// Anybody may ask for health, but only who has a role may stay to watch it.
func TestNobodyWatchesHealth(t *testing.T) {
	guard := identity.NewGuard(identity.Config{Trust: func() *identity.Trust { return &identity.Trust{} }, Paths: plainPaths()})
	handler := guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for method, want := range map[string]int{"Check": http.StatusOK, "Watch": http.StatusUnauthorized, "List": http.StatusUnauthorized} {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/grpc.health.v1.Health/"+method, nil))
		if rec.Code != want {
			t.Errorf("%s of nobody: %d, want %d", method, rec.Code, want)
		}
	}
}

// A page in a browser spends nothing at a limiter. Forward-auth is asked with what
// the page has sent elsewhere.
func TestPagesDoNotSpend(t *testing.T) {
	const check = "/tokenlease.v1.Limiter/Check"
	mux := http.NewServeMux()
	for _, path := range []string{check, "/v1/ratelimit/check", forwardAuthPath} {
		mux.HandleFunc(path, func(http.ResponseWriter, *http.Request) {})
	}
	handler := guardLimiter(mux)
	for _, test := range []struct {
		path, host, origin string
		want               int
	}{
		{check, "limiter.internal:7700", "", http.StatusOK},
		{check, "127.0.0.1:7700", "https://elsewhere.example", http.StatusForbidden},
		{check, "rebound.example:7700", "http://rebound.example:7700", http.StatusForbidden},
		{"/v1/ratelimit/check", "rebound.example:7700", "http://rebound.example:7700", http.StatusForbidden},
		{forwardAuthPath, "limiter.internal:7700", "https://app.example", http.StatusOK},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, test.path, nil)
		req.Host = test.host
		if test.origin != "" {
			req.Header.Set("Origin", test.origin)
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		if rec.Code != test.want {
			t.Errorf("%s at %s from %q: %d, want %d", test.path, test.host, test.origin, rec.Code, test.want)
		}
	}
}
