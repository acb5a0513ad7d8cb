package httpanswer_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// A budget of 40 tokens that refills in 2 s, of which 35 remain.
func ExampleWriter_Headers() {
	h := http.Header{}
	httpanswer.Writer{}.Headers(h, decision.Answer{
		Allowed: true, Reason: pb.Reason_REASON_ALLOWED, Limit: 40, Remaining: 35, Window: 2 * time.Second,
	})
	fmt.Println(h.Get(httpanswer.FieldPolicy))
	fmt.Println(h.Get(httpanswer.FieldRateLimit))
	// Output:
	// "default";q=40;w=2
	// "default";r=35
}

// 400 ms until the next token: a second, as HTTP counts.
func ExampleWriter_Problem() {
	rec := httptest.NewRecorder()
	httpanswer.Writer{}.Problem(rec, decision.Answer{
		Reason: pb.Reason_REASON_EXHAUSTED, Limit: 40, HasRetry: true, RetryIn: 400 * time.Millisecond, PolicyVersion: 3,
	})
	fmt.Println(rec.Code, rec.Header().Get("Retry-After"))
	fmt.Print(rec.Body)
	// Output:
	// 429 1
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"The quota is used up for now. Try again after the time that Retry-After says.","reason":"exhausted","retry_after_seconds":1,"policy_version":3,"violated-policies":["default"]}
}
