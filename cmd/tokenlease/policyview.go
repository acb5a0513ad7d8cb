package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/nearest"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	"github.com/tokenlease/tokenlease/proto/policywire"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func (p *program) policyListCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the policies in force",
		Long: `List the policies in force. With -o yaml the output is a file for policy apply.

STATE is on, shadow (all is admitted, and what would have been denied is counted)
or disabled (all is denied). STRICT says whether the rule is a cap, and if not,
why.`,
		Example: `  tokenlease policy list
  tokenlease policy list -o yaml > policies.yaml`,
	}
	return clientCommand(cmd, settings, 0, func(ctx context.Context, _ []string) error {
		answer, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
		if err != nil {
			return err
		}
		if settings.output == formatYAML {
			_, err := p.stdout.Write(policyfile.Format(answer.GetPolicies()))
			return err
		}
		t := &table{heading: []string{
			"OPERATION", "VERSION", "STATE", "RULE", "COST", "MAX-COST", "MAX-SHARE", "STRICT", "RECLAIM", "ON-UNAVAILABLE", "UPDATED",
		}}
		for _, policy := range answer.GetPolicies() {
			t.add(policy.GetOperation(), policy.GetVersion(), policyState(policy), policyfile.RuleInWords(policy),
				policy.GetDefaultCostTokens(), maxCost(policy), share(policy), strictness(policy, false), reclaimWord(policy),
				unavailableWord(policy), moment(policy.GetUpdatedUnixMs()))
		}
		return p.write(settings.output, answer, t)
	})
}

func (p *program) policyShowCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:   "show OPERATION",
		Short: "Show all of one policy",
		Long: `Show all of the policy in force for an operation, by the names that a file has.
With -o yaml the output is a file for policy apply.`,
		Example: `  tokenlease policy show report.create`,
	}
	return clientCommand(cmd, settings, 1, func(ctx context.Context, args []string) error {
		answer, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
		if err != nil {
			return err
		}
		var known []string
		for _, policy := range answer.GetPolicies() {
			known = append(known, policy.GetOperation())
			if policy.GetOperation() != args[0] {
				continue
			}
			if settings.output == formatYAML {
				_, err := p.stdout.Write(policyfile.Format([]*tokenleasev1.Policy{policy}))
				return err
			}
			return p.write(settings.output, policy, policyTable(policy))
		}
		text := fmt.Sprintf("no policy rules %q", args[0])
		if near := nearest.Word(args[0], known); near != "" {
			text += fmt.Sprintf(": did you mean %q?", near)
		}
		return exitError{code: exitNo, text: text}
	})
}

// policyTable has a row for each field of a policy.
func policyTable(policy *tokenleasev1.Policy) *table {
	hold := policywire.From(policy).HoldTime()
	t := &table{heading: []string{"FIELD", "VALUE"}}
	t.add("operation", policy.GetOperation())
	t.add("version", policy.GetVersion())
	t.add("updated", moment(policy.GetUpdatedUnixMs()))
	t.add("rule", policyfile.RuleInWords(policy))
	t.add("strict", strictness(policy, false))
	t.add("cost", policy.GetDefaultCostTokens())
	t.add("max-cost", maxCost(policy))
	t.add("allow-zero-cost", policy.GetAllowZeroCost())
	t.add("max-share", share(policy))
	t.add("hold", strictyaml.FormatDuration(hold))
	t.add("postpaid", policy.GetPostpaid())
	t.add("shadow", policy.GetShadow())
	t.add("disabled", policy.GetDisabled())
	t.add("disabled-because", policy.GetDisabledBecause())
	t.add("reclaim", reclaimWord(policy))
	t.add("on-unavailable", unavailableWord(policy))
	t.add("local", policyfile.LocalInWords(policy))
	return t
}

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

// roundTrip is how long a token is out beside the time that it counts, where no
// better is known: commit, reply, idle in the region, and report.
const roundTrip = 100 * time.Millisecond

// warnOfPolicies tells of policies that are valid and deny more than it seems.
func (p *program) warnOfPolicies(policies []*tokenleasev1.Policy) {
	for _, policy := range policies {
		for _, warning := range policyWarnings(policy) {
			fmt.Fprintf(p.stderr, "tokenlease: warning: %s %s\n", cell(policy.GetOperation()), warning)
		}
	}
}

// warnOfKinds tells of policies whose rule is of another kind than before.
func (p *program) warnOfKinds(before, after []*tokenleasev1.Policy) {
	kinds := map[string]string{}
	for _, policy := range before {
		kinds[policy.GetOperation()] = ruleKind(policy)
	}
	for _, policy := range after {
		was, is := kinds[policy.GetOperation()], ruleKind(policy)
		if was != "" && was != is {
			fmt.Fprintf(p.stderr, "tokenlease: warning: %s changes from %s to %s: budgets in use start as if all of it had just been spent\n",
				cell(policy.GetOperation()), was, is)
		}
	}
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

// policyWarnings are what is to be said of a policy. One that is disabled denies on
// purpose, and one in shadow mode denies nothing; that is worth a word, since it
// is easily left so.
func policyWarnings(policy *tokenleasev1.Policy) []string {
	switch {
	case policy.GetDisabled():
		return []string{"is disabled: every check is denied"}
	case policy.GetShadow():
		return []string{"is in shadow mode: every check is admitted"}
	}
	var all []string
	core := policywire.From(policy)
	rule, most, cost := core.Rule, core.Rule.ShareCap(), max(1, core.DefaultCost)
	switch {
	case rule.Capacity == 0:
		return []string{"has " + nothing(policy) + ", which denies every check"}
	case cost > most:
		all = append(all, fmt.Sprintf("costs %d, and one limiter may hold %d at most (max-share %d%% of %d): checks of that cost are always denied",
			cost, most, rule.MaxSharePercent, rule.Capacity))
	}
	if core.Local.Capacity > 0 && core.Local.Capacity < cost {
		all = append(all, fmt.Sprintf("costs %d, and its local allowance is %d: in an outage checks of that cost are always denied", cost, core.Local.Capacity))
	}
	if rule.Window > 0 && rule.Window < 10*roundTrip {
		all = append(all, fmt.Sprintf("has a window of %s, and a token is out for as long and a round trip: if that is %s, at most %d%% of the limit can be used",
			strictyaml.FormatDuration(rule.Window), strictyaml.FormatDuration(roundTrip), rule.Window*100/(rule.Window+roundTrip)))
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
