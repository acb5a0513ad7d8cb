package dashboard_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds every wait of these tests; none of them waits for time to pass.
const patience = 60 * time.Second

// chromium is the browser that these tests share. It is started by the first that
// needs it, and stopped by TestMain.
var chromium struct {
	once sync.Once
	ctx  context.Context //nolint:containedctx // the life of the browser
	stop func()
	err  error
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	os.Exit(code)
}

// findChromium is the browser to test in, or none.
func findChromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// startChromium starts the browser; stop ends it.
func startChromium(path string) (ctx context.Context, stop func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.WindowSize(1280, 900),
		// For the test of a name that somebody else points at the broker.
		chromedp.Flag("host-resolver-rules", "MAP rebound.example 127.0.0.1"),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root cannot have
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	stop = func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		stopAllocator()
	}
	return ctx, stop, chromedp.Do(ctx)
}

// tab is a window of the browser with a profile of its own.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // the life of the window

	mu     sync.Mutex
	faults []string // what a person would find in the console
}

// newTab opens an empty window of the given width. At the end the test fails if the
// page has logged an error, thrown, shown a dialog of script, or broken its content
// security policy.
func newTab(t *testing.T, width int64) *tab {
	t.Helper()
	path := findChromium()
	if path == "" {
		t.Skip("no browser to test the page in: install Chromium, such as with `apt-get install chromium`, so that chromium or google-chrome is in PATH")
	}
	chromium.once.Do(func() {
		chromium.ctx, chromium.stop, chromium.err = startChromium(path) //nolint:fatcontext // once
	})
	if chromium.err != nil {
		t.Fatalf("%s does not start: %v", path, chromium.err)
	}
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.faults) > 0 {
			t.Errorf("the console has:\n%s", strings.Join(b.faults, "\n"))
		}
	})
	if err := chromedp.Do(ctx); err != nil { // opens the window, which lives until cancel
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, b.notice); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(width, 900))
	return b
}

// notice keeps what must not be.
func (b *tab) notice(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = fmt.Sprintf("exception: %s %v", e.ExceptionDetails.Text, text(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			fault = "console: " + text(e.Args)
		}
	case *log.EventEntryAdded:
		// Answers that are errors are logged as well; tests look at what comes of
		// them.
		if e.Entry.Source != log.EntrySourceNetwork && (e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning) {
			fault = fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text)
		}
	case *page.EventJavascriptDialogOpening:
		fault = fmt.Sprintf("dialog of script: %s", e.Message)
	}
	if fault != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.faults = append(b.faults, fault)
	}
}

func text(v any) string {
	all, err := json.Marshal(v)
	return string(all) + errorText(err)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// forgive takes the faults out that a test has provoked.
func (b *tab) forgive() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.faults
	b.faults = nil
	return faults
}

// do runs actions.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// open goes to a URL, as typed into the address field.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// eval is the value of a JavaScript expression, which may be a promise. It is run as
// from the browser's tools, which the page's policy does not bind.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := tryEval[T](b, expression)
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func tryEval[T any](b *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// wait returns once the expression is true.
func (b *tab) wait(expression string) {
	b.t.Helper()
	const until = `new Promise((resolve) => { const look = () => { let is = false; try { is = Boolean(%s) } catch {} is ? resolve(true) : (window.realTimeout ?? setTimeout)(look, 20) }; look() })`
	_, err := tryEval[bool](b, fmt.Sprintf(until, expression))
	for err != nil && strings.Contains(err.Error(), "navigated") { // to a page where it may be so
		_, err = tryEval[bool](b, fmt.Sprintf(until, expression))
	}
	if err != nil {
		seen, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText`))
		b.t.Fatalf("waited in vain for %s: %v; the page has:\n%.2000s\nand the console %v", expression, err, seen, b.forgive())
	}
}

// waitText waits until what is shown of an element contains the text.
func (b *tab) waitText(selector, want string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.querySelector(%s).innerText.includes(%s)", quote(selector), quote(want)))
}

// text is what is shown of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%s).innerText", quote(selector)))
}

// view goes to another view of the page, as a link does, and returns once its data is
// there.
func (b *tab) view(hash string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`new Promise((resolve) => {
		if (location.hash === %[1]s) { resolve(true); return; }
		addEventListener("hashchange", () => resolve(true), { once: true }); // after the page's own
		location.hash = %[1]s;
	})`, quote(hash)))
	b.wait(`!document.querySelector("#content").hasAttribute("aria-busy")`)
}

// click clicks the first element, once it is there, where a person would.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.querySelector(%s)", quote(selector)))
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// keys presses keys, for whatever has the focus.
func (b *tab) keys(keys string, modifiers ...chromedp.Modifier) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(modifiers...)))
}

// write types into a field, in place of what it has.
func (b *tab) write(selector, words string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.querySelector(%s)", quote(selector)))
	eval[bool](b, fmt.Sprintf("(document.querySelector(%[1]s).focus(), document.querySelector(%[1]s).select(), true)", quote(selector)))
	b.keys(words)
}

// requireText checks what is shown of an element.
func (b *tab) requireText(selector, want string) {
	b.t.Helper()
	if got := b.text(selector); !strings.Contains(got, want) {
		b.t.Errorf("%s shows %q, want %q in it", selector, got, want)
	}
}

// quote writes a text for JavaScript and for CSS.
func quote(s string) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		return errorText(err)
	}
	return strings.TrimSpace(text.String())
}
