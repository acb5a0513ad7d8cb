package policyfile

import (
	"slices"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ruleNames are the fields that hold a rule. A policy has one of them.
var ruleNames = []string{"token-bucket", "fixed-window", "rolling-window", "concurrency"}

// periods of a fixed window, as files name them.
var periods = []struct {
	name string
	wire tokenleasev1.Period
}{
	{"minute", tokenleasev1.Period_PERIOD_MINUTE},
	{"hour", tokenleasev1.Period_PERIOD_HOUR},
	{"day", tokenleasev1.Period_PERIOD_DAY},
	{"week", tokenleasev1.Period_PERIOD_WEEK},
	{"month", tokenleasev1.Period_PERIOD_MONTH},
}

// ruleFields read the rule into a policy.
func (r reader) ruleFields(out *tokenleasev1.Policy) []strictyaml.Field {
	return []strictyaml.Field{
		{Name: "token-bucket", Read: func(v *strictyaml.Node, at string) { out.Rule = r.tokenBucket(v, at) }},
		{Name: "fixed-window", Read: func(v *strictyaml.Node, at string) { out.Rule = r.fixedWindow(v, at) }},
		{Name: "rolling-window", Read: func(v *strictyaml.Node, at string) { out.Rule = r.rollingWindow(v, at) }},
		{Name: "concurrency", Read: func(v *strictyaml.Node, at string) { out.Rule = r.concurrency(v, at) }},
	}
}

// oneRule records that a policy has no rule, or several.
func (r reader) oneRule(node *strictyaml.Node, path string) {
	var found []string
	for _, name := range ruleNames {
		if strictyaml.Lookup(node, name) != nil {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		r.Faultf(node.Line, path, "has no rule: want one of %s", strings.Join(ruleNames, ", "))
		return
	}
	slices.SortStableFunc(found, func(a, b string) int { return strictyaml.LineOf(node, a) - strictyaml.LineOf(node, b) })
	for _, name := range found[1:] {
		r.Faultf(strictyaml.LineOf(node, name), strictyaml.Join(path, name),
			"is a second rule, beside %s in line %d: want one", found[0], strictyaml.LineOf(node, found[0]))
	}
}

// tokenBucket reads a rule of capacity and refill.
func (r reader) tokenBucket(node *strictyaml.Node, path string) *tokenleasev1.Policy_TokenBucket {
	bucket := &tokenleasev1.TokenBucket{}
	r.Mapping(node, path, []strictyaml.Field{
		{Name: "capacity", Required: true, Read: func(v *strictyaml.Node, at string) {
			bucket.CapacityTokens = r.Count(v, at, "tokens", 0, tokenleasev1.MaxCapacityTokens)
		}},
		{Name: "refill", Read: func(v *strictyaml.Node, at string) {
			bucket.RefillTokens, bucket.RefillIntervalNs = r.refill(v, at, "a fixed quota")
		}},
	})
	return &tokenleasev1.Policy_TokenBucket{TokenBucket: bucket}
}

// fixedWindow reads a limit of each period of a calendar.
func (r reader) fixedWindow(node *strictyaml.Node, path string) *tokenleasev1.Policy_FixedWindow {
	window := &tokenleasev1.FixedWindow{TimeZone: "UTC"}
	r.Mapping(node, path, []strictyaml.Field{
		{Name: "limit", Required: true, Read: func(v *strictyaml.Node, at string) {
			window.LimitTokens = r.Count(v, at, "tokens", 0, tokenleasev1.MaxCapacityTokens)
		}},
		{Name: "period", Required: true, Read: func(v *strictyaml.Node, at string) { window.Period = r.period(v, at) }},
		{Name: "time-zone", Read: func(v *strictyaml.Node, at string) { window.TimeZone = r.timeZone(v, at) }},
	})
	return &tokenleasev1.Policy_FixedWindow{FixedWindow: window}
}

func (r reader) period(node *strictyaml.Node, path string) tokenleasev1.Period {
	var names []string
	for _, p := range periods {
		names = append(names, p.name)
	}
	return periods[slices.Index(names, r.Choice(node, path, names...))].wire
}

// timeZone reads the name of a time zone.
func (r reader) timeZone(node *strictyaml.Node, path string) string {
	before := r.Troubles()
	name := r.Name(node, path, tokenleasev1.MaxTimeZoneBytes, "Europe/Berlin")
	switch {
	case r.Troubles() > before || tokenleasev1.IsTimeZone(name):
	case name == "Local":
		r.Faultf(node.Line, path, "Local is another zone on another machine: want a name such as Europe/Berlin")
	default:
		r.Faultf(node.Line, path, "%s is no time zone: %s", strictyaml.Quote(name), zoneHint(name))
	}
	return name
}

// zoneHint guesses which time zone was meant: names are of words with capitals,
// joined by underscores.
func zoneHint(name string) string {
	joined := strings.ReplaceAll(strings.TrimSpace(name), " ", "_")
	titled := []byte(strings.ToLower(joined))
	for i := range titled {
		if begins := i == 0 || strings.IndexByte("/_-", titled[i-1]) >= 0; begins && titled[i] >= 'a' && titled[i] <= 'z' {
			titled[i] -= 'a' - 'A'
		}
	}
	for _, near := range []string{joined, strings.ToUpper(joined), string(titled)} {
		if near != "" && tokenleasev1.IsTimeZone(near) {
			return "did you mean " + near + "?"
		}
	}
	return "want a name such as Europe/Berlin, or UTC"
}

// rollingWindow reads a limit of every interval of one length.
func (r reader) rollingWindow(node *strictyaml.Node, path string) *tokenleasev1.Policy_RollingWindow {
	window := &tokenleasev1.RollingWindow{}
	r.Mapping(node, path, []strictyaml.Field{
		{Name: "limit", Required: true, Read: func(v *strictyaml.Node, at string) {
			window.LimitTokens = r.Count(v, at, "tokens", 0, tokenleasev1.MaxCapacityTokens)
		}},
		{Name: "window", Required: true, Read: func(v *strictyaml.Node, at string) {
			window.WindowNs = int64(r.Duration(v, at, tokenleasev1.MinWindow, tokenleasev1.MaxWindow))
		}},
	})
	return &tokenleasev1.Policy_RollingWindow{RollingWindow: window}
}

// concurrency reads a number of slots.
func (r reader) concurrency(node *strictyaml.Node, path string) *tokenleasev1.Policy_Concurrency {
	concurrency := &tokenleasev1.Concurrency{}
	r.Mapping(node, path, []strictyaml.Field{
		{Name: "slots", Required: true, Read: func(v *strictyaml.Node, at string) {
			concurrency.Slots = r.Count(v, at, "slots", 0, tokenleasev1.MaxCapacityTokens)
		}},
	})
	return &tokenleasev1.Policy_Concurrency{Concurrency: concurrency}
}

// refill reads what arrives over time. Zero says what a refill of 0 is.
func (r reader) refill(node *strictyaml.Node, path, zero string) (tokens, intervalNs int64) {
	tokens, interval := r.Rate(node, path, strictyaml.Rate{
		Name: "refill", Does: "refills", Counted: "tokens", Zero: zero, Longest: tokenleasev1.MaxRefillInterval,
	})
	return tokens, int64(interval)
}

// local reads the allowance for outages.
func (r reader) local(node *strictyaml.Node, path string) *tokenleasev1.LocalAllowance {
	local := &tokenleasev1.LocalAllowance{}
	r.Mapping(node, path, []strictyaml.Field{
		{Name: "capacity", Required: true, Read: func(v *strictyaml.Node, at string) {
			local.CapacityTokens = r.Count(v, at, "tokens", 1, tokenleasev1.MaxCapacityTokens)
		}},
		{Name: "refill", Read: func(v *strictyaml.Node, at string) {
			local.RefillTokens, local.RefillIntervalNs = r.refill(v, at, "none")
		}},
		{Name: "for", Required: true, Read: func(v *strictyaml.Node, at string) {
			local.ForNs = int64(r.Duration(v, at, time.Nanosecond, tokenleasev1.MaxLocalFor))
		}},
	})
	return local
}
