package forwardauth_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
	"github.com/tokenlease/tokenlease/regional/gateway/forwardauth"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// loopback are the peers of the tests' servers.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func testConfig(f *fake) forwardauth.Config {
	return forwardauth.Config{
		Decider: f, Proxies: loopback, AccountHeader: "X-Account",
		Rules: []forwardauth.Rule{
			{Path: "/api", Operation: "search"},
			{Path: "/api/reports", Operation: "report.create"},
			{Path: "/api/reports", Method: "GET", Operation: "search"},
			{Path: "/api/quota", Operation: "quota"},
			{Path: "/api/off", Operation: "off"},
			{Path: "/api/none", Operation: "none"},
			{Path: "/api/large", Operation: "report.create", Cost: decision.Tokens(41)},
		},
		Answers: httpanswer.Writer{MaxJitter: -1},
	}
}

// answer is what a proxy sees.
type answer struct {
	status int
	header http.Header
	body   string
}

// proxy asks the handler over a real connection, as a proxy does.
type proxy struct {
	t      *testing.T
	server *httptest.Server
}

func serve(t *testing.T, cfg forwardauth.Config) proxy {
	t.Helper()
	h, err := forwardauth.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return proxy{t, server}
}

func (p proxy) ask(header http.Header) answer {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.server.URL+"/forward-auth", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	resp, err := p.server.Client().Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// original is what a proxy tells of a request.
func original(account, method, uri string) http.Header {
	h := http.Header{"X-Forwarded-Method": {method}, "X-Forwarded-Uri": {uri}}
	if account != "" {
		h.Set("X-Account", account)
	}
	return h
}

func (a answer) check(t *testing.T, status int, detail string) {
	t.Helper()
	var problem struct {
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}
	if status != http.StatusOK {
		if err := json.Unmarshal([]byte(a.body), &problem); err != nil || problem.Status != status {
			t.Errorf("the body is no problem of status %d: %s", status, a.body)
		}
	} else if a.body != "" {
		t.Errorf("permission has a body: %s", a.body)
	}
	if a.status != status || problem.Detail != detail {
		t.Errorf("answer %d, %q: want %d, %q", a.status, problem.Detail, status, detail)
	}
	if a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control is %q, want no-store", a.header.Get("Cache-Control"))
	}
}

// TestCase39ReportsCostFive: the answers of a budget, from full to empty and on.
func TestCase39ReportsCostFive(t *testing.T) {
	f := newFake()
	p := serve(t, testConfig(f))
	report := original("acme", "POST", "/api/reports?year=2026")
	a := p.ask(report)
	a.check(t, 200, "")
	if got := a.header.Get("Ratelimit"); got != `"default";r=35` {
		t.Errorf("RateLimit is %s, want 35 of 40 left", got)
	}
	for range 7 {
		p.ask(report).check(t, 200, "")
	}
	a = p.ask(report)
	a.check(t, 429, "The quota is used up for now. Try again after the time that Retry-After says.")
	if a.header.Get("Retry-After") != "1" || a.header.Get("Ratelimit-Policy") != `"default";q=40` {
		t.Errorf("the denial has %v", a.header)
	}
	f.advance(250 * time.Millisecond)
	p.ask(report).check(t, 200, "")
}

// TestCase25PureQuery: cost 0, where the policy allows it, spends nothing.
func TestCase25PureQuery(t *testing.T) {
	cfg := testConfig(newFake())
	cfg.CostHeader = "X-Cost"
	p := serve(t, cfg)
	for range 3 {
		query := original("acme", "POST", "/api/reports")
		query.Set("X-Cost", "0")
		a := p.ask(query)
		a.check(t, 200, "")
		if got := a.header.Get("Ratelimit"); got != `"default";r=40` {
			t.Errorf("a query leaves %s, want all 40", got)
		}
	}
	search := original("acme", "POST", "/api")
	search.Set("X-Cost", "0")
	p.ask(search).check(t, 400, "the cost must be 1 or more")
}

// TestCase26CostAboveCapacity: denied for good, without Retry-After.
func TestCase26CostAboveCapacity(t *testing.T) {
	p := serve(t, testConfig(newFake()))
	a := p.ask(original("acme", "POST", "/api/large"))
	a.check(t, 429, "The request costs more than the quota can ever admit. Ask for less at a time: waiting does not help.")
	if _, has := a.header["Retry-After"]; has || !strings.Contains(a.body, `"reason":"cost-above-capacity"`) {
		t.Errorf("the denial has %v, %s", a.header, a.body)
	}
}

