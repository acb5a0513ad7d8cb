package plainjson_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
	"github.com/tokenlease/tokenlease/regional/gateway/plainjson"
)

// api is a server of all handlers.
type api struct {
	t      *testing.T
	server *httptest.Server
}

func serve(t *testing.T, cfg plainjson.Config) api {
	t.Helper()
	cfg.Answers = httpanswer.Writer{MaxJitter: -1}
	a, err := plainjson.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	a.Mount(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return api{t, server}
}

// answer is what a caller reads.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a api) do(method, path, body string, header http.Header) answer {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.server.URL+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header = header
	resp, err := a.server.Client().Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, strings.TrimSuffix(string(text), "\n")}
}

func (a api) post(path, body string) answer {
	a.t.Helper()
	return a.do(http.MethodPost, path, body, http.Header{"Content-Type": {"application/json"}})
}

func (a answer) check(t *testing.T, status int, body string) {
	t.Helper()
	if a.status != status || a.body != body {
		t.Errorf("answer %d %.600s\nwant   %d %s", a.status, a.body, status, body)
	}
	if a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control is %q, want no-store", a.header.Get("Cache-Control"))
	}
}

// report asks for a report of acme; more is put into the object.
func report(more string) string {
	return `{"verifiedAccount":"acme","operation":"report.create"` + more + `}`
}

func TestCase39Decisions(t *testing.T) {
	f := newFake()
	a := serve(t, plainjson.Config{Decider: f})
	got := a.post(plainjson.DecisionsPath, report(""))
	got.check(t, 200, `{"decision":"allowed","reason":"allowed","limit":40,"remaining":35,"policyVersion":3,"grantId":"g1-001-0000002a"}`)
	if got.header.Get("Ratelimit") != `"default";r=35` || got.header.Get("Ratelimit-Policy") != `"default";q=40` || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("the header is %v", got.header)
	}
	a.post(plainjson.DecisionsPath, report(`,"cost":34,"policyVersion":3,"decisionId":"7f3a"`)).check(t, 200,
		`{"decision":"allowed","reason":"allowed","limit":40,"remaining":1,"policyVersion":3,"grantId":"g1-001-0000002a"}`)
	if r := f.requests()[1]; r.ID != "7f3a" || r.PolicyVersion != 3 || r.Cost != decision.Tokens(34) || r.Key.Account != "acme" {
		t.Errorf("the decider was asked %+v", r)
	}
	if r := f.requests()[0]; r.ID != "" || r.PolicyVersion != 0 || r.Cost.Given {
		t.Errorf("the decider was asked %+v", r)
	}
	got = a.post(plainjson.DecisionsPath, report(""))
	got.check(t, 429, `{"decision":"denied","reason":"exhausted","limit":40,"remaining":1,"policyVersion":3,"retryAfterSeconds":1,"retryAt":"1970-01-12T13:46:41Z"}`)
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
	}
}

// TestCase25PureQuery: cost 0, where the policy allows it, spends nothing.
func TestCase25PureQuery(t *testing.T) {
	a := serve(t, plainjson.Config{Decider: newFake()})
	for range 2 {
		a.post(plainjson.DecisionsPath, report(`,"cost":0`)).check(t, 200,
			`{"decision":"allowed","reason":"allowed","limit":40,"remaining":40,"policyVersion":3,"grantId":"g1-001-0000002a"}`)
		a.post(plainjson.CheckPath, `{"apiKey":"k","endpoint":"report.create","requestCount":0}`).check(t, 200,
			`{"allowed":true,"reason":"allowed","limit":40,"remaining":40}`)
	}
	a.post(plainjson.DecisionsPath, `{"verifiedAccount":"acme","operation":"search","cost":0}`).check(t, 400,
		`{"decision":"denied","reason":"invalid","detail":"the cost must be 1 or more"}`)
	a.post(plainjson.CheckPath, `{"apiKey":"k","endpoint":"search","requestCount":0}`).check(t, 400,
		`{"allowed":false,"reason":"invalid","detail":"the cost must be 1 or more"}`)
}

