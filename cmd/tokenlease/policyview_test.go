package main

import (
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ruled is a policy that a file has.
func ruled(t *testing.T, fields string) *tokenleasev1.Policy {
	t.Helper()
	policies, err := policyfile.Parse("p.yaml", []byte("policies: [{operation: o, "+fields+"}]"))
	if err != nil {
		t.Fatal(err)
	}
	return policies[0]
}

func TestPolicyWarnings(t *testing.T) {
	const local = ", on-unavailable: local, local: {capacity: 4, for: 1m}"
	tests := []struct{ fields, want string }{
		{"token-bucket: {capacity: 40}, cost: 40", ""},
		{"token-bucket: {capacity: 40}, cost: 41", "costs 41, and one limiter may hold 40 at most (max-share 100% of 40): checks of that cost are always denied"},
		{"token-bucket: {capacity: 40}, cost: 5, max-share: 10%", "costs 5, and one limiter may hold 4 at most (max-share 10% of 40): checks of that cost are always denied"},
		{"token-bucket: {capacity: 0}", "has capacity 0, which denies every check"},
		{"token-bucket: {capacity: 0}, disabled: true", "is disabled: every check is denied"},
		{"token-bucket: {capacity: 0}, shadow: true", "is in shadow mode: every check is admitted"},
		{"token-bucket: {capacity: 0}, shadow: true, disabled: true", "is disabled: every check is denied"},
		{"fixed-window: {limit: 0, period: day}", "has limit 0, which denies every check"},
		{"fixed-window: {limit: 5, period: day}, cost: 6", "costs 6, and one limiter may hold 5 at most (max-share 100% of 5): checks of that cost are always denied"},
		{"rolling-window: {limit: 0, window: 1m}", "has limit 0, which denies every check"},
		{"rolling-window: {limit: 3, window: 1s}", ""},
		{"rolling-window: {limit: 3, window: 900ms}", "has a window of 900ms, and a token is out for as long and a round trip: if that is 100ms, at most 90% of the limit can be used"},
		{"concurrency: {slots: 0}", "has 0 slots, which denies every check"},
		{"concurrency: {slots: 3}, max-share: 33%", "costs 1, and one limiter may hold 0 at most (max-share 33% of 3): checks of that cost are always denied"},
		{"concurrency: {slots: 3}, max-share: 34%", ""},
		{"token-bucket: {capacity: 40}, cost: 4" + local, ""},
		{"token-bucket: {capacity: 40}, cost: 5" + local, "costs 5, and its local allowance is 4: in an outage checks of that cost are always denied"},
		{"rolling-window: {limit: 3, window: 100ms}, cost: 5" + local, "costs 5, and one limiter may hold 3 at most (max-share 100% of 3): checks of that cost are always denied\n" +
			"costs 5, and its local allowance is 4: in an outage checks of that cost are always denied\n" +
			"has a window of 100ms, and a token is out for as long and a round trip: if that is 100ms, at most 50% of the limit can be used"},
	}
	for _, test := range tests {
		if got := strings.Join(policyWarnings(ruled(t, test.fields)), "\n"); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.fields, got, test.want)
		}
	}
}

func TestStrictness(t *testing.T) {
	const local = ", on-unavailable: local, local: {capacity: 4, for: 1m}"
	tests := []struct{ fields, state, want, toldNot string }{
		{"token-bucket: {capacity: 1}", "on", "yes", "no"},
		{"token-bucket: {capacity: 1}, shadow: true", "shadow", "no: shadow", "no: shadow"},
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

// TestExampleOfAFile: what the help shows can be applied.
func TestExampleOfAFile(t *testing.T) {
	_, file, found := strings.Cut(policyApplyExample, "policies:\n")
	if !found {
		t.Fatal("the help shows no file")
	}
	policies, err := policyfile.Parse("help", []byte("policies:\n"+file))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, policy := range policies {
		kinds[strings.Trim(policyfile.RuleInWords(policy), "0123456789")] = true
	}
	if len(policies) != 5 || len(kinds) != 5 {
		t.Errorf("%d policies of %d kinds, want 5 of 5: %v", len(policies), len(kinds), kinds)
	}
}