// TestCase27RetryIsNeverZero: 50 ms are one second, and 0.4 s are (case 38).
func TestCase27RetryIsNeverZero(t *testing.T) {
	f := newFake()
	p := serve(t, testConfig(f))
	search := original("acme", "GET", "/api/reports/7")
	for range 3 {
		p.ask(search).check(t, 200, "")
	}
	for _, past := range []time.Duration{100 * time.Millisecond, 350 * time.Millisecond} { // then 0.4 s and 50 ms are left
		f.advance(past)
		if a := p.ask(search); a.status != 429 || a.header.Get("Retry-After") != "1" {
			t.Errorf("answer %d, Retry-After %q, want 429 and 1", a.status, a.header.Get("Retry-After"))
		}
	}
	f.advance(50 * time.Millisecond)
	p.ask(search).check(t, 200, "")
}

func TestCase38WaitIsRoundedUp(t *testing.T) {
	f := newFake()
	p := serve(t, testConfig(f))
	search := original("acme", "GET", "/api/x")
	for range 3 {
		p.ask(search).check(t, 200, "")
	}
	f.advance(100 * time.Millisecond) // 0.2 tokens
	if a := p.ask(search); a.status != 429 || a.header.Get("Retry-After") != "1" || !strings.Contains(a.header.Get("Ratelimit"), "r=0;t=1") {
		t.Errorf("answer %d, %v, want 429 and 1 s", a.status, a.header)
	}
	f.advance(400 * time.Millisecond)
	p.ask(search).check(t, 200, "")
}

func TestDenials(t *testing.T) {
	f := newFake()
	cfg := testConfig(f)
	p := serve(t, cfg)
	cfg.DenyAs403 = true
	nginx := serve(t, cfg)
	p.ask(original("acme", "GET", "/api/quota")).check(t, 200, "")
	for _, tc := range []struct {
		uri, detail    string
		status, forced int
	}{
		{"/api/quota", "The quota is used up, and nobody knows for how long.", 429, 403},
		{"/api/large", "The request costs more than the quota can ever admit. Ask for less at a time: waiting does not help.", 429, 403},
		{"/api/off", "The operation is disabled.", 403, 403},
		{"/api/none", "No quota is configured for the operation. The operator of this service has to add one.", 500, 500},
		{"/other", "No limit is configured for this method and path.", 403, 403},
		{"/api/../x", "The path in X-Forwarded-Uri has a dot segment.", 400, 403},
	} {
		p.ask(original("acme", "GET", tc.uri)).check(t, tc.status, tc.detail)
		a := nginx.ask(original("acme", "GET", tc.uri))
		a.check(t, tc.forced, tc.detail)
		if got := a.header.Get(forwardauth.FieldStatus); got != strconv.Itoa(tc.status) {
			t.Errorf("%s: the status is told as %q, want %d", tc.uri, got, tc.status)
		}
	}
	f.down = true
	const undecided = "Whether the quota admits the request could not be decided. Try again after the time that Retry-After says."
	for _, asked := range []proxy{p, nginx} {
		a := asked.ask(original("acme", "GET", "/api"))
		a.check(t, 503, undecided)
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q, want 1", a.header.Get("Retry-After"))
		}
	}
}

func TestPeersThatAreNotTrusted(t *testing.T) {
	f := newFake()
	cfg := testConfig(f)
	cfg.Proxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	h, err := forwardauth.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	const detail = "Only trusted proxies may ask here, and this peer is none: add its address to the proxies, or ask the proxy."
	server := httptest.NewServer(h)
	defer server.Close()
	header := original("acme", "GET", "/api")
	header.Set("X-Forwarded-For", "192.0.2.1")
	proxy{t, server}.ask(header).check(t, 403, detail)
	for _, peer := range []string{"198.51.100.1:1", "[::ffff:198.51.100.1]:1", "", "@"} {
		if got := askAs(h, peer); got != 403 {
			t.Errorf("peer %q is answered %d, want 403", peer, got)
		}
	}
	if n := len(f.requests()); n != 0 {
		t.Errorf("%d requests were decided, want none", n)
	}
	for _, peer := range []string{"192.0.2.9:1", "[::ffff:192.0.2.9]:1"} {
		if got := askAs(h, peer); got != 200 {
			t.Errorf("peer %q is answered %d, want 200", peer, got)
		}
	}
}