// TestCase26CostAboveCapacity: denied for good, without any retry guidance.
func TestCase26CostAboveCapacity(t *testing.T) {
	a := serve(t, plainjson.Config{Decider: newFake()})
	for _, got := range []answer{
		a.post(plainjson.DecisionsPath, `{"verifiedAccount":"acme","operation":"search","cost":10}`),
		a.post(plainjson.CheckPath, `{"apiKey":"k","endpoint":"search","requestCount":10}`),
	} {
		if _, has := got.header["Retry-After"]; has || got.status != 429 || !strings.Contains(got.body, `"reason":"cost-above-capacity"`) || strings.Contains(got.body, "retry") {
			t.Errorf("answer %d %v %s", got.status, got.header, got.body)
		}
	}
}

// TestCase27RetryIsNeverZero: 50 ms to wait are one second.
func TestCase27RetryIsNeverZero(t *testing.T) {
	f := newFake()
	a := serve(t, plainjson.Config{Decider: f})
	search := `{"verifiedAccount":"acme","operation":"search"}`
	for range 3 {
		a.post(plainjson.DecisionsPath, search)
	}
	f.advance(450 * time.Millisecond)
	got := a.post(plainjson.DecisionsPath, search)
	got.check(t, 429, `{"decision":"denied","reason":"exhausted","limit":3,"remaining":0,"policyVersion":1,"retryAfterSeconds":1,"retryAt":"1970-01-12T13:46:41Z"}`)
	f.advance(50 * time.Millisecond)
	a.post(plainjson.DecisionsPath, search).check(t, 200,
		`{"decision":"allowed","reason":"allowed","limit":3,"remaining":0,"policyVersion":1,"grantId":"g1-001-0000002a"}`)
}

// TestCase38WaitIsRoundedUp: 0.2 tokens at 2/s leave 0.4 s to wait.
func TestCase38WaitIsRoundedUp(t *testing.T) {
	f := newFake()
	a := serve(t, plainjson.Config{Decider: f})
	search := `{"apiKey":"k","endpoint":"search"}`
	for range 3 {
		a.post(plainjson.CheckPath, search)
	}
	f.advance(100 * time.Millisecond)
	got := a.post(plainjson.CheckPath, search)
	got.check(t, 429, `{"allowed":false,"reason":"exhausted","limit":3,"remaining":0,"retryAfterSeconds":1}`)
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
	}
}

// A wait that ends on a second is that second, and any later end the next.
func TestRetryAtIsNeverEarly(t *testing.T) {
	for _, tc := range []struct {
		in   time.Duration
		want string
	}{
		{2 * time.Second, `"retryAfterSeconds":2,"retryAt":"2026-01-01T00:00:02Z"`},
		{2*time.Second + 1, `"retryAfterSeconds":3,"retryAt":"2026-01-01T00:00:03Z"`},
		{time.Nanosecond, `"retryAfterSeconds":1,"retryAt":"2026-01-01T00:00:01Z"`},
	} {
		at := time.Date(2026, 1, 1, 1, 0, 0, 0, time.FixedZone("CET", 3600))
		a := serve(t, plainjson.Config{Decider: constant{Reason: pb.Reason_REASON_EXHAUSTED, HasRetry: true, RetryIn: tc.in, RetryAt: at.Add(tc.in)}})
		a.post(plainjson.DecisionsPath, report("")).check(t, 429, `{"decision":"denied","reason":"exhausted",`+tc.want+`}`)
	}
}

// constant answers always alike.
type constant decision.Answer

func (c constant) Decide(context.Context, decision.Request) decision.Answer {
	return decision.Answer(c)
}

// An older policy version gets a refresh and spends nothing.
func TestObsoletePolicyVersion(t *testing.T) {
	a := serve(t, plainjson.Config{Decider: newFake()})
	a.post(plainjson.DecisionsPath, report(`,"policyVersion":2`)).check(t, 409, `{"decision":"refresh","reason":"refresh","policyVersion":3}`)
	a.post(plainjson.DecisionsPath, report(`,"policyVersion":3`)).check(t, 200,
		`{"decision":"allowed","reason":"allowed","limit":40,"remaining":35,"policyVersion":3,"grantId":"g1-001-0000002a"}`)
}

