package dashboard_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/broker/dashboard"
)

// ask is one request to a handler.
func ask(t testing.TB, handler http.Handler, method, target string, header ...string) *http.Response {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	req.Host = "127.0.0.1:7600"
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, req)
	return answer.Result()
}

func newHandler(t testing.TB, cfg dashboard.Config) *dashboard.Handler {
	t.Helper()
	h, err := dashboard.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func body(t testing.TB, resp *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestFiles(t *testing.T) {
	h := newHandler(t, dashboard.Config{})
	tests := []struct{ path, kind, part string }{
		{"/ui/", "text/html; charset=utf-8", "<!doctype html>"},
		{"/ui/index.html", "text/html; charset=utf-8", "<!doctype html>"},
		{"/ui/app.js", "text/javascript; charset=utf-8", "import"},
		{"/ui/views/accounts.js", "text/javascript; charset=utf-8", "export const accounts"},
		{"/ui/views/budgets.js", "text/javascript; charset=utf-8", "export const budgets"},
		{"/ui/style.css", "text/css; charset=utf-8", ":root"},
		{"/ui/icon.svg", "image/svg+xml", "<svg"},
	}
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			resp := ask(t, h, http.MethodGet, test.path)
			if text := body(t, resp); resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != test.kind || !strings.Contains(text, test.part) {
				t.Errorf("answer %d %s %.40q, want 200 %s with %q", resp.StatusCode, resp.Header.Get("Content-Type"), text, test.kind, test.part)
			}
			head := ask(t, h, http.MethodHead, test.path)
			if text := body(t, head); head.StatusCode != http.StatusOK || text != "" || head.Header.Get("ETag") != resp.Header.Get("ETag") {
				t.Errorf("HEAD: %d with %d bytes, want 200 without a body and the same tag", head.StatusCode, len(text))
			}
		})
	}
}

func TestUnknownFiles(t *testing.T) {
	h := newHandler(t, dashboard.Config{})
	for _, path := range []string{"/ui/nothing.js", "/ui/views/", "/ui/views", "/ui/../ui/app.js", "/ui//app.js", "/ui/page/app.js", "/ui/%2e%2e/handler.go", "/other/app.js", "/app.js"} {
		resp := ask(t, h, http.MethodGet, path)
		if text := body(t, resp); resp.StatusCode != http.StatusNotFound || text != "no such file: the page is at /ui/\n" {
			t.Errorf("%s: answer %d %q, want 404", path, resp.StatusCode, text)
		}
		requireSecure(t, resp)
	}
}

func TestMethods(t *testing.T) {
	h := newHandler(t, dashboard.Config{})
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "BREW"} {
		resp := ask(t, h, method, "/ui/")
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: answer %d, allowed %q, want 405", method, resp.StatusCode, resp.Header.Get("Allow"))
		}
		requireSecure(t, resp)
	}
}

// requireSecure checks what every answer says to browsers.
func requireSecure(t testing.TB, resp *http.Response) {
	t.Helper()
	want := map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
			"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
	}
	for name, value := range want {
		if got := resp.Header.Values(name); len(got) != 1 || got[0] != value {
			t.Errorf("status %d has %s %q, want %q", resp.StatusCode, name, got, value)
		}
	}
	if origin := resp.Header.Get("Access-Control-Allow-Origin"); origin != "" {
		t.Errorf("status %d is shared with %q, want with nobody", resp.StatusCode, origin)
	}
}

func TestHeadersAndCaching(t *testing.T) {
	h := newHandler(t, dashboard.Config{})
	resp := ask(t, h, http.MethodGet, "/ui/app.js")
	requireSecure(t, resp)
	tag := resp.Header.Get("ETag")
	if !regexp.MustCompile(`^"[0-9a-f]{32}"$`).MatchString(tag) || resp.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("tag %q, cache control %q, want a hash in quotes, and no-cache", tag, resp.Header.Get("Cache-Control"))
	}
	again := ask(t, h, http.MethodGet, "/ui/app.js", "If-None-Match", tag)
	if text := body(t, again); again.StatusCode != http.StatusNotModified || text != "" {
		t.Errorf("the same tag: answer %d with %d bytes, want 304 without a body", again.StatusCode, len(text))
	}
	requireSecure(t, again)
	if other := ask(t, h, http.MethodGet, "/ui/app.js", "If-None-Match", `"0"`); other.StatusCode != http.StatusOK {
		t.Errorf("another tag: answer %d, want 200", other.StatusCode)
	}
	if refused := ask(t, h, http.MethodGet, "/ui/nothing"); refused.Header.Get("Cache-Control") != "no-store" || refused.Header.Get("ETag") != "" {
		t.Errorf("404 has cache control %q and tag %q, want no-store and none", refused.Header.Get("Cache-Control"), refused.Header.Get("ETag"))
	}
	if html := ask(t, h, http.MethodGet, "/ui/"); html.Header.Get("ETag") == tag {
		t.Error("two files have one tag")
	}
}

