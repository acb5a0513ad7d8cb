package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/inforce"
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
		Short: "List the policies and plans in force",
		Long: `List the policies for everybody and those of plans, then the plans, and then what has
been disabled. With -o yaml the output is a file for policy apply; accounts are not
in it: ` + "`tokenlease accounts list -o yaml`" + ` has them.

STATE is on, shadow (all is admitted, and what would have been denied is counted)
or disabled (all is denied). STRICT says whether the rule is a cap, and if not,
why. By clocks it is one where lost credit is reclaimed by deadline: as long as the
limiters' clocks and pauses keep to what the policy declares. RECLAIM then tells
after how long.`,
		Example: `  tokenlease policy list
  tokenlease policy list -o yaml > policies.yaml`,
	}
	return p.showCommand(cmd, settings, 0, func(ctx context.Context, p *program, _ []string) error {
		answer, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
		switch {
		case err != nil:
			return err
		case settings.output == formatYAML:
			for _, d := range answer.GetDisabled() {
				fmt.Fprintf(p.stderr, "tokenlease: warning: %s is disabled, which is in no file: tokenlease policy enable ends it\n", cell(d.GetOperation()))
			}
			_, err := p.stdout.Write(policyfile.Format(documentInForce(answer)))
			return err
		case settings.output == formatJSON:
			return p.write(settings.output, answer, nil)
		}
		policies := policiesTable(answer)
		if len(policies.rows) == 0 {
			if err := policies.write(p.stdout); err != nil { // of which the heading says that there are none
				return err
			}
		}
		return p.writeTables(policies, plansTable(answer), disabledTable(answer.GetDisabled()...))
	})
}

// documentInForce is what a file has to say so that applying it to an empty cluster
// gives these policies and plans.
func documentInForce(listed *tokenleasev1.ListPoliciesResponse) policyfile.Document {
	d := policyfile.Document{Policies: listed.GetPolicies(), Plans: listed.GetPlans()}
	if len(d.Plans) > 0 || listed.GetDefaultPlan() != "" {
		d.DefaultPlan = new(listed.GetDefaultPlan())
	}
	return d
}

// policiesTable has a row for each policy, those for everybody first.
func policiesTable(listed *tokenleasev1.ListPoliciesResponse) *table {
	t := &table{heading: []string{
		"OPERATION", "PLAN", "VERSION", "STATE", "RULE", "COST", "MAX-COST", "MAX-SHARE", "STRICT", "RECLAIM", "ON-UNAVAILABLE", "UPDATED",
	}}
	add := func(plan string, policies []*tokenleasev1.Policy) {
		for _, policy := range policies {
			state := policyState(policy)
			if inforce.ForPlan(listed, plan, policy.GetOperation()).Disabled != nil {
				state = "disabled"
			}
			t.add(policy.GetOperation(), plan, policy.GetVersion(), state, policyfile.RuleInWords(policy),
				policy.GetDefaultCostTokens(), maxCost(policy), share(policy), strictness(policy, false), reclaimInWords(policy),
				unavailableWord(policy), moment(policy.GetUpdatedUnixMs()))
		}
	}
	add("", listed.GetPolicies())
	for _, plan := range listed.GetPlans() {
		add(plan.GetName(), plan.GetPolicies())
	}
	return t
}

// plansTable has a row for each plan.
func plansTable(listed *tokenleasev1.ListPoliciesResponse) *table {
	t := &table{heading: []string{"PLAN", "DEFAULT", "VERSION", "POLICIES", "UPDATED"}}
	for _, plan := range listed.GetPlans() {
		t.add(plan.GetName(), yesNo(plan.GetName() == listed.GetDefaultPlan()), plan.GetVersion(), len(plan.GetPolicies()), moment(plan.GetUpdatedUnixMs()))
	}
	return t
}

