package forwardauth_test

import (
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/forwardauth"
)

const ambiguousDetail = "The path in X-Forwarded-Uri can be read in two ways that differ in their limit: write it without empty segments, semicolons and encoded slashes."

// ruleSet has a cheap rule for everything, and dear ones below.
func ruleSet() []forwardauth.Rule {
	return []forwardauth.Rule{
		{Path: "/", Operation: "cheap"},
		{Path: "/admin", Operation: "admin"},
		{Path: "/api", Operation: "api"},
		{Path: "/api", Method: "GET", Operation: "api.get"},
		{Path: "/api/v1/reports", Method: "POST", Operation: "report"},
		{Path: "/files", Operation: "files"},
		{Path: "/files", Method: "HEAD", Operation: "files.head"},
		{Path: "/files", Method: "GET", Operation: "files.get"},
		{Path: "/bücher", Operation: "books"},
	}
}

// operation is what the handler asks for, or "-" where it refuses.
func operation(t testing.TB, h http.Handler, f *fake, method, uri string) string {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr, req.Header = "127.0.0.1:1", original("acme", method, uri)
	before := len(f.requests())
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	after := f.requests()
	if len(after) == before {
		if rec.Code < 400 {
			t.Errorf("%s %q was let pass without a decision", method, uri)
		}
		return "-"
	}
	return after[before].Key.Operation
}

