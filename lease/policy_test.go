package lease_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

func TestRuleValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*lease.Rule)
		wrong  string // part of the message; empty when valid
	}{
		{"worked example", func(*lease.Rule) {}, ""},
		{"no kind", func(r *lease.Rule) { r.Kind = "" }, `rule kind ""`},
		{"another kind", func(r *lease.Rule) { r.Kind = "rolling" }, `rule kind "rolling"`},
		{"capacity 0", func(r *lease.Rule) { r.Capacity = 0 }, ""},
		{"the largest capacity", func(r *lease.Rule) { r.Capacity = lease.MaxCapacity }, ""},
		{"a larger capacity", func(r *lease.Rule) { r.Capacity = lease.MaxCapacity + 1 }, "capacity"},
		{"a negative capacity", func(r *lease.Rule) { r.Capacity = -1 }, "capacity"},
		{"no refill", func(r *lease.Rule) { r.Refill = lease.Rate{} }, ""},
		{"no refill, in a second", func(r *lease.Rule) { r.Refill.Tokens = 0 }, ""},
		{"no refill, in less than nothing", func(r *lease.Rule) { r.Refill = lease.Rate{Interval: -1} }, "interval"},
		{"a negative refill", func(r *lease.Rule) { r.Refill.Tokens = -1 }, "refill of -1"},
		{"the largest refill", func(r *lease.Rule) { r.Refill = lease.Rate{Tokens: math.MaxInt64, Interval: 1} }, ""},
		{"a refill in no time", func(r *lease.Rule) { r.Refill.Interval = 0 }, "interval"},
		{"a refill in less than no time", func(r *lease.Rule) { r.Refill.Interval = -time.Second }, "interval"},
		{"the longest interval", func(r *lease.Rule) { r.Refill.Interval = lease.MaxInterval }, ""},
		{"a longer interval", func(r *lease.Rule) { r.Refill.Interval = lease.MaxInterval + 1 }, "interval"},
		{"the least share", func(r *lease.Rule) { r.MaxSharePercent = 1 }, ""},
		{"no share", func(r *lease.Rule) { r.MaxSharePercent = 0 }, "max share of 0%"},
		{"more than all", func(r *lease.Rule) { r.MaxSharePercent = 101 }, "max share of 101%"},
		{"a negative share", func(r *lease.Rule) { r.MaxSharePercent = -50 }, "max share"},
	} {
		rule := worked()
		tc.change(&rule)
		checkWrong(t, tc.name, rule.Validate(), tc.wrong)
	}
}

func checkWrong(t *testing.T, name string, err error, wrong string) {
	t.Helper()
	switch {
	case wrong == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
		t.Errorf("%s: error %v, want one about %q", name, err, wrong)
	}
}

func reportPolicy() lease.Policy {
	return lease.Policy{Operation: "report.create", Rule: worked(), DefaultCost: 5}
}

func TestPolicyValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*lease.Policy)
		wrong  string
	}{
		{"worked example", func(*lease.Policy) {}, ""},
		{"no operation", func(p *lease.Policy) { p.Operation = "" }, "operation"},
		{"a bad rule", func(p *lease.Policy) { p.Rule.Capacity = -1 }, "capacity"},
		{"a negative default cost", func(p *lease.Policy) { p.DefaultCost = -1 }, "negative"},
		{"a negative highest cost", func(p *lease.Policy) { p.MaxCost = -1 }, "negative"},
		{"cost 0", func(p *lease.Policy) { p.DefaultCost = 0 }, "allow-zero-cost"},
		{"cost 0, allowed", func(p *lease.Policy) { p.DefaultCost, p.AllowZeroCost = 0, true }, ""},
		{"the default is the highest", func(p *lease.Policy) { p.MaxCost = 5 }, ""},
		{"the default is above the highest", func(p *lease.Policy) { p.MaxCost = 4 }, "highest cost 4"},
		{"a default that never fits is denied, not invalid", func(p *lease.Policy) { p.DefaultCost = 41 }, ""},
	} {
		policy := reportPolicy()
		tc.change(&policy)
		checkWrong(t, tc.name, policy.Validate(), tc.wrong)
	}
}

func TestSameTerms(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*lease.Policy)
		same   bool
	}{
		{"nothing", func(*lease.Policy) {}, true},
		{"version", func(p *lease.Policy) { p.Rule.Version = 9 }, true},
		{"time", func(p *lease.Policy) { p.UpdatedUnixMs = 9 }, true},
		{"operation", func(p *lease.Policy) { p.Operation = "other" }, false},
		{"capacity", func(p *lease.Policy) { p.Rule.Capacity++ }, false},
		{"refill", func(p *lease.Policy) { p.Rule.Refill.Tokens++ }, false},
		{"interval", func(p *lease.Policy) { p.Rule.Refill.Interval++ }, false},
		{"share", func(p *lease.Policy) { p.Rule.MaxSharePercent-- }, false},
		{"default cost", func(p *lease.Policy) { p.DefaultCost++ }, false},
		{"highest cost", func(p *lease.Policy) { p.MaxCost++ }, false},
		{"zero cost", func(p *lease.Policy) { p.AllowZeroCost = true }, false},
	} {
		one, other := reportPolicy(), reportPolicy()
		tc.change(&other)
		if one.SameTerms(other) != tc.same || other.SameTerms(one) != tc.same {
			t.Errorf("another %s: same is %v", tc.name, !tc.same)
		}
		if one != reportPolicy() {
			t.Error("the policy was changed")
		}
	}
}

func TestShareCap(t *testing.T) {
	for _, tc := range []struct {
		capacity int64
		percent  int32
		limit    int64
	}{
		{40, 100, 40}, {40, 50, 20}, {40, 1, 0}, {39, 50, 19}, {199, 99, 197}, {100, 1, 1}, {99, 1, 0}, {101, 1, 1},
		{0, 100, 0}, {1, 99, 0}, {3, 34, 1},
		{lease.MaxCapacity, 100, lease.MaxCapacity}, {lease.MaxCapacity - 1, 99, 989_999_999_999_999_999},
	} {
		rule := perSecond(1, tc.capacity, 1)
		rule.MaxSharePercent = tc.percent
		if got := rule.ShareCap(); got != tc.limit {
			t.Errorf("%d%% of %d is %d, want %d", tc.percent, tc.capacity, got, tc.limit)
		}
	}
}

func TestFullAfter(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule lease.Rule
		wait time.Duration
		ok   bool
	}{
		{"worked example", worked(), t2s, true},
		{"rounded up", perSecond(1, 10, 3), 3_333_333_334, true},
		{"never", perSecond(1, 40, 0), 0, false},
		{"nothing to fill", perSecond(1, 0, 0), 0, true},
		{"at the largest rate", rated(1, 40, lease.Rate{Tokens: math.MaxInt64, Interval: time.Second}), 1, true},
		{"not in a lifetime", rated(1, lease.MaxCapacity, lease.Rate{Tokens: 1, Interval: time.Second}), 0, false},
	} {
		if wait, ok := tc.rule.FullAfter(); wait != tc.wait || ok != tc.ok {
			t.Errorf("%s: full after %v, %v; want %v, %v", tc.name, wait, ok, tc.wait, tc.ok)
		}
	}
}
