package dashboard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// manualTime replaces the page's timers by ones that the test fires, and counts what
// the page asks for.
const manualTime = `
window.realTimeout = setTimeout;
window.timers = new Map();
let lastTimer = 0;
window.setTimeout = (run, after) => { timers.set(++lastTimer, { run, after }); return lastTimer; };
window.clearTimeout = (id) => { timers.delete(id); };
window.fire = () => { const due = [...timers.values()]; timers.clear(); for (const t of due) t.run(); return due.length; };
window.asked = [];
const ask = window.fetch;
window.fetch = (url, ...rest) => { asked.push(String(url).split('/').at(-1)); return ask(url, ...rest); };
`

// before runs a script in each page before its own.
func (b *tab) before(script string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// prefer sets what the system prefers.
func (b *tab) prefer(name, value string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: name, Value: value}}})
		return err
	}))
}

// TestPauseAndPace: the page asks again a second after an answer at the earliest, and
// not at all while it is paused.
func TestPauseAndPace(t *testing.T) {
	s := newServer(t, newWorld(3))
	b := newTab(t, 1280)
	b.before(manualTime)
	b.open(s.ui("#/budgets"))
	const settled = `timers.size === 2 && document.querySelector("#cluster .item") && !document.querySelector("#content").hasAttribute("aria-busy")`
	b.wait(settled)
	asks := func() []string { return eval[[]string](b, `asked.splice(0)`) }
	first := asks()
	slices.Sort(first)
	if want := "ListBudgets ListHolders ListShards ShowCluster WhoAmI"; strings.Join(first, " ") != want {
		t.Errorf("at first the page has asked for %v, want %s", first, want)
	}
	for range 3 {
		if soonest := eval[float64](b, `Math.min(...[...timers.values()].map((t) => t.after))`); soonest < 1000 {
			t.Errorf("the page asks again after %v ms, want 1,000 at least", soonest)
		}
		eval[int](b, `fire()`)
		b.wait(settled)
		if n := strings.Count(strings.Join(asks(), " "), "ListBudgets"); n != 1 {
			t.Errorf("one round has asked for the budgets %d times", n)
		}
	}

	b.click("#pause")
	b.requireText("#status", "paused")
	if pressed := eval[string](b, `document.querySelector("#pause").getAttribute("aria-pressed")`); pressed != "true" {
		t.Errorf("the button is pressed: %s, want true", pressed)
	}
	for range 3 {
		eval[int](b, `fire()`)
	}
	if got := asks(); len(got) > 0 {
		t.Errorf("paused, the page has asked for %v", got)
	}
	// What is looked up meanwhile is asked for once.
	eval[bool](b, `(location.hash = "#/shards", true)`)
	b.waitText("#content", "broker-1")
	eval[int](b, `fire()`)
	if got := strings.Join(asks(), " "); got != "ListShards ShowCluster" {
		t.Errorf("paused, another view has asked for %q, want once", got)
	}
	b.click("#pause")
	b.waitText("#status", "live")
	if got := asks(); !slices.Contains(got, "ListShards") {
		t.Errorf("resumed, the page has asked for %v, want the view at once", got)
	}
}

// TestStale: when the broker is gone, what is shown stays and is marked as old.
func TestStale(t *testing.T) {
	s := newServer(t, newWorld(3))
	b := newTab(t, 1280)
	b.open(s.ui("#/budgets"))
	b.waitText("#content", "account-0001")
	b.waitText("#status", "live")
	s.down.Store(true)
	b.waitText("#status", "stale")
	b.requireText("#alert", "No answer: the broker cannot be reached. What is shown is of ")
	b.requireText("#content", "account-0001")
	b.requireText("#cluster", "5f2c81a0")
	if !eval[bool](b, `document.querySelector("main").classList.contains("stale")`) {
		t.Error("what is shown is not marked")
	}
	// Another view has nothing to show, and says so.
	eval[bool](b, `(location.hash = "#/shards", true)`)
	b.waitText("#content", "No answer yet.")
	s.down.Store(false)
	b.waitText("#content", "broker-2")
	b.waitText("#status", "live")
	if alert := b.text("#alert"); alert != "" {
		t.Errorf("it still says %q", alert)
	}
}

