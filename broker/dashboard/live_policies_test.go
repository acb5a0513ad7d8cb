package dashboard_test

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// TestDeadlineIsToldEverywhere: every view of a budget whose credit comes back without
// proof says so, and none of another does.
func TestDeadlineIsToldEverywhere(t *testing.T) {
	l := newLive(t)
	l.change(&pb.ApplyPoliciesRequest{Policies: []*pb.Policy{withDeadline(quota("search", 40))}})
	eu, us := l.join("eu", "limiter-0"), l.join("us", "limiter-0")
	for _, op := range []string{"search", operation} {
		if got := eu.take(op, 40, "acme"); got != 40 {
			t.Fatalf("granted %d, want 40", got)
		}
	}
	id := map[string]string{}
	for _, op := range []string{"search", operation} {
		id[op] = l.budget("acme", op).GetGrants()[0].GetGrantId()
	}
	b := newTab(t, 1280)
	b.open(l.ui("#/policies"))
	row := func(name string) string {
		t.Helper()
		return eval[string](b, fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].filter((r) => r.innerText.includes(%s)).map((r) => r.innerText).join(" ")`, quote(name)))
	}
	for _, view := range []struct{ hash, weak, proven, says string }{
		{"#/budgets?order=starved", "search", operation, "weaker than proof: deadline"},
		{"#/budgets", "search", operation, "weaker than proof: deadline 30s + 15s"},
		{"#/policies", "search", operation, "weaker than proof: deadline 30s + 15s"},
		{"#/policies", "search", operation, "by clocks"},
		{"#/account?name=acme", "search", operation, "weaker than proof: deadline 30s + 15s"},
		{"#/grants", id["search"], id[operation], "45s after the newest request about its budget"},
		{"#/holder?region=eu&instance=limiter-0", id["search"], id[operation], "45s after the newest request about its budget"},
	} {
		if got := us.take("search", 20, "acme") + us.take(operation, 20, "acme"); got != 0 { // both are starved
			t.Fatalf("granted %d, want none", got)
		}
		b.view(view.hash)
		b.waitText("#content", view.weak)
		b.waitText("#content", view.proven)
		if got := row(view.weak); !strings.Contains(got, view.says) {
			t.Errorf("%s: the row of %s is %q, want %q in it", view.hash, view.weak, got, view.says)
		}
		if got := row(view.proven); got == "" || strings.Contains(got, view.says) {
			t.Errorf("%s: the row of %s is %q, want it without %q", view.hash, view.proven, got, view.says)
		}
	}
	for hash, says := range map[string][]string{
		"#/budget?account=acme&operation=search": {"weaker than proof: deadline 30s + 15s", "nothing has shown that it did", "by clocks", "deadline, margin 15s: weaker than proof", "45s after the newest request about its budget"},
		"#/grant?id=" + id["search"]:             {"45s after the newest request about its budget", "weaker than proof"},
	} {
		b.view(hash)
		for _, words := range says {
			b.waitText("#content", words)
		}
	}
	for hash, ready := range map[string]string{"#/budget?account=acme&operation=" + operation: "Reclaim", "#/grant?id=" + id[operation]: "Lapses"} {
		b.view(hash)
		b.waitText("#content", ready)
		if got := b.text("#content"); strings.Contains(got, "weaker") || strings.Contains(got, "after the newest request about its budget") {
			t.Errorf("%s says of a budget under proof: %q", hash, got)
		}
	}
}

// inForce is the capacity that rules an operation for everybody, and the policy version.
func (l *live) inForce(operation string) (capacity, version int64) {
	l.t.Helper()
	resp, err := l.admin.ListPolicies(l.t.Context(), connect.NewRequest(&pb.ListPoliciesRequest{}))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, p := range resp.Msg.GetPolicies() {
		if p.GetOperation() == operation {
			capacity = p.GetTokenBucket().GetCapacityTokens()
		}
	}
	return capacity, resp.Msg.GetVersion()
}

// TestRollback goes back to an earlier version: what would change is shown first, a
// reason is asked for, and what has changed meanwhile is not rolled back unseen.
func TestRollback(t *testing.T) {
	l := newLive(t) // version 1: 40
	weak := withDeadline(quota(operation, 30))
	l.change(&pb.ApplyPoliciesRequest{Policies: []*pb.Policy{weak, quota("search", 7)}})
	if got := l.join("eu", "limiter-0").take(operation, 15, "acme"); got != 15 {
		t.Fatalf("granted %d, want 15", got)
	}
	b := newTab(t, 1280)
	b.open(l.ui("#/policies"))
	b.click(".history summary")
	b.waitText(".history", "token-bucket.capacity 40 → 30")
	b.requireText(".history", "reclaim proof → deadline")
	if why := eval[string](b, `document.querySelector('button[aria-label="Roll back to version 2…"]').title`); why != "It is in force." {
		t.Errorf("to roll back to what is in force is kept off by %q", why)
	}
	b.click(`button[aria-label="Roll back to version 1…"]`)
	b.waitText("dialog", "token-bucket.capacity 30 → 40")
	for _, want := range []string{"reclaim deadline → proof", "max-staleness 30s → none", "policy search", "removed", "1 live budget", "version 2", "What an operator has disabled stays disabled."} {
		b.requireText("dialog", want)
	}
	if capacity, version := l.inForce(operation); capacity != 30 || version != 2 {
		t.Fatalf("the preview has put %d in force at version %d", capacity, version)
	}
	disabled := func() bool { return eval[bool](b, `document.querySelector("#dialog-submit").disabled`) }
	b.write("#dialog-by", "ann")
	if !disabled() {
		t.Error("it can be rolled back without a reason")
	}
	b.write("#dialog-because", "too tight, ticket 4711")

	// Somebody else changes something before it is sent.
	l.apply("search", 8)
	b.click("#dialog-submit")
	b.waitText("#dialog-fault", "Refused: broker: the policies have changed: version 3 is in force, and the request is for version 2")
	b.waitText("dialog .facts", "version 3")
	if capacity, _ := l.inForce(operation); capacity != 30 {
		t.Fatalf("it was rolled back unseen: %d", capacity)
	}
	b.wait(`!document.querySelector("#dialog-submit").disabled`)
	b.click("#dialog-submit")
	b.waitText("#dialog-done", "What was in force at version 1 is in force again, as version 4: 2 changes.")
	if capacity, version := l.inForce(operation); capacity != 40 || version != 4 {
		t.Errorf("in force are %d at version %d, want 40 at 4", capacity, version)
	}
	if entries := l.audited("policies.rollback"); len(entries) != 1 || entries[0].GetBy() != "ann" || entries[0].GetBecause() != "too tight, ticket 4711" {
		t.Errorf("the record is %v", entries)
	}
	b.click("#dialog-close")
	b.waitText(".history", "rollback to 1 by ann")

	// Once more there is nothing to do, so nothing can be sent.
	b.click(`button[aria-label="Roll back to version 1…"]`)
	b.waitText("#dialog-fault", "What was in force at version 1 is in force now.")
	b.write("#dialog-because", "again")
	if !disabled() {
		t.Error("nothing can be rolled back to")
	}
}

// TestAccounts: a page of them comes from the broker at a time, they are found by how
// their names begin, and each tells what rules its operations.
func TestAccounts(t *testing.T) {
	l := newLive(t)
	free := &pb.Plan{Name: "free", Policies: []*pb.Policy{quota("search", 5)}}
	l.change(&pb.ApplyPoliciesRequest{Plans: []*pb.Plan{free, {Name: "premium", Policies: []*pb.Policy{quota("search", 500)}}}, DefaultPlan: new("free")})
	own := quota(operation, 99)
	l.change(&pb.ApplyPoliciesRequest{Accounts: []*pb.AccountPolicies{{Account: "zebra", Plan: "premium", Policies: []*pb.Policy{own}}, {Account: hostileNames[0], Plan: "premium"}, {Account: hostileNames[8], Plan: "premium"}}})
	var many []*pb.AccountPolicies
	for i := range 120 {
		many = append(many, &pb.AccountPolicies{Account: fmt.Sprintf("account-%03d", i), Plan: "free"})
	}
	l.change(&pb.ApplyPoliciesRequest{Accounts: many})
	if _, err := l.admin.DisableOperation(t.Context(), connect.NewRequest(&pb.DisableOperationRequest{Operation: "login", DisabledBy: "ann", Because: "abuse"})); err != nil {
		t.Fatal(err)
	}

	b := newTab(t, 1280)
	b.open(l.ui("#/accounts"))
	b.waitText(".pager", "100 accounts on this page, and more")
	b.requireText("tbody", hostileNames[0])
	b.click(`a[data-step="next"]`)
	b.waitText(".pager", "23 accounts on this page")
	b.requireText("tbody", "zebra")
	b.click(`a[data-step="previous"]`)
	b.waitText(".pager", "100 accounts")

	b.write("#controls input[type=search]", "account-01")
	b.wait(`document.querySelectorAll("tbody tr").length === 10`)
	if hash := eval[string](b, "location.hash"); hash != "#/accounts?prefix=account-01" {
		t.Errorf("the address is %s, want it to name the search", hash)
	}
	// One that has nothing of its own is ruled as well.
	b.write("#controls input[type=search]", "acme")
	b.waitText("#content", "No account with something of its own fits.")
	b.click("#content .note a")
	b.waitText("h1", "Account acme")
	rules := func() []string {
		t.Helper()
		return eval[[]string](b, `[...document.querySelectorAll("tbody tr")].map((r) => [...r.cells].slice(0, 4).map((c) => c.innerText).join(" | "))`)
	}
	requireRules := func(account, plan string, want ...string) {
		t.Helper()
		b.view("#/account?name=" + account)
		b.waitText(".facts", plan)
		if got := rules(); strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("%s is ruled by %q, want %q", account, got, want)
		}
	}
	requireRules("acme", "free by default", "login | none | disabled | ", "report.create | everybody | on | 40, no refill", "search | plan free | on | 5, no refill")
	requireRules("zebra", "premium", "login | none | disabled | ", "report.create | this account alone | on | 99, no refill", "search | plan premium | on | 500, no refill")

	// Whatever it is called.
	b.view("#/accounts?plan=premium")
	b.waitText("tbody", hostileNames[8])
	for _, name := range []string{hostileNames[0], hostileNames[8]} {
		b.view("#/accounts?plan=premium")
		b.wait(`document.querySelectorAll("tbody tr").length === 3`)
		eval[bool](b, fmt.Sprintf(`([...document.querySelectorAll("tbody a")].find((a) => a.innerText === %s).click(), true)`, quote(name)))
		b.waitText("h1", "Account "+name)
		b.waitText(".facts", "premium")
	}
	if n := eval[int](b, `document.querySelectorAll("main img, main script, main button").length`); n != 0 {
		t.Errorf("%d elements that do something, want none", n)
	}
}
