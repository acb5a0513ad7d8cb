package main

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/proto/inforce"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// accountsCommand shows and sets what accounts have of their own.
func (p *program) accountsCommand() *cobra.Command {
	cmd := groupCommand("accounts", "See and set which plan an account is on, and what it has of its own",
		p.accountsListCommand(), p.accountsShowCommand(), p.accountsSetCommand(), p.accountsRemoveCommand())
	cmd.Long = `See and set which plan an account is on, and which policies it has of its own.

Every account has budgets, whether it is listed here or not: one without a plan is
on the default plan. Names keep their case: Acme and acme are two accounts.`
	return cmd
}

func (p *program) accountsListCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	request := &tokenleasev1.ListAccountsRequest{PageSize: tokenleasev1.MaxPageSize}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the accounts that have a plan or policies of their own",
		Long: `List the accounts that have a plan or policies of their own, in order. With -o yaml
the output is a file for policy apply, which takes 1,000 accounts at once.`,
		Example: `  tokenlease accounts list
  tokenlease accounts list --plan premium
  tokenlease accounts list -o yaml > accounts.yaml`,
	}
	cmd.Flags().StringVar(&request.Plan, "plan", "", "only those of this plan")
	p.completeFlags(cmd, settings, map[string]completer{"plan": p.planNames})
	return p.showCommand(cmd, settings, 0, func(ctx context.Context, p *program, _ []string) error {
		if err := validRequest(request); err != nil {
			return err
		}
		if settings.output == formatYAML {
			var d policyfile.Document
			err := eachAccount(ctx, settings, request, func(_ *tokenleasev1.ListAccountsResponse, account *tokenleasev1.AccountPolicies) error {
				d.Accounts = append(d.Accounts, account)
				return nil
			})
			if err == nil {
				_, err = p.stdout.Write(policyfile.Format(d))
			}
			return err
		}
		out, rest := p.newListStream(settings.output, "accounts", accountHeading()), &tokenleasev1.ListAccountsResponse{}
		err := eachAccount(ctx, settings, request, func(page *tokenleasev1.ListAccountsResponse, account *tokenleasev1.AccountPolicies) error {
			if rest.GetRevision() == 0 {
				rest.Revision = page.GetRevision() // of the first page
			}
			return out.add(account, accountRow(account)...)
		})
		if err != nil {
			return err
		}
		return out.finish(rest)
	})
}

func accountHeading() []string { return []string{"ACCOUNT", "PLAN", "POLICIES", "VERSION", "UPDATED"} }

func accountRow(account *tokenleasev1.AccountPolicies) []any {
	return []any{account.GetAccount(), account.GetPlan(), len(account.GetPolicies()), account.GetVersion(), moment(account.GetUpdatedUnixMs())}
}

// eachAccount goes through the accounts of a request, page by page.
func eachAccount(ctx context.Context, settings *clientSettings, request *tokenleasev1.ListAccountsRequest, visit func(*tokenleasev1.ListAccountsResponse, *tokenleasev1.AccountPolicies) error) error {
	var failed error
	request = proto.CloneOf(request)
	err := askPages(ctx, settings, settings.admin().ListAccounts, request, func(page *tokenleasev1.ListAccountsResponse) bool {
		for _, account := range page.GetAccounts() {
			if failed = visit(page, account); failed != nil {
				return false
			}
		}
		request.PageToken = page.GetNextPageToken()
		return request.GetPageToken() != ""
	})
	if err != nil {
		return err
	}
	return failed
}

// accountInForce is what an account has of its own: its name alone if that is nothing.
func accountInForce(ctx context.Context, settings *clientSettings, account string) (*tokenleasev1.AccountPolicies, error) {
	request := &tokenleasev1.ListAccountsRequest{Account: account}
	if err := validRequest(request); err != nil {
		return nil, err
	}
	found := &tokenleasev1.AccountPolicies{Account: account}
	err := eachAccount(ctx, settings, request, func(_ *tokenleasev1.ListAccountsResponse, a *tokenleasev1.AccountPolicies) error {
		if a.GetAccount() == account {
			found = a
		}
		return nil
	})
	return found, err
}