func askAs(h http.Handler, peer string) int {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr, req.Header = peer, original("acme", "GET", "/api")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec.Code
}

// TestCase29Headers: whatever is wrong with a header, nothing is decided and the
// answer is short.
func TestCase29Headers(t *testing.T) {
	f := newFake()
	cfg := testConfig(f)
	cfg.CostHeader = "X-Cost"
	p := serve(t, cfg)
	const cost = "The cost in X-Cost is no whole number of 0 to 9223372036854775807 in plain digits."
	const reserved = `, which is reserved for accounts that are not verified identities: give the identity another name.`
	for _, tc := range []struct {
		name   string
		change http.Header
		status int
		detail string
	}{
		{"two accounts", http.Header{"X-Account": {"acme", "evil"}}, 400, "X-Account stands 2 times: want it once."},
		{"one account twice", http.Header{"X-Account": {"acme", "acme"}}, 400, "X-Account stands 2 times: want it once."},
		{"two accounts in one", http.Header{"X-Account": {"evil, acme"}}, 400, "X-Account has a comma, so that it may be two values in one: want one value."},
		{"no account", http.Header{"X-Account": nil}, 403, "The request has no verified account: the proxy has to put it into X-Account."},
		{"an empty account", http.Header{"X-Account": {""}}, 403, "The request has no verified account: the proxy has to put it into X-Account."},
		{"a long account", http.Header{"X-Account": {strings.Repeat("a", 257)}}, 400, "account: must have 1 to 256 bytes, has 257"},
		{"an account that is no UTF-8", http.Header{"X-Account": {"a\xff"}}, 400, "account: must be UTF-8, is not at byte 1"},
		{"an anonymous account", http.Header{"X-Account": {"anonymous/shared"}}, 400, `The account in X-Account begins with "anonymous/"` + reserved},
		{"the account of a key", http.Header{"X-Account": {"key:1"}}, 400, `The account in X-Account begins with "key:"` + reserved},
		{"two costs", http.Header{"X-Cost": {"1", "1"}}, 400, "X-Cost stands 2 times: want it once."},
		{"a negative cost", http.Header{"X-Cost": {"-1"}}, 400, cost},
		{"a cost with a fraction", http.Header{"X-Cost": {"1.5"}}, 400, cost},
		{"a cost with an exponent", http.Header{"X-Cost": {"1e3"}}, 400, cost},
		{"a cost with a sign", http.Header{"X-Cost": {"+1"}}, 400, cost},
		{"a cost with a zero", http.Header{"X-Cost": {"010"}}, 400, cost},
		{"cost NaN", http.Header{"X-Cost": {"NaN"}}, 400, cost},
		{"cost 2^63", http.Header{"X-Cost": {"9223372036854775808"}}, 400, cost},
		{"two methods", http.Header{"X-Forwarded-Method": {"GET", "POST"}}, 400, "X-Forwarded-Method stands 2 times: want it once."},
		{"no method", http.Header{"X-Forwarded-Method": nil}, 400, "The method in X-Forwarded-Method is missing or not in upper-case letters."},
		{"a method in small letters", http.Header{"X-Forwarded-Method": {"post"}}, 400, "The method in X-Forwarded-Method is missing or not in upper-case letters."},
		{"two paths", http.Header{"X-Forwarded-Uri": {"/api", "/api"}}, 400, "X-Forwarded-Uri stands 2 times: want it once."},
		{"no path", http.Header{"X-Forwarded-Uri": nil}, 400, "X-Forwarded-Uri stands 0 times: want it once."},
		{"an absolute path", http.Header{"X-Forwarded-Uri": {"http://x/api"}}, 400, "The path in X-Forwarded-Uri does not begin with a slash."},
		{"a long path", http.Header{"X-Forwarded-Uri": {"/" + strings.Repeat("a", 16<<10)}}, 400, "The path in X-Forwarded-Uri is too long."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			header := original("acme", "POST", "/api/reports")
			maps.Copy(header, tc.change)
			a := p.ask(header)
			a.check(t, tc.status, tc.detail)
			if len(a.body) > 400 {
				t.Errorf("the answer has %d bytes", len(a.body))
			}
		})
	}
	if n := len(f.requests()); n != 0 {
		t.Errorf("%d requests were decided, want none", n)
	}
}

