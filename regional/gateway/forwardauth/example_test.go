package forwardauth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/tokenlease/tokenlease/regional/gateway/forwardauth"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// Reports have a budget of their own, everything else shares one.
func Example() {
	handler, err := forwardauth.New(forwardauth.Config{
		Decider:       newFake(), // a limiter
		Proxies:       []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		AccountHeader: "X-Account",
		Rules: []forwardauth.Rule{
			{Method: "POST", Path: "/api/reports", Operation: "report.create"},
			{Path: "/", Operation: "search"},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, uri := range []string{"/api/reports", "/", "/x/../api/reports"} {
		req := httptest.NewRequest(http.MethodGet, "/forward-auth", nil)
		req.RemoteAddr = "10.0.0.1:4711"
		req.Header.Set("X-Account", "acme")
		req.Header.Set("X-Forwarded-Method", "POST")
		req.Header.Set("X-Forwarded-Uri", uri)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, req)
		fmt.Println(answer.Code, answer.Header().Get(httpanswer.FieldRateLimit))
	}
	// Output:
	// 200 "default";r=35
	// 200 "default";r=2
	// 400
}
