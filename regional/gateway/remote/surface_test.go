package remote_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
	"github.com/tokenlease/tokenlease/regional/gateway/httplimit"
	"github.com/tokenlease/tokenlease/regional/gateway/remote"
)

// TestTenantsThroughTheMiddleware: two accounts of one gateway, which asks a remote
// limiter and has hints of both, are told their own numbers alone.
func TestTenantsThroughTheMiddleware(t *testing.T) {
	l, c := newLimiter(), newClock()
	client := newClient(t, remote.Config{Now: c.read}, l)
	handler := httplimit.New(client, httplimit.Config{
		Request: func(r *http.Request) (decision.Request, error) { return request(r.Header.Get("X-Account"), 20), nil },
		Writer:  httpanswer.Writer{Legacy: true, Details: true},
	})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	get := func(account string, status int, rateLimit, retryAfter string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-Account", account)
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		h := rec.Header()
		if rec.Code != status || h.Get(httpanswer.FieldRateLimit) != rateLimit || h.Get("Retry-After") != retryAfter || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: status %d, %v; want %d, %s, %q", account, rec.Code, h, status, rateLimit, retryAfter)
		}
		all := rec.Body.String()
		for name, values := range h {
			all += name + strings.Join(values, " ")
		}
		for _, secret := range []string{"acme", "umbrella", "g1-0-1"} {
			if strings.Contains(all, secret) {
				t.Errorf("%s is told %q: %s", account, secret, all)
			}
		}
	}
	get("acme", 200, `"default";r=20`, "")
	get("acme", 200, `"default";r=0`, "")
	get("acme", 429, `"default";r=0;t=10`, "10") // by the limiter
	get("umbrella", 200, `"default";r=20`, "")
	c.pass(2500 * time.Millisecond)
	get("acme", 429, `"default";r=0;t=8`, "8") // by a hint
	get("umbrella", 200, `"default";r=0`, "")
	get("umbrella", 429, `"default";r=0;t=10`, "10")
	c.pass(2 * time.Second)
	get("acme", 429, `"default";r=0;t=6`, "6")
	get("umbrella", 429, `"default";r=0;t=8`, "8")
	if l.asked() != 6 {
		t.Errorf("the limiter was asked %d times, want 6", l.asked())
	}
}
