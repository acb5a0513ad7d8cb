package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestCrossOriginRefused: a site that an operator looks at cannot act through the
// operator's browser, nor read, nor show the page as its own.
func TestCrossOriginRefused(t *testing.T) {
	l := newLive(t)
	if got := l.join("eu", "limiter-0").take(operation, 15, "acme"); got != 15 {
		t.Fatalf("granted %d, want 15", got)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>another site</title><p>hello")
	}))
	defer other.Close()
	b := newTab(t, 1280)
	const retire = "/tokenlease.v1.Admin/RetireHolder"
	request := `{"holder":{"region":"eu","instance":"limiter-0"},"epoch":"1","attestedBy":"mallory","because":"no reason","force":true}`
	// Another port of this host, and another site altogether.
	for _, site := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "rebound.example", 1)} {
		b.open(site)
		b.waitText("p", "hello")
		l.asked()
		for name, options := range map[string]string{
			"JSON":         `{method: "POST", headers: {"Content-Type": "application/json"}, body: %s}`,
			"simple":       `{method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: %s}`,
			"without type": `{method: "POST", mode: "no-cors", body: new Blob([%s])}`,
		} {
			got := eval[string](b, fmt.Sprintf(`fetch(%s, `+options+`).then((r) => r.type + " " + r.status, (e) => e.name)`, quote(l.URL+retire), quote(request)))
			if got != "TypeError" && got != "opaque 0" {
				t.Errorf("%s from %s: %s, want nothing that can be read", name, site, got)
			}
		}
		if got := eval[string](b, fmt.Sprintf(`new Promise((resolve) => { const s = document.createElement("script"); s.type = "module"; s.src = %s; s.onload = () => resolve("loaded"); s.onerror = () => resolve("refused"); document.head.append(s) })`, quote(l.ui("api.js")))); got != "refused" {
			t.Errorf("a module of the page at %s: %s, want it refused", site, got)
		}
		if got := eval[string](b, fmt.Sprintf(`new Promise((resolve) => { const f = document.createElement("iframe"); f.src = %s; f.onload = () => { try { resolve(f.contentDocument ? "open" : "closed") } catch { resolve("closed") } }; document.body.append(f) })`, quote(l.ui("")))); got != "closed" {
			t.Errorf("a frame of the page at %s is %s, want it closed", site, got)
		}
		for _, call := range l.asked() {
			if !strings.HasSuffix(call, " 403") && !strings.HasPrefix(call, "OPTIONS ") {
				t.Errorf("%s has %s, want every request refused", site, call)
			}
		}
		// A form is not asked about by the browser beforehand, and shows the answer.
		eval[bool](b, fmt.Sprintf(`(() => { const f = document.createElement("form"); f.method = "post"; f.enctype = "text/plain"; f.action = %s; document.body.append(f); f.submit(); return true })()`, quote(l.URL+retire)))
		b.wait(`document.body.innerText.includes("cross-origin request")`)
		if calls := l.asked(); !slices.Contains(calls, "POST "+retire+" 403") {
			t.Errorf("the form of %s has %v, want 403", site, calls)
		}
	}
	if l.holder("eu", "limiter-0").GetRetired() || l.budget("acme", operation).GetReservedTokens() != 15 {
		t.Error("another site has retired the holder")
	}
	b.forgive() // the browser says what it has refused
}

// TestReboundNameRefused: a name that somebody points at the broker makes a page of
// that name of the same origin; it gets nothing all the same.
func TestReboundNameRefused(t *testing.T) {
	l := newLive(t)
	b := newTab(t, 1280)
	b.open(strings.Replace(l.ui(""), "127.0.0.1", "rebound.example", 1))
	b.waitText("body", `"rebound.example" is not a name of this server`)
	const who = "/tokenlease.v1.Admin/WhoAmI"
	got := eval[string](b, fmt.Sprintf(`fetch(%s, {method: "POST", headers: {"Content-Type": "application/json"}, body: "{}"}).then((r) => r.text().then((t) => r.status + " " + t), (e) => e.name)`, quote(who)))
	if !strings.HasPrefix(got, `403 "rebound.example" is not a name of this server`) {
		t.Errorf("asked from that name: %.200s, want 403", got)
	}
	if calls := l.asked(); !slices.Contains(calls, "POST "+who+" 403") {
		t.Errorf("the broker has answered %v, want 403", calls)
	}
	// What is read without any header that names the page.
	for _, headers := range []string{`{}`, `{"User-Agent": "curl/8", "Accept-Language": "", "Accept": "text/plain"}`} {
		got = eval[string](b, fmt.Sprintf(`fetch("/metrics", {referrerPolicy: "no-referrer", headers: %s}).then((r) => r.text().then((t) => r.status + " " + t), (e) => e.name)`, headers))
		if !strings.HasPrefix(got, `403 "rebound.example" is not a name of this server`) {
			t.Errorf("read from that name with %s: %.200s, want 403", headers, got)
		}
	}
	b.forgive()
}
