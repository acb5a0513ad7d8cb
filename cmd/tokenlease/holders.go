package main

import (
	"context"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// holdersCommand shows and retires limiter instances.
func (p *program) holdersCommand() *cobra.Command {
	return groupCommand("holders", "See the limiters that ever registered, and retire one that is lost",
		p.holdersListCommand(), p.holdersShowCommand(), p.holdersRetireCommand())
}

const holdersListLong = `List every limiter that ever registered, in order of region and instance.

HEARD tells when a broker last recorded something of the holder, by the broker's
wall clock, and AGO how long ago that is by the clock of this machine. Silence
proves nothing: what a silent holder has stays reserved.

POLICY is the newest policy version that it has installed for everything it holds,
and BEHIND how many of its grants are under an older policy than is in force.

A retired holder's epoch was attested to be gone. A fenced one is of before a
declared restore: the limiter has not started again since.`

func (p *program) holdersListCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	request := &tokenleasev1.ListHoldersRequest{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List holders",
		Long:  holdersListLong,
		Example: `  tokenlease holders list
  tokenlease holders list --region eu
  tokenlease holders list --watch`,
	}
	cmd.Flags().StringVar(&request.Region, "region", "", "only in this region")
	p.completeFlags(cmd, settings, map[string]completer{"region": p.regionNames})
	return p.showCommand(cmd, settings, 0, func(ctx context.Context, p *program, _ []string) error {
		if err := validRequest(request); err != nil {
			return err
		}
		answer, err := ask(ctx, settings, settings.admin().ListHolders, request)
		if err != nil {
			return err
		}
		return p.write(settings.output, answer, p.holderTable(answer.GetHolders()))
	})
}

func (p *program) holdersShowCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:   "show REGION/INSTANCE",
		Short: "Show one holder with its grants",
		Example: `  tokenlease holders show eu/limiter-0
  tokenlease holders show eu/limiter-0 --watch`,
		ValidArgsFunction: p.completeArgs(settings, p.holderNames),
	}
	return p.showCommand(cmd, settings, 1, func(ctx context.Context, p *program, args []string) error {
		holder, err := parseHolder("the argument", args[0])
		if err != nil {
			return err
		}
		answer, err := ask(ctx, settings, settings.admin().ShowHolder, &tokenleasev1.ShowHolderRequest{Holder: holder})
		if err != nil {
			return err
		}
		t := p.holderTable([]*tokenleasev1.HolderStatus{answer.GetStatus()})
		if err := p.write(settings.output, answer, t); err != nil || settings.output != formatTable {
			return err
		}
		return p.writeGrantsBelow(answer.GetGrants())
	})
}

// holderTable is a table of holders.
func (p *program) holderTable(holders []*tokenleasev1.HolderStatus) *table {
	t := &table{heading: []string{
		"HOLDER", "EPOCH", "STATE", "GRANTS", "TOKENS", "ORPHANED-GRANTS", "ORPHANED-TOKENS", "POLICY", "BEHIND", "REGISTERED", "HEARD", "AGO",
	}}
	for _, h := range holders {
		t.add(holderName(h.GetHolder()), h.GetEpoch(), holderState(h), h.GetLiveGrants(), h.GetLiveTokens(), h.GetOrphanedGrants(),
			h.GetOrphanedTokens(), h.GetPolicyVersion(), h.GetGrantsBehind(), moment(h.GetRegisteredUnixMs()),
			moment(h.GetLastHeardUnixMs()), p.ageInWords(h.GetLastHeardUnixMs()))
	}
	return t
}

// holderState is what is known of a holder's epoch.
func holderState(h *tokenleasev1.HolderStatus) string {
	switch {
	case h.GetFenced():
		return "fenced"
	case h.GetRetired():
		return "retired"
	}
	return "current"
}
