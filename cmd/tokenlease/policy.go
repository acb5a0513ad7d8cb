package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// policyCommand shows policies and puts them in force.
func (p *program) policyCommand() *cobra.Command {
	cmd := groupCommand("policy", "See the rules, and put new ones in force",
		p.policyListCommand(), p.policyShowCommand(), p.policyDiffCommand(), p.policyApplyCommand(),
		p.policyStatusCommand(), p.policyHistoryCommand(), p.policyRollbackCommand(),
		p.policyDisableCommand(), p.policyEnableCommand(), p.policyDeleteCommand())
	cmd.Long = `See the rules, and put new ones in force.

A policy rules one operation: for everybody, for the accounts of a plan, or for one
account. That of an account goes before that of its plan, and that before the one
for everybody. What no policy rules is denied.

All policies, plans and accounts share one version, which every change raises.
Each version is kept for a while with who made it and why, and can be put in force
again.`
	cmd.Example = `  # Change a limit: see what it does, apply exactly that, and wait until it holds.
  tokenlease policy diff policies.yaml
  tokenlease policy apply policies.yaml --if-version 6 --wait --because "the new plan"

  # It was wrong: back to what was in force before.
  tokenlease policy history
  tokenlease policy rollback --to 6 --because "too tight, ticket 4711"

  # An incident: deny everything of one operation, at once.
  tokenlease policy disable login --because "abuse, ticket 4711"`
	return cmd
}

// change is what every command has that changes policies.
type change struct {
	because   string
	by        string
	ifVersion number
	dryRun    bool
}

// register adds the flags.
func (c *change) register(flags *pflag.FlagSet) {
	c.registerWhy(flags, "why: recorded")
	numberVar(flags, &c.ifVersion, "if-version", "change nothing unless this is the `version` in force, as policy diff prints it; --if-revision is the same", 0, math.MaxInt64)
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "if-revision" { // versions are the revisions of policies
			name = "if-version"
		}
		return pflag.NormalizedName(name)
	})
	flags.BoolVar(&c.dryRun, "dry-run", false, "ask the broker what would change, and change nothing")
}

// registerWhy adds the flags of what is recorded.
func (c *change) registerWhy(flags *pflag.FlagSet, because string) {
	flags.StringVar(&c.because, "because", "", because)
	flags.StringVar(&c.by, "by", currentUser(), "who does it: recorded, unless a certificate says who it is")
}

// required wants a reason.
func (c *change) required(why string) error {
	if c.because == "" {
		return usageErrorf("--because is required: say %s", why)
	}
	return nil
}

// applyRequest is a request that changes nothing yet.
func (c *change) applyRequest() *tokenleasev1.ApplyPoliciesRequest {
	return &tokenleasev1.ApplyPoliciesRequest{
		AppliedBy: c.by, Because: c.because, IfVersion: int64(c.ifVersion.value), DryRun: c.dryRun,
	}
}

// warn tells what a broker has to say about policies.
func (p *program) warn(warnings []string) {
	for _, warning := range warnings {
		fmt.Fprintf(p.stderr, "tokenlease: warning: %s\n", cell(warning))
	}
}
