package dashboard_test

import (
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// TestRefusals: what the broker refuses is told in its words, nothing is said to be
// done, and what was filled in stays, to be sent again or to be left.
func TestRefusals(t *testing.T) {
	w := newWorld(3)
	s := newServer(t, w)
	b := newTab(t, 1280)
	b.open(s.ui("#/policies"))
	// The role was taken away after the page had asked what it may do.
	b.click(`button[aria-label="Roll back to version 16…"]`)
	b.waitText("dialog", "plan premium, search is removed while its budgets have 4000 tokens out")
	b.requireText("dialog", "1 warning")
	b.requireText("dialog .changes", "plan premium → plan free")
	b.requireText("dialog .changes", "weaker than proof: deadline 30s + 15s")
	b.requireText("dialog .facts", "345")
	b.write("#dialog-because", "too tight")
	b.click("#dialog-submit")
	b.waitText("#dialog-fault", "Refused: to roll back takes the role operator")
	if got := eval[string](b, `document.querySelector("#dialog-because").value`); got != "too tight" {
		t.Errorf("the reason is %q after a refusal", got)
	}
	b.keys("\x1b")
	b.wait(`!document.querySelector("dialog")`)

	b.view("#/shards")
	b.click(`button[aria-label="Move shard 3…"]`)
	b.waitText("dialog", "by the cluster")
	b.write("#dialog-because", "a new disk")
	eval[bool](b, `(document.querySelector("#dialog-to").focus(), true)`)
	b.keys("broker-2")
	b.click("#dialog-submit")
	b.waitText("#dialog-fault", `Refused: no such broker is live: "broker-2"`)
	b.wait(`!document.querySelector("#dialog-submit").disabled`)
	if got := eval[string](b, `document.querySelector("#dialog-to").value`); got != "to broker-2" {
		t.Errorf("after a refusal %q is chosen", got)
	}
	// A move that takes its time is no refusal.
	eval[bool](b, `(document.querySelector("#dialog-to").focus(), true)`)
	b.keys("broker-1")
	b.click("#dialog-submit")
	b.waitText("#dialog-done", "broker-1 does not own shard 3 yet. The move goes on, and the list tells; until then it belongs to broker-0.")
	if calls := s.asked(); !strings.Contains(strings.Join(calls, "\n"), tokenleasev1connect.AdminMoveShardProcedure+" 200") {
		t.Errorf("it was not asked for: %v", calls)
	}
}

// TestRoundTrip: each holder's is told, and so is that one is not known.
func TestRoundTrip(t *testing.T) {
	s := newServer(t, newWorld(3))
	b := newTab(t, 1280)
	b.open(s.ui("#/holders"))
	b.waitText("#content", "us-east")
	const column = `[...document.querySelectorAll('td[data-label="Round trip"]')].map((c) => c.innerText).join(", ")`
	if got := eval[string](b, column); got != "unknown, 1.2 ms, 12 ms, 14 ms, 25 ms, 26 ms" {
		t.Errorf("round trips are %q", got)
	}
	b.view("#/holder?region=us-east&instance=limiter-1")
	b.waitText(".facts", "26 ms")
}
