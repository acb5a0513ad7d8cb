package plainjson_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/tokenlease/tokenlease/regional/gateway/plainjson"
)

// The mux belongs to a listener that only gateways reach.
func Example() {
	api, err := plainjson.New(plainjson.Config{Decider: newFake()}) // a limiter
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	api.Mount(mux)

	req := httptest.NewRequest(http.MethodPost, plainjson.DecisionsPath, strings.NewReader(`{"verifiedAccount":"acme","operation":"report.create","cost":5}`))
	req.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, req)
	fmt.Println(answer.Code, answer.Body)
	// Output:
	// 200 {"decision":"allowed","reason":"allowed","limit":40,"remaining":35,"policyVersion":3,"grantId":"g1-001-0000002a"}
}
