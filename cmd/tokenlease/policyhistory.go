package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func (p *program) policyHistoryCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	var version, limit number
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show the versions that are kept, the newest first",
		Long: `Show the versions of the policies that are kept, the newest first: who made each,
when and why, and the first ten things that it changed. With --version it is one of them, with every
field, before -> after.`,
		Example: `  tokenlease policy history
  tokenlease policy history --limit 5
  tokenlease policy history --version 7`,
	}
	numberVar(cmd.Flags(), &version, "version", "show this `version` alone, field by field", 0, math.MaxInt64)
	numberVar(cmd.Flags(), &limit, "limit", "the newest so many (default: all)", 0, 1<<53)
	return p.showCommand(cmd, settings, 0, func(ctx context.Context, p *program, _ []string) error {
		if version.value != 0 && limit.value != 0 {
			return usageErrorf("--version is one version: --limit does nothing to it")
		}
		if version.value != 0 {
			return p.showPolicyVersion(ctx, settings, int64(version.value))
		}
		out := p.newListStream(settings.output, "versions", []string{"VERSION", "ACTION", "BY", "AT", "CHANGED", "BECAUSE"})
		rest := &tokenleasev1.ListPolicyHistoryResponse{}
		err := eachPolicyVersion(ctx, settings, func(page *tokenleasev1.ListPolicyHistoryResponse, v *tokenleasev1.PolicyVersion) (bool, error) {
			if rest.GetRevision() == 0 {
				rest.Revision, rest.Version = page.GetRevision(), page.GetVersion()
			}
			err := out.add(v, v.GetVersion(), actionOf(v), v.GetBy(), moment(v.GetUnixMs()), subjects(v.GetChanges()), v.GetBecause())
			return limit.value == 0 || out.count < int64(limit.value), err
		})
		if err != nil {
			return err
		}
		return out.finish(rest)
	})
}

// eachPolicyVersion goes through the versions that are kept, the newest first, until
// visit says false.
func eachPolicyVersion(ctx context.Context, settings *clientSettings, visit func(*tokenleasev1.ListPolicyHistoryResponse, *tokenleasev1.PolicyVersion) (bool, error)) error {
	request := &tokenleasev1.ListPolicyHistoryRequest{}
	var failed error
	err := askPages(ctx, settings, settings.admin().ListPolicyHistory, request, func(page *tokenleasev1.ListPolicyHistoryResponse) bool {
		for _, v := range page.GetVersions() {
			more, err := visit(page, v)
			if failed = err; err != nil || !more {
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

// showPolicyVersion prints one version with all that it changed.
func (p *program) showPolicyVersion(ctx context.Context, settings *clientSettings, version int64) error {
	var found *tokenleasev1.PolicyVersion
	err := eachPolicyVersion(ctx, settings, func(_ *tokenleasev1.ListPolicyHistoryResponse, v *tokenleasev1.PolicyVersion) (bool, error) {
		if v.GetVersion() == version {
			found = v
		}
		return v.GetVersion() > version, nil
	})
	switch {
	case err != nil:
		return err
	case found == nil:
		return exitError{code: exitNo, text: fmt.Sprintf("version %d is not kept, or never was: `tokenlease policy history` shows those that are", version)}
	case settings.output != formatTable:
		return p.write(settings.output, found, nil)
	}
	t := &table{heading: []string{"VERSION", "ACTION", "BY", "AT", "BECAUSE"}}
	t.add(found.GetVersion(), actionOf(found), found.GetBy(), moment(found.GetUnixMs()), found.GetBecause())
	if err := t.write(p.stdout); err != nil {
		return err
	}
	fmt.Fprintln(p.stdout)
	return p.writeChanges(found.GetChanges())
}

// actionOf is what was done, and which version a rollback went back to.
func actionOf(v *tokenleasev1.PolicyVersion) string {
	if v.GetToVersion() > 0 {
		return fmt.Sprintf("%s to %d", v.GetAction(), v.GetToVersion())
	}
	return v.GetAction()
}

// subjectsNamed is how many of them a row names, as an entry of the audit does.
const subjectsNamed = 10

// subjects are what a version changed, each once, the first of them by name.
func subjects(changes []*tokenleasev1.PolicyChange) string {
	var all []string
	for _, c := range changes {
		if subject := cell(c.GetSubject()); !slices.Contains(all, subject) {
			all = append(all, subject)
		}
	}
	if more := len(all) - subjectsNamed; more > 0 {
		all = append(all[:subjectsNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}

func (p *program) policyRollbackCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	var c change
	var to number
	cmd := &cobra.Command{
		Use:   "rollback --to VERSION --because REASON",
		Short: "Put in force again what was at an earlier version",
		Long: `Put in force again the policies, plans and accounts that were in force at an earlier
version: all of them, as a new version. What has been disabled with
` + "`tokenlease policy disable`" + ` stays disabled.

As with every change, balances stay: nobody gets anything at once. See first what it
would do with --dry-run.`,
		Example: `  tokenlease policy history
  tokenlease policy rollback --to 6 --dry-run
  tokenlease policy rollback --to 6 --because "too tight, ticket 4711"`,
	}
	c.register(cmd.Flags())
	numberVar(cmd.Flags(), &to, "to", "the earlier `version`, as policy history shows it (required)", 0, math.MaxInt64)
	cmd.Flags().Lookup("because").Usage = "why: recorded (required)"
	return clientCommand(cmd, settings, 0, func(ctx context.Context, _ []string) error {
		if to.value == 0 {
			return usageErrorf("--to is required: `tokenlease policy history` shows the versions that are kept")
		}
		if c.dryRun && c.because == "" {
			c.because = "dry run"
		}
		if err := c.required("what is wrong with the version in force"); err != nil {
			return err
		}
		request := &tokenleasev1.RollbackPoliciesRequest{
			ToVersion: int64(to.value), AppliedBy: c.by, Because: c.because, IfVersion: int64(c.ifVersion.value), DryRun: c.dryRun,
		}
		if err := validRequest(request); err != nil {
			return err
		}
		answer, err := ask(ctx, settings, settings.admin().RollbackPolicies, request)
		if err != nil {
			return err
		}
		p.warn(answer.GetWarnings())
		p.tellVersion(answer.GetVersion(), answer.GetChanges(), answer.GetDryRun())
		if settings.output != formatTable {
			return p.write(settings.output, answer, nil)
		}
		return p.writeChanges(answer.GetChanges())
	})
}
