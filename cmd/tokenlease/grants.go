package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// grantsCommand shows and resolves grants.
func (p *program) grantsCommand() *cobra.Command {
	return groupCommand("grants", "See who holds what, and resolve what nobody accounts for",
		p.grantsListCommand(), p.grantsShowCommand(), p.grantsResolveCommand())
}

func (p *program) grantsListCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	request := &tokenleasev1.ListGrantsRequest{PageSize: tokenleasev1.MaxPageSize}
	state := ""
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List grants that are unresolved",
		Long: `List every grant that is unresolved, in order of shard, holder, epoch and ID.

OUTSTANDING = ISSUED - SPENT - RETURNED is what the holder may still spend. A
grant is orphaned when its holder has started anew or was retired without giving
its account: what is outstanding stays reserved until it does, or until an
operator resolves it.`,
		Example: `  tokenlease grants list
  tokenlease grants list --state orphaned --region eu
  tokenlease grants list | grep ID`,
	}
	cmd.Flags().StringVar(&request.Region, "region", "", "only of holders in this region")
	cmd.Flags().StringVar(&request.Instance, "instance", "", "only of holders of this name")
	cmd.Flags().StringVar(&request.Account, "account", "", "only of this account")
	cmd.Flags().StringVar(&request.Operation, "operation", "", "only of this operation")
	cmd.Flags().StringVar(&state, "state", "", "only live or orphaned ones")
	return clientCommand(cmd, settings, 0, func(ctx context.Context, _ []string) error {
		var err error
		if request.State, err = grantState(state); err != nil {
			return err
		}
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		all, err := listGrants(ctx, settings, request)
		if err != nil {
			return err
		}
		return p.write(settings.output, all, grantTable(all.GetGrants()))
	})
}

// grantState reads the flag of that name.
func grantState(word string) (tokenleasev1.GrantState, error) {
	switch word {
	case "":
		return tokenleasev1.GrantState_GRANT_STATE_UNSPECIFIED, nil
	case "live":
		return tokenleasev1.GrantState_GRANT_STATE_LIVE, nil
	case "orphaned":
		return tokenleasev1.GrantState_GRANT_STATE_ORPHANED, nil
	}
	return 0, usageErrorf("--state must be live or orphaned, not %q", word)
}

// listGrants reads all the pages. The revision is that of the first.
func listGrants(ctx context.Context, settings *clientSettings, request *tokenleasev1.ListGrantsRequest) (*tokenleasev1.ListGrantsResponse, error) {
	all := &tokenleasev1.ListGrantsResponse{}
	err := askPages(ctx, settings, settings.admin().ListGrants, request, func(page *tokenleasev1.ListGrantsResponse) bool {
		if all.GetRevision() == 0 {
			all.Revision = page.GetRevision()
		}
		all.Grants = append(all.Grants, page.GetGrants()...)
		request.PageToken = page.GetNextPageToken()
		return request.GetPageToken() != ""
	})
	return all, err
}

func (p *program) grantsShowCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show one grant",
		Example: "  tokenlease grants show ID",
	}
	return clientCommand(cmd, settings, 1, func(ctx context.Context, args []string) error {
		request := &tokenleasev1.ShowGrantRequest{GrantId: args[0]}
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		answer, err := ask(ctx, settings, settings.admin().ShowGrant, request)
		if err != nil {
			return err
		}
		return p.write(settings.output, answer, grantTable([]*tokenleasev1.Grant{answer.GetGrant()}))
	})
}

func (p *program) grantsResolveCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	request := &tokenleasev1.ResolveGrantRequest{}
	cmd := &cobra.Command{
		Use:   "resolve ID --because REASON",
		Short: "Attest that nobody can spend a grant any more",
		Long: `Record that no process of the grant's epoch runs, or can ever resume. Then what
is outstanding counts as spent now: it comes back through refill, never at once.

Slots of a concurrency rule are free at once instead, as work that has ended needs
none. So what must have ended is the work that was given them, wherever it runs,
and not only the limiter's process.

This is your word against the budget. If such a process does come back, more is
spent than the budget has. Wait for the holder's own account where you can: it
gives it when it starts again with its journal.

A grant whose epoch is still the holder's current one is refused, unless
--retire-epoch fences that epoch as well.`,
		Example: `  tokenlease grants resolve ID --because "the machine was scrapped, ticket 4711"`,
	}
	cmd.Flags().StringVar(&request.Because, "because", "", "how you know: recorded (required)")
	cmd.Flags().StringVar(&request.AttestedBy, "by", currentUser(), "who attests: recorded")
	cmd.Flags().BoolVar(&request.RetireEpoch, "retire-epoch", false, "fence the holder's current epoch as well")
	return clientCommand(cmd, settings, 1, func(ctx context.Context, args []string) error {
		request.GrantId = args[0]
		if request.GetBecause() == "" {
			return usageErrorf("--because is required: say how you know that no process of the grant's epoch can ever resume")
		}
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		return p.resolveGrant(ctx, settings, request)
	})
}

// resolveGrant attests, and tells what that means for the kind of budget.
func (p *program) resolveGrant(ctx context.Context, settings *clientSettings, request *tokenleasev1.ResolveGrantRequest) error {
	slots, err := hasSlots(ctx, settings, request.GetGrantId())
	if err != nil {
		return err
	}
	if slots {
		fmt.Fprintln(p.stderr, "The grant is of slots, which are free at once: the work that holds them must have ended, not only the process.")
	}
	answer, err := ask(ctx, settings, settings.admin().ResolveGrant, request)
	if err != nil {
		return err
	}
	ended, counted := proto.CloneOf(answer.GetGrant()), answer.GetCountedAsSpentTokens()
	ended.OutstandingTokens = 0
	if slots {
		ended.ReturnedTokens += counted
		fmt.Fprintf(p.stderr, "Resolved: %d slots are free now.\n", counted)
	} else {
		ended.SpentTokens += counted
		fmt.Fprintf(p.stderr, "Resolved: %d tokens count as spent now.\n", counted)
	}
	t := grantTable([]*tokenleasev1.Grant{ended})
	t.rows[0][slices.Index(t.heading, "STATE")] = "resolved"
	return p.write(settings.output, answer, t)
}

// hasSlots says whether a grant is of slots, by the policy in force.
func hasSlots(ctx context.Context, settings *clientSettings, id string) (bool, error) {
	shown, err := ask(ctx, settings, settings.admin().ShowGrant, &tokenleasev1.ShowGrantRequest{GrantId: id})
	if err != nil {
		return false, err
	}
	answer, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
	if err != nil {
		return false, err
	}
	for _, policy := range answer.GetPolicies() {
		if policy.GetOperation() == shown.GetGrant().GetBudget().GetOperation() {
			return policy.GetConcurrency() != nil, nil
		}
	}
	return false, nil
}

// grantTable is a table of grants.
func grantTable(grants []*tokenleasev1.Grant) *table {
	t := &table{heading: []string{"ID", "ACCOUNT", "OPERATION", "HOLDER", "EPOCH", "STATE", "ISSUED", "SPENT", "RETURNED", "OUTSTANDING", "OPENED"}}
	for _, g := range grants {
		t.add(g.GetGrantId(), g.GetBudget().GetAccount(), g.GetBudget().GetOperation(), holderName(g.GetHolder()), g.GetEpoch(),
			enumWord(g.GetState(), "GRANT_STATE_"), g.GetIssuedTokens(), g.GetSpentTokens(), g.GetReturnedTokens(),
			g.GetOutstandingTokens(), moment(g.GetOpenedUnixMs()))
	}
	return t
}