func TestOtherAnswers(t *testing.T) {
	for _, tc := range []struct {
		name         string
		in           decision.Answer
		status       int
		verdict, one string
	}{
		{"zero denies", decision.Answer{}, 503, `{"decision":"denied","reason":"unknown","retryAfterSeconds":1}`, `{"allowed":false,"reason":"unknown","retryAfterSeconds":1}`},
		{"allowed without a reason denies", decision.Answer{Allowed: true}, 503, `{"decision":"denied","reason":"unknown","retryAfterSeconds":1}`, `{"allowed":false,"reason":"unknown","retryAfterSeconds":1}`},
		{"unavailable", decision.Unavailable("no broker"), 503, `{"decision":"denied","reason":"unavailable","retryAfterSeconds":1,"detail":"no broker"}`, `{"allowed":false,"reason":"unavailable","retryAfterSeconds":1,"detail":"no broker"}`},
		{"overloaded", decision.Answer{Reason: pb.Reason_REASON_OVERLOADED}, 503, `{"decision":"denied","reason":"overloaded","retryAfterSeconds":1}`, `{"allowed":false,"reason":"overloaded","retryAfterSeconds":1}`},
		{"disabled", decision.Answer{Reason: pb.Reason_REASON_DISABLED, Limit: 4, PolicyVersion: 2, Detail: "closed"}, 403,
			`{"decision":"denied","reason":"disabled","limit":4,"remaining":0,"policyVersion":2,"detail":"closed"}`, `{"allowed":false,"reason":"disabled","limit":4,"remaining":0,"detail":"closed"}`},
		{"no policy", decision.Answer{Reason: pb.Reason_REASON_NO_POLICY}, 500, `{"decision":"denied","reason":"no-policy"}`, `{"allowed":false,"reason":"no-policy"}`},
		{"capacity 0", decision.Answer{Reason: pb.Reason_REASON_COST_ABOVE_CAPACITY, PolicyVersion: 1}, 429,
			`{"decision":"denied","reason":"cost-above-capacity","limit":0,"remaining":0,"policyVersion":1}`, `{"allowed":false,"reason":"cost-above-capacity","limit":0,"remaining":0}`},
		{"fallback", decision.Answer{Allowed: true, Reason: pb.Reason_REASON_FALLBACK, Limit: 4, Remaining: 1, PolicyVersion: 2, NotStrict: true}, 200,
			`{"decision":"allowed","reason":"fallback","limit":4,"remaining":1,"policyVersion":2,"notStrict":true}`, `{"allowed":true,"reason":"fallback","limit":4,"remaining":1}`},
		{"shadow", decision.Answer{Allowed: true, Reason: pb.Reason_REASON_EXHAUSTED, Shadow: true, NotStrict: true, Limit: 4, PolicyVersion: 2}, 200,
			`{"decision":"allowed","reason":"exhausted","limit":4,"remaining":0,"policyVersion":2,"shadow":true,"notStrict":true}`, `{"allowed":true,"reason":"exhausted","limit":4,"remaining":0,"shadow":true}`},
		{"replayed, in debt", decision.Answer{Allowed: true, Reason: pb.Reason_REASON_ALLOWED, Limit: 4, Remaining: -1, PolicyVersion: 2, Replayed: true, Debt: 7}, 200,
			`{"decision":"allowed","reason":"allowed","limit":4,"remaining":0,"policyVersion":2,"replayed":true,"debt":7}`, `{"allowed":true,"reason":"allowed","limit":4,"remaining":0}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, plainjson.Config{Decider: constant(tc.in)})
			a.post(plainjson.DecisionsPath, report("")).check(t, tc.status, tc.verdict)
			a.post(plainjson.CheckPath, `{"apiKey":"k","endpoint":"e"}`).check(t, tc.status, tc.one)
		})
	}
}

func TestEndpoints(t *testing.T) {
	f := newFake()
	a := serve(t, plainjson.Config{Decider: f, Endpoints: map[string]plainjson.Endpoint{
		"/v1/reports": {Operation: "report.create", Cost: 5}, "/v1/search": {Operation: "search"},
	}})
	for _, body := range []string{
		`{"apiKey":"k","endpoint":"/v1/reports"}`,
		`{"apiKey":"k","endpoint":"/v1/reports","requestCount":2}`,
		`{"apiKey":"k","endpoint":"/v1/search"}`,
		`{"apiKey":"k","endpoint":"/v1/search","requestCount":2}`,
	} {
		if got := a.post(plainjson.CheckPath, body); got.status != 200 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	want := []decision.Cost{decision.Tokens(5), decision.Tokens(10), {}, decision.Tokens(2)}
	for i, r := range f.requests() {
		if r.Cost != want[i] {
			t.Errorf("check %d costs %+v, want %+v", i, r.Cost, want[i])
		}
	}
	a.post(plainjson.CheckPath, `{"apiKey":"k","endpoint":"report.create"}`).check(t, 400,
		refused(400, "Bad Request", "endpoint: is not known here: ask the operator of the limiter to map it to an operation"))
	a.post(plainjson.CheckPath, `{"apiKey":"k","endpoint":"/v1/reports","requestCount":1844674407370955162}`).check(t, 400,
		refused(400, "Bad Request", "requestCount: costs more than can be counted: want less"))
}

// An API key is never the name of an account, and never in an answer.
func TestKeysStaySecret(t *testing.T) {
	f := newFake()
	a := serve(t, plainjson.Config{Decider: f})
	got := a.post(plainjson.CheckPath, `{"apiKey":"sk-secret","endpoint":"search"}`)
	account := f.requests()[0].Key.Account
	if account != "key:746b4ad1ca9129e1caf080bf9406d435" || strings.Contains(account+got.body, "secret") {
		t.Errorf("account %q, answer %s", account, got.body)
	}
	same, _ := plainjson.HashedKey("sk-secret")
	other, _ := plainjson.HashedKey("sk-secret2")
	one, _ := plainjson.HashedKeyWith([]byte("pepper"))("sk-secret")
	two, _ := plainjson.HashedKeyWith([]byte("other"))("sk-secret")
	again, _ := plainjson.HashedKeyWith([]byte("pepper"))("sk-secret")
	if same != account || other == account || one == account || one == two || one != again || len(one) != 36 {
		t.Errorf("accounts %q %q %q %q %q %q", account, same, other, one, two, again)
	}
}

func TestAccountOfKeys(t *testing.T) {
	f := newFake()
	a := serve(t, plainjson.Config{Decider: f, Account: func(key string) (string, error) {
		if key != "k" {
			return "", errors.New("is not known")
		}
		return strings.Repeat("a", len(f.requests())*300+1), nil
	}})
	a.post(plainjson.CheckPath, `{"apiKey":"k","endpoint":"search"}`).check(t, 200, `{"allowed":true,"reason":"allowed","limit":3,"remaining":2}`)
	a.post(plainjson.CheckPath, `{"apiKey":"x","endpoint":"search"}`).check(t, 400, refused(400, "Bad Request", "apiKey: is not known"))
	a.post(plainjson.CheckPath, `{"apiKey":"k","endpoint":"search"}`).check(t, 400, refused(400, "Bad Request", "the account of apiKey: must have 1 to 256 bytes, has 301"))
}

func TestBatch(t *testing.T) {
	f := newFake()
	a := serve(t, plainjson.Config{Decider: f})
	one := func(key, endpoint string) string { return `{"apiKey":"` + key + `","endpoint":"` + endpoint + `"}` }
	got := a.post(plainjson.BatchPath, `{"requests":[`+strings.Join([]string{
		one("k", "search"), one("k", "search"), one("other", "search"), one("k", "search"), one("k", "search"), one("", "search"), one("k", "none"), one("k", "quota"),
	}, ",")+`]}`)
	got.check(t, 200, `{"responses":[`+strings.Join([]string{
		`{"status":200,"allowed":true,"reason":"allowed","limit":3,"remaining":2}`,
		`{"status":200,"allowed":true,"reason":"allowed","limit":3,"remaining":1}`,
		`{"status":200,"allowed":true,"reason":"allowed","limit":3,"remaining":2}`,
		`{"status":200,"allowed":true,"reason":"allowed","limit":3,"remaining":0}`,
		`{"status":429,"allowed":false,"reason":"exhausted","limit":3,"remaining":0,"retryAfterSeconds":1}`,
		`{"status":400,"allowed":false,"reason":"invalid","detail":"apiKey: is empty"}`,
		`{"status":500,"allowed":false,"reason":"no-policy"}`,
		`{"status":200,"allowed":true,"reason":"allowed","limit":1,"remaining":0}`,
	}, ",")+`]}`)
	if h := got.header; h.Get("Retry-After") != "" || h.Get("Ratelimit") != "" {
		t.Errorf("the header of a batch tells of one of its checks: %v", h)
	}
	f.down = true
	a.post(plainjson.BatchPath, `{"requests":[`+one("k", "search")+`]}`).check(t, 200,
		`{"responses":[{"status":503,"allowed":false,"reason":"unavailable","retryAfterSeconds":1,"detail":"too little credit is held here and the broker does not answer"}]}`)
}

func TestHealth(t *testing.T) {
	ready := true
	a := serve(t, plainjson.Config{Decider: newFake(), Ready: func() bool { return ready }})
	a.do(http.MethodGet, plainjson.HealthPath, "", nil).check(t, 200, `{"status":"ok"}`)
	a.do(http.MethodHead, plainjson.HealthPath, "", nil).check(t, 200, ``)
	ready = false
	a.do(http.MethodGet, plainjson.HealthPath, "", nil).check(t, 503, `{"status":"unavailable"}`)
	got := a.do(http.MethodPost, plainjson.HealthPath, "", nil)
	got.check(t, 405, refused(405, "Method Not Allowed", "the method is not allowed here: want GET"))
	if got.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow is %q", got.header.Get("Allow"))
	}
	serve(t, plainjson.Config{Decider: newFake()}).do(http.MethodGet, plainjson.HealthPath, "", nil).check(t, 200, `{"status":"ok"}`)
}

// TestTenantsSeeTheirOwnNumbers: what one account or key spends shows in none of
// the answers to another.
func TestTenantsSeeTheirOwnNumbers(t *testing.T) {
	a := serve(t, plainjson.Config{Decider: newFake()})
	const spent = `{"decision":"denied","reason":"exhausted","limit":1,"remaining":0,"policyVersion":1}`
	const full = `{"decision":"allowed","reason":"allowed","limit":1,"remaining":0,"policyVersion":1,"grantId":"g1-001-0000002a"}`
	quota := func(account string) string { return `{"verifiedAccount":"` + account + `","operation":"quota"}` }
	a.post(plainjson.DecisionsPath, quota("acme")).check(t, 200, full)
	a.post(plainjson.DecisionsPath, quota("acme")).check(t, 429, spent)
	for _, other := range []string{"Acme", "globex", "acme "} {
		a.post(plainjson.DecisionsPath, quota(other)).check(t, 200, full)
	}
	for _, key := range []string{"acme", "k1", "K1"} {
		a.post(plainjson.CheckPath, `{"apiKey":"`+key+`","endpoint":"quota"}`).check(t, 200, `{"allowed":true,"reason":"allowed","limit":1,"remaining":0}`)
	}
	a.post(plainjson.BatchPath, `{"requests":[{"apiKey":"k1","endpoint":"quota"},{"apiKey":"k2","endpoint":"quota"}]}`).check(t, 200,
		`{"responses":[{"status":429,"allowed":false,"reason":"exhausted","limit":1,"remaining":0},{"status":200,"allowed":true,"reason":"allowed","limit":1,"remaining":0}]}`)
}

func TestConfigFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  plainjson.Config
		want string
	}{
		{"no decider", plainjson.Config{}, "plainjson: there is no decider"},
		{"no endpoints", plainjson.Config{Decider: newFake(), Endpoints: map[string]plainjson.Endpoint{}},
			"plainjson: there is a table of endpoints without any: name some, or leave it out"},
		{"endpoints", plainjson.Config{Decider: newFake(), Endpoints: map[string]plainjson.Endpoint{"/b": {Operation: "o", Cost: -1}, "/a": {}}},
			"plainjson: endpoint \"/a\": operation: must have 1 to 128 bytes, has 0\nendpoint \"/b\": the cost is -1: want 1 or more, or 0 for the default"},
		{"answers", plainjson.Config{Decider: newFake(), Answers: httpanswer.Writer{PolicyName: "ü"}},
			"plainjson: the policy name is not printable ASCII, which is all that a structured field can carry"},
	} {
		if _, err := plainjson.New(tc.cfg); err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
}
