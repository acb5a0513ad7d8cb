package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func (p *program) grantsExplainCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Tell everything that is known to have happened to one grant",
		Long: `Tell everything that is known to have happened to one grant, live or ended, what
its state means, and what would free its credit.

The owner of the grant's shard keeps the events in memory, for an hour after the end
of a grant. Of one that has ended the ID must be whole.`,
		Example: `  tokenlease grants explain g1-003-0000002a
  tokenlease grants explain g1-003-0000002a -o json`,
		ValidArgsFunction: p.completeArgs(settings, p.grantIDs),
	}
	return p.showCommand(cmd, settings, 1, func(ctx context.Context, p *program, args []string) error {
		id, err := wholeGrantID(ctx, settings, args[0])
		if err != nil {
			return err
		}
		answer, err := ask(ctx, settings, settings.admin().ExplainGrant, &tokenleasev1.ExplainGrantRequest{GrantId: id})
		if err != nil {
			return err
		}
		if settings.output != formatTable {
			return p.write(settings.output, answer, nil)
		}
		return p.writeExplained(answer)
	})
}

// writeExplained prints the grant, its events and the advice.
func (p *program) writeExplained(answer *tokenleasev1.ExplainGrantResponse) error {
	grant := grantTable([]*tokenleasev1.Grant{answer.GetGrant()})
	if answer.GetEnded() {
		setCell(grant, "STATE", "ended")
	}
	events := &table{heading: []string{"TIME", "WHAT", "ISSUED", "SPENT", "RETURNED", "TIMES", "DETAIL"}}
	for _, e := range answer.GetEvents() {
		events.add(moment(e.GetUnixMs()), e.GetWhat(), e.GetIssuedTokens(), e.GetSpentTokens(), e.GetReturnedTokens(),
			max(1, e.GetCount()), e.GetDetail())
	}
	if err := p.writeTables(grant, events); err != nil {
		return err
	}
	for i, advice := range answer.GetAdvice() {
		if i == 0 {
			fmt.Fprintln(p.stdout)
		}
		if _, err := fmt.Fprintln(p.stdout, cell(advice)); err != nil {
			return err
		}
	}
	if since := moment(answer.GetKeptSinceUnixMs()); since != "" {
		fmt.Fprintf(p.stderr, "Events are known since %s: what happened before may be missing.\n", since)
	}
	return nil
}
