package main

import (
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const (
	// completeTimeout bounds how long the completion of a name may take: somebody
	// has pressed a key and waits.
	completeTimeout = time.Second
	// completeMost is how many names are offered.
	completeMost = 200
)

// completer finds the live names that begin with what was typed. It may find too
// many: names that begin otherwise are left out.
type completer func(ctx context.Context, settings *clientSettings, typed string) ([]string, error)

// completeArgs completes the arguments of a command, each by its own completer. One
// more than there are completers is completed by nothing.
func (p *program) completeArgs(settings *clientSettings, completers ...completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(completers) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completions(cmd, settings, completers[len(args)], typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeAtBroker is completeArgs for a command that asks a limiter. The names are a
// broker's to tell: the environment or the file of settings says which. Without that
// none is asked: who uses a limiter may have no broker, and something else may listen
// where one would be.
func (p *program) completeAtBroker(limiter *clientSettings, completers ...completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		broker := clientSettings{server: brokerServer}
		if cmd.Flags().Lookup(brokerServer) == nil {
			addSettings(cmd, broker.registerURL)
		}
		var there []completer
		for _, complete := range completers {
			there = append(there, func(ctx context.Context, hasty *clientSettings, typed string) ([]string, error) {
				if !cmd.Flags().Changed(brokerServer) {
					return nil, nil
				}
				at := *hasty
				at.server, at.url = brokerServer, broker.url
				if err := at.validate(); err != nil {
					return nil, err
				}
				return complete(ctx, &at, typed)
			})
		}
		return p.completeArgs(limiter, there...)(cmd, args, typed)
	}
}

// completeFlags completes the values of flags.
func (p *program) completeFlags(cmd *cobra.Command, settings *clientSettings, completers map[string]completer) {
	for _, flag := range slices.Sorted(maps.Keys(completers)) {
		complete := completers[flag]
		err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return completions(cmd, settings, complete, typed), cobra.ShellCompDirectiveNoFileComp
		})
		if err != nil {
			panic(err) // a flag that does not exist, or twice: a fault of the program
		}
	}
}

// completions asks for names. Whatever goes wrong, nothing is offered, and nothing
// is said into somebody's command line.
func completions(cmd *cobra.Command, settings *clientSettings, complete completer, typed string) []string {
	if loadSettings(cmd, io.Discard) != nil || settings.validate() != nil {
		return nil
	}
	hasty := *settings
	hasty.timeout = min(hasty.timeout, completeTimeout)
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, hasty.timeout)
	defer cancel()
	found, err := complete(ctx, &hasty, typed)
	if err != nil {
		return nil
	}
	slices.Sort(found)
	found = slices.Compact(slices.DeleteFunc(found, func(name string) bool { return name == "" || !strings.HasPrefix(name, typed) }))
	return found[:min(len(found), completeMost)]
}

// oneOf completes one of a few words.
func oneOf(all ...string) completer {
	return func(context.Context, *clientSettings, string) ([]string, error) { return slices.Clone(all), nil }
}

// grantIDs are the IDs of unresolved grants.
func (p *program) grantIDs(ctx context.Context, settings *clientSettings, typed string) ([]string, error) {
	answer, err := ask(ctx, settings, settings.admin().ListGrants, &tokenleasev1.ListGrantsRequest{GrantIdPrefix: typed, PageSize: completeMost})
	return names(answer.GetGrants(), (*tokenleasev1.Grant).GetGrantId), err
}

// holderNames are REGION/INSTANCE of all that ever registered.
func (p *program) holderNames(ctx context.Context, settings *clientSettings, _ string) ([]string, error) {
	answer, err := ask(ctx, settings, settings.admin().ListHolders, &tokenleasev1.ListHoldersRequest{})
	return names(answer.GetHolders(), func(h *tokenleasev1.HolderStatus) string { return holderName(h.GetHolder()) }), err
}

// regionNames are the regions of all that ever registered.
func (p *program) regionNames(ctx context.Context, settings *clientSettings, _ string) ([]string, error) {
	answer, err := ask(ctx, settings, settings.admin().ListHolders, &tokenleasev1.ListHoldersRequest{})
	return names(answer.GetHolders(), func(h *tokenleasev1.HolderStatus) string { return h.GetHolder().GetRegion() }), err
}

// accountNames are accounts that have a budget with a record, or something of their
// own.
func (p *program) accountNames(ctx context.Context, settings *clientSettings, typed string) ([]string, error) {
	request := &tokenleasev1.ListBudgetsRequest{Search: typed, PageSize: tokenleasev1.MaxPageSize}
	budgets, err := ask(ctx, settings, settings.admin().ListBudgets, request)
	if err != nil {
		return nil, err
	}
	found := names(budgets.GetBudgets(), func(b *tokenleasev1.Budget) string { return b.GetKey().GetAccount() })
	own, err := ask(ctx, settings, settings.admin().ListAccounts, &tokenleasev1.ListAccountsRequest{AccountPrefix: typed, PageSize: tokenleasev1.MaxPageSize})
	if err != nil {
		return found, nil //nolint:nilerr // those of budgets are better than none
	}
	return append(found, names(own.GetAccounts(), (*tokenleasev1.AccountPolicies).GetAccount)...), nil
}

// operationNames are operations that any policy rules.
func (p *program) operationNames(ctx context.Context, settings *clientSettings, _ string) ([]string, error) {
	answer, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
	found := names(answer.GetPolicies(), (*tokenleasev1.Policy).GetOperation)
	for _, plan := range answer.GetPlans() {
		found = append(found, names(plan.GetPolicies(), (*tokenleasev1.Policy).GetOperation)...)
	}
	return found, err
}

// disabledNames are the operations that are disabled.
func (p *program) disabledNames(ctx context.Context, settings *clientSettings, _ string) ([]string, error) {
	answer, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
	return names(answer.GetDisabled(), (*tokenleasev1.DisabledOperation).GetOperation), err
}

// planNames are the plans in force.
func (p *program) planNames(ctx context.Context, settings *clientSettings, _ string) ([]string, error) {
	answer, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
	return names(answer.GetPlans(), (*tokenleasev1.Plan).GetName), err
}

// shardNumbers are the shards of the cluster.
func (p *program) shardNumbers(ctx context.Context, settings *clientSettings, _ string) ([]string, error) {
	answer, err := ask(ctx, settings, settings.admin().ListShards, &tokenleasev1.ListShardsRequest{})
	return names(answer.GetShards(), func(s *tokenleasev1.ShardStatus) string { return strconv.FormatUint(uint64(s.GetShard()), 10) }), err
}

// brokerIDs are the brokers that are live.
func (p *program) brokerIDs(ctx context.Context, settings *clientSettings, _ string) ([]string, error) {
	answer, err := ask(ctx, settings, settings.admin().ShowCluster, &tokenleasev1.ShowClusterRequest{})
	return names(answer.GetBrokers(), (*tokenleasev1.BrokerStatus).GetBrokerId), err
}

// names are what each message of a list is called.
func names[Message proto.Message](list []Message, name func(Message) string) []string {
	var all []string
	for _, m := range list {
		all = append(all, name(m))
	}
	return all
}
