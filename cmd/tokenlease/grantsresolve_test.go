package main

import (
	"bytes"
	"strings"
	"testing"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// TestPreviewGrantSaysWhatComesBack: by the rule of the budget, and nothing of the kind
// where nothing is out.
func TestPreviewGrantSaysWhatComesBack(t *testing.T) {
	bucket := func(refill int64) *tokenleasev1.Policy {
		return &tokenleasev1.Policy{Rule: &tokenleasev1.Policy_TokenBucket{TokenBucket: &tokenleasev1.TokenBucket{CapacityTokens: 40, RefillTokens: refill}}}
	}
	rolling := &tokenleasev1.Policy{Rule: &tokenleasev1.Policy_RollingWindow{RollingWindow: &tokenleasev1.RollingWindow{LimitTokens: 3, WindowNs: 60e9}}}
	fixed := &tokenleasev1.Policy{Rule: &tokenleasev1.Policy_FixedWindow{FixedWindow: &tokenleasev1.FixedWindow{LimitTokens: 3, Period: tokenleasev1.Period_PERIOD_DAY}}}
	slots := &tokenleasev1.Policy{Rule: &tokenleasev1.Policy_Concurrency{Concurrency: &tokenleasev1.Concurrency{Slots: 3}}}
	const spent = " out. What is out counts as spent at that moment, and "
	for _, test := range []struct {
		name   string
		policy *tokenleasev1.Policy
		out    int64
		want   string
	}{
		{"refill", bucket(20), 8, "8 tokens are" + spent + "comes back through refill.\n"},
		{"fixed quota", bucket(0), 1, "1 token is" + spent + "never comes back: the budget is a fixed quota, without refill.\n"},
		{"rolling window", rolling, 2, "2 tokens are" + spent + "comes back as its window ends.\n"},
		{"fixed window", fixed, 2, "2 tokens are" + spent + "comes back as its window ends.\n"},
		{"no policy", nil, 2, "2 tokens are" + spent + "comes back by the rule of its budget: through refill, or as its window ends, and to a fixed quota never.\n"},
		{"slots", slots, 2, "The grant is of slots, and 2 are out. They are free at once: the work that holds them must have ended, not only the process.\n"},
		{"nothing out", bucket(20), 0, "Nothing of it is out.\n"},
		{"no slots out", slots, 0, "Nothing of it is out.\n"},
	} {
		var out bytes.Buffer
		p := &program{stderr: &out}
		p.previewGrant(&tokenleasev1.Grant{OutstandingTokens: test.out, State: tokenleasev1.GrantState_GRANT_STATE_ORPHANED}, test.policy)
		_, said, _ := strings.Cut(out.String(), "can ever resume.\n")
		if said != test.want {
			t.Errorf("%s: it says %q, want %q", test.name, said, test.want)
		}
	}
}

// TestPreviewRetirementWithoutTokens: where no tokens are out, none count as spent.
func TestPreviewRetirementWithoutTokens(t *testing.T) {
	var out bytes.Buffer
	p := &program{stderr: &out}
	p.tellRetirement(&tokenleasev1.RetireHolderResponse{GrantsCount: 1, FreedSlots: 2})
	if got := out.String(); !strings.Contains(got, "That resolves 1 grant. 0 tokens are out.\n2 slots are out: they are free at once.") || strings.Contains(got, "as spent") {
		t.Errorf("it says %q", got)
	}
}
