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

func TestRuleValidateOfEachKind(t *testing.T) {
	window, period, work := rolling(1, 40, minute), fixed(1, 40, lease.Day, "UTC"), slots(1, 40)
	for _, tc := range []struct {
		name   string
		rule   lease.Rule
		change func(*lease.Rule)
		wrong  string
	}{
		{"a window", window, func(*lease.Rule) {}, ""},
		{"the shortest", window, func(r *lease.Rule) { r.Window = lease.MinWindow }, ""},
		{"a shorter one", window, func(r *lease.Rule) { r.Window = lease.MinWindow - 1 }, "window 999.999µs is not between 1ms and"},
		{"none", window, func(r *lease.Rule) { r.Window = 0 }, "window 0s"},
		{"the longest", window, func(r *lease.Rule) { r.Window = lease.MaxWindow }, ""},
		{"a longer one", window, func(r *lease.Rule) { r.Window = lease.MaxWindow + 1 }, "is not between"},
		{"a window of too much", window, func(r *lease.Rule) { r.Capacity = lease.MaxCapacity + 1 }, "capacity"},
		{"a window with a refill", window, func(r *lease.Rule) { r.Refill.Tokens = 1 }, "a rolling-window has no refill"},
		{"a window with an interval", window, func(r *lease.Rule) { r.Refill.Interval = 1 }, "a rolling-window has no refill"},
		{"a window with a period", window, func(r *lease.Rule) { r.Period = lease.Day }, "a rolling-window has no period"},
		{"a window with a zone", window, func(r *lease.Rule) { r.Zone = "UTC" }, "a rolling-window has no period"},
		{"a period", period, func(*lease.Rule) {}, ""},
		{"an hour", period, func(r *lease.Rule) { r.Period = lease.Hour }, ""},
		{"no period", period, func(r *lease.Rule) { r.Period = "" }, `period "" is not known`},
		{"another period", period, func(r *lease.Rule) { r.Period = "year" }, `period "year" is not known`},
		{"no zone", period, func(r *lease.Rule) { r.Zone = "" }, "time zone is empty"},
		{"a period with a window", period, func(r *lease.Rule) { r.Window = 1 }, "a fixed-window has no window"},
		{"slots", work, func(*lease.Rule) {}, ""},
		{"slots with a window", work, func(r *lease.Rule) { r.Window = minute }, "a concurrency has no window"},
		{"slots with a refill", work, func(r *lease.Rule) { r.Refill = worked().Refill }, "a concurrency has no refill"},
		{"slots without a share", work, func(r *lease.Rule) { r.MaxSharePercent = 0 }, "max share"},
		{"a bucket with a window", worked(), func(r *lease.Rule) { r.Window = minute }, "a token-bucket has no window"},
		{"a bucket with a period", worked(), func(r *lease.Rule) { r.Period = lease.Day }, "a token-bucket has no period"},
	} {
		tc.change(&tc.rule)
		checkWrong(t, tc.name, tc.rule.Validate(), tc.wrong)
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
		{"the shortest hold", func(p *lease.Policy) { p.Hold = lease.MinHold }, ""},
		{"a shorter one", func(p *lease.Policy) { p.Hold = lease.MinHold - 1 }, "hold 999.999µs is not between"},
		{"the longest hold", func(p *lease.Policy) { p.Hold = lease.MaxHold }, ""},
		{"a longer one", func(p *lease.Policy) { p.Hold = lease.MaxHold + 1 }, "is not between"},
		{"a negative hold", func(p *lease.Policy) { p.Hold = -1 }, "hold -1ns"},
		{"postpaid", func(p *lease.Policy) { p.Postpaid = true }, ""},
		{"postpaid slots", func(p *lease.Policy) { p.Postpaid, p.Rule = true, slots(1, 40) }, "slots cannot be postpaid"},
		{"slots with a local allowance", func(p *lease.Policy) {
			p.Local, p.Rule = lease.Allowance{Capacity: 1, For: 1}, slots(1, 40)
		}, "slots have no local allowance"},
		{"staleness without a deadline", func(p *lease.Policy) { p.MaxStaleness = lease.MinStaleness }, ""},
		{"less of it", func(p *lease.Policy) { p.MaxStaleness = lease.MinStaleness - 1 }, "max staleness 4.999999999s is not between 5s and"},
		{"the longest", func(p *lease.Policy) { p.MaxStaleness = lease.MaxHold }, ""},
		{"a longer one", func(p *lease.Policy) { p.MaxStaleness = lease.MaxHold + 1 }, "max staleness"},
		{"a negative one", func(p *lease.Policy) { p.MaxStaleness = -1 }, "max staleness -1ns"},
		{"of slots", func(p *lease.Policy) { p.MaxStaleness, p.Rule = minute, slots(1, 40) }, ""},
		{"a deadline", func(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin = lease.MinStaleness, lease.MinReclaimMargin }, ""},
		{"the latest", func(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin = lease.MaxHold, lease.MaxHold }, ""},
		{"with less of a margin", func(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin = minute, lease.MinReclaimMargin-1 }, "reclaim margin 999.999999ms is not between 1s and"},
		{"with too much of one", func(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin = minute, lease.MaxHold+1 }, "reclaim margin"},
		{"with a negative one", func(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin = minute, -1 }, "reclaim margin -1ns"},
		{"of what may be owed", func(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin, p.Postpaid = minute, minute, true }, "what a silent holder owes is lost with a deadline"},
		{"that nothing leads to", func(p *lease.Policy) { p.ReclaimMargin = minute }, "a deadline needs a max staleness"},
		{"for slots", func(p *lease.Policy) {
			p.MaxStaleness, p.ReclaimMargin, p.Rule = minute, minute, slots(1, 40)
		}, "no deadline ends the work that holds a slot"},
		{"disabled", func(p *lease.Policy) { p.Disabled = true }, ""},
		{"disabled for a reason", func(p *lease.Policy) { p.Disabled, p.DisabledBecause = true, "moved" }, ""},
		{"a reason alone", func(p *lease.Policy) { p.DisabledBecause = "moved" }, "a reason is given, and the operation is not disabled"},
		{"a local allowance", func(p *lease.Policy) { p.Local = lease.Allowance{Capacity: 1, For: 1} }, ""},
		{"the largest", func(p *lease.Policy) { p.Local = lease.Allowance{Capacity: lease.MaxCapacity, For: lease.MaxHold} }, ""},
		{"a larger one", func(p *lease.Policy) { p.Local = lease.Allowance{Capacity: lease.MaxCapacity + 1, For: 1} }, "local capacity 1000000000000000001"},
		{"one of nothing", func(p *lease.Policy) { p.Local.For = minute }, "local capacity 0 is not between 1 and"},
		{"one for no time", func(p *lease.Policy) { p.Local.Capacity = 1 }, "a local allowance for 0s"},
		{"one for too long", func(p *lease.Policy) { p.Local = lease.Allowance{Capacity: 1, For: lease.MaxHold + 1} }, "a local allowance for"},
		{"one that is refilled in no time", func(p *lease.Policy) {
			p.Local = lease.Allowance{Capacity: 1, For: 1, Refill: lease.Rate{Tokens: 1}}
		}, "refill interval 0s"},
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
		{"kind", func(p *lease.Policy) { p.Rule.Kind = lease.Concurrency }, false},
		{"window", func(p *lease.Policy) { p.Rule.Window++ }, false},
		{"period", func(p *lease.Policy) { p.Rule.Period = lease.Day }, false},
		{"zone", func(p *lease.Policy) { p.Rule.Zone = "UTC" }, false},
		{"hold", func(p *lease.Policy) { p.Hold++ }, false},
		{"payment", func(p *lease.Policy) { p.Postpaid = true }, false},
		{"shadow", func(p *lease.Policy) { p.Shadow = true }, false},
		{"state", func(p *lease.Policy) { p.Disabled = true }, false},
		{"reason", func(p *lease.Policy) { p.DisabledBecause = "moved" }, false},
		{"allowance", func(p *lease.Policy) { p.Local.Capacity++ }, false},
		{"staleness", func(p *lease.Policy) { p.MaxStaleness++ }, false},
		{"margin", func(p *lease.Policy) { p.ReclaimMargin++ }, false},
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
		{"a window", rolling(1, 40, minute), minute, true},
		{"by the calendar", fixed(1, 40, lease.Day, "UTC"), 0, false},
		{"when work ends", slots(1, 40), 0, false},
	} {
		if wait, ok := tc.rule.FullAfter(); wait != tc.wait || ok != tc.ok {
			t.Errorf("%s: full after %v, %v; want %v, %v", tc.name, wait, ok, tc.wait, tc.ok)
		}
	}
}

