package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// verifyCommand checks the invariants.
func (p *program) verifyCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every invariant over all that is stored",
		Long: `Read everything at one revision of the store and check every invariant.

The exit code is 1 when one is violated. Orphaned tokens are no violation: they
are credit that nobody has accounted for yet, and they stay reserved.`,
		Example: `  tokenlease verify
  tokenlease verify --watch=1m`,
	}
	cmd.AddCommand(p.verifyDecisionsCommand())
	return p.showCommand(cmd, settings, 0, func(ctx context.Context, p *program, _ []string) error {
		answer, err := ask(ctx, settings, settings.admin().Verify, &tokenleasev1.VerifyRequest{})
		if err != nil {
			return err
		}
		t := &table{heading: []string{"REVISION", "BUDGETS", "GRANTS", "HOLDERS", "POLICIES", "RESERVED", "ORPHANED", "VIOLATIONS"}}
		t.add(answer.GetRevision(), answer.GetBudgets(), answer.GetGrants(), answer.GetHolders(), answer.GetPolicies(),
			answer.GetReservedTokens(), answer.GetOrphanedTokens(), len(answer.GetViolations()))
		if err := p.write(settings.output, answer, t); err != nil {
			return err
		}
		return p.writeViolations(settings.output, answer.GetViolations())
	})
}

// writeViolations lists what is violated below a table, and ends the program
// with 1 if anything is.
func (p *program) writeViolations(format outputFormat, violations []string) error {
	if len(violations) == 0 {
		return nil
	}
	if format == formatTable {
		fmt.Fprintln(p.stdout)
		for _, v := range violations {
			fmt.Fprintln(p.stdout, cell(v))
		}
	}
	return exitError{code: exitNo, text: fmt.Sprintf("%d invariants are violated: stop handing out credit and find out why", len(violations))}
}
