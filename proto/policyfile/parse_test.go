package policyfile_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// full is a file with every field; it is the one in the package's comment.
const full = `policies:
  - operation: report.create
    token-bucket:
      capacity: 40
      refill: 20 per 1s     # "0" or absent: fixed quota
    cost: 5
    max-cost: 40
    allow-zero-cost: false
    max-share: 100%
    hold: 60s
    postpaid: false
    shadow: false
    disabled: true
    disabled-because: abuse
    max-staleness: 30s
    reclaim: deadline
    reclaim-margin: 15s
    on-unavailable: local
    local:
      capacity: 5
      refill: 1 per 1s
      for: 10m
`

// fullPolicy is the policy in full.
func fullPolicy() *tokenleasev1.Policy {
	return policy(func(p *tokenleasev1.Policy) {
		p.Disabled, p.DisabledBecause = true, "abuse"
		deadline(p, 30e9, 15e9)
		p.OnUnavailable = tokenleasev1.Unavailability_UNAVAILABILITY_LOCAL
		p.Local = &tokenleasev1.LocalAllowance{CapacityTokens: 5, RefillTokens: 1, RefillIntervalNs: 1e9, ForNs: 600e9}
	})
}

// policy is the worked example, changed.
func policy(change func(*tokenleasev1.Policy)) *tokenleasev1.Policy {
	p := &tokenleasev1.Policy{
		Operation: "report.create",
		Rule: &tokenleasev1.Policy_TokenBucket{TokenBucket: &tokenleasev1.TokenBucket{
			CapacityTokens: 40, RefillTokens: 20, RefillIntervalNs: 1_000_000_000,
		}},
		DefaultCostTokens: 5,
		MaxCostTokens:     40,
		MaxSharePercent:   100,
		Reclaim:           tokenleasev1.Reclaim_RECLAIM_PROOF,
		OnUnavailable:     tokenleasev1.Unavailability_UNAVAILABILITY_REJECT,
	}
	change(p)
	return p
}

// bucket sets the rule of a policy.
func bucket(p *tokenleasev1.Policy, capacity, refill, interval int64) {
	p.Rule = &tokenleasev1.Policy_TokenBucket{TokenBucket: &tokenleasev1.TokenBucket{
		CapacityTokens: capacity, RefillTokens: refill, RefillIntervalNs: interval,
	}}
}

// deadline has a policy reclaim by deadline.
func deadline(p *tokenleasev1.Policy, staleness, margin int64) {
	p.Reclaim, p.MaxStalenessNs, p.ReclaimMarginNs = tokenleasev1.Reclaim_RECLAIM_DEADLINE, staleness, margin
}

// least is a file with one policy that has only what is required, and more lines
// of it.
func least(more ...string) string {
	lines := append([]string{"policies:", "- operation: o", "  token-bucket:", "    capacity: 4"}, more...)
	return strings.Join(lines, "\n") + "\n"
}

// ruled is a file with one policy of another rule, and more lines of it.
func ruled(rule string, more ...string) string {
	return strings.Join(append([]string{"policies:", "- operation: o", "  " + rule}, more...), "\n") + "\n"
}

// named is least() with another value for the operation.
func named(value string) string {
	return strings.Replace(least(), "operation: o", "operation: "+value, 1)
}

