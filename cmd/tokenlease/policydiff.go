package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (p *program) policyDiffCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	c := change{dryRun: true}
	prune := false
	cmd := &cobra.Command{
		Use:   "diff FILE...",
		Short: "Show what applying files would change",
		Long: `Show what ` + "`tokenlease policy apply`" + ` of the same files would change, as the broker
computes it: each policy, plan and account that changes, field by field, before ->
after; for how many budgets in use; and how many tokens they have out above the new
capacity, which would be called back.

Exit code 0 says that nothing differs, 1 that something does. The version that this
was computed at goes to stderr: with --if-version it is applied exactly so, or
refused.`,
		Example: `  tokenlease policy diff policies.yaml
  tokenlease policy diff policies.yaml plans.yaml --prune
  tokenlease policy list -o yaml | sed 's/capacity: 40$/capacity: 50/' | tokenlease policy diff -`,
	}
	cmd.Flags().StringVar(&c.by, "by", currentUser(), "who asks")
	cmd.Flags().BoolVar(&prune, "prune", false, "also what apply --prune would remove")
	return clientCommand(cmd, settings, -1, func(ctx context.Context, files []string) error {
		answer, err := p.applyFiles(ctx, settings, c.applyRequest(), files, prune)
		if err != nil {
			return err
		}
		if err := p.writeApplied(settings.output, answer); err != nil {
			return err
		}
		if len(answer.GetChanges()) > 0 {
			return exitError{code: exitNo} // and all was said
		}
		return nil
	})
}
