package dashboard_test

import (
	"testing"
)

// TestOlderBroker: whatever the broker does not have, the page says so and goes on.
func TestOlderBroker(t *testing.T) {
	s := newServer(t, empty{})
	b := newTab(t, 1280)
	b.open(s.ui(""))
	for _, view := range []string{"budgets", "budgets?order=busiest", "budget?account=a&operation=o", "grants", "grant?id=g1-000-00000001", "holders", "holder?region=eu&instance=limiter-0", "policies", "accounts", "account?name=a", "audit", "shards"} {
		b.view("#/" + view)
		b.waitText("#content", "This broker does not have that view yet.")
		b.requireText("#status", "live")
	}
}