func TestParse(t *testing.T) {
	leastPolicy := func(change func(*tokenleasev1.Policy)) *tokenleasev1.Policy {
		return policy(func(p *tokenleasev1.Policy) {
			p.Operation, p.DefaultCostTokens, p.MaxCostTokens = "o", 1, 0
			bucket(p, 4, 0, 0)
			change(p)
		})
	}
	fixed := func(limit int64, period tokenleasev1.Period, zone string) *tokenleasev1.Policy {
		return leastPolicy(func(p *tokenleasev1.Policy) {
			p.Rule = &tokenleasev1.Policy_FixedWindow{FixedWindow: &tokenleasev1.FixedWindow{LimitTokens: limit, Period: period, TimeZone: zone}}
		})
	}
	rolling := func(limit, window int64) *tokenleasev1.Policy {
		return leastPolicy(func(p *tokenleasev1.Policy) {
			p.Rule = &tokenleasev1.Policy_RollingWindow{RollingWindow: &tokenleasev1.RollingWindow{LimitTokens: limit, WindowNs: window}}
		})
	}
	slots := func(slots, hold int64) *tokenleasev1.Policy {
		return leastPolicy(func(p *tokenleasev1.Policy) {
			p.Rule, p.HoldNs = &tokenleasev1.Policy_Concurrency{Concurrency: &tokenleasev1.Concurrency{Slots: slots}}, hold
		})
	}
	tests := []struct {
		name string
		in   string
		want *tokenleasev1.Policy
	}{
		{"per minute", ruled("fixed-window: {limit: 0, period: minute}"), fixed(0, tokenleasev1.Period_PERIOD_MINUTE, "UTC")},
		{"per hour", ruled("fixed-window: {limit: 1000000000000000000, period: hour}"), fixed(1e18, tokenleasev1.Period_PERIOD_HOUR, "UTC")},
		{"per day", ruled("fixed-window: {limit: 1, period: day, time-zone: Europe/Berlin}"), fixed(1, tokenleasev1.Period_PERIOD_DAY, "Europe/Berlin")},
		{"per week", ruled("fixed-window: {limit: 1, period: week, time-zone: Etc/GMT+5}"), fixed(1, tokenleasev1.Period_PERIOD_WEEK, "Etc/GMT+5")},
		{"per month", ruled(`fixed-window: {limit: 1, period: "month", time-zone: "UTC"}`), fixed(1, tokenleasev1.Period_PERIOD_MONTH, "UTC")},
		{"rolling", ruled("rolling-window: {limit: 3, window: 60s}"), rolling(3, 60e9)},
		{"shortest window", ruled("rolling-window: {limit: 0, window: 1ms}"), rolling(0, 1e6)},
		{"longest window", ruled("rolling-window: {limit: 1000000000000000000, window: 366d}"), rolling(1e18, 366*24*3600*1e9)},
		{"slots", ruled("concurrency: {slots: 10}"), slots(10, 0)},
		{"slots for an hour", ruled("concurrency: {slots: 0}", "  hold: 1h"), slots(0, 3600e9)},
		{"shortest hold", ruled("concurrency: {slots: 1}", "  hold: 1000us"), slots(1, 1e6)},
		{"longest hold", ruled("concurrency: {slots: 1}", "  hold: 366d"), slots(1, 366*24*3600*1e9)},
		{"the usual hold", ruled("concurrency: {slots: 1}", "  hold: 1m"), slots(1, 0)},
		{"postpaid and shadow", least("  postpaid: true", "  shadow: true"), leastPolicy(func(p *tokenleasev1.Policy) { p.Postpaid, p.Shadow = true, true })},
		{"disabled", least("  disabled: true"), leastPolicy(func(p *tokenleasev1.Policy) { p.Disabled = true })},
		{"disabled for a reason", least("  disabled: true", "  disabled-because: >", "    abuse,", "    ticket 4711"), leastPolicy(func(p *tokenleasev1.Policy) {
			p.Disabled, p.DisabledBecause = true, "abuse, ticket 4711"
		})},
		{"shortest staleness and margin", least("  max-staleness: 5s", "  reclaim: deadline", "  reclaim-margin: 1s"), leastPolicy(func(p *tokenleasev1.Policy) {
			deadline(p, 5e9, 1e9)
		})},
		{"longest staleness and margin, in another order", least("  reclaim-margin: 366d", "  reclaim: deadline", "  max-staleness: 366d"), leastPolicy(func(p *tokenleasev1.Policy) {
			deadline(p, 366*24*3600*1e9, 366*24*3600*1e9)
		})},
		{"staleness in other units", least("  max-staleness: 5000ms", "  reclaim: deadline", `  reclaim-margin: "1000000us"`), leastPolicy(func(p *tokenleasev1.Policy) {
			deadline(p, 5e9, 1e9)
		})},
		{"staleness with proof", least("  max-staleness: 1h"), leastPolicy(func(p *tokenleasev1.Policy) { p.MaxStalenessNs = 3600e9 })},
		{"staleness of slots", ruled("concurrency: {slots: 3}", "  max-staleness: 1m", "  reclaim: proof"), leastPolicy(func(p *tokenleasev1.Policy) {
			p.Rule, p.MaxStalenessNs = &tokenleasev1.Policy_Concurrency{Concurrency: &tokenleasev1.Concurrency{Slots: 3}}, 60e9
		})},
		{"local", least("  on-unavailable: local", "  local: {capacity: 1, for: 1ns}"), leastPolicy(func(p *tokenleasev1.Policy) {
			p.OnUnavailable, p.Local = tokenleasev1.Unavailability_UNAVAILABILITY_LOCAL, &tokenleasev1.LocalAllowance{CapacityTokens: 1, ForNs: 1}
		})},
		{"largest local", least("  on-unavailable: local", "  local: {capacity: 1000000000000000000, refill: 3 per 2s, for: 366d}"), leastPolicy(func(p *tokenleasev1.Policy) {
			p.OnUnavailable = tokenleasev1.Unavailability_UNAVAILABILITY_LOCAL
			p.Local = &tokenleasev1.LocalAllowance{CapacityTokens: 1e18, RefillTokens: 3, RefillIntervalNs: 2e9, ForNs: 366 * 24 * 3600 * 1e9}
		})},
		{"every field", full, fullPolicy()},
		{"with Windows line ends", strings.ReplaceAll(full, "\n", "\r\n"), fullPolicy()},
		{"behind a document mark and a byte order mark", "\uFEFF---\n" + full, fullPolicy()},
		{"only what is required", least(), leastPolicy(func(*tokenleasev1.Policy) {})},
		{"flow style", "{policies: [{operation: o, token-bucket: {capacity: 4}}]}", leastPolicy(func(*tokenleasev1.Policy) {})},
		{"refill 0", least("    refill: 0"), leastPolicy(func(*tokenleasev1.Policy) {})},
		{"refill in quotes", least(`    refill: "3 per 2s"`), leastPolicy(func(p *tokenleasev1.Policy) { bucket(p, 4, 3, 2e9) })},
		{"interval in days", least("    refill: 1 per 366d"), leastPolicy(func(p *tokenleasev1.Policy) { bucket(p, 4, 1, 366*24*3600*1e9) })},
		{"interval in ns", least("    refill: 1 per 7ns"), leastPolicy(func(p *tokenleasev1.Policy) { bucket(p, 4, 1, 7) })},
		{"largest refill", least("    refill: 9223372036854775807 per 1us"), leastPolicy(func(p *tokenleasev1.Policy) { bucket(p, 4, 9223372036854775807, 1000) })},
		{"largest capacity", strings.Replace(least(), "capacity: 4", "capacity: 1000000000000000000", 1), leastPolicy(func(p *tokenleasev1.Policy) { bucket(p, 1e18, 0, 0) })},
		{"capacity 0 denies all", strings.Replace(least(), "capacity: 4", "capacity: 0", 1), leastPolicy(func(p *tokenleasev1.Policy) { bucket(p, 0, 0, 0) })},
		{"cost 0 where allowed", least("  cost: 0", "  allow-zero-cost: true"), leastPolicy(func(p *tokenleasev1.Policy) { p.DefaultCostTokens, p.AllowZeroCost = 0, true })},
		{"cost above the capacity", least("  cost: 9"), leastPolicy(func(p *tokenleasev1.Policy) { p.DefaultCostTokens = 9 })},
		{"share", least("  max-share: 1%"), leastPolicy(func(p *tokenleasev1.Policy) { p.MaxSharePercent = 1 })},
		{"longest operation", named(strings.Repeat("o", 128)), leastPolicy(func(p *tokenleasev1.Policy) { p.Operation = strings.Repeat("o", 128) })},
		{"largest file", least() + strings.Repeat("#", policyfile.MaxFileBytes-len(least())), leastPolicy(func(*tokenleasev1.Policy) {})},
		{"operation in quotes", named(`"true"`), leastPolicy(func(p *tokenleasev1.Policy) { p.Operation = "true" })},
		{"operation beyond ASCII", named("größe"), leastPolicy(func(p *tokenleasev1.Policy) { p.Operation = "größe" })},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc, err := policyfile.Parse("p.yaml", []byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			got := doc.Policies
			if len(got) != 1 || !proto.Equal(got[0], test.want) {
				t.Errorf("Parse:\n got %v\nwant %v", got, test.want)
			}
			if err := got[0].Validate(); err != nil {
				t.Errorf("what was parsed is invalid: %v", err)
			}
		})
	}
}

