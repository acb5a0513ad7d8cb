package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// holdersCommand shows limiter instances.
func (p *program) holdersCommand() *cobra.Command {
	return groupCommand("holders", "See the limiters that ever registered",
		p.holdersListCommand(), p.holdersShowCommand())
}

func (p *program) holdersListCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	request := &tokenleasev1.ListHoldersRequest{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List holders",
		Long: `List every limiter that ever registered, in order of region and instance.

HEARD tells when a broker last recorded something of the holder, by the broker's
wall clock. Silence proves nothing: what a silent holder has stays reserved.

A retired holder's epoch was attested to be gone. A fenced one is of before a
declared restore: the limiter has not started again since.`,
		Example: `  tokenlease holders list
  tokenlease holders list --region eu`,
	}
	cmd.Flags().StringVar(&request.Region, "region", "", "only in this region")
	return clientCommand(cmd, settings, 0, func(ctx context.Context, _ []string) error {
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		answer, err := ask(ctx, settings, settings.admin().ListHolders, request)
		if err != nil {
			return err
		}
		return p.write(settings.output, answer, holderTable(answer.GetHolders()))
	})
}

func (p *program) holdersShowCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:     "show REGION/INSTANCE",
		Short:   "Show one holder with its grants",
		Example: "  tokenlease holders show eu/limiter-0",
	}
	return clientCommand(cmd, settings, 1, func(ctx context.Context, args []string) error {
		region, instance, found := strings.Cut(args[0], "/")
		if !found {
			return usageErrorf("want REGION/INSTANCE such as eu/limiter-0, not %q", args[0])
		}
		request := &tokenleasev1.ShowHolderRequest{Holder: &tokenleasev1.Holder{Region: region, Instance: instance}}
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		answer, err := ask(ctx, settings, settings.admin().ShowHolder, request)
		if err != nil {
			return err
		}
		t := holderTable([]*tokenleasev1.HolderStatus{answer.GetStatus()})
		if err := p.write(settings.output, answer, t); err != nil || settings.output != formatTable || len(answer.GetGrants()) == 0 {
			return err
		}
		return p.writeGrantsBelow(answer.GetGrants())
	})
}

// holderTable is a table of holders.
func holderTable(holders []*tokenleasev1.HolderStatus) *table {
	t := &table{heading: []string{"HOLDER", "EPOCH", "STATE", "GRANTS", "TOKENS", "ORPHANED-GRANTS", "ORPHANED-TOKENS", "REGISTERED", "HEARD"}}
	for _, h := range holders {
		state := "current"
		switch {
		case h.GetFenced():
			state = "fenced"
		case h.GetRetired():
			state = "retired"
		}
		t.add(holderName(h.GetHolder()), h.GetEpoch(), state, h.GetLiveGrants(), h.GetLiveTokens(), h.GetOrphanedGrants(),
			h.GetOrphanedTokens(), moment(h.GetRegisteredUnixMs()), moment(h.GetLastHeardUnixMs()))
	}
	return t
}

// holderName is a holder in one word.
func holderName(h *tokenleasev1.Holder) string { return h.GetRegion() + "/" + h.GetInstance() }
