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
		{"audit", "#/audit", `document.querySelector("tbody tr")`},
		{"shards", "#/shards", `document.querySelector("tbody tr")`},
	}
	for _, budgets := range []int{3, 2000} {
		s := newServer(t, newWorld(budgets))
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
