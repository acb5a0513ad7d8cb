package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// grantsCommand shows and resolves grants.
func (p *program) grantsCommand() *cobra.Command {
	return groupCommand("grants", "See who holds what, and resolve what nobody accounts for",
		p.grantsListCommand(), p.grantsShowCommand(), p.grantsExplainCommand(), p.grantsResolveCommand())
}

const grantsListLong = `List every grant that is unresolved, in order of shard, holder, epoch and ID.

OUTSTANDING = ISSUED - SPENT - RETURNED is what the holder may still spend. A
grant is orphaned when its holder has started anew or was retired without giving
its account: what is outstanding stays reserved until it does, or until an
operator resolves it.

LAPSES-AFTER is how long after the newest request about its budget, by its holder in
that epoch, a grant lapses under reclaim: deadline: then what is outstanding counts as
spent. What the holder asks about other budgets, or in a later epoch, puts nothing off;
another broker that takes the shard over starts the time anew. "never" is that of a
policy that waits for proof, and of a holder that has not said that it stops by itself.
Requests that change nothing are not recorded, so no view has the moment itself:
` + "`tokenlease grants explain ID`" + ` tells when the grant was reported or changed last, and
it lapses no earlier than so long after that.

All of them are listed, however many there are, and they are printed as they come;
the revision is that of the first page. With --limit the first ones are.`

// grantsListFlags choose grants.
type grantsListFlags struct {
	request   *tokenleasev1.ListGrantsRequest
	holder    string
	state     string
	olderThan span
	limit     number
}

// register adds them to a command.
func (f *grantsListFlags) register(p *program, settings *clientSettings, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.request.Region, "region", "", "only of holders in this region")
	flags.StringVar(&f.holder, "holder", "", "only of this holder, as `REGION/INSTANCE`")
	flags.StringVar(&f.request.Instance, "instance", "", "only of holders of this name")
	flags.StringVar(&f.request.Account, "account", "", "only of this account")
	flags.StringVar(&f.request.Operation, "operation", "", "only of this operation")
	flags.StringVar(&f.state, "state", "", "only live or orphaned ones")
	flags.Var(&f.olderThan, "older-than", "only those that were opened at least so long ago, such as 10m or 7d")
	flags.StringVar(&f.request.GrantIdPrefix, "id", "", "only those whose ID begins so")
	numberVar(flags, &f.limit, "limit", "list the first so many (default: all)", 0, 1<<53)
	p.completeFlags(cmd, settings, map[string]completer{
		"region": p.regionNames, "holder": p.holderNames, "account": p.accountNames, "operation": p.operationNames,
		"id": p.grantIDs, "state": oneOf("live", "orphaned"),
	})
}

// read is the request that the flags ask for.
func (f *grantsListFlags) read() (*tokenleasev1.ListGrantsRequest, error) {
	var err error
	if f.request.State, err = grantState(f.state); err != nil {
		return nil, err
	}
	f.request.MinAgeMs = time.Duration(f.olderThan).Milliseconds()
	if f.holder != "" {
		if f.request.GetRegion() != "" || f.request.GetInstance() != "" {
			return nil, usageErrorf("--holder says the region and the instance: leave out --region and --instance")
		}
		h, err := parseHolder("--holder", f.holder)
		if err != nil {
			return nil, err
		}
		request := proto.CloneOf(f.request)
		request.Region, request.Instance = h.GetRegion(), h.GetInstance()
		return request, validRequest(request)
	}
	return f.request, validRequest(f.request)
}

func (p *program) grantsListCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	flags := &grantsListFlags{request: &tokenleasev1.ListGrantsRequest{}}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List grants that are unresolved",
		Long:  grantsListLong,
		Example: `  tokenlease grants list
  tokenlease grants list --state orphaned --region eu
  tokenlease grants list --holder eu/limiter-0 --older-than 10m
  tokenlease grants list --id g1-003 --limit 20
  tokenlease grants list | grep ID
  tokenlease grants list --account acme --watch`,
	}
	flags.register(p, settings, cmd)
	return p.showCommand(cmd, settings, 0, func(ctx context.Context, p *program, _ []string) error {
		request, err := flags.read()
		if err != nil {
			return err
		}
		return p.listGrants(ctx, settings, proto.CloneOf(request), int64(flags.limit.value))
	})
}

// grantState reads the flag of that name.
func grantState(word string) (tokenleasev1.GrantState, error) {
	switch word {
	case "":
		return tokenleasev1.GrantState_GRANT_STATE_UNSPECIFIED, nil
	case "live":
		return tokenleasev1.GrantState_GRANT_STATE_LIVE, nil
	case "orphaned":
		return tokenleasev1.GrantState_GRANT_STATE_ORPHANED, nil
	}
	return 0, usageErrorf("--state must be live or orphaned, not %q", word)
}

