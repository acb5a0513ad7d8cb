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
is outstanding counts as spent now: it comes back by the rule of the budget, through
refill or as a window ends, never at once, and to a fixed quota never at all.

Slots of a concurrency rule are free at once instead, as work that has ended needs
none. So what must have ended is the work that was given them, wherever it runs,
and not only the limiter's process.

This is your word against the budget. If such a process does come back, more is
spent than the budget has. Wait for the holder's own account where you can: it
gives it when it starts again with its journal.

What is attested is shown, and the ID has to be typed to confirm it. Without a
terminal, say --yes together with --because. --dry-run only shows.

A grant whose epoch is still the holder's current one is refused, unless
--retire-epoch fences that epoch as well. A holder that was heard less than a minute
ago probably runs: fencing it needs --force too, which is recorded. Where all of a holder is lost,
` + "`tokenlease holders retire`" + ` does that for all of its grants.`

func (p *program) grantsResolveCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	request, word, dryRun := &tokenleasev1.ResolveGrantRequest{}, &attestation{}, false
	cmd := &cobra.Command{
		Use:   "resolve ID --because REASON",
		Short: "Attest that nobody can spend a grant any more",
		Long:  grantsResolveLong,
		Example: `  # What would be attested?
  tokenlease grants resolve g1-003-0000002a --dry-run

  tokenlease grants resolve g1-003-0000002a --because "the machine was scrapped, ticket 4711"

  # In a script, without the question.
  tokenlease grants resolve g1-003-0000002a --because "ticket 4711" --yes`,
		ValidArgsFunction: p.completeArgs(settings, p.grantIDs),
	}
	word.register(cmd.Flags())
	cmd.Flags().BoolVar(&request.RetireEpoch, "retire-epoch", false, "fence the holder's current epoch as well")
	cmd.Flags().BoolVar(&request.Force, "force", false, "with --retire-epoch, also if the holder was heard a moment ago: recorded")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be attested, and change nothing")
	return clientCommand(cmd, settings, 1, func(ctx context.Context, args []string) error {
		if dryRun {
			return p.previewResolution(ctx, settings, args[0])
		}
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

// previewResolution tells what would be attested.
func (p *program) previewResolution(ctx context.Context, settings *clientSettings, typed string) error {
	id, err := wholeGrantID(ctx, settings, typed)
	if err != nil {
		return err
	}
	grant, _, err := p.lookAtGrant(ctx, settings, id)
	if err != nil {
		return err
	}
	return p.write(settings.output, &tokenleasev1.ShowGrantResponse{Grant: grant}, grantTable([]*tokenleasev1.Grant{grant}))
}

// lookAtGrant reads a grant, tells what attesting it means, and says whether it is of
// slots.
func (p *program) lookAtGrant(ctx context.Context, settings *clientSettings, id string) (grant *tokenleasev1.Grant, slots bool, err error) {
	shown, err := ask(ctx, settings, settings.admin().ShowGrant, &tokenleasev1.ShowGrantRequest{GrantId: id})
	if err != nil {
		return nil, false, err
	}
	policy, err := policyOf(ctx, settings, shown.GetGrant().GetBudget())
	if err != nil {
		return nil, false, err
	}
	p.previewGrant(shown.GetGrant(), policy)
	return shown.GetGrant(), policy.GetConcurrency() != nil, nil
}

// resolveGrant shows what is attested, has it confirmed, attests, and tells what
// that means for the kind of budget.
func (p *program) resolveGrant(ctx context.Context, settings *clientSettings, request *tokenleasev1.ResolveGrantRequest, word *attestation) error {
	_, slots, err := p.lookAtGrant(ctx, settings, request.GetGrantId())
	if err != nil {
		return err
	}
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
func (p *program) previewGrant(g *tokenleasev1.Grant, policy *tokenleasev1.Policy) {
	fmt.Fprintf(p.stderr, "Grant %s of %s %s, %s: held by %s, epoch %d, opened %s.\n", g.GetGrantId(), cell(g.GetBudget().GetAccount()),
		cell(g.GetBudget().GetOperation()), enumWord(g.GetState(), "GRANT_STATE_"), holderName(g.GetHolder()), g.GetEpoch(), p.momentAndAge(g.GetOpenedUnixMs()))
	fmt.Fprintln(p.stderr, "You attest that no process of that epoch runs or can ever resume.")
	if g.GetState() == tokenleasev1.GrantState_GRANT_STATE_LIVE {
		fmt.Fprintln(p.stderr, "That epoch is the holder's current one: --retire-epoch has to fence it as well.")
	}
	if g.GetOutstandingTokens() == 0 {
		fmt.Fprintln(p.stderr, "Nothing of it is out.")
		return
	}
	if policy.GetConcurrency() != nil {
		fmt.Fprintf(p.stderr, "The grant is of slots, and %d are out. They are free at once: the work that holds them must have ended, not only the process.\n", g.GetOutstandingTokens())
		return
	}
	fmt.Fprintf(p.stderr, "%s out. What is out counts as spent at that moment, and %s.\n", isAre(g.GetOutstandingTokens(), "token"), comesBack(policy))
	if g.GetLapsesAfterNs() > 0 {
		fmt.Fprintf(p.stderr, "Without your word it does so as well, %s after the newest request about this budget by that epoch: the grant lapses.\n", grantLapses(g))
	}
}

// comesBack is what becomes of tokens that count as spent, by the policy of their budget;
// nil where it is not known, or there are several.
func comesBack(policy *tokenleasev1.Policy) string {
	switch bucket := policy.GetTokenBucket(); {
	case policy.GetFixedWindow() != nil, policy.GetRollingWindow() != nil:
		return "comes back as its window ends"
	case bucket == nil:
		return "comes back by the rule of its budget: through refill, or as its window ends, and to a fixed quota never"
	case bucket.GetRefillTokens() == 0:
		return "never comes back: the budget is a fixed quota, without refill"
	}
	return "comes back through refill"
}

// policyOf is the policy that a budget runs under. One without a record runs under none.
func policyOf(ctx context.Context, settings *clientSettings, key *tokenleasev1.BudgetKey) (*tokenleasev1.Policy, error) {
	answer, err := ask(ctx, settings, settings.admin().ShowBudget, &tokenleasev1.ShowBudgetRequest{Key: key})
	if exitCode(err) == exitNo {
		return nil, nil //nolint:nilnil // none is an answer
	}
	return answer.GetBudget().GetPolicy(), err
}

// setCell replaces a cell of the only row of a table.
func setCell(t *table, column, text string) {
	t.rows[0][slices.Index(t.heading, column)] = text
}