// TestAlarms: what nobody should overlook is on every view.
func TestAlarms(t *testing.T) {
	w := newWorld(3)
	w.alarms = []string{"NOSPACE"}
	w.who.CertificateExpiresUnixMs, w.who.ServerCertificateExpiresUnixMs = ago(-6*time.Hour-90*time.Second), ago(-36*time.Hour-30*time.Minute)
	w.shards[3].BrokerId, w.shards[11].BrokerId = "", ""
	s := newServer(t, w)
	b := newTab(t, 1280)
	b.open(s.ui("#/audit"))
	b.waitText("#alert", "etcd has raised NOSPACE.")
	b.requireText("#alert", "2 shards without owner: their budgets grant nothing until a broker takes over. 3, 11")
	b.requireText("#cluster", "2 of 16 without owner")
	b.requireText("#cluster", "1,215 in 2 grants")
	b.requireText("#alert", "The broker’s certificate ends in 1 d 12 h: renew it")
	b.requireText("#cluster", "certificate ends in 6 h 1 min")
}

// TestViewerSeesNoButtons: what the caller may not do is not offered.
func TestViewerSeesNoButtons(t *testing.T) {
	w := newWorld(3)
	w.who.Roles = []string{"viewer"}
	w.who.Methods = slices.DeleteFunc(slices.Clone(operators), func(method string) bool {
		return !strings.HasPrefix(method, "List") && !strings.HasPrefix(method, "Show") && method != "WhoAmI"
	})
	s := newServer(t, w)
	b := newTab(t, 1280)
	b.open(s.ui("#/holders"))
	buttons := func() string {
		return eval[string](b, `[...document.querySelectorAll("main button")].map((b) => b.innerText).join(" ")`)
	}
	for _, view := range []struct{ hash, ready string }{{"#/holders", "limiter-1"}, {"#/grants", "g1-000"}, {"#/policies", "17 apply by bob"}, {"#/shards", "broker-2"}, {"#/accounts", "account-0001"}, {"#/account?name=account-0001", "this account alone"}, {"#/holder?region=eu-west&instance=limiter-0", "g1-001"}} {
		b.view(view.hash)
		b.waitText("#content", view.ready)
		b.waitText("#cluster", "ann@example.com (viewer)")
		if got := buttons(); got != "" {
			t.Errorf("%s offers %q, want nothing", view.hash, got)
		}
	}
	b.open(newServer(t, newWorld(3)).ui("#/holders")) // of an operator
	b.waitText("#content", "Retire…")
}

