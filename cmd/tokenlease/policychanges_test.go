package main

import (
	"fmt"
	"strings"
	"testing"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func TestChangesInWords(t *testing.T) {
	rule := func(fields string) *tokenleasev1.Policy {
		policy := ruled(t, fields)
		policy.Operation = "report.create"
		return policy
	}
	for _, test := range []struct {
		name   string
		change *tokenleasev1.PolicyChange
		want   string
	}{
		{"numbers", &tokenleasev1.PolicyChange{
			Subject: "policy report.create", Operation: "report.create", LiveBudgets: 3, RecalledTokens: 60,
			Before: rule("token-bucket: {capacity: 100, refill: 20 per 1s}, max-cost: 5"), After: rule("token-bucket: {capacity: 10, refill: 20 per 1000ms}, cost: 2"),
		}, `
policy report.create
    token-bucket.capacity   100 -> 10
    cost                    1 -> 2
    max-cost                5 -> -
    live budgets            3
    recalled tokens         60
`},
		{"a field that appears", &tokenleasev1.PolicyChange{
			Subject: "plan premium", Operation: "report.create",
			Before: rule("token-bucket: {capacity: 1}"), After: rule("token-bucket: {capacity: 1}, shadow: true, disabled: true, disabled-because: a\u200bb"),
		}, `
plan premium, report.create
    shadow             - -> true
    disabled           - -> true
    disabled-because   - -> "a\u200bb"
    strict             yes -> no: shadow
`},
		{"a weaker guarantee", &tokenleasev1.PolicyChange{
			Subject: "policy report.create", Operation: "report.create",
			Before: rule("token-bucket: {capacity: 1}, max-staleness: 1m"),
			After:  rule("token-bucket: {capacity: 1}, max-staleness: 30s, reclaim: deadline, reclaim-margin: 15s"),
		}, `
policy report.create
    max-staleness    1m -> 30s
    reclaim          proof -> deadline
    reclaim-margin   - -> 15s
    strict           yes -> by clocks
`},
		{"another kind of rule", &tokenleasev1.PolicyChange{
			Subject: "policy report.create", Operation: "report.create",
			Before: rule("token-bucket: {capacity: 40, refill: 20 per 1s}"), After: rule("rolling-window: {limit: 3, window: 60s}, hold: 5m"),
		}, `
policy report.create
    rule   40, refill 20 per 1s -> 3 in any 1m
    hold   - -> 5m
`},
		{"new", &tokenleasev1.PolicyChange{
			Subject: "policy report.create", Operation: "report.create", After: rule("concurrency: {slots: 3}"),
		}, `
policy report.create: new
    concurrency.slots   3
    cost                1
    max-share           100%
    reclaim             proof
    on-unavailable      reject
`},
		{"removed", &tokenleasev1.PolicyChange{
			Subject: "account Acme", Operation: "report.create", LiveBudgets: 1, Before: rule("concurrency: {slots: 3}"),
		}, `
account Acme, report.create: removed
    concurrency.slots   3
    cost                1
    max-share           100%
    reclaim             proof
    on-unavailable      reject
    live budgets        1
`},
		{"membership", &tokenleasev1.PolicyChange{Subject: "account Ac\tme", BeforeText: "plan free", AfterText: "plan premium", LiveBudgets: 2}, `
"account Ac\tme"
    plan free -> plan premium
    live budgets   2
`},
		{"a plan", &tokenleasev1.PolicyChange{Subject: "plan free", AfterText: "there"}, `
plan free: new
`},
		{"a plan that goes", &tokenleasev1.PolicyChange{Subject: "plan free", BeforeText: "there", LiveBudgets: 4}, `
plan free: removed
    live budgets   4
`},
		{"the first default plan", &tokenleasev1.PolicyChange{Subject: "default plan", AfterText: "plan free"}, `
default plan
    - -> plan free
`},
	} {
		var b strings.Builder
		if err := writeChange(&b, test.change); err != nil {
			t.Fatal(err)
		}
		if got := "\n" + b.String(); got != test.want {
			t.Errorf("%s:%s\nwant%s", test.name, got, test.want)
		}
	}
}

// A row of the history names the first things that a version has changed, each once.
func TestSubjectsOfAVersionAreCounted(t *testing.T) {
	var changes []*tokenleasev1.PolicyChange
	for i := range 12 {
		for range 2 {
			changes = append(changes, &tokenleasev1.PolicyChange{Subject: fmt.Sprintf("policy %d", i)})
		}
	}
	if got, want := subjects(changes[:20]), "policy 0, policy 1, policy 2, policy 3, policy 4, policy 5, policy 6, policy 7, policy 8, policy 9"; got != want {
		t.Errorf("%q", got)
	}
	if got := subjects(changes); !strings.HasSuffix(got, "policy 9, and 2 more") {
		t.Errorf("%q", got)
	}
}
