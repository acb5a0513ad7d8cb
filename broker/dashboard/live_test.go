package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/edge"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

const operation = "report.create"

// live is a broker over a store in memory, with the page.
type live struct {
	*server

	t      testing.TB
	store  store.Store
	broker *broker.Broker
	rpc    tokenleasev1connect.BrokerClient
	admin  tokenleasev1connect.AdminClient
}

// newLive starts a broker with the worked example in force: capacity 40, refill 0.
func newLive(t testing.TB) *live {
	t.Helper()
	l := join(t, store.NewMemory(), "broker-0")
	l.apply(operation, 40)
	return l
}

// join starts a broker of a cluster.
func join(t testing.TB, st store.Store, id string) *live {
	t.Helper()
	mux := http.NewServeMux()
	s := serve(t, mux)
	b, err := broker.New(t.Context(), broker.Config{
		Store: st, Shards: 4, ID: id, AdvertiseURL: s.URL, HTTPClient: s.Client(),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Mount(mux, edge.Options())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	l := &live{
		server: s, t: t, store: st, broker: b,
		rpc:   tokenleasev1connect.NewBrokerClient(s.Client(), s.URL),
		admin: tokenleasev1connect.NewAdminClient(s.Client(), s.URL),
	}
	within, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.WaitReady(within); err != nil {
		t.Fatal(err)
	}
	return l
}

// quota is a policy without refill.
func quota(operation string, capacity int64) *pb.Policy {
	return &pb.Policy{Operation: operation, DefaultCostTokens: 5, Rule: &pb.Policy_TokenBucket{TokenBucket: &pb.TokenBucket{CapacityTokens: capacity}}}
}

// apply puts a quota in force.
func (l *live) apply(operation string, capacity int64) {
	l.t.Helper()
	l.change(&pb.ApplyPoliciesRequest{Policies: []*pb.Policy{quota(operation, capacity)}})
}

// change puts policies in force.
func (l *live) change(req *pb.ApplyPoliciesRequest) {
	l.t.Helper()
	req.AppliedBy, req.Because = "ann", "test"
	if _, err := l.admin.ApplyPolicies(l.t.Context(), connect.NewRequest(req)); err != nil {
		l.t.Fatal(err)
	}
}

// audited are the entries of an action, newest first.
func (l *live) audited(action string) []*pb.AuditEntry {
	l.t.Helper()
	resp, err := l.admin.ListAudit(l.t.Context(), connect.NewRequest(&pb.ListAuditRequest{Action: action}))
	if err != nil {
		l.t.Fatal(err)
	}
	return resp.Msg.GetEntries()
}

// limiter is a holder as far as the broker knows one.
type limiter struct {
	l     *live
	name  *pb.Holder
	epoch uint64
	next  uint64
	heads map[uint32]int64
}

// join registers the first epoch of a holder.
func (l *live) join(region, instance string) *limiter {
	l.t.Helper()
	h := &limiter{l: l, name: &pb.Holder{Region: region, Instance: instance}, heads: map[uint32]int64{}}
	resp, err := l.rpc.Register(l.t.Context(), connect.NewRequest(&pb.RegisterRequest{Holder: h.name, StartNonce: strings.Repeat("nonce", 5)}))
	if err != nil {
		l.t.Fatal(err)
	}
	h.epoch = resp.Msg.GetCurrentEpoch()
	return h
}

// take asks for the same level of credit of each account's budget, and returns what
// was granted in all. A policy takes a moment to reach the shards, so it asks again
// while there is none.
func (h *limiter) take(operation string, tokens int64, accounts ...string) int64 {
	h.l.t.Helper()
	shards := map[uint32][]*pb.BudgetReport{}
	for _, account := range accounts {
		h.next++
		id := lease.ShardOf(lease.Key{Account: account, Operation: operation}, h.l.broker.Shards())
		shards[id] = append(shards[id], &pb.BudgetReport{
			Key: &pb.BudgetKey{Account: account, Operation: operation}, Sequence: h.next, WantTokens: tokens, NeedTokens: tokens,
			BoundNs: 1, // it holds nothing yet
		})
	}
	granted := int64(0)
	for id, reports := range shards {
		resp, err := h.l.rpc.Sync(h.l.t.Context(), connect.NewRequest(&pb.SyncRequest{
			ClusterId: h.l.broker.ClusterID(), Holder: h.name, Epoch: h.epoch, Shard: id, HighestHead: h.heads[id], Budgets: reports,
		}))
		if err != nil {
			h.l.t.Fatal(err)
		}
		h.heads[id] = resp.Msg.GetHead()
		var again []string
		for _, a := range resp.Msg.GetBudgets() {
			granted += a.GetIssuedTokens()
			if a.GetPolicy() == nil {
				again = append(again, a.GetKey().GetAccount())
			}
		}
		if len(again) > 0 {
			granted += h.take(operation, tokens, again...)
		}
	}
	return granted
}

// budget is a budget as the broker has it.
func (l *live) budget(account, operation string) *pb.Budget {
	l.t.Helper()
	resp, err := l.admin.ShowBudget(l.t.Context(), connect.NewRequest(&pb.ShowBudgetRequest{Key: &pb.BudgetKey{Account: account, Operation: operation}}))
	if err != nil {
		l.t.Fatal(err)
	}
	return resp.Msg.GetBudget()
}

// holder is a holder as the broker has it.
func (l *live) holder(region, instance string) *pb.HolderStatus {
	l.t.Helper()
	resp, err := l.admin.ShowHolder(l.t.Context(), connect.NewRequest(&pb.ShowHolderRequest{Holder: &pb.Holder{Region: region, Instance: instance}}))
	if err != nil {
		l.t.Fatal(err)
	}
	return resp.Msg.GetStatus()
}

// TestSearchAndBudget goes from the list to one budget and back.
func TestSearchAndBudget(t *testing.T) {
	l := newLive(t)
	eu, us := l.join("eu", "limiter-0"), l.join("us", "limiter-0")
	if got := eu.take(operation, 15, "acme", "zebra") + us.take(operation, 10, "acme"); got != 40 {
		t.Fatalf("granted %d, want 40", got)
	}
	b := newTab(t, 1280)
	b.open(l.ui(""))
	b.waitText("#content", "acme")
	b.waitText("#content", "zebra")

	b.write("#controls input[type=search]", "ACM")
	b.wait(`document.querySelectorAll("tbody tr").length === 1`)
	b.requireText("tbody", "acme")
	if hash := eval[string](b, "location.hash"); hash != "#/budgets?search=ACM" {
		t.Errorf("the address is %s, want it to name the search", hash)
	}
	if row := eval[[]string](b, `[...document.querySelectorAll("tbody td.number")].map((c) => c.innerText)`); strings.Join(row, " ") != "15 25 0 0 0 40" {
		t.Errorf("the row has %v, want available 15, held 25, unknown 0, recovering 0, debt 0, cap 40", row)
	}
	if label := eval[string](b, `document.querySelector(".bar").getAttribute("aria-label")`); label != "cap 40, available 15, held by eu 15, held by us 10" {
		t.Errorf("the bar says %q", label)
	}

	b.click("tbody a")
	b.waitText("h1", "acme")
	b.waitText("#content", "Grants")
	facts := eval[[]string](b, `[...document.querySelectorAll(".facts .figure")].map((f) => f.innerText.replace(/\s+/g, " "))`)
	for i, want := range []string{"Available 15 38 %", "Held by regions 25 63 %", "Unknown 0 0 %", "Recovering 0 0 %", "Debt 0 0 %", "Cap 40"} {
		if facts[i] != want {
			t.Errorf("the budget has %q, want %q", facts[i], want)
		}
	}
	b.requireText("#content", "40, no refill")
	b.requireText("#content", "everybody")
	if n := eval[int](b, `document.querySelectorAll("svg path.line").length`); n != 3 {
		t.Errorf("the history has %d lines, want available, held and unknown", n)
	}

	// The page follows the broker by itself.
	us.next++
	us.take(operation, 5, "zebra")
	eval[bool](b, `(history.back(), true)`)
	b.wait(`location.hash === "#/budgets?search=ACM" && document.querySelectorAll("tbody tr").length === 1`)
	if v := eval[string](b, `document.querySelector("#controls input").value`); v != "ACM" {
		t.Errorf("back at the list the search is %q, want ACM", v)
	}
	eu.take(operation, 20, "acme")
	b.wait(`document.querySelector("tbody").innerText.includes("10")`)
	b.wait(fmt.Sprintf(`document.querySelector(".bar").getAttribute("aria-label") === %q`, "cap 40, available 10, held by eu 20, held by us 10"))
}

// TestCase53RetireRefusedUnlessForced: the preview says what is attested, the broker
// refuses a holder that was heard a moment ago, and the page shows why and offers to
// force it.
func TestCase53RetireRefusedUnlessForced(t *testing.T) {
	l := newLive(t)
	if got := l.join("eu", "limiter-0").take(operation, 15, "acme", "zebra"); got != 30 {
		t.Fatalf("granted %d, want 30", got)
	}
	b := newTab(t, 1280)
	b.open(l.ui("#/holders"))
	b.click(`button[aria-label="Retire eu/limiter-0…"]`)
	b.waitText("dialog", "g1-")
	b.requireText("dialog", "You attest that no process of eu/limiter-0, epoch 1 or earlier, runs, or can ever resume.")
	facts := eval[string](b, `[...document.querySelectorAll("dialog .facts > div")].map((f) => f.innerText.replace(/\s+/g, " ")).join("; ")`)
	if want := "Grants 2; Counts as spent 30 tokens"; !strings.Contains(facts, want) || !strings.Contains(facts, "Cluster "+l.broker.ClusterID()) {
		t.Errorf("the preview has %q, want %q in it, and the cluster", facts, want)
	}

	// Nothing is done without reason, person and name.
	disabled := func() bool { return eval[bool](b, `document.querySelector("#dialog-submit").disabled`) }
	if !disabled() {
		t.Error("an empty dialog can be submitted")
	}
	b.write("#dialog-because", "the rack is gone")
	b.write("#dialog-by", "ann")
	b.write("#dialog-name", "eu/limiter-1")
	if !disabled() {
		t.Error("a dialog with the name of another holder can be submitted")
	}
	b.write("#dialog-name", "eu/limiter-0")
	b.click("#dialog-submit")
	b.waitText("#dialog-fault", "Refused:")
	refusal := b.text("#dialog-fault")
	t.Logf("the broker's reason: %s", refusal)
	_, err := l.admin.RetireHolder(t.Context(), connect.NewRequest(&pb.RetireHolderRequest{
		Holder: &pb.Holder{Region: "eu", Instance: "limiter-0"}, Epoch: 1, AttestedBy: "ann", Because: "the rack is gone",
	}))
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Fatalf("without force: %v, want failed precondition", err)
	}
	if l.holder("eu", "limiter-0").GetRetired() {
		t.Fatal("the holder is retired though it was refused")
	}

	b.wait(`!document.querySelector("#dialog-submit").disabled`)
	b.requireText("dialog .option", "heard")
	b.click("#dialog-force")
	b.click("#dialog-submit")
	b.waitText("#dialog-done", "eu/limiter-0 is retired, epoch 1 and before. 2 grants resolved: 30 tokens count as spent.")
	if !l.holder("eu", "limiter-0").GetRetired() || l.budget("acme", operation).GetReservedTokens() != 0 {
		t.Error("the holder is not retired, or still has something out")
	}
	b.click("#dialog-close")
	b.waitText("tbody", "retired")

	entries, err := l.admin.ListAudit(t.Context(), connect.NewRequest(&pb.ListAuditRequest{Action: "holders.retire"}))
	if err != nil || len(entries.Msg.GetEntries()) == 0 {
		t.Fatalf("no record of it: %v", err)
	}
	if e := entries.Msg.GetEntries()[0]; e.GetBy() != "ann" || e.GetBecause() != "the rack is gone" || !e.GetForced() {
		t.Errorf("the record is %v, want by ann, with the reason, forced", e)
	}
	b.open(l.ui("#/audit?action=holders.retire"))
	b.waitText("tbody", "the rack is gone")
	b.requireText("tbody", "forced")
}

// hostileNames are names that another may choose.
var hostileNames = []string{
	`<img src=x onerror=alert(1)>`,
	`"><script>alert(1)</script>`,
	`javascript:alert(1)`,
	`{{constructor.constructor("alert(1)")()}}`,
	"\u202eemca\u202c evil",
	"zero\u200bwidth",
	"👩🏽‍🚀 👨‍👩‍👧",
	"שלום عليكم",
	"a/b?c=d&e=%41#f",
	strings.Repeat("long-", 51),
}

// TestHostileNames: whatever an account or an operation is called, it is text.
func TestHostileNames(t *testing.T) {
	l := newLive(t)
	eu := l.join("eu", "limiter-0")
	if got := eu.take(operation, 1, hostileNames...); got != int64(len(hostileNames)) {
		t.Fatalf("granted %d, want 1 each", got)
	}
	hostile := hostileNames[0]
	l.apply(hostile, 40)
	eu.take(hostile, 1, "acme")

	b := newTab(t, 1280)
	b.open(l.ui(""))
	b.wait(fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d`, len(hostileNames)+1))
	requireText := func(want string) {
		t.Helper()
		b.wait(`document.querySelector("#content").innerText.includes(` + quote(want) + `)`)
	}
	for _, name := range hostileNames {
		shown := strings.NewReplacer("\u202e", "⟨U+202E⟩", "\u202c", "⟨U+202C⟩", "\u200b", "⟨U+200B⟩").Replace(name)
		requireText(shown)
	}
	// A link names its budget, whatever that is called.
	for _, name := range hostileNames {
		b.view("#/budgets")
		b.wait(`document.querySelectorAll("tbody tr").length > 1`)
		eval[bool](b, fmt.Sprintf(`([...document.querySelectorAll("tbody a")].find((a) => new URLSearchParams(a.hash.split("?").slice(1).join("?")).get("account") === %s).click(), true)`, quote(name)))
		b.wait(`document.querySelector(".figure") && document.querySelector("#content").innerText.includes("Grants")`)
		if reserved := b.text(".figure:nth-child(2) dd"); !strings.HasPrefix(reserved, "1 ") {
			t.Errorf("the page of %q has %q held, want 1", name, reserved)
		}
		if title := eval[string](b, "document.title"); !strings.HasSuffix(title, "· tokenlease") {
			t.Errorf("the window of %q is called %q", name, title)
		}
	}
	b.open(l.ui("#/policies"))
	requireText(hostile)
	b.click(fmt.Sprintf(`button[aria-label=%s]`, quote("Disable "+hostile+"…")))
	b.waitText("dialog", hostile)
	b.keys("\x1b")
	b.wait(`!document.querySelector("dialog")`)
	if n := eval[int](b, `document.querySelectorAll("main img, main script").length`); n != 0 {
		t.Errorf("names have become %d elements", n)
	}
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 1280 {
		t.Errorf("the page is %d wide, want 1280", wide)
	}
}

// TestDisableAndEnable denies an operation from the page, and ends that.
func TestDisableAndEnable(t *testing.T) {
	l := newLive(t)
	b := newTab(t, 1280)
	b.open(l.ui("#/policies"))
	b.click(`button[aria-label="Disable report.create…"]`)
	b.write("#dialog-because", "incident 88")
	b.write("#dialog-by", "ann")
	b.write("#dialog-name", operation)
	b.click("#dialog-submit")
	b.waitText("#dialog-done", "Disabled, as policy version 2.")
	b.click("#dialog-close")
	b.waitText("#content", "incident 88")
	b.click(`button[aria-label="Enable report.create…"]`)
	b.click("#dialog-submit")
	b.waitText("#dialog-done", "Enabled, as policy version 3.")
	b.click("#dialog-close")
	b.wait(`!document.querySelector("#content").innerText.includes("Disabled operations")`)
	resp, err := l.admin.ListPolicies(t.Context(), connect.NewRequest(&pb.ListPoliciesRequest{}))
	if err != nil || len(resp.Msg.GetDisabled()) > 0 {
		t.Errorf("still disabled: %v, %v", resp, err)
	}
}

// To fence an epoch by way of its grant takes force as well, which the dialog offers.
func TestCase53ResolveRefusedUnlessForced(t *testing.T) {
	l := newLive(t)
	l.join("eu", "limiter-0").take(operation, 15, "acme")
	grants, err := l.admin.ListGrants(t.Context(), connect.NewRequest(&pb.ListGrantsRequest{}))
	if err != nil || len(grants.Msg.GetGrants()) != 1 {
		t.Fatalf("grants %v, %v", grants, err)
	}
	id := grants.Msg.GetGrants()[0].GetGrantId()
	b := newTab(t, 1280)
	b.open(l.ui("#/grant?id=" + id))
	b.click("#content p button")
	b.wait(`document.querySelector("#dialog-force")`)
	b.write("#dialog-because", "the rack is gone")
	b.write("#dialog-by", "ann")
	b.write("#dialog-name", id)
	b.click("#dialog-retireEpoch")
	b.click("#dialog-submit")
	b.waitText("#dialog-fault", "Refused:")
	if l.holder("eu", "limiter-0").GetRetired() {
		t.Fatal("the holder is retired though it was refused")
	}
	b.wait(`!document.querySelector("#dialog-submit").disabled`)
	b.click("#dialog-force")
	b.click("#dialog-submit")
	b.waitText("#dialog-done", id+" is resolved. What was outstanding: 15.")
	entries, err := l.admin.ListAudit(t.Context(), connect.NewRequest(&pb.ListAuditRequest{Action: "holders.retire"}))
	if err != nil || len(entries.Msg.GetEntries()) != 1 || !entries.Msg.GetEntries()[0].GetForced() {
		t.Errorf("the record is %v, %v, want one that is forced", entries, err)
	}
}
