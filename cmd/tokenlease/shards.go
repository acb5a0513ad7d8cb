package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// shardsCommand shows who owns which shard, and moves one.
func (p *program) shardsCommand() *cobra.Command {
	return groupCommand("shards", "See which broker owns which shard, and move one for maintenance",
		p.shardsListCommand(), p.shardsMoveCommand())
}

const shardsListLong = `List the shards of the cluster, and the broker that owns each.

OWNED-SINCE is when the owner took the shard, by its own wall clock. HEAD is the
revision of the newest commit, and LEDGER-TIME the shard's own clock at that. POLICY
is the policy version that it has taken up. MOVED-TO is the broker that an operator
has given it to.

A shard without an owner hands nothing out; the limiters spend what they hold.`

func (p *program) shardsListCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List shards with their owners",
		Long:  shardsListLong,
		Example: `  tokenlease shards list
  tokenlease shards list --watch`,
	}
	return p.showCommand(cmd, settings, 0, func(ctx context.Context, p *program, _ []string) error {
		answer, err := ask(ctx, settings, settings.admin().ListShards, &tokenleasev1.ListShardsRequest{})
		if err != nil {
			return err
		}
		defer p.warnUnusable(answer)
		return p.write(settings.output, answer, p.shardTable(answer.GetShards()))
	})
}

// shardTable is a table of shards.
func (p *program) shardTable(shards []*tokenleasev1.ShardStatus) *table {
	t := &table{heading: []string{"SHARD", "BROKER", "URL", "OWNED-SINCE", "HEAD", "LEDGER-TIME", "COMMITTED", "AGO", "POLICY", "MOVED-TO"}}
	for _, s := range shards {
		t.add(s.GetShard(), s.GetBrokerId(), s.GetBrokerUrl(), moment(s.GetOwnedSinceUnixMs()), s.GetHead(), time.Duration(s.GetLedgerNs()).Truncate(time.Millisecond),
			moment(s.GetCommittedUnixMs()), p.ageInWords(s.GetCommittedUnixMs()), s.GetPolicyVersion(), s.GetMovedTo())
	}
	return t
}

const shardsMoveLong = `Hand a shard to another broker in order, such as before maintenance of the one that
owns it. The old owner commits what it has, and the new one goes on from there; the
credit that is out stays where it is. Limiters find the new owner by themselves.

The broker keeps the shard for as long as it lives. --back gives the choice back to
the cluster.

--dry-run tells which broker owns the shard and whether the other one is live, and
changes nothing.

The exit code is 1 when the new owner does not serve it yet: the move goes on, and
` + "`tokenlease shards list`" + ` tells.`

// shardsMoveFlags say where to.
type shardsMoveFlags struct {
	to, because, by string
	back, dryRun    bool
}

func (p *program) shardsMoveCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	flags := &shardsMoveFlags{}
	cmd := &cobra.Command{
		Use:   "move SHARD {--to BROKER | --back} --because REASON",
		Short: "Hand a shard to another broker",
		Long:  shardsMoveLong,
		Example: `  tokenlease shards move 7 --to broker-b --because "the disk of broker-a is exchanged"
  tokenlease shards move 7 --to broker-b --dry-run
  tokenlease shards move 7 --back --because "done"`,
		ValidArgsFunction: p.completeArgs(settings, p.shardNumbers),
	}
	cmd.Flags().StringVar(&flags.to, "to", "", "the `BROKER` that is to own it, by its ID")
	cmd.Flags().BoolVar(&flags.back, "back", false, "give the choice back to the cluster")
	cmd.Flags().StringVar(&flags.because, "because", "", "why: recorded (required)")
	cmd.Flags().StringVar(&flags.by, "by", currentUser(), "who moves it: recorded")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "tell what would be done, and change nothing")
	p.completeFlags(cmd, settings, map[string]completer{"to": p.brokerIDs})
	return clientCommand(cmd, settings, 1, func(ctx context.Context, args []string) error {
		request, err := flags.read(args[0])
		if err != nil {
			return err
		}
		if flags.dryRun {
			return p.previewMove(ctx, settings, request)
		}
		return p.moveShard(ctx, settings, request)
	})
}

