package httpanswer_test

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// The answers of the worked example: capacity 40, refill 20/s, cost 5.
func allowedAnswer() decision.Answer {
	return decision.Answer{
		Allowed: true, Reason: pb.Reason_REASON_ALLOWED, Limit: 40, Remaining: 35, Window: 2 * time.Second, PolicyVersion: 3, GrantID: "g1-2-3",
	}
}

func exhaustedAnswer(wait time.Duration) decision.Answer {
	return decision.Answer{
		Reason: pb.Reason_REASON_EXHAUSTED, Limit: 40, Remaining: 2, Window: 2 * time.Second, HasRetry: true, RetryIn: wait, PolicyVersion: 3,
		Detail: "the budget is used up for now",
	}
}

func TestStatus(t *testing.T) {
	denied := map[pb.Reason]int{
		pb.Reason_REASON_UNSPECIFIED:         503,
		pb.Reason_REASON_ALLOWED:             503, // contradicts itself
		pb.Reason_REASON_EXHAUSTED:           429,
		pb.Reason_REASON_COST_ABOVE_CAPACITY: 429,
		pb.Reason_REASON_UNAVAILABLE:         503,
		pb.Reason_REASON_NO_POLICY:           500,
		pb.Reason_REASON_INVALID:             400,
		pb.Reason_REASON_DISABLED:            403,
		pb.Reason_REASON_FALLBACK:            503, // contradicts itself
		pb.Reason_REASON_REFRESH:             409,
		pb.Reason_REASON_OVERLOADED:          503,
	}
	if len(denied) != len(pb.Reason_name) {
		t.Fatalf("%d reasons are tested, there are %d", len(denied), len(pb.Reason_name))
	}
	denied[99] = 503
	for reason, want := range denied {
		if got := httpanswer.Status(decision.Answer{Reason: reason}); got != want {
			t.Errorf("denied as %v: status %d, want %d", reason, got, want)
		}
		allowed := decision.Answer{Reason: reason, Allowed: true}
		admits := reason == pb.Reason_REASON_ALLOWED || reason == pb.Reason_REASON_FALLBACK
		if got := httpanswer.Admitted(allowed); got != admits {
			t.Errorf("allowed as %v: admitted %v, want %v", reason, got, admits)
		}
		if got := httpanswer.Status(allowed); (got == 200) != admits {
			t.Errorf("allowed as %v: status %d", reason, got)
		}
		allowed.Shadow = true
		if got, want := httpanswer.Status(allowed) == 200, reason != pb.Reason_REASON_UNSPECIFIED; got != want {
			t.Errorf("shadow of %v: admitted %v, want %v", reason, got, want)
		}
	}
}

func TestWord(t *testing.T) {
	for reason, want := range map[pb.Reason]string{
		pb.Reason_REASON_EXHAUSTED: "exhausted", pb.Reason_REASON_COST_ABOVE_CAPACITY: "cost-above-capacity",
		pb.Reason_REASON_UNSPECIFIED: "unknown", 99: "unknown", -1: "unknown",
	} {
		if got := httpanswer.Word(reason); got != want {
			t.Errorf("word of %d: %q, want %q", reason, got, want)
		}
	}
}

// noJitter and mostJitter are the ends of what a writer draws from.
func noJitter() float64   { return 0 }
func mostJitter() float64 { return math.Nextafter(1, 0) }

