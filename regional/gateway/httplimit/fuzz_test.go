package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/regional/gateway/httplimit"
)

// FuzzRequest: whatever the header fields say, a request is admitted on the budget of
// the account that it names and under the ID that it names, or refused as invalid
// with nothing spent.
func FuzzRequest(f *testing.F) {
	f.Add("acme", "", "5")
	f.Add("", "id-1", "")
	f.Add("a\xff", "a b", "-1")
	f.Add("acme", strings.Repeat("i", 129), "9223372036854775808")
	f.Fuzz(func(t *testing.T, account, id, cost string) {
		b := newBudgets(1000, 1)
		handler := httplimit.New(b, httplimit.Config{Request: identify, IDHeader: "Idempotency-Key"})(started)
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header["X-Account"], r.Header["X-Cost"], r.Header["Idempotency-Key"] = []string{account}, []string{cost}, []string{id}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		switch rec.Code {
		case http.StatusOK, http.StatusTooManyRequests:
			if len(b.requests) != 1 || b.requests[0].Key.Account != account || b.requests[0].ID != id || account == "" {
				t.Errorf("%q %q %q was decided as %+v", account, id, cost, b.requests)
			}
		case http.StatusBadRequest:
			if len(b.requests) != 0 || strings.Contains(rec.Body.String(), "started") {
				t.Errorf("%q %q %q was refused, and decided: %+v", account, id, cost, b.requests)
			}
		default:
			t.Errorf("%q %q %q: status %d", account, id, cost, rec.Code)
		}
	})
}