func (p *program) accountsShowCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:   "show ACCOUNT",
		Short: "Show the plan of an account, and what rules each of its operations",
		Long: `Show the plan of an account, and what rules each of its operations: a policy of its
own, one of its plan, or the one for everybody. An account that has nothing of its
own is on the default plan.`,
		Example:           `  tokenlease accounts show Acme`,
		ValidArgsFunction: p.completeArgs(settings, p.accountNames),
	}
	return p.showCommand(cmd, settings, 1, func(ctx context.Context, p *program, args []string) error {
		if args[0] == "" {
			return usageErrorf("want the name of an account")
		}
		listed, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
		if err != nil {
			return err
		}
		own, err := accountInForce(ctx, settings, args[0])
		if err != nil {
			return err
		}
		if settings.output != formatTable {
			return p.write(settings.output, own, nil)
		}
		head := &table{heading: []string{"ACCOUNT", "PLAN", "OWN-POLICIES", "VERSION", "UPDATED"}}
		plan := inforce.PlanOf(listed, own)
		if own.GetPlan() == "" && plan != "" {
			plan += " (default)"
		}
		head.add(own.GetAccount(), plan, len(own.GetPolicies()), own.GetVersion(), moment(own.GetUpdatedUnixMs()))
		return p.writeTables(head, effectiveTable(listed, own))
	})
}

// effectiveTable has a row for each operation of an account.
func effectiveTable(listed *tokenleasev1.ListPoliciesResponse, own *tokenleasev1.AccountPolicies) *table {
	t := &table{heading: []string{"OPERATION", "FROM", "STATE", "RULE", "COST", "STRICT"}}
	for _, operation := range inforce.Operations(listed, own) {
		e := inforce.ForAccount(listed, own, operation)
		state := policyState(e.Policy)
		if e.Disabled != nil {
			state = "disabled"
		}
		if e.Policy == nil {
			t.add(operation, "", state, "", "", "")
			continue
		}
		t.add(operation, e.From(), state, policyfile.RuleInWords(e.Policy), e.Policy.GetDefaultCostTokens(), strictness(e.Policy, false))
	}
	return t
}

func (p *program) accountsSetCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	var c change
	plan, noPlan := "", false
	cmd := &cobra.Command{
		Use:   "set ACCOUNT --plan PLAN | --no-plan",
		Short: "Assign an account to a plan",
		Long: `Assign an account to a plan, or with --no-plan to none of its own: then it is on the
default plan. Policies of its own stay as they are, and still go before those of the
plan; they are changed with ` + "`tokenlease policy apply`" + `.

Balances stay: being assigned gives nobody more at once.`,
		Example: `  tokenlease accounts set Acme --plan premium --because "they have signed"
  tokenlease accounts set Acme --no-plan`,
	}
	c.register(cmd.Flags())
	cmd.Flags().StringVar(&plan, "plan", "", "the `name` of the plan")
	cmd.Flags().BoolVar(&noPlan, "no-plan", false, "no plan of its own: the default plan")
	cmd.ValidArgsFunction = p.completeArgs(settings, p.accountNames)
	p.completeFlags(cmd, settings, map[string]completer{"plan": p.planNames})
	return clientCommand(cmd, settings, 1, func(ctx context.Context, args []string) error {
		if (plan != "") == noPlan {
			return usageErrorf("want --plan NAME or --no-plan")
		}
		request := c.applyRequest()
		request.Accounts = []*tokenleasev1.AccountPolicies{{Account: args[0], Plan: plan}}
		if noPlan { // as if it were removed, for what is wrong with the request
			request.Accounts, request.RemoveAccounts = nil, args
		}
		if err := validRequest(request); err != nil {
			return err
		}
		listed, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
		if err != nil {
			return err
		}
		own, err := accountInForce(ctx, settings, args[0])
		if err != nil {
			return err
		}
		inforce.Assign(request, own, plan, listed.GetVersion())
		answer, err := ask(ctx, settings, settings.admin().ApplyPolicies, request)
		if err != nil {
			return err
		}
		return p.writeApplied(settings.output, answer)
	})
}

func (p *program) accountsRemoveCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	var c change
	cmd := &cobra.Command{
		Use:   "remove ACCOUNT...",
		Short: "Remove what accounts have of their own: the default plan rules them again",
		Long: `Remove what accounts have of their own: their plan and their policies. The default
plan rules them again, and where it is silent, the policies for everybody. Their
budgets and balances stay.

Exit code 1 says that an account that was named had nothing of its own.`,
		Example:           `  tokenlease accounts remove Acme --because "they have left"`,
		ValidArgsFunction: p.completeArgs(settings, p.accountNames),
	}
	c.register(cmd.Flags())
	return clientCommand(cmd, settings, -1, func(ctx context.Context, args []string) error {
		request := c.applyRequest()
		request.RemoveAccounts = args
		if err := validRequest(request); err != nil {
			return err
		}
		answer, err := ask(ctx, settings, settings.admin().ApplyPolicies, request)
		if err != nil {
			return err
		}
		if err := p.writeApplied(settings.output, answer); err != nil {
			return err
		}
		return nothingRemoved(answer.GetChanges(), "account ", args, "there was nothing of its own to remove of %s: `tokenlease accounts list` shows which accounts have something")
	})
}
