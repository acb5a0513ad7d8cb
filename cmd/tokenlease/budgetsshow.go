package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	"github.com/tokenlease/tokenlease/proto/policywire"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const budgetsShowLong = `Show one budget: what it has, what is out in which region, the policy that it runs
under, and its grants.

    cap         the most that can be unspent anywhere
    available   what the broker may hand out now
    reserved    what regions may still spend
    orphaned    the part of that whose holder is gone without an account
    recovering  what was spent and still counts in its window
    debt        what was used beyond reservations, and is paid first
    strict      whether the cap always holds, and if not, why; by clocks it does
                as far as the limiters' clocks and pauses keep to the policy
    lapses      whether what a silent limiter has out counts as spent after a time
                (reclaim: deadline), or waits for proof
    full in     how long until it is full, if all that is out comes back now and
                nothing more is spent; "never by waiting" for a quota without refill

A budget without a record is full, and nothing of it is out: then the exit code is
1.`

func (p *program) budgetsShowCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:   "show ACCOUNT OPERATION",
		Short: "Show one budget with its grants",
		Long:  budgetsShowLong,
		Example: `  tokenlease budgets show acme report.create
  tokenlease budgets show acme report.create --watch`,
		ValidArgsFunction: p.completeArgs(settings, p.accountNames, p.operationNames),
	}
	return p.showCommand(cmd, settings, 2, func(ctx context.Context, p *program, args []string) error {
		request := &tokenleasev1.ShowBudgetRequest{Key: &tokenleasev1.BudgetKey{Account: args[0], Operation: args[1]}}
		if err := validRequest(request); err != nil {
			return err
		}
		answer, err := ask(ctx, settings, settings.admin().ShowBudget, request)
		if err != nil {
			return err
		}
		defer p.warnUnusable(answer)
		if settings.output != formatTable {
			return p.write(settings.output, answer, nil)
		}
		return p.writeBudget(answer.GetBudget())
	})
}

// writeBudget prints all of a budget.
func (p *program) writeBudget(b *tokenleasev1.Budget) error {
	regions := &table{heading: []string{"REGION", "GRANTS", "LIVE", "ORPHANED"}}
	for _, r := range b.GetRegions() {
		regions.add(r.GetRegion(), r.GetGrants(), r.GetLiveTokens(), r.GetOrphanedTokens())
	}
	if err := p.writeTables(budgetFields(b), regions); err != nil {
		return err
	}
	return p.writeGrantsBelow(b.GetGrants())
}

// budgetFields has a row for each thing to know of a budget.
func budgetFields(b *tokenleasev1.Budget) *table {
	t := &table{heading: []string{"FIELD", "VALUE"}}
	t.add("account", b.GetKey().GetAccount())
	t.add("operation", b.GetKey().GetOperation())
	t.add("cap", policywire.From(b.GetPolicy()).Rule.Capacity)
	t.add("available", b.GetAvailableTokens())
	t.add("reserved", b.GetReservedTokens())
	t.add("orphaned", b.GetOrphanedTokens())
	t.add("recovering", b.GetRecoveringTokens())
	t.add("debt", b.GetDebtTokens())
	t.add("full in", fullIn(b))
	t.add("rule", policyfile.RuleInWords(b.GetPolicy()))
	t.add("strict", strictness(b.GetPolicy(), b.GetNotStrict()))
	t.add("reclaim", reclaimInWords(b.GetPolicy()))
	t.add("lapses", lapsesInWords(lapsesAfter(b.GetPolicy())))
	t.add("policy", fmt.Sprintf("version %d, %s", b.GetPolicy().GetVersion(), policySource(b.GetPolicy())))
	t.add("state", policyState(b.GetPolicy()))
	t.add("shard", b.GetShard())
	return t
}

// fullIn is how long a budget takes to be full.
func fullIn(b *tokenleasev1.Budget) string {
	out := b.GetReservedTokens() > 0
	switch {
	case !b.GetHasFullIn():
		return "never by waiting"
	case b.GetFullInNs() == 0 && out:
		return "as soon as what is out is back"
	case b.GetFullInNs() == 0:
		return "now"
	case out:
		return waitInWords(time.Duration(b.GetFullInNs())) + ", with what is out back"
	}
	return waitInWords(time.Duration(b.GetFullInNs()))
}

// policySource says whom a policy is for.
func policySource(policy *tokenleasev1.Policy) string {
	switch {
	case policy.GetAccount() != "":
		return "for this account alone"
	case policy.GetPlan() != "":
		return "of the plan " + policy.GetPlan()
	}
	return "for everybody"
}