// read is the request that the flags ask for.
func (f *shardsMoveFlags) read(shard string) (*tokenleasev1.MoveShardRequest, error) {
	number, err := strconv.ParseUint(shard, 10, 32)
	switch {
	case err != nil || strconv.FormatUint(number, 10) != shard:
		return nil, usageErrorf("SHARD: want a number such as 7, not %.40q", shard)
	case (f.to == "") != f.back:
		return nil, usageErrorf("say either --to BROKER or --back")
	case f.because == "" && !f.dryRun:
		return nil, usageErrorf("--because is required: say why the shard is moved")
	}
	request := &tokenleasev1.MoveShardRequest{Shard: uint32(number), ToBrokerId: f.to, MovedBy: f.by, Because: f.because}
	return request, validRequest(request)
}

// moveShard moves, and tells where the shard is.
func (p *program) moveShard(ctx context.Context, settings *clientSettings, request *tokenleasev1.MoveShardRequest) error {
	answer, err := ask(ctx, settings, settings.admin().MoveShard, request)
	if err != nil {
		return err
	}
	if err := p.write(settings.output, answer, p.shardTable([]*tokenleasev1.ShardStatus{answer.GetShard()})); err != nil {
		return err
	}
	switch {
	case request.GetToBrokerId() == "":
		fmt.Fprintf(p.stderr, "The cluster chooses the owner of shard %d again.\n", request.GetShard())
	case answer.GetMoved():
		fmt.Fprintf(p.stderr, "Moved: %s owns shard %d.\n", cell(request.GetToBrokerId()), request.GetShard())
	default:
		return exitError{code: exitNo, text: fmt.Sprintf("%s does not own shard %d yet: the move goes on, see `tokenlease shards list`", cell(request.GetToBrokerId()), request.GetShard())}
	}
	return nil
}

// previewMove tells what a move would do, and refuses what a broker would.
func (p *program) previewMove(ctx context.Context, settings *clientSettings, request *tokenleasev1.MoveShardRequest) error {
	shards, err := ask(ctx, settings, settings.admin().ListShards, &tokenleasev1.ListShardsRequest{})
	if err != nil {
		return err
	}
	all, to := shards.GetShards(), request.GetToBrokerId()
	at := slices.IndexFunc(all, func(s *tokenleasev1.ShardStatus) bool { return s.GetShard() == request.GetShard() })
	if at < 0 {
		return exitError{code: exitRefused, text: fmt.Sprintf("this cluster has no shard %d: it has %d, from 0 on", request.GetShard(), len(all))}
	}
	shard := all[at]
	live, err := p.brokerIDs(ctx, settings, "")
	switch {
	case err != nil:
		return err
	case to != "" && !slices.Contains(live, to):
		return exitError{code: exitRefused, text: fmt.Sprintf("no live broker is called %s: there is %s", cell(to), cell(strings.Join(live, ", ")))}
	}
	owner := "nobody"
	if shard.GetBrokerId() != "" {
		owner = cell(shard.GetBrokerId())
	}
	switch {
	case to == "":
		fmt.Fprintf(p.stderr, "%s owns shard %d: the cluster would choose its owner again. Nothing was changed.\n", owner, shard.GetShard())
	case to == shard.GetBrokerId():
		fmt.Fprintf(p.stderr, "%s owns shard %d already, and would keep it for as long as it lives. Nothing was changed.\n", owner, shard.GetShard())
	default:
		fmt.Fprintf(p.stderr, "%s owns shard %d: it would be handed to %s, which would keep it for as long as it lives. Nothing was changed.\n", owner, shard.GetShard(), cell(to))
	}
	return p.write(settings.output, shard, p.shardTable([]*tokenleasev1.ShardStatus{shard}))
}

// shardsWithoutOwner are those that nobody serves.
func shardsWithoutOwner(shards []*tokenleasev1.ShardStatus) []uint32 {
	var all []uint32
	for _, s := range shards {
		if s.GetBrokerId() == "" {
			all = append(all, s.GetShard())
		}
	}
	slices.Sort(all)
	return all
}
