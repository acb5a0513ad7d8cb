package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ruled is a policy that a file has.
func ruled(t *testing.T, fields string) *tokenleasev1.Policy {
	t.Helper()
	doc, err := policyfile.Parse("p.yaml", []byte("policies: [{operation: o, "+fields+"}]"))
	if err != nil {
		t.Fatal(err)
	}
	return doc.Policies[0]
}

func TestPolicyNotes(t *testing.T) {
	const local = ", on-unavailable: local, local: {capacity: 4, for: 1m}"
	tests := []struct{ fields, want string }{
		{"token-bucket: {capacity: 40}, cost: 41", ""}, // the broker's to tell
		{"token-bucket: {capacity: 0}", "has capacity 0, which denies every check"},
		{"token-bucket: {capacity: 0}, disabled: true", "is disabled: every check is denied"},
		{"token-bucket: {capacity: 0}, shadow: true", "is in shadow mode: every check is admitted"},
		{"token-bucket: {capacity: 0}, shadow: true, disabled: true", "is disabled: every check is denied"},
		{"fixed-window: {limit: 0, period: day}", "has limit 0, which denies every check"},
		{"rolling-window: {limit: 0, window: 1m}", "has limit 0, which denies every check"},
		{"concurrency: {slots: 0}", "has 0 slots, which denies every check"},
		{"token-bucket: {capacity: 40}, cost: 4" + local, ""},
		{"token-bucket: {capacity: 40}, max-staleness: 30s, reclaim: deadline, reclaim-margin: 15s", ""}, // the broker's to tell
		{"token-bucket: {capacity: 40}, max-staleness: 1h, reclaim: deadline, reclaim-margin: 3601ms", ""},
		{"token-bucket: {capacity: 40}, max-staleness: 1h, reclaim: deadline, reclaim-margin: 3600ms", "has a reclaim-margin of 3600ms: in its max-staleness of 1h two clocks may drift apart by 3s, and nothing is left for pauses"},
		{"token-bucket: {capacity: 40}, max-staleness: 1d, shadow: true, reclaim: deadline, reclaim-margin: 1s",
			"has a reclaim-margin of 1s: in its max-staleness of 1d two clocks may drift apart by 1m26s, and nothing is left for pauses\nis in shadow mode: every check is admitted"},
		{"token-bucket: {capacity: 40}, cost: 5" + local, "costs 5, and its local allowance is 4: in an outage checks of that cost are always denied"},
	}
	for _, test := range tests {
		if got := strings.Join(policyNotes(ruled(t, test.fields)), "\n"); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.fields, got, test.want)
		}
	}
	shadow := []*tokenleasev1.Policy{ruled(t, "concurrency: {slots: 1}, shadow: true")}
	got := notesOf(policyfile.Document{
		Policies: shadow, Plans: []*tokenleasev1.Plan{{Name: "free", Policies: shadow}}, Accounts: []*tokenleasev1.AccountPolicies{{Account: "Acme", Policies: shadow}},
	})
	const note = "o is in shadow mode: every check is admitted"
	if want := []string{note, "plan free, " + note, "account Acme, " + note}; !slices.Equal(got, want) {
		t.Errorf("notes %q, want %q", got, want)
	}
}

func TestStrictness(t *testing.T) {
	const local = ", on-unavailable: local, local: {capacity: 4, for: 1m}"
	tests := []struct{ fields, state, want, toldNot string }{
		{"token-bucket: {capacity: 1}", "on", "yes", "no"},
		{"token-bucket: {capacity: 1}, shadow: true", "shadow", "no: shadow", "no: shadow"},
		{"token-bucket: {capacity: 1}, max-staleness: 1h", "on", "yes", "no"},
		{"token-bucket: {capacity: 1}, max-staleness: 5s, reclaim: deadline, reclaim-margin: 1s", "on", "by clocks", "no"},
		{"token-bucket: {capacity: 1}, max-staleness: 5s, reclaim: deadline, reclaim-margin: 1s, shadow: true", "shadow", "no: shadow", "no: shadow"},
		{"token-bucket: {capacity: 1}, postpaid: true", "on", "no: postpaid", "no: postpaid"},
		{"token-bucket: {capacity: 1}" + local, "on", "no: local", "no: local"},
		{"token-bucket: {capacity: 1}, shadow: true, postpaid: true, disabled: true" + local, "disabled", "no: shadow, postpaid, local", "no: shadow, postpaid, local"},
	}
	for _, test := range tests {
		policy := ruled(t, test.fields)
		if got := policyState(policy); got != test.state {
			t.Errorf("%s: the state is %s, want %s", test.fields, got, test.state)
		}
		if got := strictness(policy, false); got != test.want {
			t.Errorf("%s: %s, want %s", test.fields, got, test.want)
		}
		if got := strictness(policy, true); got != test.toldNot {
			t.Errorf("%s, which the broker calls not strict: %s, want %s", test.fields, got, test.toldNot)
		}
	}
}

func TestReclaimInWords(t *testing.T) {
	const weaker = " after a limiter's newest request about a budget, what it has out of it counts as spent: weaker than proof, it rests on clocks and pauses"
	for _, test := range []struct{ fields, want, staleness, lapses string }{
		{"token-bucket: {capacity: 1}", "proof", "no limit", "never: silence proves nothing"},
		{"concurrency: {slots: 1}, max-staleness: 90s", "proof", "90s", "never: silence proves nothing"},
		{"token-bucket: {capacity: 1}, max-staleness: 5s, reclaim: deadline, reclaim-margin: 1s", "deadline after 6s", "5s", "6s" + weaker},
		{"token-bucket: {capacity: 1}, max-staleness: 1h, reclaim: deadline, reclaim-margin: 30m", "deadline after 90m", "1h", "90m" + weaker},
	} {
		policy := ruled(t, test.fields)
		if got := reclaimInWords(policy); got != test.want {
			t.Errorf("%s: reclaimed by %q, want %q", test.fields, got, test.want)
		}
		if got := maxStaleness(policy); got != test.staleness {
			t.Errorf("%s: at most %q, want %q", test.fields, got, test.staleness)
		}
		if got := lapsesInWords(lapsesAfter(policy)); got != test.lapses {
			t.Errorf("%s: lapses %q, want %q", test.fields, got, test.lapses)
		}
	}
	if got := reclaimInWords(&tokenleasev1.Policy{}); got != "proof" {
		t.Errorf("where nothing is said: %q", got)
	}
}

// TestExampleOfAFile: what the help shows can be applied.
func TestExampleOfAFile(t *testing.T) {
	_, file, found := strings.Cut(policyApplyExample, "  # A file.")
	_, file, _ = strings.Cut(file, "\n")
	if !found {
		t.Fatal("the help shows no file")
	}
	doc, err := policyfile.Parse("help", []byte(strings.ReplaceAll("\n"+file, "\n  ", "\n")))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	policies := doc.Policies
	for _, policy := range policies {
		kinds[strings.Trim(policyfile.RuleInWords(policy), "0123456789")] = true
	}
	if len(doc.Plans) != 2 || len(doc.Accounts) != 2 || *doc.DefaultPlan != "free" {
		t.Errorf("plans and accounts: %v", doc)
	}
	if len(policies) != 5 || len(kinds) != 5 {
		t.Errorf("%d policies of %d kinds, want 5 of 5: %v", len(policies), len(kinds), kinds)
	}
}
