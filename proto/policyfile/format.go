package policyfile

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Format writes valid policies as a file that [Parse] reads back to the same
// policies, but for versions and times, which a file does not have.
//
// Optional fields are written out where they say something; without policies the
// list is empty, which Parse refuses.
func Format(policies []*tokenleasev1.Policy) []byte {
	var b bytes.Buffer
	if len(policies) == 0 {
		return []byte("policies: []\n")
	}
	b.WriteString("policies:\n")
	for _, p := range policies {
		formatPolicy(&b, p)
	}
	return b.Bytes()
}

// formatPolicy writes one element of the list.
func formatPolicy(b *bytes.Buffer, p *tokenleasev1.Policy) {
	fmt.Fprintf(b, "  - operation: %s\n", strictyaml.FormatName(p.GetOperation()))
	formatRule(b, p)
	fmt.Fprintf(b, "    cost: %d\n", p.GetDefaultCostTokens())
	if p.GetMaxCostTokens() > 0 {
		fmt.Fprintf(b, "    max-cost: %d\n", p.GetMaxCostTokens())
	}
	formatTrue(b, "allow-zero-cost", p.GetAllowZeroCost())
	share := p.GetMaxSharePercent()
	if share == 0 {
		share = tokenleasev1.MaxSharePercent
	}
	fmt.Fprintf(b, "    max-share: %d%%\n", share)
	if hold := time.Duration(p.GetHoldNs()); hold != 0 && hold != tokenleasev1.DefaultHold {
		fmt.Fprintf(b, "    hold: %s\n", strictyaml.FormatDuration(hold))
	}
	formatTrue(b, "postpaid", p.GetPostpaid())
	formatTrue(b, "shadow", p.GetShadow())
	formatTrue(b, "disabled", p.GetDisabled())
	if p.GetDisabledBecause() != "" {
		fmt.Fprintf(b, "    disabled-because: %s\n", strconv.Quote(p.GetDisabledBecause()))
	}
	b.WriteString("    reclaim: proof\n")
	formatUnavailable(b, p)
}

// formatRule writes the rule.
func formatRule(b *bytes.Buffer, p *tokenleasev1.Policy) {
	switch {
	case p.GetFixedWindow() != nil:
		w := p.GetFixedWindow()
		fmt.Fprintf(b, "    fixed-window:\n      limit: %d\n      period: %s\n      time-zone: %s\n",
			w.GetLimitTokens(), periodName(w.GetPeriod()), zoneName(w.GetTimeZone())) // which is of letters, digits, and /_+-
	case p.GetRollingWindow() != nil:
		w := p.GetRollingWindow()
		fmt.Fprintf(b, "    rolling-window:\n      limit: %d\n      window: %s\n",
			w.GetLimitTokens(), strictyaml.FormatDuration(time.Duration(w.GetWindowNs())))
	case p.GetConcurrency() != nil:
		fmt.Fprintf(b, "    concurrency:\n      slots: %d\n", p.GetConcurrency().GetSlots())
	default:
		bucket := p.GetTokenBucket()
		fmt.Fprintf(b, "    token-bucket:\n      capacity: %d\n      refill: %s\n", bucket.GetCapacityTokens(), FormatRefill(bucket))
	}
}

// formatUnavailable writes what is answered without authority.
func formatUnavailable(b *bytes.Buffer, p *tokenleasev1.Policy) {
	local := p.GetLocal()
	if local == nil {
		b.WriteString("    on-unavailable: reject\n")
		return
	}
	fmt.Fprintf(b, "    on-unavailable: local\n    local:\n      capacity: %d\n      refill: %s\n      for: %s\n", local.GetCapacityTokens(),
		strictyaml.FormatRate(local.GetRefillTokens(), time.Duration(local.GetRefillIntervalNs())), strictyaml.FormatDuration(time.Duration(local.GetForNs())))
}

// formatTrue writes a field that says something only when it is true.
func formatTrue(b *bytes.Buffer, name string, value bool) {
	if value {
		fmt.Fprintf(b, "    %s: true\n", name)
	}
}

// periodName is a period as a file has it, empty if it is not known.
func periodName(wire tokenleasev1.Period) string {
	for _, p := range periods {
		if p.wire == wire {
			return p.name
		}
	}
	return ""
}

// zoneName is a time zone in its one form.
func zoneName(zone string) string {
	if zone == "" {
		return "UTC"
	}
	return zone
}

// FormatRefill writes the refill of a bucket as a file has it: "20 per 1s", or
// "0" for a fixed quota.
func FormatRefill(bucket *tokenleasev1.TokenBucket) string {
	return strictyaml.FormatRate(bucket.GetRefillTokens(), time.Duration(bucket.GetRefillIntervalNs()))
}

// RuleInWords is the rule of a policy on one line, for people: "40, refill 20 per
// 1s", "40, no refill", "1000 per day (Europe/Berlin)", "3 in any 1m" or "10
// slots". It is empty without a rule.
func RuleInWords(p *tokenleasev1.Policy) string {
	switch {
	case p.GetTokenBucket() != nil && p.GetTokenBucket().GetRefillTokens() == 0:
		return fmt.Sprintf("%d, no refill", p.GetTokenBucket().GetCapacityTokens())
	case p.GetTokenBucket() != nil:
		return fmt.Sprintf("%d, refill %s", p.GetTokenBucket().GetCapacityTokens(), FormatRefill(p.GetTokenBucket()))
	case p.GetFixedWindow() != nil:
		w := p.GetFixedWindow()
		return fmt.Sprintf("%d per %s (%s)", w.GetLimitTokens(), periodName(w.GetPeriod()), zoneName(w.GetTimeZone()))
	case p.GetRollingWindow() != nil:
		w := p.GetRollingWindow()
		return fmt.Sprintf("%d in any %s", w.GetLimitTokens(), strictyaml.FormatDuration(time.Duration(w.GetWindowNs())))
	case p.GetConcurrency().GetSlots() == 1:
		return "1 slot"
	case p.GetConcurrency() != nil:
		return fmt.Sprintf("%d slots", p.GetConcurrency().GetSlots())
	}
	return ""
}

// LocalInWords is the allowance of a policy on one line, for people: "5, refill 1
// per 1s, for 10m". It is empty without one.
func LocalInWords(p *tokenleasev1.Policy) string {
	local := p.GetLocal()
	if local == nil {
		return ""
	}
	refill := "no refill"
	if local.GetRefillTokens() > 0 {
		refill = "refill " + strictyaml.FormatRate(local.GetRefillTokens(), time.Duration(local.GetRefillIntervalNs()))
	}
	return fmt.Sprintf("%d, %s, for %s", local.GetCapacityTokens(), refill, strictyaml.FormatDuration(time.Duration(local.GetForNs())))
}