// listGrants prints the pages as they come, up to limit; 0: all.
func (p *program) listGrants(ctx context.Context, settings *clientSettings, request *tokenleasev1.ListGrantsRequest, limit int64) error {
	rest := &tokenleasev1.ListGrantsResponse{}
	out, progress := p.newListStream(settings.output, "grants", grantHeading), p.counting("grants")
	defer progress.done()
	left := func() uint32 {
		if limit == 0 {
			return tokenleasev1.MaxPageSize
		}
		return uint32(min(limit-out.count, tokenleasev1.MaxPageSize))
	}
	request.PageSize = left()
	var failed error
	err := askPages(ctx, settings, settings.admin().ListGrants, request, func(page *tokenleasev1.ListGrantsResponse) bool {
		if rest.GetRevision() == 0 {
			rest.Revision = page.GetRevision()
		}
		rest.Unusable, rest.UnusableCount = addUnusable(rest.GetUnusable(), rest.GetUnusableCount(), page)
		for _, g := range page.GetGrants() {
			if limit > 0 && out.count == limit {
				break
			}
			if failed = out.add(g, grantRow(g)...); failed != nil {
				return false
			}
		}
		progress.set(out.count)
		request.PageToken, request.PageSize = page.GetNextPageToken(), left()
		return request.GetPageToken() != "" && request.GetPageSize() > 0
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	defer p.warnUnusable(rest)
	return out.finish(rest)
}

func (p *program) grantsShowCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one grant",
		Long: `Show one grant. The beginning of an ID is enough where no other grant has it.

LAPSES-AFTER is how long after the newest request about its budget, by its holder in
that epoch, the grant lapses under reclaim: deadline: see ` + "`tokenlease grants list --help`" + `.`,
		Example: `  tokenlease grants show g1-003-0000002a
  tokenlease grants show g1-003 -o json`,
		ValidArgsFunction: p.completeArgs(settings, p.grantIDs),
	}
	return p.showCommand(cmd, settings, 1, func(ctx context.Context, p *program, args []string) error {
		id, err := wholeGrantID(ctx, settings, args[0])
		if err != nil {
			return err
		}
		answer, err := ask(ctx, settings, settings.admin().ShowGrant, &tokenleasev1.ShowGrantRequest{GrantId: id})
		if err != nil {
			return err
		}
		return p.write(settings.output, answer, grantTable([]*tokenleasev1.Grant{answer.GetGrant()}))
	})
}

// grantHeading is that of a table of grants.
var grantHeading = []string{"ID", "ACCOUNT", "OPERATION", "HOLDER", "EPOCH", "STATE", "ISSUED", "SPENT", "RETURNED", "OUTSTANDING", "LAPSES-AFTER", "OPENED"}

// grantRow is a row of it.
func grantRow(g *tokenleasev1.Grant) []any {
	return []any{
		g.GetGrantId(), g.GetBudget().GetAccount(), g.GetBudget().GetOperation(), holderName(g.GetHolder()), g.GetEpoch(),
		enumWord(g.GetState(), "GRANT_STATE_"), g.GetIssuedTokens(), g.GetSpentTokens(), g.GetReturnedTokens(),
		g.GetOutstandingTokens(), grantLapses(g), moment(g.GetOpenedUnixMs()),
	}
}

// grantLapses is how long after its epoch's newest request about the budget a grant
// lapses.
func grantLapses(g *tokenleasev1.Grant) string {
	if g.GetLapsesAfterNs() == 0 {
		return "never"
	}
	return strictyaml.FormatDuration(time.Duration(g.GetLapsesAfterNs()))
}

// latestLapse is the longest time after which one of the grants lapses, and of how many.
func latestLapse(grants []*tokenleasev1.Grant) (latest time.Duration, lapsing int) {
	for _, g := range grants {
		if after := time.Duration(g.GetLapsesAfterNs()); after > 0 {
			latest, lapsing = max(latest, after), lapsing+1
		}
	}
	return latest, lapsing
}

// grantTable is a table of grants.
func grantTable(grants []*tokenleasev1.Grant) *table {
	t := &table{heading: grantHeading}
	for _, g := range grants {
		t.add(grantRow(g)...)
	}
	return t
}

// writeGrantsBelow prints grants under another table.
func (p *program) writeGrantsBelow(grants []*tokenleasev1.Grant) error {
	if len(grants) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(p.stdout); err != nil {
		return err
	}
	return grantTable(grants).write(p.stdout)
}
