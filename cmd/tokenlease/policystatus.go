package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func (p *program) policyStatusCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	var version number
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how far a version has come, and who is missing",
		Long: `Show how far a version of the policies has come. It holds everywhere when

  - it is installed: every shard has taken it up, and no limiter holds credit under
    an older version, and
  - it is settled: no budget has more out than its capacity. Until then the old
    capacity is the guarantee.

If it does not hold, the exit code is 1, and below are the shards and the limiters
that are behind, and the budgets with more out than their capacity, with who has it.
Silence proves nothing: what a limiter holds that was not heard for long stays out,
until it accounts for it or is retired. While records cannot be read, it does not
hold either, as far as is known: they are told on stderr.`,
		Example: `  tokenlease policy status
  tokenlease policy status --version 7
  tokenlease policy status -o json
  tokenlease policy status --watch`,
	}
	numberVar(cmd.Flags(), &version, "version", "the `version` to ask for (default: the one in force)", 0, math.MaxInt64)
	return p.showCommand(cmd, settings, 0, func(ctx context.Context, p *program, _ []string) error {
		status, err := ask(ctx, settings, settings.admin().ShowPolicyStatus, &tokenleasev1.ShowPolicyStatusRequest{Version: int64(version.value)})
		if err != nil {
			return err
		}
		defer p.warnUnusable(status)
		if settings.output != formatTable {
			err = p.write(settings.output, status, nil)
		} else {
			err = p.writeTables(p.statusTables(status)...)
		}
		if err == nil && !holds(status) {
			return exitError{code: exitNo} // and all was said
		}
		return err
	})
}

// statusTables are what there is to say, and then who is missing.
func (p *program) statusTables(status *tokenleasev1.ShowPolicyStatusResponse) []*table {
	all := &table{heading: []string{"VERSION", "IN-FORCE", "INSTALLED", "SETTLED", "SHARDS-BEHIND", "LIMITERS-BEHIND", "BUDGETS-ABOVE"}}
	all.add(status.GetVersion(), status.GetVersionInForce(), yesNo(status.GetInstalled()), yesNo(status.GetSettled()),
		strings.Trim(fmt.Sprint(status.GetShardsBehind()), "[]"), len(status.GetHoldersBehind()), status.GetBudgetsAboveCount())
	behind := &table{heading: []string{"HOLDER", "VERSION", "GRANTS", "TOKENS", "HEARD"}}
	for _, h := range status.GetHoldersBehind() {
		heard := ""
		if at := h.GetLastHeardUnixMs(); at != 0 {
			heard = p.momentAndAge(at)
		}
		behind.add(holderName(h.GetHolder()), h.GetPolicyVersion(), h.GetGrants(), h.GetOutstandingTokens(), heard)
	}
	above := &table{heading: []string{"ACCOUNT", "OPERATION", "CAPACITY", "RESERVED", "RECLAIM", "WHO"}}
	for _, b := range status.GetBudgetsAbove() {
		above.add(b.GetKey().GetAccount(), b.GetKey().GetOperation(), b.GetCapacityTokens(), b.GetReservedTokens(), reclaimWord(b.GetReclaim()), strings.Join(holdingsInWords(b), "; "))
	}
	return []*table{all, behind, above}
}