// TestNothingInline: the policy would block it, and the page would be broken.
func TestNothingInline(t *testing.T) {
	h := newHandler(t, dashboard.Config{})
	html := body(t, ask(t, h, http.MethodGet, "/ui/"))
	for _, inline := range []string{`<style`, ` style=`, ` onclick=`, ` onload=`, `javascript:`, `http:`, `https:`, `{{`} {
		if strings.Contains(html, inline) {
			t.Errorf("index.html has %q", inline)
		}
	}
	for _, script := range regexp.MustCompile(`<script[^>]*>[^<]*`).FindAllString(html, -1) {
		if !strings.Contains(script, `src="`) || !strings.HasSuffix(script, ">") {
			t.Errorf("index.html has the script %q, want files only", script)
		}
	}
}

func TestPaths(t *testing.T) {
	tests := []struct{ path, root, fault string }{
		{path: "/ui/", root: "../"},
		{path: "/ops/tokenlease/", root: "../../"},
		{path: "/a.b_c-D9/", root: "../"},
		{path: "ui/", fault: `the dashboard's path "ui/" must begin and end with a slash, as /ui/ does`},
		{path: "/ui", fault: `the dashboard's path "/ui" must begin and end with a slash, as /ui/ does`},
		{path: "/", fault: `the dashboard's path must not be /, where the services are: choose one such as /ui/`},
		{path: "/tokenlease.v1.Admin/", fault: `the dashboard's path must not be /tokenlease.v1.Admin/, where the services are: choose one such as /ui/`},
		{path: "/grpc.health.v1.Health/", fault: `the dashboard's path must not be /grpc.health.v1.Health/, where the services are: choose one such as /ui/`},
		{path: "//ui/", fault: `the dashboard's path "//ui/" must be of letters, digits, '.', '_' and '-' between slashes`},
		{path: "/../ui/", fault: `the dashboard's path "/../ui/" must be of letters, digits, '.', '_' and '-' between slashes`},
		{path: "/{x}/", fault: `the dashboard's path "/{x}/" must be of letters, digits, '.', '_' and '-' between slashes`},
		{path: "/u i/", fault: `the dashboard's path "/u i/" must be of letters, digits, '.', '_' and '-' between slashes`},
	}
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			h, err := dashboard.New(dashboard.Config{Path: test.path})
			if test.fault != "" {
				if err == nil || err.Error() != test.fault {
					t.Fatalf("error %v, want %s", err, test.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			mux := http.NewServeMux()
			h.Mount(mux)
			html := body(t, ask(t, mux, http.MethodGet, test.path))
			if want := `<meta name="root" content="` + test.root + `">`; !strings.Contains(html, want) {
				t.Errorf("the page does not have %s", want)
			}
			if resp := ask(t, mux, http.MethodGet, strings.TrimSuffix(test.path, "/")); resp.Header.Get("Location") != test.path {
				t.Errorf("without the slash: %d to %q, want a redirect to %s", resp.StatusCode, resp.Header.Get("Location"), test.path)
			}
			if resp := ask(t, mux, http.MethodGet, "/"); resp.StatusCode != http.StatusFound || resp.Header.Get("Location") != test.path[1:] {
				t.Errorf("the root: %d to %q, want a redirect to %s", resp.StatusCode, resp.Header.Get("Location"), test.path[1:])
			}
			if resp := ask(t, mux, http.MethodGet, "/nothing"); resp.StatusCode != http.StatusNotFound {
				t.Errorf("another path: %d, want 404", resp.StatusCode)
			}
		})
	}
}