func TestCase49UpperAndLowerCaseAreTwo(t *testing.T) {
	doc, err := policyfile.Parse("p.yaml", []byte(full+strings.TrimPrefix(strings.Replace(full, "report", "Report", 1), "policies:\n")))
	if err != nil {
		t.Fatal(err)
	}
	got := doc.Policies
	if len(got) != 2 || got[0].GetOperation() != "report.create" || got[1].GetOperation() != "Report.create" {
		t.Errorf("Parse = %v, want two policies in the order of the file", got)
	}
}

// TestCase48NumbersAreWhole: what is not a plain decimal is refused by name,
// wherever a number of tokens stands.
func TestCase48NumbersAreWhole(t *testing.T) {
	values := []struct{ value, problem string }{
		{"1.5", `"1.5" is not whole: want a whole number of tokens`},
		{"5.0", `"5.0" is not whole: want a whole number of tokens`},
		{".5", `".5" is not whole: want a whole number of tokens`},
		{"010", `"010" begins with a 0, which may be read as octal: want 10`},
		{"00", `"00" begins with a 0, which may be read as octal: want 0`},
		{"1e3", `"1e3" has an exponent: want a whole number with all its digits`},
		{"1E3", `"1E3" has an exponent: want a whole number with all its digits`},
		{"", `is empty: want a whole number such as 40`},
		{"# nothing", `is empty: want a whole number such as 40`},
		{"null", `"null" is empty: want a whole number`},
		{"~", `"~" is empty: want a whole number`},
		{`""`, `"" is text: want a whole number without quotes`},
		{`"5"`, `"5" is text: want a whole number without quotes`},
		{`'5'`, `"5" is text: want a whole number without quotes`},
		{"|\n      5", `"5\n" is text: want a whole number without quotes`},
		{"0x10", `"0x10" is not decimal: want a whole number in decimal digits`},
		{"0o10", `"0o10" is not decimal: want a whole number in decimal digits`},
		{"0b1", `"0b1" is not decimal: want a whole number in decimal digits`},
		{"+5", `"+5" has a sign: want 5`},
		{"-5", `"-5" is negative: want 0 or more`},
		{"1_000", `"1_000" has underscores: want 1000`},
		{"1,000", `"1,000" has commas: want 1000`},
		{".inf", `".inf" is not a number: want a whole number such as 40`},
		{".nan", `".nan" is not a number: want a whole number such as 40`},
		{"40 tokens", `"40 tokens" is not a number: want a whole number such as 40`},
		{"forty", `"forty" is not a number: want a whole number such as 40`},
		{"true", `"true" is not a number: want a whole number such as 40`},
		{"2026-01-01", `"2026-01-01" is not a number: want a whole number such as 40`},
		{"9223372036854775808", `"9223372036854775808" is too large: want at most 9223372036854775807`},
		{"[5]", `is a list: want a whole number such as 40`},
		{"{a: 5}", `is a group of fields: want a whole number such as 40`},
	}
	for _, v := range values {
		t.Run(v.value, func(t *testing.T) {
			requireFaults(t, least("  cost: "+v.value), "p.yaml:5: policies[0].cost: "+v.problem)
			requireFaults(t, least("  max-cost: "+v.value), "p.yaml:5: policies[0].max-cost: "+v.problem)
			in := strings.Replace(least(), "capacity: 4", "capacity: "+v.value, 1)
			requireFaults(t, in, "p.yaml:4: policies[0].token-bucket.capacity: "+v.problem)
			requireFaults(t, ruled("fixed-window:", "    period: day", "    limit: "+v.value), "p.yaml:5: policies[0].fixed-window.limit: "+v.problem)
			requireFaults(t, ruled("rolling-window:", "    window: 1m", "    limit: "+v.value), "p.yaml:5: policies[0].rolling-window.limit: "+v.problem)
			slots := strings.ReplaceAll(v.problem, "number of tokens", "number of slots")
			requireFaults(t, ruled("concurrency:", "    slots: "+v.value), "p.yaml:4: policies[0].concurrency.slots: "+slots)
			local := least("  on-unavailable: local", "  local:", "    for: 1m", "    capacity: "+v.value)
			requireFaults(t, local, "p.yaml:8: policies[0].local.capacity: "+v.problem)
		})
	}
}

