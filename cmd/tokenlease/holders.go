package main

import (
	"context"
	"time"

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
wall clock, and AGO how long ago that is by the clock of this machine. A subscription
that is open counts as heard, until its connection is found to be dead: about 15 s
after a limiter has frozen or was cut off. Silence proves nothing: what a silent
holder has stays reserved.

POLICY is the newest version such that it holds no credit under an older one: of a
holder without credit it is the version in force, whether it has heard of that or
not. BEHIND is how many of its grants are under an older policy than is in force.

ROUND-TRIP is how long its requests to a broker take of late, as it last said.

A retired holder's epoch was attested to be gone. A fenced one is of before a
declared restore: the limiter has not started again since. Of an unknown one the
registration cannot be read.

Records that cannot be read are told on stderr, and what they hold is missing in the
figures.`

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
		defer p.warnUnusable(answer)
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
		defer p.warnUnusable(answer)
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
		"HOLDER", "EPOCH", "STATE", "GRANTS", "TOKENS", "ORPHANED-GRANTS", "ORPHANED-TOKENS", "POLICY", "BEHIND", "ROUND-TRIP", "REGISTERED", "HEARD", "AGO",
	}}
	for _, h := range holders {
		t.add(holderName(h.GetHolder()), h.GetEpoch(), holderState(h), h.GetLiveGrants(), h.GetLiveTokens(), h.GetOrphanedGrants(),
			h.GetOrphanedTokens(), h.GetPolicyVersion(), h.GetGrantsBehind(), roundTrip(h.GetRoundTripNs()), moment(h.GetRegisteredUnixMs()),
			moment(h.GetLastHeardUnixMs()), p.ageInWords(h.GetLastHeardUnixMs()))
	}
	return t
}

// roundTrip is how long requests take, empty for not known.
func roundTrip(ns int64) string {
	if ns <= 0 {
		return ""
	}
	return time.Duration(ns).Round(10 * time.Microsecond).String()
}

// What is known of a holder's epoch.
const (
	holderCurrent = "current"
	holderRetired = "retired"
	holderFenced  = "fenced"
	holderUnknown = "unknown"
)

// holderState is what is known of a holder's epoch.
func holderState(h *tokenleasev1.HolderStatus) string {
	switch {
	case h.GetEpoch() == 0:
		return holderUnknown
	case h.GetFenced():
		return holderFenced
	case h.GetRetired():
		return holderRetired
	}
	return holderCurrent
}