func newHandler(t testing.TB, f *fake, rules []forwardauth.Rule, foldCase bool) *forwardauth.Handler {
	t.Helper()
	h, err := forwardauth.New(forwardauth.Config{Decider: f, Proxies: loopback, AccountHeader: "X-Account", Rules: rules, FoldCase: foldCase})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestMostSpecificRule(t *testing.T) {
	f := newFake()
	h := newHandler(t, f, ruleSet(), false)
	for _, tc := range []struct{ method, uri, want string }{
		{"GET", "/", "cheap"},
		{"GET", "/x", "cheap"},
		{"GET", "/?/admin", "cheap"},
		{"GET", "/x?y=/../admin", "cheap"},
		{"GET", "/admin", "admin"},
		{"GET", "/admin/", "admin"},
		{"GET", "/admin?x", "admin"},
		{"DELETE", "/admin/users/1", "admin"},
		{"GET", "/administrator", "cheap"},
		{"GET", "/Admin", "cheap"},
		{"GET", "/%61dmin", "admin"},
		{"GET", "/%61%64%6D%69%6e", "admin"},
		{"GET", "/api/x", "api.get"},
		{"HEAD", "/api/x", "api.get"},
		{"PUT", "/api/x", "api"},
		{"GET", "/api/v1/reports", "api.get"},
		{"POST", "/api/v1/reports/7", "report"},
		{"POST", "/api/v1/report", "api"},
		{"HEAD", "/files/a", "files.head"},
		{"GET", "/files/a", "files.get"},
		{"PUT", "/files/a", "files"},
		{"M-SEARCH", "/files/a", "files"},
		{"GET", "/b%C3%BCcher/1", "books"},
		{"GET", "/bücher/1", "books"},
	} {
		if got := operation(t, h, f, tc.method, tc.uri); got != tc.want {
			t.Errorf("%s %s takes %s, want %s", tc.method, tc.uri, got, tc.want)
		}
	}
}

func TestFoldedCase(t *testing.T) {
	f := newFake()
	h := newHandler(t, f, ruleSet(), true)
	for uri, want := range map[string]string{"/ADMIN": "admin", "/aDm%49n/x": "admin", "/BÜCHER": "books", "/\u212Aey": "cheap"} {
		if got := operation(t, h, f, "GET", uri); got != want {
			t.Errorf("%s takes %s, want %s", uri, got, want)
		}
	}
}

// Paths by which somebody might reach /admin under another rule.
func TestBypassesAreRefused(t *testing.T) {
	f := newFake()
	h := newHandler(t, f, ruleSet(), false)
	for _, uri := range []string{
		"/api/../admin", "/api/%2e%2e/admin", "/api/.%2E/admin", "/api/..%2fadmin", "/api%2f..%2fadmin", "/api/%252e%252e/admin",
		"/api/%25252e%25252e/admin", "/api/..;/admin", "/api/..;x=1/admin", "/api/..%3b/admin", "/./admin", "/%2e/admin", "/.;/admin", "/..",
		"/api/x/../../admin", "//admin", "///admin", "//admin//x", "/;/admin", "/admin;x=1", "/admin;", "/admin%3bx", "/admin%3Bx/y",
		"/%2fadmin", "/%2Fadmin", "/admin%2fx", "/admin%2F", "/x%2f..%2fadmin", `/\admin`, `/x\..\admin`, "/%5cadmin", "/api/..%5cadmin", "/%255cadmin",
		"/%2561dmin", "/%25%36%31dmin", "/admin%00", "/admin%0a", "/admin%7f", "/admin\x01", "/admin%3fx", "/admin%23x", "/x#/../admin",
		"/%", "/%6", "/%6g", "/admin%", "/%u0061dmin", "/%c0%ae%c0%ae/admin", "/%c1%a1dmin", "/%ff", "*", "", "admin", "http://x/admin", "?/admin",
		"/%2525252525252e",
	} {
		if got := operation(t, h, f, "GET", uri); got != "-" {
			t.Errorf("%q takes %s, want it refused", uri, got)
		}
	}
	// The same forms are fine where no rule could be meant but the one that is taken.
	for uri, want := range map[string]string{
		"/admin//x": "admin", "/admin/x;y=1": "admin", "/admin/a%2fb": "admin", "/files/group%2Fname/x": "files.get", "/files//": "files.get",
		"/files/%2561": "files.get", "/x/y//z": "cheap", "/files/100%25": "files.get", "/files/...": "files.get", "/files/.well-known": "files.get",
		"/api//v1/reports": "api.get", // the rule below it is for POST
	} {
		if got := operation(t, h, f, "GET", uri); got != want {
			t.Errorf("%q takes %s, want %s", uri, got, want)
		}
	}
	if got := operation(t, h, f, "POST", "/api//v1/reports"); got != "-" {
		t.Errorf("a POST below /api takes %s, want it refused", got)
	}
}

// FuzzReadings holds that whichever way a service reads a path, the rule that was
// taken is the one for that reading.
func FuzzReadings(f *testing.F) {
	for _, uri := range []string{
		"/api/../admin", "/a;b%2fc/admin", "/api/%252e%252e/admin", "//admin", "/files/a%2fb;c//d?x", "/admin;/..;/x", "/;%2f/%61dmin/.", "/x%2f%2fadmin/",
		"/%2525%36%31dmin", "/b%C3%BCcher", "/api/v1;x/reports", "/api//v1%2freports",
	} {
		f.Add("POST", uri)
		f.Add("HEAD", uri)
	}
	f.Fuzz(func(t *testing.T, method, uri string) {
		asked := newFake()
		h := newHandler(t, asked, ruleSet(), false)
		taken := operation(t, h, asked, method, uri)
		if taken == "-" {
			return
		}
		raw, _, _ := strings.Cut(uri, "?")
		for _, decodings := range []int{1, 2, 3} {
			for _, stripFirst := range []bool{true, false} {
				for _, strip := range []bool{true, false} {
					for _, clean := range []bool{true, false} {
						reading := raw
						if strip && stripFirst {
							reading = stripped(reading)
						}
						for range decodings {
							reading = decoded(reading)
						}
						if strip {
							reading = stripped(reading)
						}
						if clean {
							reading = path.Clean("/" + strings.ReplaceAll(reading, `\`, "/"))
						}
						if want := simplest(method, reading); want != taken {
							t.Errorf("%s %q takes %s, and a service that reads %q (%d decodings) needs %s", method, uri, taken, reading, decodings, want)
						}
					}
				}
			}
		}
	})
}

// stripped removes path parameters.
func stripped(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return strings.Join(segments, "/")
}

// decoded undoes one encoding.
func decoded(p string) string {
	var out strings.Builder
	for i := 0; i < len(p); i++ {
		if p[i] == '%' && i+2 < len(p) {
			if c, err := hex.DecodeString(p[i+1 : i+3]); err == nil {
				out.Write(c)
				i += 2
				continue
			}
		}
		out.WriteByte(p[i])
	}
	return out.String()
}

// simplest is the rule for a path that has one reading: the longest prefix, and of
// equal ones the closest method.
func simplest(method, p string) string {
	best, taken := -1, ""
	for _, r := range ruleSet() {
		score := len(strings.TrimRight(r.Path, "/")) * 4
		switch {
		case p != r.Path && !strings.HasPrefix(p, strings.TrimRight(r.Path, "/")+"/"):
			continue
		case r.Method == method:
			score += 2
		case r.Method == http.MethodGet && method == http.MethodHead:
			score++
		case r.Method != "":
			continue
		}
		if score > best {
			best, taken = score, r.Operation
		}
	}
	return taken
}

func TestConfigFaults(t *testing.T) {
	rule := forwardauth.Rule{Path: "/a", Operation: "o"}
	for _, tc := range []struct {
		name   string
		change func(*forwardauth.Config)
		want   string
	}{
		{"none", func(*forwardauth.Config) {}, ""},
		{"no decider", func(c *forwardauth.Config) { c.Decider = nil }, "forwardauth: there is no decider"},
		{"no proxies", func(c *forwardauth.Config) { c.Proxies = nil }, "forwardauth: no proxy is trusted: name the addresses of those that may ask"},
		{"no account", func(c *forwardauth.Config) { c.AccountHeader = "" },
			"forwardauth: no account header: name the one that the proxy puts the verified account into, or allow anonymous requests"},
		{"a header that is none", func(c *forwardauth.Config) { c.AccountHeader = "X Account" },
			`forwardauth: account header "X Account" is no name of a header that can be read: want one such as X-Account`},
		{"the host", func(c *forwardauth.Config) { c.AccountHeader = "host" },
			`forwardauth: account header "host" is no name of a header that can be read: want one such as X-Account`},
		{"one header for two things", func(c *forwardauth.Config) { c.CostHeader = "x-account" },
			"forwardauth: account header and cost header are both X-Account: want two headers"},
		{"no operation", func(c *forwardauth.Config) { c.Rules = nil }, "forwardauth: want exactly one of an operation, an operation header and rules"},
		{"two ways", func(c *forwardauth.Config) { c.Operation = "o" }, "forwardauth: want exactly one of an operation, an operation header and rules"},
		{"unmatched", func(c *forwardauth.Config) { c.Unmatched = "pass" }, `forwardauth: unmatched is "pass": want deny or allow`},
		{"unmatched by a fixed one", func(c *forwardauth.Config) { c.Rules, c.Operation, c.Unmatched = nil, "o", "allow" },
			"forwardauth: unmatched is allow, but a fixed operation matches everything: leave it out"},
		{"an empty operation", func(c *forwardauth.Config) { c.Rules = []forwardauth.Rule{{Path: "/"}} }, "forwardauth: rule 1: operation: must have 1 to 128 bytes, has 0"},
		{"a method", func(c *forwardauth.Config) {
			c.Rules = []forwardauth.Rule{{Path: "/", Method: "get", Operation: "o"}}
		},
			`forwardauth: rule 1: method "get" is not in upper-case letters`},
		{"the same rule", func(c *forwardauth.Config) { c.Rules = []forwardauth.Rule{rule, rule} },
			"forwardauth: rule 2: covers the same method and path as rule 1: remove one"},
		{"the same rule in other letters", func(c *forwardauth.Config) {
			c.FoldCase, c.Rules = true, []forwardauth.Rule{rule, {Path: "/A", Operation: "o"}}
		}, "forwardauth: rule 2: covers the same method and path as rule 1: remove one"},
		{"a negative cost", func(c *forwardauth.Config) {
			c.Rules = []forwardauth.Rule{{Path: "/", Operation: "o", Cost: decision.Tokens(-1)}}
		},
			"forwardauth: rule 1: the cost is -1: want 0 or more"},
		{"too many rules", func(c *forwardauth.Config) { c.Rules = manyRules(1001) }, "forwardauth: there are 1001 rules: want at most 1000"},
		{"a policy name", func(c *forwardauth.Config) { c.Answers.PolicyName = "ü" },
			"forwardauth: the policy name is not printable ASCII, which is all that a structured field can carry"},
	} {
		cfg := forwardauth.Config{Decider: newFake(), Proxies: loopback, AccountHeader: "X-Account", Rules: []forwardauth.Rule{rule}}
		tc.change(&cfg)
		_, err := forwardauth.New(cfg)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func manyRules(n int) []forwardauth.Rule {
	rules := make([]forwardauth.Rule, n)
	for i := range rules {
		rules[i] = forwardauth.Rule{Path: "/" + strings.Repeat("a", i+1), Operation: "o"}
	}
	return rules
}

func TestRulePaths(t *testing.T) {
	for p, want := range map[string]string{
		"":        `path "" does not begin with a slash: want "/" or one such as /api/reports`,
		"api":     `path "api" does not begin with a slash: want "/" or one such as /api/reports`,
		"/api/":   `path "/api/" ends with a slash, and covers what is below it without one: want "/" or one such as /api/reports`,
		"/a//b":   `path "/a//b" can be read in two ways: want "/" or one such as /api/reports`,
		"/a;b":    `path "/a;b" can be read in two ways: want "/" or one such as /api/reports`,
		"/a/../b": `path "/a/../b" has a dot segment: want "/" or one such as /api/reports`,
		"/a%62":   `path "/a%62" has an escape or a query: want "/" or one such as /api/reports`,
		"/a?b":    `path "/a?b" has an escape or a query: want "/" or one such as /api/reports`,
		`/a\b`:    `path "/a\\b" has a backslash: want "/" or one such as /api/reports`,
	} {
		_, err := forwardauth.New(forwardauth.Config{
			Decider: newFake(), Proxies: loopback, AccountHeader: "X-Account", Rules: []forwardauth.Rule{{Path: p, Operation: "o"}},
		})
		if err == nil || err.Error() != "forwardauth: rule 1: "+want {
			t.Errorf("%q: %v, want %s", p, err, want)
		}
	}
}