func TestRefills(t *testing.T) {
	values := []struct{ value, problem string }{
		{"", `is empty: want tokens per interval, such as 20 per 1s, or 0 for a fixed quota`},
		{"20", `"20" is not a refill: want an interval as well, such as 20 per 1s`},
		{"20/s", `"20/s" is not a refill: want 20 per 1s`},
		{"20/min", `"20/min" is not a refill: want 20 per 1m`},
		{"20 / 10s", `"20 / 10s" is not a refill: want 20 per 10s`},
		{"20per1s", `"20per1s" is not a refill: want 20 per 1s`},
		{"20 per 1 s", `"20 per 1 s" is not a refill: want 20 per 1s`},
		{"20 every 1s", `"20 every 1s" is not a refill: want tokens per interval, such as 20 per 1s`},
		{"20 PER 1s", `"20 PER 1s" is not a refill: want tokens per interval, such as 20 per 1s`},
		{"fast", `"fast" is not a refill: want tokens per interval, such as 20 per 1s`},
		{"20 per 1", `the interval "1" has no unit: want 1s, 1m, 1h or 1d`},
		{"20 per s", `the interval "s" is not understood: want 1s`},
		{"20 per second", `the interval "second" is not understood: want 1s`},
		{"20 per 5min", `the interval "5min" is not understood: want 5m`},
		{"20 per 1S", `the interval "1S" is not understood: want 1s`},
		{"20 per 1.5s", `the interval "1.5s" is not understood: want 1500ms`},
		{"20 per 1m30s", `the interval "1m30s" is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s`},
		{"20 per 1w", `the interval "1w" is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s`},
		{"20 per -1s", `the interval "-1s" is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s`},
		{"20 per 0s", `the interval "0s" has no length: want 1s or more`},
		{"20 per 01s", `the interval "01" begins with a 0, which may be read as octal: want 1`},
		{"20 per 367d", `the interval "367d" is too long: want at most 366d`},
		{"20 per 99999999999999999999s", `the interval "99999999999999999999" is too large: want at most 9223372036854775807`},
		{"0 per 1s", `"0 per 1s" refills nothing: want 0 for a fixed quota`},
		{"1.5 per 1s", `"1.5" is not whole: want a whole number of tokens; a broken rate is written over a longer interval, such as 3 per 2s`},
		{"-1 per 1s", `"-1" is negative: want 0 or more; a broken rate is written over a longer interval, such as 3 per 2s`},
		{"[20, 1s]", `is a list: want tokens per interval, such as 20 per 1s, or 0 for a fixed quota`},
	}
	for _, v := range values {
		t.Run(v.value, func(t *testing.T) {
			requireFaults(t, least("    refill: "+v.value), "p.yaml:5: policies[0].token-bucket.refill: "+v.problem)
			local := least("  on-unavailable: local", "  local:", "    capacity: 1", "    for: 1m", "    refill: "+v.value)
			requireFaults(t, local, "p.yaml:9: policies[0].local.refill: "+strings.Replace(v.problem, "0 for a fixed quota", "0 for none", 1))
		})
	}
}

