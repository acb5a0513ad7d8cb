package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/nearest"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func (p *program) policyDisableCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	var c change
	cmd := &cobra.Command{
		Use:   "disable OPERATION --because REASON",
		Short: "Deny everything of one operation, for every account, until it is enabled",
		Long: `Deny everything of one operation, for every account, until
` + "`tokenlease policy enable`" + `. It is for incidents: it goes before every policy, and
policies that are applied meanwhile do not end it. Callers are told the reason.

What limiters hold stays with them, and is denied as well once they have the version:
` + "`tokenlease policy status`" + ` tells who has it.`,
		Example: `  tokenlease policy disable login --because "abuse, ticket 4711"`,
	}
	c.registerWhy(cmd.Flags(), "why: recorded, and told to callers (required)")
	cmd.ValidArgsFunction = p.completeArgs(settings, p.operationNames)
	return clientCommand(cmd, settings, 1, func(ctx context.Context, args []string) error {
		if err := c.required("why nobody may use the operation: callers are told"); err != nil {
			return err
		}
		request := &tokenleasev1.DisableOperationRequest{Operation: args[0], DisabledBy: c.by, Because: c.because}
		if err := validRequest(request); err != nil {
			return err
		}
		answer, err := ask(ctx, settings, settings.admin().DisableOperation, request)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.stderr, "Version %d is in force. To end this: tokenlease policy enable %s\n", answer.GetVersion(), cell(args[0]))
		p.warnOfUnruled(ctx, settings, args[0])
		return p.write(settings.output, answer, disabledTable(answer.GetDisabled()))
	})
}

// warnOfUnruled tells that no policy rules what was disabled: it may be mistyped, and
// then what was meant goes on.
func (p *program) warnOfUnruled(ctx context.Context, settings *clientSettings, operation string) {
	known, err := p.operationNames(ctx, settings, "")
	if err != nil || slices.Contains(known, operation) {
		return // it is done; this is only a hint
	}
	hint := "is the name right?"
	if near := nearest.Word(operation, known); near != "" {
		hint = fmt.Sprintf("did you mean %s, which goes on?", cell(near))
	}
	fmt.Fprintf(p.stderr, "tokenlease: warning: no policy for everybody or for a plan rules %s: %s\n", cell(operation), hint)
}

// disabledTable is a table of disabled operations.
func disabledTable(disabled ...*tokenleasev1.DisabledOperation) *table {
	t := &table{heading: []string{"DISABLED", "VERSION", "BY", "SINCE", "BECAUSE"}}
	for _, d := range disabled {
		t.add(d.GetOperation(), d.GetVersion(), d.GetDisabledBy(), moment(d.GetSinceUnixMs()), d.GetBecause())
	}
	return t
}

func (p *program) policyEnableCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	var c change
	cmd := &cobra.Command{
		Use:   "enable OPERATION",
		Short: "End what policy disable began",
		Long: `End what ` + "`tokenlease policy disable`" + ` began: the policies rule again. A policy that
says "disabled: true" itself still denies.

Exit code 1 says that the operation was not disabled.`,
		Example: `  tokenlease policy enable login --because "ticket 4711 is closed"`,
	}
	c.registerWhy(cmd.Flags(), "why: recorded")
	cmd.ValidArgsFunction = p.completeArgs(settings, p.disabledNames)
	return clientCommand(cmd, settings, 1, func(ctx context.Context, args []string) error {
		request := &tokenleasev1.EnableOperationRequest{Operation: args[0], EnabledBy: c.by, Because: c.because}
		if err := validRequest(request); err != nil {
			return err
		}
		answer, err := ask(ctx, settings, settings.admin().EnableOperation, request)
		if err != nil {
			return err
		}
		t := &table{heading: []string{"OPERATION", "WAS-DISABLED", "VERSION"}}
		t.add(args[0], yesNo(answer.GetWasDisabled()), answer.GetVersion())
		if err := p.write(settings.output, answer, t); err != nil {
			return err
		}
		if !answer.GetWasDisabled() {
			return exitError{code: exitNo, text: cell(args[0]) + " was not disabled by `tokenlease policy disable`: `tokenlease policy list` shows what is"}
		}
		fmt.Fprintf(p.stderr, "Version %d is in force.\n", answer.GetVersion())
		return nil
	})
}

func (p *program) policyDeleteCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	var c change
	plan := ""
	cmd := &cobra.Command{
		Use:   "delete OPERATION... | --plan NAME",
		Short: "Remove policies for everybody, or a plan",
		Long: `Remove the policies for everybody of operations, or a plan. What no policy rules any
more is denied; its ledgers are kept while anything of them is out or spent, so that
removing a policy and applying it again gives nobody more.

A plan that an account is assigned to is not removed: assign the account to another
one first. A policy of a plan or of an account is removed by applying the plan or the
account without it.

Exit code 1 says that something that was named was not there. The rest is removed.`,
		Example: `  tokenlease policy delete report.export --because "the feature is gone"
  tokenlease policy delete --plan trial --dry-run`,
	}
	c.register(cmd.Flags())
	cmd.Flags().StringVar(&plan, "plan", "", "remove the plan of this `name`")
	cmd.ValidArgsFunction = p.completeArgs(settings, p.operationNames)
	p.completeFlags(cmd, settings, map[string]completer{"plan": p.planNames})
	completed := clientCommand(cmd, settings, -1, func(ctx context.Context, args []string) error {
		request := c.applyRequest()
		request.RemoveOperations = args
		if plan != "" {
			request.RemovePlans = []string{plan}
		}
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
		if plan != "" {
			return nothingRemoved(answer.GetChanges(), "plan ", []string{plan}, "there is no plan %s: `tokenlease policy list` shows the plans")
		}
		return nothingRemoved(answer.GetChanges(), "policy ", args, "there is no policy for everybody of %s: `tokenlease policy list` shows those that there are")
	})
	completed.Args = func(cmd *cobra.Command, args []string) error {
		if (len(args) > 0) == (plan != "") {
			return usageErrorf("want %q: operations or a plan", cmd.UseLine())
		}
		return nil
	}
	return completed
}

// nothingRemoved ends with 1 if something that was to be removed was not there: no
// change is about it. A change names it with its kind before it.
func nothingRemoved(changes []*tokenleasev1.PolicyChange, kind string, names []string, format string) error {
	var missing []string
	for _, name := range names {
		about := func(c *tokenleasev1.PolicyChange) bool { return c.GetSubject() == kind+name }
		if !slices.ContainsFunc(changes, about) {
			missing = append(missing, cell(name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return exitError{code: exitNo, text: fmt.Sprintf(format, strings.Join(missing, ", "))}
}