func (p *program) policyShowCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	account, plan := "", ""
	cmd := &cobra.Command{
		Use:   "show OPERATION",
		Short: "Show all of the policy that rules an operation",
		Long: `Show all of the policy that rules an operation, by the names that a file has: the
one for everybody; with --plan the one for accounts of that plan; with --account the
one for that account. FROM says which it is: that of the account, of its plan, or
the one for everybody. With -o yaml the output is a file for policy apply.`,
		Example: `  tokenlease policy show report.create
  tokenlease policy show report.create --account Acme
  tokenlease policy show report.create --plan premium`,
	}
	cmd.Flags().StringVar(&account, "account", "", "what rules it for this account")
	cmd.Flags().StringVar(&plan, "plan", "", "what rules it for accounts of this plan")
	cmd.MarkFlagsMutuallyExclusive("account", "plan")
	cmd.ValidArgsFunction = p.completeArgs(settings, p.operationNames)
	p.completeFlags(cmd, settings, map[string]completer{"account": p.accountNames, "plan": p.planNames})
	return p.showCommand(cmd, settings, 1, func(ctx context.Context, p *program, args []string) error {
		listed, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
		if err != nil {
			return err
		}
		if plan != "" && inforce.Plan(listed, plan) == nil {
			return noSuchPlan(listed, plan)
		}
		found, operations := inforce.ForPlan(listed, plan, args[0]), inforce.Operations(listed, &tokenleasev1.AccountPolicies{Plan: plan})
		if account != "" {
			own, err := accountInForce(ctx, settings, account)
			if err != nil {
				return err
			}
			found, operations = inforce.ForAccount(listed, own, args[0]), inforce.Operations(listed, own)
		}
		if found.Policy == nil {
			return unruled(args[0], operations, found.Disabled)
		}
		if settings.output == formatYAML {
			return p.writeAsFile(found)
		}
		return p.write(settings.output, found.Policy, policyTable(found))
	})
}

// writeAsFile prints a policy as a file that applies it for whom it stands.
func (p *program) writeAsFile(found inforce.Effective) error {
	policies := []*tokenleasev1.Policy{found.Policy}
	d := policyfile.Document{Policies: policies}
	if account, plan := found.Policy.GetAccount(), found.Policy.GetPlan(); account != "" || plan != "" {
		fmt.Fprintf(p.stderr, "tokenlease: warning: this is the policy of %s; the file is of one for everybody\n", cell(found.From()))
	}
	_, err := p.stdout.Write(policyfile.Format(d))
	return err
}

// noSuchPlan says that a plan is not there, and which was probably meant.
func noSuchPlan(listed *tokenleasev1.ListPoliciesResponse, name string) error {
	text := fmt.Sprintf("there is no plan %q", name)
	if near := nearest.Word(name, names(listed.GetPlans(), (*tokenleasev1.Plan).GetName)); near != "" {
		text += fmt.Sprintf(": did you mean %q?", near)
	}
	return exitError{code: exitNo, text: text}
}

// unruled says that no policy rules an operation, and which was probably meant.
func unruled(operation string, known []string, disabled *tokenleasev1.DisabledOperation) error {
	known = slices.DeleteFunc(slices.Clone(known), func(name string) bool { return name == operation })
	text := fmt.Sprintf("no policy rules %q", operation)
	if near := nearest.Word(operation, known); near != "" {
		text += fmt.Sprintf(": did you mean %q?", near)
	}
	if disabled != nil {
		text += fmt.Sprintf("\nIt is disabled by %s since %s: %s", cell(disabled.GetDisabledBy()), cell(moment(disabled.GetSinceUnixMs())), cell(disabled.GetBecause()))
	}
	return exitError{code: exitNo, text: text}
}

// policyTable has a row for each field of a policy.
func policyTable(found inforce.Effective) *table {
	policy := found.Policy
	hold := policywire.From(policy).HoldTime()
	t := &table{heading: []string{"FIELD", "VALUE"}}
	t.add("operation", policy.GetOperation())
	t.add("from", found.From())
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
	t.add("max-staleness", maxStaleness(policy))
	t.add("reclaim", reclaimWord(policy.GetReclaim()))
	if margin := policy.GetReclaimMarginNs(); margin > 0 {
		t.add("reclaim-margin", strictyaml.FormatDuration(time.Duration(margin)))
	}
	t.add("lapses", lapsesInWords(lapsesAfter(policy)))
	t.add("on-unavailable", unavailableWord(policy))
	t.add("local", policyfile.LocalInWords(policy))
	if d := found.Disabled; d != nil {
		t.add("disabled for all", fmt.Sprintf("by %s since %s: %s", d.GetDisabledBy(), moment(d.GetSinceUnixMs()), d.GetBecause()))
	}
	return t
}
