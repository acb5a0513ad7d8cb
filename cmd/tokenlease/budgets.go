package main

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// budgetsCommand shows budgets.
func (p *program) budgetsCommand() *cobra.Command {
	return groupCommand("budgets", "See what is available, and what is out",
		p.budgetsListCommand(), p.budgetsShowCommand())
}

const budgetsListLong = `List the budgets that have a record, in order of shard, account and operation.
A budget without a record is full, and nothing of it is out; after a restore see
` + "`tokenlease restore status`" + `.

AVAILABLE is what the broker may hand out now, RESERVED what regions may still
spend, ORPHANED the part of that whose holder is gone without an account.
RECOVERING was spent and still counts: in a rolling window until that has passed,
in a fixed window until its period ends.

STRICT says whether the rule is a cap. It is not where the policy is in shadow
mode (everything is admitted), postpaid (a settlement may be above its
reservation), or has a local allowance (for outages, beyond the budget). By clocks
it is one where RECLAIM says deadline: what a silent limiter holds counts as spent
after that time, and the limiter must have stopped by its own clocks by then.

All of them are listed, however many there are, and they are printed as they come;
the revision is that of the first page.`

func (p *program) budgetsListCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	request := &tokenleasev1.ListBudgetsRequest{PageSize: tokenleasev1.MaxPageSize}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List budgets",
		Long:  budgetsListLong,
		Example: `  tokenlease budgets list
  tokenlease budgets list --account acme
  tokenlease budgets list --search report
  tokenlease budgets list --watch=5s`,
	}
	cmd.Flags().StringVar(&request.Account, "account", "", "only of this account")
	cmd.Flags().StringVar(&request.Operation, "operation", "", "only of this operation")
	cmd.Flags().StringVar(&request.Search, "search", "", "only those whose account or operation contains this `text`, in capitals or not")
	p.completeFlags(cmd, settings, map[string]completer{"account": p.accountNames, "operation": p.operationNames})
	return p.showCommand(cmd, settings, 0, func(ctx context.Context, p *program, _ []string) error {
		if err := validRequest(request); err != nil {
			return err
		}
		return p.listBudgets(ctx, settings, proto.CloneOf(request))
	})
}

// listBudgets prints the pages as they come.
func (p *program) listBudgets(ctx context.Context, settings *clientSettings, request *tokenleasev1.ListBudgetsRequest) error {
	rest := &tokenleasev1.ListBudgetsResponse{}
	out, progress := p.newListStream(settings.output, "budgets", budgetHeading), p.counting("budgets")
	defer progress.done()
	var failed error
	err := askPages(ctx, settings, settings.admin().ListBudgets, request, func(page *tokenleasev1.ListBudgetsResponse) bool {
		if rest.GetRevision() == 0 {
			rest.Revision = page.GetRevision()
		}
		rest.Unusable, rest.UnusableCount = addUnusable(rest.GetUnusable(), rest.GetUnusableCount(), page)
		for _, b := range page.GetBudgets() {
			if failed = out.add(b, budgetRow(b)...); failed != nil {
				return false
			}
		}
		progress.set(out.count)
		request.PageToken = page.GetNextPageToken()
		return request.GetPageToken() != ""
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	defer p.warnUnusable(rest)
	return out.finish(rest)
}

// budgetHeading is that of a table of budgets.
var budgetHeading = []string{"ACCOUNT", "OPERATION", "RULE", "AVAILABLE", "RESERVED", "ORPHANED", "RECOVERING", "STRICT", "RECLAIM", "POLICY", "SHARD"}

// budgetRow is a row of it.
func budgetRow(b *tokenleasev1.Budget) []any {
	return []any{
		b.GetKey().GetAccount(), b.GetKey().GetOperation(), policyfile.RuleInWords(b.GetPolicy()),
		b.GetAvailableTokens(), b.GetReservedTokens(), b.GetOrphanedTokens(), b.GetRecoveringTokens(),
		strictness(b.GetPolicy(), b.GetNotStrict()), reclaimInWords(b.GetPolicy()), b.GetPolicy().GetVersion(), b.GetShard(),
	}
}
