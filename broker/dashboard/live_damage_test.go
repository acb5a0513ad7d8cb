package dashboard_test

import (
	"testing"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// damageGrant stores something that is no record among the grants of a holder, and
// returns its key.
func (l *live) damageGrant(of lease.Holder) string {
	l.t.Helper()
	key := record.NewLayout("").GrantsOf(0, of) + "1/damaged"
	if _, err := l.store.Txn(l.t.Context(), store.Txn{Then: []store.Op{{Kind: store.OpPut, Key: key, Value: []byte("{")}}}); err != nil {
		l.t.Fatal(err)
	}
	return key
}

// TestRetirePastDamage: records that cannot be used are told before a retirement, and
// it says that they are what is left to do.
func TestRetirePastDamage(t *testing.T) {
	l := newLive(t)
	l.join("eu", "limiter-0").take(operation, 15, "acme")
	b := newTab(t, 1280)
	b.open(l.ui("#/holders"))
	b.waitText("#content", "limiter-0")
	key := l.damageGrant(lease.Holder{Region: "eu", Instance: "limiter-0"})
	b.click(`button[aria-label="Retire eu/limiter-0…"]`)
	b.waitText("dialog", "1 unreadable record is in the way: what they hold stays reserved until they are mended. See tokenlease verify.")
	b.requireText("dialog", key)
	b.write("#dialog-because", "the rack is gone")
	b.write("#dialog-by", "ann")
	b.write("#dialog-name", "eu/limiter-0")
	b.click("#dialog-force")
	b.click("#dialog-submit")
	b.waitText("#dialog-fault", "Not all of it is done: the epoch is fenced, but not all of its grants are resolved (1 are by this request)")
	b.requireText("#dialog-fault", key)
	if len(l.audited("holders.retire")) != 1 || l.budget("acme", operation).GetReservedTokens() != 0 {
		t.Error("what could be resolved is not")
	}
}

// TestHoldersPastDamage: what can be read is shown, below what cannot, and sums say that
// they are too low.
func TestHoldersPastDamage(t *testing.T) {
	l := newLive(t)
	l.join("eu", "limiter-0").take(operation, 15, "acme")
	key := l.damageGrant(lease.Holder{Region: "eu", Instance: "limiter-0"})
	b := newTab(t, 1280)
	b.open(l.ui("#/holders"))
	const words = "1 record cannot be read: figures here are too low by what it holds, which stays reserved until it is mended. See tokenlease verify."
	for _, view := range []string{"holders", "holder?region=eu&instance=limiter-0", "grants"} {
		b.view("#/" + view)
		b.waitText("#content", words)
		b.requireText("#content", key)
		b.requireText("#content", "15")
		if !eval[bool](b, `document.querySelector("#content [data-key=unusable]").compareDocumentPosition(document.querySelector("#content table")) === Node.DOCUMENT_POSITION_FOLLOWING`) {
			t.Errorf("%s: not above the table", view)
		}
	}
	b.waitText("#cluster", "Held at least 15 in 1 grant")
	b.requireText("#cluster", "Unknown none that can be read")
	b.view("#/policies")
	b.waitText("#content", "1 record cannot be read, so more may be behind or above its cap than is told.")
	b.requireText("#content", "whether a budget has more out than its cap is not known")
	b.view("#/budgets")
	b.waitText("#content", "acme")
	if eval[bool](b, `document.querySelector("#content [data-key=unusable]") !== null`) {
		t.Error("budgets tell of a grant that none of them lists")
	}
}
