package broker

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tokenlease/tokenlease/broker/dashboard"
	"github.com/tokenlease/tokenlease/proto/edge"
)

// BenchmarkPageAmongManyGrants is how long a person waits for each view of the page at a
// broker with 100,000 grants on etcd, from the click to the first row, and for how long at a
// time the page does not react while a view is open and updates itself. It needs a browser.
func BenchmarkPageAmongManyGrants(b *testing.B) {
	ctx := browser(b)
	s := newSite(b, etcd(b).Store(), 16)
	s.ctx = b.Context()
	n := s.serve("a")
	n.apply(bucket(1_000_000, 0))
	s.fill(n, 1000, 100)
	page, err := dashboard.New(dashboard.Config{Path: "/ui/"})
	if err != nil {
		b.Fatal(err)
	}
	mux := http.NewServeMux()
	n.Mount(mux, edge.Options())
	page.Mount(mux)
	server := httptest.NewServer(mux)
	b.Cleanup(server.Close)

	if err := chromedp.Do(ctx, chromedp.Navigate(server.URL+"/ui/")); err != nil {
		b.Fatal(err)
	}
	const show = `(async (hash) => {
		const until = async (is) => { while (!is()) await new Promise((next) => setTimeout(next, 2)) };
		const content = () => document.querySelector("#content");
		await until(() => content() && document.querySelector("#cluster .item"));
		location.hash = "#/shards";
		await until(() => !content().hasAttribute("aria-busy") && content().querySelector("tbody tr"));
		let longest = 0;
		const watch = new PerformanceObserver((list) => { for (const e of list.getEntries()) longest = Math.max(longest, e.duration) });
		watch.observe({entryTypes: ["longtask"]});
		const begun = performance.now();
		const shown = new Promise((next) => addEventListener("hashchange", next, {once: true}));
		location.hash = hash;
		await shown;
		await until(() => !content().hasAttribute("aria-busy") && content().querySelector("tbody tr, .chart"));
		const ready = performance.now() - begun;
		await new Promise((next) => setTimeout(next, 3000)); // in which the view updates itself
		watch.disconnect();
		return [ready, longest];
	})`
	for name, hash := range map[string]string{
		"budgets": "#/budgets", "search": "#/budgets?search=account-99", "budget": "#/budget?account=account-99&operation=" + operation,
		"grants": "#/grants", "orphaned": "#/grants?state=orphaned", "holders": "#/holders", "holder": "#/holder?region=region-4&instance=limiter-999",
	} {
		b.Run(name, func(b *testing.B) {
			var ready, stall float64
			for range b.N {
				took, err := pageDo[[]float64](ctx, fmt.Sprintf("%s(%q)", show, hash))
				if err != nil {
					b.Fatal(err)
				}
				ready, stall = ready+took[0], max(stall, took[1])
			}
			b.ReportMetric(ready/float64(b.N), "ms-to-rows")
			b.ReportMetric(stall, "ms-longest-stall")
		})
	}
}

// pageDo is the value of an expression in the page.
func pageDo[T any](ctx context.Context, expression string) (T, error) {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return chromedp.Run(limited, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// browser is a headless Chromium.
func browser(b *testing.B) context.Context {
	b.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		b.Skip("no browser: install Chromium, such as with `apt-get install chromium`")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1280, 900))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	b.Cleanup(stopAllocator)
	ctx, cancel := chromedp.NewContext(allocator)
	b.Cleanup(cancel)
	return ctx
}