// TestKeyboard goes through the page by keyboard alone.
func TestKeyboard(t *testing.T) {
	s := newServer(t, newWorld(3))
	b := newTab(t, 1280)
	b.open(s.ui("#/budgets"))
	b.waitText("#content", "account-0001")
	b.waitText("#cluster", "ann@example.com")
	focus := func() string {
		return eval[string](b, `(document.activeElement.getAttribute("aria-label") || document.activeElement.innerText || document.activeElement.id || document.activeElement.tagName).replace(/\s+/g, " ")`)
	}
	tabTo := func(want string) {
		t.Helper()
		for range 60 {
			b.keys("\t")
			if strings.HasPrefix(focus(), want) {
				if !eval[bool](b, `document.activeElement.matches(":focus-visible") && getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
					t.Errorf("the focus on %s cannot be seen", want)
				}
				return
			}
		}
		t.Fatalf("no way to %q by tab: the last was %q", want, focus())
	}
	b.keys("\t")
	if got := focus(); got != "Skip to the content" {
		t.Fatalf("the first tab leads to %q, want the way to the content", got)
	}
	b.keys("\r")
	if got := eval[string](b, `document.activeElement.id + location.hash`); got != "main#/budgets" {
		t.Errorf("skipping leads to %s, want main of the same view", got)
	}
	tabTo("account-0001")
	b.keys("\r")
	b.waitText("h1", "account-0001")
	b.wait(`document.activeElement.id === "main"`)

	eval[bool](b, `(document.activeElement.blur(), scrollTo(0, 0), true)`)
	tabTo("Holders")
	b.keys("\r")
	b.waitText("#content", "limiter-1")
	tabTo("Retire us-east/limiter-0")
	// Updates leave the focus where it is.
	s.asked()
	b.wait(`document.activeElement.innerText === "Retire…"`)
	s.waitAsked(t, tokenleasev1connect.AdminListHoldersProcedure, 3)
	if got := focus(); got != "Retire us-east/limiter-0…" {
		t.Errorf("after updates the focus is on %q", got)
	}
	b.keys("\r")
	b.wait(`document.querySelector("dialog[open]")`)
	if got := eval[string](b, `document.activeElement.id`); got != "dialog-because" {
		t.Errorf("the dialog begins at %q, want the reason", got)
	}
	for range 12 { // around, and never to what is behind
		b.keys("\t")
		if !eval[bool](b, `document.activeElement === document.body || document.querySelector("dialog").contains(document.activeElement)`) {
			t.Errorf("the focus has left the dialog, to %q", focus())
		}
	}
	b.keys("\x1b")
	b.wait(`!document.querySelector("dialog")`)
	if got := focus(); got != "Retire us-east/limiter-0…" {
		t.Errorf("the dialog leaves the focus on %q, want where it began", got)
	}
}

// TestThemes: the system's theme, until another is chosen, which is remembered; and
// no motion for those who want none.
func TestThemes(t *testing.T) {
	s := newServer(t, newWorld(3))
	b := newTab(t, 1280)
	b.prefer("prefers-color-scheme", "dark")
	b.open(s.ui("#/budgets"))
	b.waitText("#content", "account-0001")
	const brightness = `getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).reduce((a, c) => a + Number(c), 0) / 3`
	requireBright := func(want bool) {
		t.Helper()
		if got := eval[float64](b, brightness); (got > 127) != want {
			t.Errorf("the page's brightness is %v, want bright: %t", got, want)
		}
	}
	requireBright(false)
	b.requireText("#theme", "Light")
	b.click("#theme")
	requireBright(true)
	b.do(chromedp.Reload())
	b.waitText("#theme", "Dark")
	requireBright(true)
	b.prefer("prefers-reduced-motion", "reduce")
	if moves := eval[string](b, `(document.querySelector("#content").setAttribute("aria-busy", "true"), getComputedStyle(document.querySelector("#content")).transitionProperty)`); moves != "none" {
		t.Errorf("what is busy moves by %s, want not at all", moves)
	}
}

// TestLayout: no view is wider than the screen, a phone's included.
func TestLayout(t *testing.T) {
	w := newWorld(12)
	w.budgets[0].Key.Account = strings.Repeat("long-", 51)
	w.audit[0].Because = strings.Repeat("because", 100)
	s := newServer(t, w)
	for _, width := range []int64{400, 1280} {
		b := newTab(t, width)
		b.open(s.ui("#/budgets"))
		for _, view := range []struct{ hash, ready string }{
			{"#/budgets", "tbody tr"},
			{"#/budgets?order=starved", "tbody tr"},
			{"#/budget?account=account-0003&operation=answer.tokens", ".chart"},
			{"#/budget?account=" + w.budgets[0].GetKey().GetAccount() + "&operation=report.create", ".chart"},
			{"#/grants", "tbody tr"},
			{"#/grant?id=g1-001-000003f3", "tbody tr"},
			{"#/holders", "tbody tr"},
			{"#/holder?region=ap-south&instance=limiter-1", "tbody tr"},
			{"#/policies", ".history"},
			{"#/accounts", "tbody tr"},
			{"#/account?name=account-0001", "tbody tr"},
			{"#/account?name=" + w.budgets[0].GetKey().GetAccount(), "tbody tr"},
			{"#/audit", "tbody tr"},
			{"#/shards", "tbody tr"},
		} {
			b.view(view.hash)
			b.wait(fmt.Sprintf(`document.querySelector(%s)`, quote(view.ready)))
			if got := eval[int64](b, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("%.60s is %d wide, want %d", view.hash, got, width)
			}
			if got := eval[int64](b, `Math.min(9999, ...[...document.querySelectorAll("tbody .bar")].map((bar) => bar.clientWidth))`); width == 400 && got < 330 {
				t.Errorf("%.60s has a bar of %d, want the width of the screen", view.hash, got)
			}
			if got := eval[int64](b, `Math.max(0, ...[...document.querySelectorAll("td.tight button")].map((act) => Math.ceil(act.getBoundingClientRect().right)))`); got > width {
				t.Errorf("%.60s has a button at %d, want it within %d", view.hash, got, width)
			}
			if got := eval[string](b, `[...document.querySelectorAll("main table")].filter((t) => !t.querySelector("caption")?.textContent).length + " " + [...document.querySelectorAll("main input, main select, main button")].filter((i) => !i.labels?.length && !i.ariaLabel && !i.innerText).length`); got != "0 0" {
				t.Errorf("%.60s has tables without captions and fields without labels: %s", view.hash, got)
			}
		}
	}
}

// TestTwoThousandBudgets: a page of them comes from the broker at a time, and the
// browser stays free for the person before it.
func TestTwoThousandBudgets(t *testing.T) {
	l := newLive(t)
	var accounts []string
	for i := range 2010 {
		accounts = append(accounts, fmt.Sprintf("account-%04d", i))
	}
	if got := l.join("eu", "limiter-0").take(operation, 15, accounts...); got != 30150 {
		t.Fatalf("granted %d, want 30,150", got)
	}
	b := newTab(t, 1280)
	b.before(`window.longest = 0; new PerformanceObserver((list) => { for (const task of list.getEntries()) longest = Math.max(longest, task.duration); }).observe({ entryTypes: ["longtask"] });`)
	b.open(l.ui("#/budgets?size=500"))
	names := `[...document.querySelectorAll("tbody tr bdi:first-child")].map((n) => n.innerText)`
	seen := map[string]bool{}
	first := ""
	for page := range 5 {
		want := min(500, 2010-500*page)
		b.wait(fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d && document.querySelector("tbody tr").dataset.key !== %s`, want, quote(first)))
		first = eval[string](b, `document.querySelector("tbody tr").dataset.key`)
		for _, name := range eval[[]string](b, names) {
			seen[name] = true
		}
		b.requireText(".pager", fmt.Sprintf("%d budgets on this page", want))
		if page < 4 {
			b.click(`a[data-step="next"]`)
		}
	}
	if n := eval[int](b, `document.querySelectorAll('a[data-step="next"]').length`); n != 0 {
		t.Error("there is a page after the last")
	}
	count := 0
	for _, account := range accounts {
		if seen[account] {
			count++
		}
	}
	if count != 2010 {
		t.Errorf("five pages of 500 have shown %d of 2,010 budgets", count)
	}
	b.click(`a[data-step="previous"]`)
	b.wait(`document.querySelector('a[data-step="next"]') && document.querySelectorAll("tbody tr").length === 500`)
	b.write("#controls input[type=search]", "account-1234")
	b.wait(`document.querySelectorAll("tbody tr").length === 1 && document.querySelector("tbody").innerText.includes("account-1234")`)
	longest := eval[float64](b, `longest`)
	t.Logf("the longest time that the browser was busy: %.0f ms", longest)
	if longest > 3000 {
		t.Errorf("the browser was busy for %.0f ms at a time", longest)
	}
}
