package dashboard_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// screenshotsTo is the environment variable that names a directory for pictures of
// the page, to be looked at by people. Without it none are made.
const screenshotsTo = "TOKENLEASE_SCREENSHOTS"

func TestScreenshots(t *testing.T) {
	dir := os.Getenv(screenshotsTo)
	if dir == "" {
		t.Skipf("set %s to a directory to have pictures of the page written there", screenshotsTo)
	}
	views := []struct{ name, hash, ready string }{
		{"budgets", "#/budgets", `document.querySelector("tbody tr")`},
		{"busiest", "#/budgets?order=busiest", `document.querySelector("tbody tr")`},
		{"budget", "#/budget?account=account-0000&operation=report.create", `document.querySelector(".chart")`},
		{"grants", "#/grants", `document.querySelector("tbody tr")`},
		{"grant", "#/grant?id=g1-000-000003f3", `document.querySelector("tbody tr")`},
		{"holders", "#/holders", `document.querySelector("tbody tr")`},
		{"policies", "#/policies", `document.querySelector(".history")`},
		{"accounts", "#/accounts", `document.querySelector("tbody tr")`},
		{"account", "#/account?name=account-0001", `document.querySelector("tbody tr")`},
		{"holder", "#/holder?region=eu-west&instance=limiter-0", `document.querySelector("tbody tr")`},
		{"audit", "#/audit", `document.querySelector("tbody tr")`},
		{"shards", "#/shards", `document.querySelector("tbody tr")`},
	}
	for _, budgets := range []int{3, 2000} {
		w := newWorld(budgets)
		w.unusable = []string{"the record at /tokenlease/shards/3/grants/ap-south/limiter-1/3/acme/report.create cannot be read: unexpected end of JSON input"}
		s := newServer(t, w)
		for _, width := range []int64{1280, 400} {
			for _, theme := range []string{"light", "dark"} {
				b := newTab(t, width)
				b.open(s.ui(""))
				eval[bool](b, fmt.Sprintf(`(localStorage.setItem("tokenlease.theme", %s), true)`, quote(quote(theme))))
				b.do(chromedp.Reload())
				for _, view := range views {
					if budgets > 3 && view.name != "budgets" && view.name != "grants" {
						continue
					}
					b.view(view.hash)
					b.wait(`document.querySelector("#cluster .item") && ` + view.ready)
					if view.name == "policies" {
						eval[bool](b, `[...document.querySelectorAll("details")].every((d) => (d.open = true))`)
					}
					b.shoot(filepath.Join(dir, fmt.Sprintf("%s-%d-%d-%s.png", view.name, budgets, width, theme)))
				}
				if budgets > 3 {
					continue
				}
				b.view("#/holders")
				b.click(`button[aria-label="Retire ap-south/limiter-1…"]`)
				b.waitText("dialog", "Counts as spent")
				b.shoot(filepath.Join(dir, fmt.Sprintf("retire-%d-%d-%s.png", budgets, width, theme)))
				b.keys("\x1b")
				b.view("#/policies")
				b.click(`button[aria-label="Roll back to version 16…"]`)
				b.waitText("dialog", "1 warning")
				b.shoot(filepath.Join(dir, fmt.Sprintf("rollback-%d-%d-%s.png", budgets, width, theme)))
				b.keys("\x1b")
				b.view("#/shards")
				b.click(`button[aria-label="Move shard 5…"]`)
				b.waitText("dialog", "choose …")
				b.shoot(filepath.Join(dir, fmt.Sprintf("move-%d-%d-%s.png", budgets, width, theme)))
			}
		}
	}
}

// shoot writes a picture of the whole page.
func (b *tab) shoot(path string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(path, picture, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
