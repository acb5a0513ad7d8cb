package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// budgetsCommand shows budgets.
func (p *program) budgetsCommand() *cobra.Command {
	return groupCommand("budgets", "See what is available, and what is out",
		p.budgetsListCommand(), p.budgetsShowCommand())
}

func (p *program) budgetsListCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	request := &tokenleasev1.ListBudgetsRequest{PageSize: tokenleasev1.MaxPageSize}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List budgets",
		Long: `List the budgets that have a record, in order of shard, account and operation.
A budget without a record is full, and nothing of it is out; after a restore see
` + "`tokenlease restore status`" + `.

AVAILABLE is what the broker may hand out now, RESERVED what regions may still
spend, ORPHANED the part of that whose holder is gone without an account.
RECOVERING was spent and still counts: in a rolling window until that has passed,
in a fixed window until its period ends.

STRICT says whether the rule is a cap. It is not where the policy is in shadow
mode (everything is admitted), postpaid (a settlement may be above its
reservation), or has a local allowance (for outages, beyond the budget).`,
		Example: `  tokenlease budgets list
  tokenlease budgets list --account acme`,
	}
	cmd.Flags().StringVar(&request.Account, "account", "", "only of this account")
	cmd.Flags().StringVar(&request.Operation, "operation", "", "only of this operation")
	return clientCommand(cmd, settings, 0, func(ctx context.Context, _ []string) error {
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		all, err := listBudgets(ctx, settings, request)
		if err != nil {
			return err
		}
		t := budgetTable()
		for _, b := range all.GetBudgets() {
			addBudget(t, b)
		}
		return p.write(settings.output, all, t)
	})
}

// listBudgets reads all the pages. The revision is that of the first.
func listBudgets(ctx context.Context, settings *clientSettings, request *tokenleasev1.ListBudgetsRequest) (*tokenleasev1.ListBudgetsResponse, error) {
	all := &tokenleasev1.ListBudgetsResponse{}
	err := askPages(ctx, settings, settings.admin().ListBudgets, request, func(page *tokenleasev1.ListBudgetsResponse) bool {
		if all.GetRevision() == 0 {
			all.Revision = page.GetRevision()
		}
		all.Budgets = append(all.Budgets, page.GetBudgets()...)
		request.PageToken = page.GetNextPageToken()
		return request.GetPageToken() != ""
	})
	return all, err
}

func (p *program) budgetsShowCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:     "show ACCOUNT OPERATION",
		Short:   "Show one budget with its grants",
		Example: "  tokenlease budgets show acme report.create",
	}
	return clientCommand(cmd, settings, 2, func(ctx context.Context, args []string) error {
		request := &tokenleasev1.ShowBudgetRequest{Key: &tokenleasev1.BudgetKey{Account: args[0], Operation: args[1]}}
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		answer, err := ask(ctx, settings, settings.admin().ShowBudget, request)
		if err != nil {
			return err
		}
		t := budgetTable()
		addBudget(t, answer.GetBudget())
		if err := p.write(settings.output, answer, t); err != nil || settings.output != formatTable || len(answer.GetBudget().GetGrants()) == 0 {
			return err
		}
		return p.writeGrantsBelow(answer.GetBudget().GetGrants())
	})
}

// budgetTable is an empty table of budgets.
func budgetTable() *table {
	return &table{heading: []string{"ACCOUNT", "OPERATION", "RULE", "AVAILABLE", "RESERVED", "ORPHANED", "RECOVERING", "STRICT", "POLICY", "SHARD"}}
}

// addBudget adds a row to it.
func addBudget(t *table, b *tokenleasev1.Budget) {
	t.add(b.GetKey().GetAccount(), b.GetKey().GetOperation(), policyfile.RuleInWords(b.GetPolicy()),
		b.GetAvailableTokens(), b.GetReservedTokens(), b.GetOrphanedTokens(), b.GetRecoveringTokens(),
		strictness(b.GetPolicy(), b.GetNotStrict()), b.GetPolicy().GetVersion(), b.GetShard())
}

// writeGrantsBelow prints grants under another table.
func (p *program) writeGrantsBelow(grants []*tokenleasev1.Grant) error {
	if _, err := fmt.Fprintln(p.stdout); err != nil {
		return err
	}
	return grantTable(grants).write(p.stdout)
}
