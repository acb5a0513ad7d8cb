package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const grantsResolveLong = `Record that no process of the grant's epoch runs, or can ever resume. Then what
is outstanding counts as spent now: it comes back through refill, never at once.

Slots of a concurrency rule are free at once instead, as work that has ended needs
none. So what must have ended is the work that was given them, wherever it runs,
and not only the limiter's process.

This is your word against the budget. If such a process does come back, more is
spent than the budget has. Wait for the holder's own account where you can: it
gives it when it starts again with its journal.

What is attested is shown, and the ID has to be typed to confirm it. Without a
terminal, say --yes together with --because.

A grant whose epoch is still the holder's current one is refused, unless
--retire-epoch fences that epoch as well. A holder that was heard less than a minute
ago probably runs: fencing it needs --force too, which is recorded. Where all of a holder is lost,
` + "`tokenlease holders retire`" + ` does that for all of its grants.`

func (p *program) grantsResolveCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	request, word := &tokenleasev1.ResolveGrantRequest{}, &attestation{}
	cmd := &cobra.Command{
		Use:   "resolve ID --because REASON",
		Short: "Attest that nobody can spend a grant any more",
		Long:  grantsResolveLong,
		Example: `  tokenlease grants resolve g1-003-0000002a --because "the machine was scrapped, ticket 4711"

  # In a script, without the question.
  tokenlease grants resolve g1-003-0000002a --because "ticket 4711" --yes`,
		ValidArgsFunction: p.completeArgs(settings, p.grantIDs),
	}
	word.register(cmd.Flags())
	cmd.Flags().BoolVar(&request.RetireEpoch, "retire-epoch", false, "fence the holder's current epoch as well")
	cmd.Flags().BoolVar(&request.Force, "force", false, "with --retire-epoch, also if the holder was heard a moment ago: recorded")
	return clientCommand(cmd, settings, 1, func(ctx context.Context, args []string) error {
		if err := word.check(p, "no process of the grant's epoch can ever resume"); err != nil {
			return err
		}
		request.GrantId, request.Because, request.AttestedBy = args[0], word.because, word.by
		if err := validRequest(request); err != nil {
			return err
		}
		var err error
		if request.GrantId, err = wholeGrantID(ctx, settings, args[0]); err != nil {
			return err
		}
		return p.resolveGrant(ctx, settings, request, word)
	})
}

// resolveGrant shows what is attested, has it confirmed, attests, and tells what
// that means for the kind of budget.
func (p *program) resolveGrant(ctx context.Context, settings *clientSettings, request *tokenleasev1.ResolveGrantRequest, word *attestation) error {
	shown, err := ask(ctx, settings, settings.admin().ShowGrant, &tokenleasev1.ShowGrantRequest{GrantId: request.GetGrantId()})
	if err != nil {
		return err
	}
	slots, err := hasSlots(ctx, settings, shown.GetGrant().GetBudget())
	if err != nil {
		return err
	}
	p.previewGrant(shown.GetGrant(), slots)
	if err := word.confirm(ctx, p, request.GetGrantId(), "attest this"); err != nil {
		return err
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
	setCell(t, "STATE", "resolved")
	return p.write(settings.output, answer, t)
}

// previewGrant tells what is about to be attested.
func (p *program) previewGrant(g *tokenleasev1.Grant, slots bool) {
	fmt.Fprintf(p.stderr, "Grant %s of %s %s, %s: held by %s, epoch %d, opened %s.\n", g.GetGrantId(), cell(g.GetBudget().GetAccount()),
		cell(g.GetBudget().GetOperation()), enumWord(g.GetState(), "GRANT_STATE_"), holderName(g.GetHolder()), g.GetEpoch(), p.momentAndAge(g.GetOpenedUnixMs()))
	fmt.Fprintln(p.stderr, "You attest that no process of that epoch runs or can ever resume.")
	if slots {
		fmt.Fprintf(p.stderr, "The grant is of slots, and %d are out. They are free at once: the work that holds them must have ended, not only the process.\n", g.GetOutstandingTokens())
		return
	}
	fmt.Fprintf(p.stderr, "%s are out: they count as spent at that moment, and come back through refill, or as their window ends.\n", countOf(g.GetOutstandingTokens(), "token"))
}

// hasSlots says whether a budget is of slots, by the policy that it runs under. A
// budget without a record runs under none.
func hasSlots(ctx context.Context, settings *clientSettings, key *tokenleasev1.BudgetKey) (bool, error) {
	answer, err := ask(ctx, settings, settings.admin().ShowBudget, &tokenleasev1.ShowBudgetRequest{Key: key})
	if exitCode(err) == exitNo {
		return false, nil
	}
	return answer.GetBudget().GetPolicy().GetConcurrency() != nil, err
}

// setCell replaces a cell of the only row of a table.
func setCell(t *table, column, text string) {
	t.rows[0][slices.Index(t.heading, column)] = text
}
