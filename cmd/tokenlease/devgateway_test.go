package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
	"github.com/tokenlease/tokenlease/regional/gateway/forwardauth"
)

// nothingLeft denies everything.
type nothingLeft struct{}

func (nothingLeft) Decide(context.Context, decision.Request) decision.Answer {
	return decision.Answer{Reason: pb.Reason_REASON_EXHAUSTED}
}

func (n nothingLeft) Reserve(ctx context.Context, req decision.Request) (decision.Reservation, decision.Answer) {
	return nil, n.Decide(ctx, req)
}

// Whoever does not say who asks is told how to, and is not asked about.
func TestDevGatewayWantsAnAccount(t *testing.T) {
	gateway, err := devGateway(nothingLeft{}, func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		method, path, account string
		want                  int
	}{
		{"POST", "/reports", "", 401},
		{"GET", "/search", "", 401},
		{"GET", "/exports", "", 401},
		{"POST", "/answers", "", 401},
		{"POST", "/reports", "acme", 429},
		{"GET", "/exports", "acme", 429},
		{"POST", "/reports", "anonymous/192.0.2.1", 400},
		{"POST", "/login", "", 429}, // the address pays
	} {
		req := httptest.NewRequest(tc.method, tc.path, http.NoBody)
		if tc.account != "" {
			req.Header.Set("X-Account", tc.account)
		}
		rec := httptest.NewRecorder()
		gateway.ServeHTTP(rec, req)
		if rec.Code != tc.want {
			t.Errorf("%s %s of %q: status %d, want %d: %s", tc.method, tc.path, tc.account, rec.Code, tc.want, rec.Body)
		}
		if tc.want == 401 && (strings.TrimSpace(rec.Body.String()) != "Say who asks in the header X-Account, as in X-Account: acme." || rec.Header().Get("WWW-Authenticate") == "") {
			t.Errorf("%s %s: %v %s", tc.method, tc.path, rec.Header(), rec.Body)
		}
	}
}

// The files in the help of limiter are such files.
func TestLimiterHelpHasFiles(t *testing.T) {
	sections := strings.Split((&program{}).limiterCommand().Example, "\n\n")
	if len(sections) != 3 {
		t.Fatalf("%d sections", len(sections))
	}
	if _, err := forwardauth.ReadConfig("help", []byte(sections[1])); err != nil {
		t.Error(err)
	}
	if _, err := envoy.ParseMapping("help", []byte(sections[2])); err != nil {
		t.Error(err)
	}
}