func TestWaysToTheOperation(t *testing.T) {
	f := newFake()
	fixed, named := testConfig(f), testConfig(f)
	fixed.Rules, fixed.Operation = nil, "search"
	named.Rules, named.OperationHeader = nil, "X-Operation"
	serve(t, fixed).ask(http.Header{"X-Account": {"acme"}}).check(t, 200, "")
	p := serve(t, named)
	p.ask(http.Header{"X-Account": {"acme"}, "X-Operation": {"report.create"}}).check(t, 200, "")
	p.ask(http.Header{"X-Account": {"acme"}}).check(t, 403, "The request has no operation: the proxy has to put it into X-Operation.")
	p.ask(http.Header{"X-Account": {"acme"}, "X-Operation": {"a", "b"}}).check(t, 400, "X-Operation stands 2 times: want it once.")
	got := ""
	for _, req := range f.requests() {
		got += req.Key.Account + " " + req.Key.Operation + "\n"
	}
	if got != "acme search\nacme report.create\n" {
		t.Errorf("asked for\n%s", got)
	}
}

func TestUnmatchedIsAllowedOnlyWhenSaid(t *testing.T) {
	f := newFake()
	cfg := testConfig(f)
	cfg.Unmatched = forwardauth.UnmatchedAllow
	p := serve(t, cfg)
	p.ask(original("", "GET", "/health")).check(t, 200, "")
	p.ask(original("", "GET", "//api")).check(t, 400, ambiguousDetail)
	p.ask(original("", "GET", "/api")).check(t, 403, "The request has no verified account: the proxy has to put it into X-Account.")
	if n := len(f.requests()); n != 0 {
		t.Errorf("%d requests were decided, want none", n)
	}
}

func TestAnonymousRequests(t *testing.T) {
	f := newFake()
	cfg := testConfig(f)
	cfg.Anonymous = &clientkey.Config{Header: clientkey.XForwardedFor, MaxKeys: 2}
	p := serve(t, cfg)
	for _, client := range []string{"203.0.113.1", "1.1.1.1, 203.0.113.2", "203.0.113.3", "203.0.113.1"} {
		header := original("", "GET", "/api")
		header.Set("X-Forwarded-For", client)
		p.ask(header).check(t, 200, "")
	}
	named := original("acme", "GET", "/api")
	named.Set("X-Forwarded-For", "203.0.113.1")
	p.ask(named).check(t, 200, "")
	var got []string
	for _, req := range f.requests() {
		got = append(got, req.Key.Account)
	}
	if s := strings.Join(got, " "); s != "anonymous/203.0.113.1/32 anonymous/203.0.113.2/32 anonymous/shared anonymous/203.0.113.1/32 acme" {
		t.Errorf("paid by %s", s)
	}
}

// TestTenantsSeeTheirOwnNumbers: what one account spends shows in none of the
// answers to another, nor in labels.
func TestTenantsSeeTheirOwnNumbers(t *testing.T) {
	reg := prometheus.NewRegistry()
	cfg := testConfig(newFake())
	cfg.Registerer = reg
	p := serve(t, cfg)
	for range 8 {
		p.ask(original("acme", "POST", "/api/reports")).check(t, 200, "")
	}
	if a := p.ask(original("globex", "POST", "/api/reports")); a.header.Get("Ratelimit") != `"default";r=35` {
		t.Errorf("the other account reads %v", a.header)
	}
	a := p.ask(original("acme", "POST", "/api/reports"))
	if a.status != 429 || strings.Contains(a.body+strings.Join(a.header["Ratelimit"], ""), "globex") {
		t.Errorf("answer %d, %v, %s", a.status, a.header, a.body)
	}
	p.ask(original("", "POST", "/api/reports"))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			counts[family.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	const name = "tokenlease_forward_auth_requests_total "
	if counts[name+"allowed"] != 9 || counts[name+"denied"] != 1 || counts[name+"no-account"] != 1 || len(counts) != 8 {
		t.Errorf("metrics are %v", counts)
	}
}
