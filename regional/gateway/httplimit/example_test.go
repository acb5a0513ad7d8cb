package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/admission"
	"github.com/tokenlease/tokenlease/regional/gateway/httplimit"
)

// A limiter of this process, or a client of one, limits a handler. Here it is a
// budget of 40 tokens in a map, and a report costs 5.
func ExampleNew() {
	limiter := newBudgets(40, 5)
	limit := httplimit.New(limiter, httplimit.Config{
		Request: func(r *http.Request) (decision.Request, error) {
			account, _, verified := r.BasicAuth() // verified before
			if !verified {
				return decision.Request{}, errors.New("no credentials")
			}
			return decision.Request{Part: decision.Part{Key: lease.Key{Account: account, Operation: "report.create"}}}, nil
		},
	})
	reports := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "report started") }))

	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/reports", http.NoBody)
	r.SetBasicAuth("acme", "")
	rec := httptest.NewRecorder()
	reports.ServeHTTP(rec, r)
	fmt.Print(rec.Body)
	fmt.Println(rec.Header().Get("Ratelimit"))
	// Output:
	// report started
	// "default";r=35
}

// A handler that learns its cost while it works reserves a bound and settles.
func ExampleSettle() {
	limiter := newBudgets(1000, 1)
	limit := httplimit.New(limiter, httplimit.Config{
		Mode: admission.Late,
		Request: func(*http.Request) (decision.Request, error) {
			return decision.Request{Part: decision.Part{
				Key: lease.Key{Account: "acme", Operation: "report.create"}, Cost: decision.Tokens(500), // at most
			}}, nil
		},
	})
	answer := limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		settled, err := httplimit.Settle(r.Context(), 120) // in the end
		fmt.Println(settled.Returned, err)
	}))
	answer.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/answers", http.NoBody))
	fmt.Println(limiter.left("acme"))
	// Output:
	// 380 <nil>
	// 880
}