func TestHeaders(t *testing.T) {
	year := 365 * 24 * time.Hour
	tests := []struct {
		name   string
		writer httpanswer.Writer
		answer decision.Answer
		want   map[string]string
	}{
		{"case 39: 35 of 40 remain", httpanswer.Writer{}, allowedAnswer(), map[string]string{
			"RateLimit-Policy": `"default";q=40;w=2`, "RateLimit": `"default";r=35`, "Cache-Control": "no-store",
		}},
		{"case 27: 50 ms to wait", httpanswer.Writer{}, exhaustedAnswer(50 * time.Millisecond), map[string]string{
			"RateLimit-Policy": `"default";q=40;w=2`, "RateLimit": `"default";r=2;t=1`, "Retry-After": "1", "Cache-Control": "no-store",
		}},
		{"case 38: 400 ms to wait", httpanswer.Writer{PolicyName: "reports"}, exhaustedAnswer(400 * time.Millisecond), map[string]string{
			"RateLimit-Policy": `"reports";q=40;w=2`, "RateLimit": `"reports";r=2;t=1`, "Retry-After": "1", "Cache-Control": "no-store",
		}},
		{"a wait of whole seconds is not rounded", httpanswer.Writer{Legacy: true}, exhaustedAnswer(2 * time.Second), map[string]string{
			"RateLimit-Policy": `"default";q=40;w=2`, "RateLimit": `"default";r=2;t=2`, "Retry-After": "2", "Cache-Control": "no-store",
			"X-RateLimit-Limit": "40", "X-RateLimit-Remaining": "2", "X-RateLimit-Reset": "2",
		}},
		{"a nanosecond more is a second more", httpanswer.Writer{}, exhaustedAnswer(2*time.Second + 1), map[string]string{
			"RateLimit-Policy": `"default";q=40;w=2`, "RateLimit": `"default";r=2;t=3`, "Retry-After": "3", "Cache-Control": "no-store",
		}},
		{"a wait that is over is a second all the same", httpanswer.Writer{}, exhaustedAnswer(-time.Hour), map[string]string{
			"RateLimit-Policy": `"default";q=40;w=2`, "RateLimit": `"default";r=2;t=1`, "Retry-After": "1", "Cache-Control": "no-store",
		}},
		{"case 3: a quota that is used up for ever", httpanswer.Writer{Legacy: true}, decision.Answer{Reason: pb.Reason_REASON_EXHAUSTED, Limit: 1}, map[string]string{
			"RateLimit-Policy": `"default";q=1`, "RateLimit": `"default";r=0`, "Cache-Control": "no-store",
			"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0",
		}},
		{"case 26: denied for good, whatever wait the answer names", httpanswer.Writer{}, decision.Answer{
			Reason: pb.Reason_REASON_COST_ABOVE_CAPACITY, Limit: 5, Remaining: 5, HasRetry: true, RetryIn: time.Second,
		}, map[string]string{"RateLimit-Policy": `"default";q=5`, "RateLimit": `"default";r=5`, "Cache-Control": "no-store"}},
		{"unavailable, least jitter", httpanswer.Writer{Jitter: noJitter}, decision.Unavailable("x"), map[string]string{
			"Retry-After": "1", "Cache-Control": "no-store",
		}},
		{"unavailable, most jitter", httpanswer.Writer{Jitter: mostJitter}, decision.Unavailable("x"), map[string]string{
			"Retry-After": "5", "Cache-Control": "no-store",
		}},
		{"no answer at all", httpanswer.Writer{Jitter: noJitter}, decision.Answer{}, map[string]string{"Retry-After": "1", "Cache-Control": "no-store"}},
		{"overloaded, with a wait of its own", httpanswer.Writer{Jitter: mostJitter, MaxJitter: 2 * time.Second}, decision.Answer{
			Reason: pb.Reason_REASON_OVERLOADED, HasRetry: true, RetryIn: 2500 * time.Millisecond,
		}, map[string]string{"Retry-After": "5", "Cache-Control": "no-store"}},
		{"jitter off", httpanswer.Writer{Jitter: mostJitter, MaxJitter: -1}, decision.Unavailable("x"), map[string]string{
			"Retry-After": "1", "Cache-Control": "no-store",
		}},
		{"jitter that is no number", httpanswer.Writer{Jitter: math.NaN, MaxJitter: 3 * time.Second}, decision.Unavailable("x"), nil}, // checked below
		{"disabled", httpanswer.Writer{}, decision.Answer{Reason: pb.Reason_REASON_DISABLED, HasRetry: true, RetryIn: time.Second}, map[string]string{
			"Cache-Control": "no-store",
		}},
		{"invalid", httpanswer.Writer{}, decision.Invalid("x"), map[string]string{"Cache-Control": "no-store"}},
		{"refresh", httpanswer.Writer{}, decision.Answer{Reason: pb.Reason_REASON_REFRESH, PolicyVersion: 4}, map[string]string{"Cache-Control": "no-store"}},
		{"admitted, nothing known", httpanswer.Writer{}, decision.Answer{Allowed: true, Reason: pb.Reason_REASON_ALLOWED}, map[string]string{}},
		{"fallback", httpanswer.Writer{}, decision.Answer{Allowed: true, Reason: pb.Reason_REASON_FALLBACK}, map[string]string{
			"RateLimit-Fallback": "?1", "Cache-Control": "no-store",
		}},
		{"shadow of a denial: nothing that a client would obey", httpanswer.Writer{Legacy: true}, decision.Answer{
			Allowed: true, Shadow: true, Reason: pb.Reason_REASON_EXHAUSTED, Limit: 40, HasRetry: true, RetryIn: time.Second,
		}, map[string]string{"RateLimit-Shadow": "exhausted", "Cache-Control": "no-store"}},
		{"a denial that says shadow is one all the same", httpanswer.Writer{}, decision.Answer{
			Shadow: true, Reason: pb.Reason_REASON_EXHAUSTED, Limit: 40, HasRetry: true, RetryIn: time.Second,
		}, map[string]string{
			"RateLimit-Policy": `"default";q=40`, "RateLimit": `"default";r=0;t=1`, "Retry-After": "1", "Cache-Control": "no-store",
		}},
		{"shadow that would have admitted", httpanswer.Writer{}, decision.Answer{Allowed: true, Shadow: true, Reason: pb.Reason_REASON_ALLOWED, Limit: 40}, map[string]string{}},
		{"largest numbers", httpanswer.Writer{Legacy: true}, decision.Answer{
			Allowed: true, Reason: pb.Reason_REASON_ALLOWED, Limit: math.MaxInt64, Remaining: math.MaxInt64 - 1, Window: year + 1,
		}, map[string]string{
			"RateLimit-Policy": `"default";q=999999999999999;w=31536001`, "RateLimit": `"default";r=999999999999999`, "Cache-Control": "no-store",
			"X-RateLimit-Limit": "999999999999999", "X-RateLimit-Remaining": "999999999999999",
		}},
		{"less than nothing remains", httpanswer.Writer{}, decision.Answer{
			Allowed: true, Reason: pb.Reason_REASON_ALLOWED, Limit: 4, Remaining: math.MinInt64, Window: -1,
		}, map[string]string{"RateLimit-Policy": `"default";q=4`, "RateLimit": `"default";r=0`, "Cache-Control": "no-store"}},
		{"a name with quotes", httpanswer.Writer{PolicyName: `a "b" \c`}, decision.Answer{Allowed: true, Reason: pb.Reason_REASON_ALLOWED, Limit: 4}, map[string]string{
			"RateLimit-Policy": `"a \"b\" \\c";q=4`, "RateLimit": `"a \"b\" \\c";r=0`, "Cache-Control": "no-store",
		}},
		{"a name that no field can carry", httpanswer.Writer{PolicyName: "Bücher"}, decision.Answer{Allowed: true, Reason: pb.Reason_REASON_ALLOWED, Limit: 4}, map[string]string{
			"RateLimit-Policy": `"default";q=4`, "RateLimit": `"default";r=0`, "Cache-Control": "no-store",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := http.Header{}
			test.writer.Headers(h, test.answer)
			if test.want == nil {
				if got := h.Get("Retry-After"); len(got) != 1 || got < "1" || got > "4" {
					t.Errorf("Retry-After: %q, want 1 to 4", got)
				}
				return
			}
			want := http.Header{}
			for field, value := range test.want {
				want.Set(field, value)
			}
			if diff := cmp.Diff(want, h); diff != "" {
				t.Errorf("fields differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHeadersReplace: nothing of an earlier answer stays, and a Cache-Control that
// others have set does where the answer wants none.
func TestHeadersReplace(t *testing.T) {
	h := http.Header{}
	w := httpanswer.Writer{Legacy: true}
	w.Headers(h, exhaustedAnswer(time.Second))
	h.Set("Cache-Control", "max-age=5")
	w.Headers(h, decision.Answer{Allowed: true, Reason: pb.Reason_REASON_ALLOWED})
	if diff := cmp.Diff(http.Header{"Cache-Control": {"max-age=5"}}, h); diff != "" {
		t.Errorf("fields differ (-want +got):\n%s", diff)
	}
}

// TestSeveralBudgets: the numbers are the caller's own, those of the first budget.
func TestSeveralBudgets(t *testing.T) {
	a := exhaustedAnswer(3 * time.Second)
	a.Limit, a.Remaining, a.Window = 1_000_000, 7, time.Hour // of a budget that all share
	a.Detail = "the budget of everybody is used up"
	a.Parts = []decision.PartAnswer{
		{Key: lease.Key{Account: "acme", Operation: "report.create"}, Reason: pb.Reason_REASON_ALLOWED, Limit: 40, Remaining: 35},
		{Key: lease.Key{Account: "everybody", Operation: "report.create"}, Reason: pb.Reason_REASON_EXHAUSTED, Limit: 1_000_000, Remaining: 7},
	}
	rec := httptest.NewRecorder()
	httpanswer.Writer{Details: true}.Problem(rec, a)
	if got, want := rec.Header().Get(httpanswer.FieldPolicy), `"default";q=40`; got != want {
		t.Errorf("RateLimit-Policy: %s, want %s", got, want)
	}
	if got, want := rec.Header().Get(httpanswer.FieldRateLimit), `"default";r=35;t=3`; got != want {
		t.Errorf("RateLimit: %s, want %s", got, want)
	}
	for _, secret := range []string{"everybody", "1000000", "acme"} {
		if strings.Contains(rec.Body.String(), secret) {
			t.Errorf("the body tells %q: %s", secret, rec.Body)
		}
	}
}

func TestProblem(t *testing.T) {
	const (
		usedUp   = "The quota is used up for now. Try again after the time that Retry-After says."
		tryAgain = "Whether the quota admits the request could not be decided. Try again after the time that Retry-After says."
	)
	quiet := httpanswer.Writer{Jitter: noJitter}
	withGrant := exhaustedAnswer(time.Second)
	withGrant.GrantID, withGrant.Detail = "g1-2-3", "grant g1-2-3 is empty"
	long := decision.Invalid(strings.Repeat("x", 513))
	tests := []struct {
		name   string
		writer httpanswer.Writer
		answer decision.Answer
		want   httpanswer.Problem
	}{
		{"exhausted", quiet, exhaustedAnswer(400 * time.Millisecond), httpanswer.Problem{
			Type: httpanswer.TypeQuotaExceeded, Title: "Quota exceeded", Status: 429, Detail: usedUp, Reason: "exhausted",
			RetryAfterSeconds: 1, PolicyVersion: 3, ViolatedPolicies: []string{"default"},
		}},
		{"exhausted, and no time is known", quiet, decision.Answer{Reason: pb.Reason_REASON_EXHAUSTED}, httpanswer.Problem{
			Type: httpanswer.TypeQuotaExceeded, Title: "Quota exceeded", Status: 429, Detail: "The quota is used up, and nobody knows for how long.", Reason: "exhausted",
			ViolatedPolicies: []string{"default"},
		}},
		{"case 26", httpanswer.Writer{PolicyName: "p"}, decision.Answer{Reason: pb.Reason_REASON_COST_ABOVE_CAPACITY}, httpanswer.Problem{
			Type: httpanswer.TypeQuotaExceeded, Title: "Quota exceeded", Status: 429, Reason: "cost-above-capacity",
			Detail:           "The request costs more than the quota can ever admit. Ask for less at a time: waiting does not help.",
			ViolatedPolicies: []string{"p"},
		}},
		{"unavailable: what is wrong inside is not told", quiet, decision.Unavailable("no limiter answered: dial tcp 10.0.0.1:8080"), httpanswer.Problem{
			Type: httpanswer.TypeReducedCapacity, Title: "Temporarily reduced capacity", Status: 503, Detail: tryAgain, Reason: "unavailable", RetryAfterSeconds: 1,
		}},
		{"no answer", quiet, decision.Answer{}, httpanswer.Problem{
			Type: httpanswer.TypeReducedCapacity, Title: "Temporarily reduced capacity", Status: 503, Detail: tryAgain, Reason: "unavailable", RetryAfterSeconds: 1,
		}},
		{"an admitted one by mistake", quiet, allowedAnswer(), httpanswer.Problem{
			Type: httpanswer.TypeReducedCapacity, Title: "Temporarily reduced capacity", Status: 503, Detail: tryAgain, Reason: "unavailable", RetryAfterSeconds: 1,
		}},
		{"overloaded", quiet, decision.Answer{Reason: pb.Reason_REASON_OVERLOADED}, httpanswer.Problem{
			Type: httpanswer.TypeReducedCapacity, Title: "Temporarily reduced capacity", Status: 503, Reason: "overloaded", RetryAfterSeconds: 1,
			Detail: "Too many requests are being decided at once. Try again after the time that Retry-After says.",
		}},
		{"disabled: why is for operators", quiet, decision.Answer{Reason: pb.Reason_REASON_DISABLED, Detail: "closed for the audit"}, httpanswer.Problem{
			Type: "about:blank", Title: "Forbidden", Status: 403, Detail: "The operation is disabled.", Reason: "disabled",
		}},
		{"disabled, for an internal caller", httpanswer.Writer{Details: true}, decision.Answer{Reason: pb.Reason_REASON_DISABLED, Detail: "closed for the audit"}, httpanswer.Problem{
			Type: "about:blank", Title: "Forbidden", Status: 403, Detail: "closed for the audit", Reason: "disabled",
		}},
		{"disabled", quiet, decision.Answer{Reason: pb.Reason_REASON_DISABLED}, httpanswer.Problem{
			Type: "about:blank", Title: "Forbidden", Status: 403, Detail: "The operation is disabled.", Reason: "disabled",
		}},
		{"invalid", quiet, decision.Invalid("the cost is negative"), httpanswer.Problem{
			Type: "about:blank", Title: "Bad Request", Status: 400, Detail: "the cost is negative", Reason: "invalid",
		}},
		{"invalid, at length", quiet, long, httpanswer.Problem{
			Type: "about:blank", Title: "Bad Request", Status: 400, Detail: "The request is not valid.", Reason: "invalid",
		}},
		{"refresh", quiet, decision.Answer{Reason: pb.Reason_REASON_REFRESH, PolicyVersion: 4}, httpanswer.Problem{
			Type: "about:blank", Title: "Conflict", Status: 409, Reason: "refresh", PolicyVersion: 4,
			Detail: "The request names an older version of the policy than the one in force. Read that version and ask again.",
		}},
		{"no policy", quiet, decision.Answer{Reason: pb.Reason_REASON_NO_POLICY, Detail: "apply one"}, httpanswer.Problem{
			Type: "about:blank", Title: "Internal Server Error", Status: 500, Reason: "no-policy",
			Detail: "No quota is configured for the operation. The operator of this service has to add one.",
		}},
		{"details for an internal caller", httpanswer.Writer{Details: true}, exhaustedAnswer(time.Second), httpanswer.Problem{
			Type: httpanswer.TypeQuotaExceeded, Title: "Quota exceeded", Status: 429, Detail: "the budget is used up for now", Reason: "exhausted",
			RetryAfterSeconds: 1, PolicyVersion: 3, ViolatedPolicies: []string{"default"},
		}},
		{"details never name a grant", httpanswer.Writer{Details: true}, withGrant, httpanswer.Problem{
			Type: httpanswer.TypeQuotaExceeded, Title: "Quota exceeded", Status: 429, Detail: usedUp, Reason: "exhausted",
			RetryAfterSeconds: 1, PolicyVersion: 3, ViolatedPolicies: []string{"default"},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			rec.Header().Set("Content-Length", "5") // of a body that is not sent now
			test.writer.Problem(rec, test.answer)
			var got httpanswer.Problem
			if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, rec.Body)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("bodies differ (-want +got):\n%s", diff)
			}
			if rec.Code != test.want.Status {
				t.Errorf("status %d, want %d", rec.Code, test.want.Status)
			}
			h := rec.Header()
			if h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" || h.Get("Content-Length") != "" {
				t.Errorf("fields: %v", h)
			}
		})
	}
}

// TestProblemTellsOneWait: body and header field have drawn the same jitter.
func TestProblemTellsOneWait(t *testing.T) {
	draws := 0.0
	w := httpanswer.Writer{Jitter: func() float64 { draws++; return draws / 5 }}
	rec := httptest.NewRecorder()
	w.Problem(rec, decision.Unavailable("x"))
	var got httpanswer.Problem
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if h := rec.Header().Get("Retry-After"); h != "2" || got.RetryAfterSeconds != 2 || draws != 1 {
		t.Errorf("Retry-After %s, body %d, drawn %v times; want 2, 2, once", h, got.RetryAfterSeconds, draws)
	}
}

func TestProblemAs(t *testing.T) {
	rec := httptest.NewRecorder()
	httpanswer.Writer{}.ProblemAs(rec, exhaustedAnswer(time.Second), http.StatusForbidden)
	var got httpanswer.Problem
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if rec.Code != 403 || got.Status != 403 || got.Reason != "exhausted" || rec.Header().Get("Retry-After") != "1" {
		t.Errorf("status %d, body %+v, fields %v", rec.Code, got, rec.Header())
	}
}

// TestRandomJitter: without a source of its own a writer does not always draw the
// same. A hundred draws of five values are alike once in 10^69.
func TestRandomJitter(t *testing.T) {
	seen := map[int64]bool{}
	for range 100 {
		seconds := httpanswer.Writer{}.RetryAfter(decision.Unavailable("x"))
		if seconds < 1 || seconds > 5 {
			t.Fatalf("Retry-After %d, want 1 to 5", seconds)
		}
		seen[seconds] = true
	}
	if len(seen) < 2 {
		t.Errorf("a hundred callers were all told %v", seen)
	}
}

func TestValidate(t *testing.T) {
	for name, want := range map[string]string{
		"":                       "",
		"reports per minute":     "",
		strings.Repeat("n", 128): "",
		strings.Repeat("n", 129): "the policy name has 129 bytes, and may have 128",
		"a\nb":                   "the policy name is not printable ASCII, which is all that a structured field can carry",
		"a\x7f":                  "the policy name is not printable ASCII, which is all that a structured field can carry",
		"é":                      "the policy name is not printable ASCII, which is all that a structured field can carry",
	} {
		got := ""
		if err := (httpanswer.Writer{PolicyName: name}).Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
