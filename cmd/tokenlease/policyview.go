package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	"github.com/tokenlease/tokenlease/proto/policywire"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// policyState is what is done with a decision.
func policyState(policy *tokenleasev1.Policy) string {
	switch {
	case policy.GetDisabled():
		return "disabled"
	case policy.GetShadow():
		return "shadow"
	}
	return "on"
}

// byClocks is how strict a budget is from which lost credit is reclaimed by deadline.
const byClocks = "by clocks"

// strictness says whether no more than the rule is ever admitted, and if not, why. By
// clocks it is where lost credit is reclaimed by deadline: as long as those of the
// limiters keep to what the policy declares. A broker may know of a reason that this
// program does not.
func strictness(policy *tokenleasev1.Policy, notStrict bool) string {
	var why []string
	for _, reason := range []struct {
		word string
		set  bool
	}{
		{"shadow", policy.GetShadow()},
		{"postpaid", policy.GetPostpaid()},
		{"local", policy.GetLocal() != nil},
	} {
		if reason.set {
			why = append(why, reason.word)
		}
	}
	switch {
	case len(why) > 0:
		return "no: " + strings.Join(why, ", ")
	case notStrict:
		return "no"
	case policy.GetReclaim() == tokenleasev1.Reclaim_RECLAIM_DEADLINE:
		return byClocks
	}
	return "yes"
}

// maxCost is the highest cost that a check may name, empty for no limit.
func maxCost(policy *tokenleasev1.Policy) string {
	if policy.GetMaxCostTokens() == 0 {
		return ""
	}
	return strconv.FormatInt(policy.GetMaxCostTokens(), 10)
}

// share is the most that one limiter may hold.
func share(policy *tokenleasev1.Policy) string {
	return fmt.Sprintf("%d%%", policywire.From(policy).Rule.MaxSharePercent)
}

// reclaimWord is the word of a file for how lost credit is reclaimed.
func reclaimWord(reclaim tokenleasev1.Reclaim) string {
	return enumWord(max(reclaim, tokenleasev1.Reclaim_RECLAIM_PROOF), "RECLAIM_")
}

// reclaimInWords is that word, and by deadline after how long.
func reclaimInWords(policy *tokenleasev1.Policy) string {
	if after := lapsesAfter(policy); after > 0 {
		return reclaimWord(policy.GetReclaim()) + " after " + strictyaml.FormatDuration(after)
	}
	return reclaimWord(policy.GetReclaim())
}

// lapsesAfter is how long after its newest request about a budget what a limiter has
// out of it counts as spent under a policy; 0: never.
func lapsesAfter(policy *tokenleasev1.Policy) time.Duration {
	core := policywire.From(policy)
	return core.LapsesAfter()
}

// lapsesInWords is that with what it rests on.
func lapsesInWords(after time.Duration) string {
	if after <= 0 {
		return "never: silence proves nothing"
	}
	return strictyaml.FormatDuration(after) + " after a limiter's newest request about a budget, what it has out of it counts as spent: weaker than proof, it rests on clocks and pauses"
}

// maxStaleness is for how long a limiter spends what it has without an answer.
func maxStaleness(policy *tokenleasev1.Policy) string {
	if policy.GetMaxStalenessNs() == 0 {
		return "no limit"
	}
	return strictyaml.FormatDuration(time.Duration(policy.GetMaxStalenessNs()))
}

// clockDrift is one part in how many a clock may run faster than another: each is off
// by up to 500 in a million while it is being set right.
const clockDrift = 1000

// marginNotes say that clocks alone may use up the margin of a deadline.
func marginNotes(core lease.Policy) []string {
	drift := core.MaxStaleness / clockDrift
	if core.ReclaimMargin == 0 || core.ReclaimMargin > drift {
		return nil
	}
	return []string{fmt.Sprintf("has a reclaim-margin of %s: in its max-staleness of %s two clocks may drift apart by %s, and nothing is left for pauses",
		strictyaml.FormatDuration(core.ReclaimMargin), strictyaml.FormatDuration(core.MaxStaleness), spanInWords(drift))}
}

func unavailableWord(policy *tokenleasev1.Policy) string {
	return enumWord(max(policy.GetOnUnavailable(), tokenleasev1.Unavailability_UNAVAILABILITY_REJECT), "UNAVAILABILITY_")
}

// ruleKind is the name that a file has for the kind of a policy's rule.
func ruleKind(policy *tokenleasev1.Policy) string {
	switch {
	case policy.GetFixedWindow() != nil:
		return "fixed-window"
	case policy.GetRollingWindow() != nil:
		return "rolling-window"
	case policy.GetConcurrency() != nil:
		return "concurrency"
	}
	return "token-bucket"
}

// policyNotes are what is to be said of a policy whenever it is applied, also when it
// was the same before: that it denies or admits everything is easily left so, and so is
// a margin that is none. What starves itself is the broker's to tell.
func policyNotes(policy *tokenleasev1.Policy) []string {
	core := policywire.From(policy)
	notes := marginNotes(core)
	switch cost := max(1, core.DefaultCost); {
	case policy.GetDisabled():
		return append(notes, "is disabled: every check is denied")
	case policy.GetShadow():
		return append(notes, "is in shadow mode: every check is admitted")
	case core.Rule.Capacity == 0:
		return append(notes, "has "+nothing(policy)+", which denies every check")
	case core.Local.Capacity > 0 && core.Local.Capacity < cost:
		return append(notes, fmt.Sprintf("costs %d, and its local allowance is %d: in an outage checks of that cost are always denied", cost, core.Local.Capacity))
	}
	return notes
}

// notesOf are those of all policies of a document.
func notesOf(d policyfile.Document) []string {
	var all []string
	add := func(whose string, policies []*tokenleasev1.Policy) {
		for _, policy := range policies {
			for _, note := range policyNotes(policy) {
				all = append(all, whose+policy.GetOperation()+" "+note)
			}
		}
	}
	add("", d.Policies)
	for _, plan := range d.Plans {
		add("plan "+plan.GetName()+", ", plan.GetPolicies())
	}
	for _, account := range d.Accounts {
		add("account "+account.GetAccount()+", ", account.GetPolicies())
	}
	return all
}

// nothing is what a rule that admits nothing has.
func nothing(policy *tokenleasev1.Policy) string {
	switch {
	case policy.GetConcurrency() != nil:
		return "0 slots"
	case policy.GetTokenBucket() != nil:
		return "capacity 0"
	}
	return "limit 0"
}