// TestStaleness: what is not a length of time is refused wherever one of the two
// stands, and so is one that is too short to mean something.
func TestStaleness(t *testing.T) {
	for _, v := range []struct{ value, staleness, margin string }{
		{"", `is empty: want a length of time such as 90s`, ""},
		{"# nothing", `is empty: want a length of time such as 90s`, ""},
		{"null", `"null" is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s`, ""},
		{"30", `"30" has no unit: want 30s, 30m, 30h or 30d`, ""},
		{"0", `"0" has no unit: want 0s, 0m, 0h or 0d`, ""},
		{"010s", `"010" begins with a 0, which may be read as octal: want 10`, ""},
		{"1.5m", `"1.5m" is not understood: want 90s`, ""},
		{"1m30s", `"1m30s" is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s`, ""},
		{"30 s", `"30 s" is not understood: want 30s`, ""},
		{"30sec", `"30sec" is not understood: want 30s`, ""},
		{"-30s", `"-30s" is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s`, ""},
		{"never", `"never" is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s`, ""},
		{"[30s]", `is a list: want a length of time such as 90s`, ""},
		{"{s: 30}", `is a group of fields: want a length of time such as 90s`, ""},
		{"367d", `"367d" is too long: want at most 366d`, ""},
		{"99999999999999999999s", `"99999999999999999999" is too large: want at most 9223372036854775807`, ""},
		{"0s", `"0s" is too short: want at least 5s`, `"0s" has no length: want 1s or more`},
		{"0ms", `"0ms" is too short: want at least 5s`, `"0ms" is too short: want at least 1s`},
		{"999ms", `"999ms" is too short: want at least 5s`, `"999ms" is too short: want at least 1s`},
	} {
		if v.margin == "" {
			v.margin = v.staleness
		}
		t.Run(v.value, func(t *testing.T) {
			requireFaults(t, least("  reclaim: deadline", "  reclaim-margin: 1s", "  max-staleness: "+v.value), "p.yaml:7: policies[0].max-staleness: "+v.staleness)
			requireFaults(t, least("  reclaim: deadline", "  max-staleness: 5s", "  reclaim-margin: "+v.value), "p.yaml:7: policies[0].reclaim-margin: "+v.margin)
		})
	}
	requireFaults(t, least("  max-staleness: 4999999999ns"), `p.yaml:5: policies[0].max-staleness: "4999999999ns" is too short: want at least 5s`)
}

// requireFaults parses a file and compares all that is wrong with it.
func requireFaults(t *testing.T, in string, want ...string) {
	t.Helper()
	doc, err := policyfile.Parse("p.yaml", []byte(in))
	if !doc.IsEmpty() {
		t.Errorf("a wrong file gave a document: %v", doc)
	}
	var faults policyfile.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("Parse error = %v, want Faults", err)
	}
	var got []string
	for _, f := range faults {
		got = append(got, f.String())
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("faults of\n%s\n got %s\nwant %s", in, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}
