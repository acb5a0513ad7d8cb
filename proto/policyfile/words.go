package policyfile

import (
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

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

// formatRefill writes the refill of a bucket as a file has it: "20 per 1s", or
// "0" for a fixed quota.
func formatRefill(bucket *tokenleasev1.TokenBucket) string {
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
		return fmt.Sprintf("%d, refill %s", p.GetTokenBucket().GetCapacityTokens(), formatRefill(p.GetTokenBucket()))
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
