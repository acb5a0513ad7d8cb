package policyfile_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	"github.com/tokenlease/tokenlease/proto/policywire"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func TestFormat(t *testing.T) {
	policies := []*tokenleasev1.Policy{
		policy(func(p *tokenleasev1.Policy) { p.Version, p.UpdatedUnixMs = 3, 1_790_000_000_000 }),
		policy(func(p *tokenleasev1.Policy) {
			p.Operation = "true"
			bucket(p, 100, 0, 0)
			p.DefaultCostTokens, p.MaxCostTokens, p.AllowZeroCost = 0, 0, true
			p.MaxSharePercent, p.Reclaim, p.OnUnavailable = 0, 0, 0
		}),
		policy(func(p *tokenleasev1.Policy) {
			p.Operation = `a "b": #ü`
			bucket(p, 1, 3, 90e9)
			p.MaxSharePercent = 60
		}),
		policy(func(p *tokenleasev1.Policy) {
			p.Rule = &tokenleasev1.Policy_FixedWindow{FixedWindow: &tokenleasev1.FixedWindow{LimitTokens: 1000, Period: tokenleasev1.Period_PERIOD_DAY, TimeZone: "Europe/Berlin"}}
			p.HoldNs, p.Postpaid, p.Shadow = 90e9, true, true
		}),
		policy(func(p *tokenleasev1.Policy) {
			p.Rule = &tokenleasev1.Policy_FixedWindow{FixedWindow: &tokenleasev1.FixedWindow{LimitTokens: 1, Period: tokenleasev1.Period_PERIOD_MONTH}}
			p.Operation, p.HoldNs = "by month", 60e9
			deadline(p, 30e9, 90e9)
			p.OnUnavailable = tokenleasev1.Unavailability_UNAVAILABILITY_LOCAL
			p.Local = &tokenleasev1.LocalAllowance{CapacityTokens: 1, ForNs: 1}
		}),
		policy(func(p *tokenleasev1.Policy) {
			p.Rule = &tokenleasev1.Policy_RollingWindow{RollingWindow: &tokenleasev1.RollingWindow{LimitTokens: 3, WindowNs: 60e9}}
			p.Operation = "login"
			p.OnUnavailable = tokenleasev1.Unavailability_UNAVAILABILITY_LOCAL
			p.Local = &tokenleasev1.LocalAllowance{CapacityTokens: 5, RefillTokens: 1, RefillIntervalNs: 1e9, ForNs: 600e9}
		}),
		policy(func(p *tokenleasev1.Policy) {
			p.Rule = &tokenleasev1.Policy_Concurrency{Concurrency: &tokenleasev1.Concurrency{Slots: 10}}
			p.MaxStalenessNs = 3600e9
			p.Operation, p.Disabled, p.DisabledBecause = "render", true, "abuse:  see #4711 \"ü\u2028\""
		}),
	}
	const want = `policies:
  - operation: report.create
    token-bucket:
      capacity: 40
      refill: 20 per 1s
    cost: 5
    max-cost: 40
    max-share: 100%
    reclaim: proof
    on-unavailable: reject
  - operation: "true"
    token-bucket:
      capacity: 100
      refill: 0
    cost: 0
    allow-zero-cost: true
    max-share: 100%
    reclaim: proof
    on-unavailable: reject
  - operation: "a \"b\": #ü"
    token-bucket:
      capacity: 1
      refill: 3 per 90s
    cost: 5
    max-cost: 40
    max-share: 60%
    reclaim: proof
    on-unavailable: reject
  - operation: report.create
    fixed-window:
      limit: 1000
      period: day
      time-zone: Europe/Berlin
    cost: 5
    max-cost: 40
    max-share: 100%
    hold: 90s
    postpaid: true
    shadow: true
    reclaim: proof
    on-unavailable: reject
  - operation: "by month"
    fixed-window:
      limit: 1
      period: month
      time-zone: UTC
    cost: 5
    max-cost: 40
    max-share: 100%
    max-staleness: 30s
    reclaim: deadline
    reclaim-margin: 90s
    on-unavailable: local
    local:
      capacity: 1
      refill: 0
      for: 1ns
  - operation: login
    rolling-window:
      limit: 3
      window: 1m
    cost: 5
    max-cost: 40
    max-share: 100%
    reclaim: proof
    on-unavailable: local
    local:
      capacity: 5
      refill: 1 per 1s
      for: 10m
  - operation: render
    concurrency:
      slots: 10
    cost: 5
    max-cost: 40
    max-share: 100%
    disabled: true
    disabled-because: "abuse:  see #4711 \"ü\u2028\""
    max-staleness: 1h
    reclaim: proof
    on-unavailable: reject
`
	if got := string(policyfile.Format(policyfile.Document{Policies: policies})); got != want {
		t.Errorf("Format:\n%s\nwant\n%s", got, want)
	}
	policies = policies[1:] // of the one operation that two have, which a file has not
	again, err := policyfile.Parse("p.yaml", policyfile.Format(policyfile.Document{Policies: policies}))
	if err != nil {
		t.Errorf("what was written is not read: %v", err)
	}
	for i, p := range again.Policies {
		if got, want := policywire.From(p), policywire.From(policies[i]); got != want {
			t.Errorf("%+v became %+v", want, got)
		}
	}
	if got := string(policyfile.Format(policyfile.Document{})); got != "policies: []\n" {
		t.Errorf("Format of nothing = %q", got)
	}
}

