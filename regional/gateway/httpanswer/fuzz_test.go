package httpanswer_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// FuzzHeaders: whatever the answer, the fields can be read again by a parser of
// structured fields, tell no more than the truth and never an early return.
func FuzzHeaders(f *testing.F) {
	f.Add(true, int32(1), false, int64(40), int64(35), int64(2e9), false, int64(0), "default", 0.5)
	f.Add(false, int32(2), false, int64(40), int64(0), int64(2e9), true, int64(4e8), `a "quoted" name`, 0.0)
	f.Add(false, int32(4), true, int64(-1), int64(1<<62), int64(-5), true, int64(-1), "\xff\n", -3.5)
	f.Add(true, int32(2), true, int64(1<<62), int64(1<<62), int64(1<<62), true, int64(1<<62), "", 1e300)
	f.Fuzz(func(t *testing.T, allowed bool, reason int32, shadow bool, limit, remaining, window int64, hasRetry bool, wait int64, name string, draw float64) {
		a := decision.Answer{
			Allowed: allowed, Reason: pb.Reason(reason), Shadow: shadow, Limit: limit, Remaining: remaining, Window: time.Duration(window),
			HasRetry: hasRetry, RetryIn: time.Duration(wait),
		}
		w := httpanswer.Writer{Legacy: true, PolicyName: name, Jitter: func() float64 { return draw }}
		h := http.Header{}
		w.Headers(h, a)

		if state := h.Get(httpanswer.FieldRateLimit); state != "" {
			checkList(t, "RateLimit-Policy", h.Get(httpanswer.FieldPolicy), w, func(key string, n int64) bool {
				return key == "q" && n >= 0 && n <= limit || key == "w" && n > 0 && n <= window/1e9+1
			})
			checkList(t, "RateLimit", state, w, func(key string, n int64) bool {
				return key == "r" && n >= 0 && (n <= remaining || n == 0) || key == "t" && hasRetry && n >= 1 && n >= wait/1e9
			})
		}
		admitted := httpanswer.Admitted(a)
		if (!admitted || h.Get(httpanswer.FieldRateLimit) != "") && h.Get("Cache-Control") != "no-store" {
			t.Error("caches may keep this answer")
		}
		for _, field := range []string{httpanswer.FieldPolicy, httpanswer.FieldRateLimit, httpanswer.FieldRetryAfter, httpanswer.FieldLegacyLimit, httpanswer.FieldLegacyRemaining, httpanswer.FieldLegacyReset} {
			if admitted && shadow && h.Get(field) != "" {
				t.Errorf("%s in shadow mode: %s", field, h.Get(field))
			}
		}
		retry := h.Get("Retry-After")
		if retry != "" {
			n, err := strconv.ParseInt(retry, 10, 64)
			if err != nil || n < 1 || hasRetry && n < wait/1e9 || admitted {
				t.Errorf("Retry-After: %s of a wait of %v, admitted %v", retry, a.RetryIn, admitted)
			}
		}
		if httpanswer.Status(a) == http.StatusServiceUnavailable && retry == "" {
			t.Error("a 503 without Retry-After")
		}
	})
}

func checkList(t *testing.T, field, value string, w httpanswer.Writer, right func(string, int64) bool) {
	t.Helper()
	list, err := httpsfv.UnmarshalList([]string{value})
	if err != nil || len(list) != 1 {
		t.Fatalf("%s: %s: %v", field, value, err)
	}
	item, ok := list[0].(httpsfv.Item)
	if !ok || item.Value != w.PolicyName && item.Value != "default" {
		t.Fatalf("%s: %s does not name the policy", field, value)
	}
	for _, key := range item.Params.Names() {
		number, _ := item.Params.Get(key)
		n, ok := number.(int64)
		if !ok || !right(key, n) {
			t.Errorf("%s: %s: %s is not right", field, value, key)
		}
	}
}

// FuzzProblem: whatever the texts of an answer, the body is JSON, short, and does
// not name the grant.
func FuzzProblem(f *testing.F) {
	f.Add(int32(6), "the cost is negative", "", true)
	f.Add(int32(2), "grant g1 is empty", "g1", true)
	f.Add(int32(7), "\xff\x00<script>", "x", false)
	f.Fuzz(func(t *testing.T, reason int32, detail, grant string, details bool) {
		a := decision.Answer{Reason: pb.Reason(reason), Detail: detail, GrantID: grant}
		rec := httptest.NewRecorder()
		httpanswer.Writer{Details: details}.Problem(rec, a)
		var got httpanswer.Problem
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s", err, rec.Body)
		}
		if rec.Code < 400 || got.Status != rec.Code || got.Detail == "" || got.Title == "" || rec.Body.Len() > 6*512+512 {
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
		if got.Detail == detail && grant != "" && strings.Contains(detail, grant) {
			t.Errorf("the body names the grant: %s", rec.Body)
		}
	})
}