func TestPer(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule lease.Rule
		per  time.Duration
	}{
		{"what the bucket takes to fill", worked(), t2s},
		{"a quota is for good", perSecond(1, 40, 0), 0},
		{"the window", rolling(1, 3, minute), minute},
		{"a minute", fixed(1, 40, lease.Minute, "UTC"), minute},
		{"an hour", fixed(1, 40, lease.Hour, "UTC"), time.Hour},
		{"a day", fixed(1, 40, lease.Day, "UTC"), 24 * time.Hour},
		{"a week", fixed(1, 40, lease.Week, "UTC"), 7 * 24 * time.Hour},
		{"a month", fixed(1, 40, lease.Month, "UTC"), 30 * 24 * time.Hour},
		{"slots are for no time", slots(1, 40), 0},
	} {
		if per := tc.rule.Per(); per != tc.per {
			t.Errorf("%s: per %v, want %v", tc.name, per, tc.per)
		}
	}
}

func TestStrict(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*lease.Policy)
		strict bool
	}{
		{"as it is", func(*lease.Policy) {}, true},
		{"disabled", func(p *lease.Policy) { p.Disabled = true }, true},
		{"in shadow", func(p *lease.Policy) { p.Shadow = true }, false},
		{"postpaid", func(p *lease.Policy) { p.Postpaid = true }, false},
		{"with an allowance", func(p *lease.Policy) { p.Local = lease.Allowance{Capacity: 1, For: 1} }, false},
		{"with a deadline", func(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin = minute, minute }, true},
	} {
		policy := reportPolicy()
		if tc.change(&policy); policy.Strict() != tc.strict {
			t.Errorf("%s: strict is %v", tc.name, !tc.strict)
		}
	}
}

// TestLapsesAfter: after the bound and the margin, and never without one.
func TestLapsesAfter(t *testing.T) {
	for _, tc := range []struct {
		name                    string
		staleness, margin, want time.Duration
	}{
		{"by proof", minute, 0, 0},
		{"by proof, without a bound", 0, 0, 0},
		{"by deadline", minute, t9s, minute + t9s},
		{"the latest of all", lease.MaxHold, lease.MaxHold, 2 * lease.MaxHold},
	} {
		policy := reportPolicy()
		policy.MaxStaleness, policy.ReclaimMargin = tc.staleness, tc.margin
		if got := policy.LapsesAfter(); got != tc.want {
			t.Errorf("%s: lapses after %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestHoldTime(t *testing.T) {
	policy := reportPolicy()
	if got := policy.HoldTime(); got != lease.DefaultHold {
		t.Errorf("%v where none is told", got)
	}
	if policy.Hold = t9s; policy.HoldTime() != t9s {
		t.Errorf("%v where 9s are told", policy.HoldTime())
	}
}