func TestInWords(t *testing.T) {
	for _, test := range []struct{ rule, want string }{
		{"token-bucket: {capacity: 40, refill: 20 per 1000ms}", "40, refill 20 per 1s"},
		{"token-bucket: {capacity: 40}", "40, no refill"},
		{"fixed-window: {limit: 1000, period: day, time-zone: Europe/Berlin}", "1000 per day (Europe/Berlin)"},
		{"fixed-window: {limit: 1, period: month}", "1 per month (UTC)"},
		{"rolling-window: {limit: 3, window: 60s}", "3 in any 1m"},
		{"concurrency: {slots: 10}", "10 slots"},
		{"concurrency: {slots: 1}", "1 slot"},
		{"concurrency: {slots: 0}", "0 slots"},
	} {
		doc, err := policyfile.Parse("p.yaml", []byte(ruled(test.rule)))
		if err != nil {
			t.Fatal(err)
		}
		if got := policyfile.RuleInWords(doc.Policies[0]); got != test.want {
			t.Errorf("RuleInWords of %s = %q, want %q", test.rule, got, test.want)
		}
		if got := policyfile.LocalInWords(doc.Policies[0]); got != "" {
			t.Errorf("LocalInWords without one = %q", got)
		}
	}
	if got := policyfile.RuleInWords(&tokenleasev1.Policy{}); got != "" {
		t.Errorf("RuleInWords without a rule = %q", got)
	}
	local := &tokenleasev1.LocalAllowance{CapacityTokens: 5, RefillTokens: 1, RefillIntervalNs: 1e9, ForNs: 600e9}
	if got, want := policyfile.LocalInWords(&tokenleasev1.Policy{Local: local}), "5, refill 1 per 1s, for 10m"; got != want {
		t.Errorf("LocalInWords = %q, want %q", got, want)
	}
	local.RefillTokens = 0
	if got, want := policyfile.LocalInWords(&tokenleasev1.Policy{Local: local}), "5, no refill, for 10m"; got != want {
		t.Errorf("LocalInWords = %q, want %q", got, want)
	}
}

