package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	"github.com/tokenlease/tokenlease/proto/policywire"
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

// strictness says whether no more than the rule is ever admitted, and if not, why.
// A broker may know of a reason that this program does not.
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

func reclaimWord(policy *tokenleasev1.Policy) string {
	return enumWord(max(policy.GetReclaim(), tokenleasev1.Reclaim_RECLAIM_PROOF), "RECLAIM_")
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
// was the same before: that it denies or admits everything is easily left so. What
// starves itself is the broker's to tell.
func policyNotes(policy *tokenleasev1.Policy) []string {
	core := policywire.From(policy)
	switch cost := max(1, core.DefaultCost); {
	case policy.GetDisabled():
		return []string{"is disabled: every check is denied"}
	case policy.GetShadow():
		return []string{"is in shadow mode: every check is admitted"}
	case core.Rule.Capacity == 0:
		return []string{"has " + nothing(policy) + ", which denies every check"}
	case core.Local.Capacity > 0 && core.Local.Capacity < cost:
		return []string{fmt.Sprintf("costs %d, and its local allowance is %d: in an outage checks of that cost are always denied", cost, core.Local.Capacity)}
	}
	return nil
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