// TestPageOfOthers: a person may follow a link to the page; another site may not
// load parts of it, or frame it.
func TestPageOfOthers(t *testing.T) {
	h := newHandler(t, dashboard.Config{Names: []string{"broker.example"}})
	tests := []struct {
		name   string
		header []string
		want   int
	}{
		{"no browser", nil, http.StatusOK},
		{"typed", []string{"Sec-Fetch-Site", "none"}, http.StatusOK},
		{"own module", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "script"}, http.StatusOK},
		{"link elsewhere", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, http.StatusOK},
		{"script elsewhere", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}, http.StatusForbidden},
		{"script of another port", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}, http.StatusForbidden},
		{"frame elsewhere", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, http.StatusForbidden},
		{"name of another", []string{"Host", "rebound.example:7600"}, http.StatusForbidden},
		{"name of its own", []string{"Host", "Broker.example.:7600"}, http.StatusOK},
		{"localhost", []string{"Host", "localhost:7600"}, http.StatusOK},
		{"localhost elsewhere", []string{"Host", "localhost.example:7600"}, http.StatusForbidden},
		{"IPv6", []string{"Host", "[::1]:7600"}, http.StatusOK},
		{"IPv6 without a port", []string{"Host", "[::1]"}, http.StatusOK},
		{"almost an address", []string{"Host", "127.0.0.1.example"}, http.StatusForbidden},
		{"no name", []string{"Host", ""}, http.StatusForbidden},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resp := ask(t, h, http.MethodGet, "/ui/app.js", test.header...)
			if resp.StatusCode != test.want {
				t.Errorf("answer %d, want %d", resp.StatusCode, test.want)
			}
			requireSecure(t, resp)
		})
	}
	resp := ask(t, h, http.MethodGet, "/ui/", "Host", "rebound.example:7600")
	want := `"rebound.example" is not a name of this server: use its IP address or localhost, or add the name with --dashboard-names of a broker` + "\n"
	if text := body(t, resp); text != want {
		t.Errorf("refused with %q, want %q", text, want)
	}
}

func TestGuard(t *testing.T) {
	reached := false
	guard := dashboard.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }), "broker.example")
	tests := []struct {
		name, method string
		header       []string
		passes       bool
	}{
		{"a client", http.MethodPost, nil, true},
		{"a client by any name", http.MethodPost, []string{"Host", "tokenlease.internal:7600"}, true},
		{"the page", http.MethodPost, []string{"Origin", "http://127.0.0.1:7600", "Sec-Fetch-Site", "same-origin"}, true},
		{"the page in an old browser", http.MethodPost, []string{"Origin", "http://127.0.0.1:7600"}, true},
		{"the page by the broker's name", http.MethodPost, []string{"Host", "broker.example:7600", "Origin", "http://broker.example:7600"}, true},
		{"another site", http.MethodPost, []string{"Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site"}, false},
		{"another port", http.MethodPost, []string{"Origin", "http://127.0.0.1:9000", "Sec-Fetch-Site", "same-site"}, false},
		{"another site in an old browser", http.MethodPost, []string{"Origin", "https://elsewhere.example"}, false},
		{"a sandboxed frame", http.MethodPost, []string{"Origin", "null"}, false},
		{"a rebound name", http.MethodPost, []string{"Host", "rebound.example:7600", "Origin", "http://rebound.example:7600"}, false},
		{"a rebound name, said to be of its own", http.MethodPost, []string{"Host", "rebound.example:7600", "Sec-Fetch-Site", "same-origin"}, false},
		{"a rebound name that deletes", http.MethodDelete, []string{"Host", "rebound.example", "Sec-Fetch-Site", "same-origin"}, false},
		{"a question before a request of another site", http.MethodOptions, []string{"Origin", "https://elsewhere.example"}, true},
		{"reading", http.MethodGet, []string{"Sec-Fetch-Site", "same-origin"}, true},
		{"reading by the broker's name", http.MethodGet, []string{"Host", "broker.example:7600", "Accept-Language", "en", "User-Agent", "Mozilla/5.0"}, true},
		{"reading by a rebound name", http.MethodGet, []string{"Host", "rebound.example", "Sec-Fetch-Site", "same-origin"}, false},
		{"reading by a rebound name, of a page in clear text", http.MethodGet, []string{"Host", "rebound.example:7600", "User-Agent", "Mozilla/5.0"}, false},
		{"the same of a page that says to be something else", http.MethodGet, []string{"Host", "rebound.example:7600", "User-Agent", "curl/8", "Accept-Language", ""}, false},
		{"asking for the size", http.MethodHead, []string{"Host", "rebound.example:7600", "User-Agent", "Mozilla/5.0"}, false},
		{"a scraper by any name", http.MethodGet, []string{"Host", "tokenlease.internal:7600", "User-Agent", "Prometheus/3.1.0", "Accept-Encoding", "gzip"}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reached = false
			resp := ask(t, guard, test.method, "/tokenlease.v1.Admin/RetireHolder", test.header...)
			if reached != test.passes || !test.passes && resp.StatusCode != http.StatusForbidden {
				t.Errorf("reached %t with answer %d, want %t", reached, resp.StatusCode, test.passes)
			}
		})
	}
}

// TestGuardOverTLS: a name that the certificate has proven is not checked again.
func TestGuardOverTLS(t *testing.T) {
	reached := false
	guard := dashboard.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/tokenlease.v1.Admin/RetireHolder", nil)
	req.Host, req.TLS = "broker.example", &tls.ConnectionState{}
	req.Header.Set("Origin", "https://broker.example")
	guard.ServeHTTP(httptest.NewRecorder(), req)
	if !reached {
		t.Error("refused a name that the certificate has proven")
	}
}