// TestValidIsReadBack writes every kind of valid policy, as one that was applied by
// another client may be, and reads it.
func TestValidIsReadBack(t *testing.T) {
	for _, because := range []string{"a", " a  b ", "a: b", "# a", "|", "2026", "é\u00a0\u3000\u2028x", strings.Repeat("\u3000b", 256), `\"'`} {
		p := fullPolicy()
		p.DisabledBecause = because
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		written := policyfile.Format(policyfile.Document{Policies: []*tokenleasev1.Policy{p}})
		again, err := policyfile.Parse("p.yaml", written)
		if err != nil {
			t.Fatalf("%q: %v\n%s", because, err, written)
		}
		if got := again.Policies[0].GetDisabledBecause(); got != because {
			t.Errorf("%q became %q", because, got)
		}
	}
}

// FuzzParse holds that no file makes Parse panic, that what it accepts is valid,
// and that it survives being written and read again, as a file and as JSON.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{full, whole, least(), least("    refill: 1 per 366d", "  max-share: 1%"), least("  cost: 010"),
		ruled("fixed-window: {limit: 1, period: week, time-zone: Asia/Tokyo}", "  hold: 2h"), ruled("rolling-window: {limit: 3, window: 60s}", "  postpaid: true"),
		ruled("concurrency: {slots: 3}", "  disabled: true", "  disabled-because: '  a  b'"), least("  on-unavailable: local", "  local: {capacity: 1, for: 1ns}"),
		least("  max-staleness: 30s", "  reclaim: deadline", "  reclaim-margin: 1500ms"), least("  max-staleness: 5s"), least("  reclaim: deadline"),
		"policies: [{operation: \"\\u2028\", token-bucket: {capacity: 0}}]", least() + "---\n", "a: &a [*a]", "\t", "- - -", "{[}]",
		"plans: [{plan: a}]\ndefault-plan: ''", "accounts: [{account: '007', plan: a-b}, {account: \"a\\e\", plan: ..}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := policyfile.Parse("p.yaml", data)
		if err != nil {
			if !doc.IsEmpty() || err.Error() == "" {
				t.Fatalf("%v with error %q", doc, err)
			}
			return
		}
		for _, p := range everyPolicy(doc) {
			if err := p.Validate(); err != nil {
				t.Fatalf("accepted an invalid policy: %v", err)
			}
			requireJSON(t, p)
		}
		written := policyfile.Format(doc)
		again, err := policyfile.Parse("again.yaml", written)
		if err != nil {
			t.Fatalf("Parse(Format) = %v\n%s", err, written)
		}
		requireSame(t, again, doc)
		if twice := policyfile.Format(again); !bytes.Equal(twice, written) {
			t.Fatalf("Format changed:\n%s\n%s", written, twice)
		}
	})
}

// everyPolicy is every policy of a document, whomever it is for.
func everyPolicy(d policyfile.Document) []*tokenleasev1.Policy {
	all := slices.Clone(d.Policies)
	for _, plan := range d.Plans {
		all = append(all, plan.GetPolicies()...)
	}
	for _, account := range d.Accounts {
		all = append(all, account.GetPolicies()...)
	}
	return all
}

// requireSame compares documents by the request that applies them.
func requireSame(t *testing.T, got, want policyfile.Document) {
	t.Helper()
	request := func(d policyfile.Document) *tokenleasev1.ApplyPoliciesRequest {
		return &tokenleasev1.ApplyPoliciesRequest{Policies: d.Policies, Plans: d.Plans, DefaultPlan: d.DefaultPlan, Accounts: d.Accounts}
	}
	if !proto.Equal(request(got), request(want)) {
		t.Fatalf("%v became %v", want, got)
	}
}

// requireJSON writes a policy as JSON and reads it.
func requireJSON(t *testing.T, p *tokenleasev1.Policy) {
	t.Helper()
	written := policyfile.JSON(p)
	parser := strictyaml.New("body")
	node := parser.JSON(written)
	if node == nil {
		t.Fatalf("%v\n%s", parser.Err(), written)
	}
	again := policyfile.ReadPolicy(parser, node, "")
	if err := parser.Err(); err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	if !proto.Equal(again, p) {
		t.Fatalf("%v became %v\n%s", p, again, written)
	}
}
