package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const (
	// topDefault is how many budgets are told at once, and topMost the most.
	topDefault = 20
	topMost    = 100
)

const topLong = `Show the busiest and the most starved budgets, as the owners of the shards see them
now, until q is pressed.

SPENT/S is what limiters have reported of late. WANTED is what they want beyond
what they have, and WAITING how many of them have checks that wait for credit. In
the bar of a budget, # is what regions hold, and - what the broker may still hand
out; the rest was spent and is not back yet. RECLAIM is there if any of them says
deadline: what a silent limiter holds of it counts as spent after a time.

Keys: b the busiest first, s the most starved first, p pause and go on, q or
Ctrl-C quit. The window decides how many are shown.

With --once, or where the output is no terminal, one table is printed.`

// topFlags say what is ranked.
type topFlags struct {
	order choice
	limit number
	every watchFlag
	once  bool
}

func (p *program) topCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	flags := &topFlags{every: watchFlag(watchDefault)}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the busiest and the most starved budgets",
		Long:  topLong,
		Example: `  tokenlease top
  tokenlease top --order starved
  tokenlease top --once --limit 5 -o json`,
	}
	choiceVar(cmd.Flags(), &flags.order, "order", "what goes first", orderBusiest, orderStarved)
	numberVar(cmd.Flags(), &flags.limit, "limit", "the first so many, at most 100", topDefault, topMost)
	cmd.Flags().Var(&flags.every, "interval", "how often to look")
	cmd.Flags().BoolVar(&flags.once, "once", false, "print one table and end")
	p.completeFlags(cmd, settings, map[string]completer{"order": oneOf(orderBusiest, orderStarved)})
	return clientCommand(cmd, settings, 0, func(ctx context.Context, _ []string) error {
		if flags.once || !p.console().Shows() || settings.output != formatTable {
			return p.topOnce(ctx, settings, flags)
		}
		return p.topLive(ctx, settings, flags)
	})
}

// The words for the orders.
const (
	orderBusiest = "busiest"
	orderStarved = "starved"
)

// topRequest asks for the first budgets of an order.
func topRequest(order string, limit uint64) *tokenleasev1.TopBudgetsRequest {
	request := &tokenleasev1.TopBudgetsRequest{Order: tokenleasev1.BudgetOrder_BUDGET_ORDER_BUSIEST, Limit: uint32(limit)}
	if order == orderStarved {
		request.Order = tokenleasev1.BudgetOrder_BUDGET_ORDER_STARVED
	}
	return request
}

// topOnce prints one table.
func (p *program) topOnce(ctx context.Context, settings *clientSettings, flags *topFlags) error {
	answer, err := ask(ctx, settings, settings.admin().TopBudgets, topRequest(flags.order.value, flags.limit.value))
	if err != nil {
		return err
	}
	if missing := answer.GetShardsMissing(); len(missing) > 0 {
		fmt.Fprintf(p.stderr, "tokenlease: warning: %s did not answer, and what they have is missing\n", shardList(missing))
	}
	return p.write(settings.output, answer, topTable(answer.GetBudgets(), 0))
}

// topTable has a row for each budget. With a width of bar above 0 it shows what is
// where. A column on reclaiming is there for what is weaker than usual.
func topTable(budgets []*tokenleasev1.BudgetActivity, bar int) *table {
	t := &table{heading: []string{"ACCOUNT", "OPERATION", "SPENT/S", "WANTED", "WAITING", "RESERVED", "AVAILABLE", "CAP"}}
	weaker := slices.ContainsFunc(budgets, byDeadline)
	if weaker {
		t.heading = append(t.heading, "RECLAIM")
	}
	if bar > 0 {
		t.heading = append(t.heading, "CREDIT")
	}
	for _, b := range budgets {
		row := []any{
			b.GetKey().GetAccount(), b.GetKey().GetOperation(), fmt.Sprintf("%.1f", b.GetSpentTokensPerSecond()), b.GetWantedTokens(),
			b.GetWaitingHolders(), b.GetReservedTokens(), b.GetAvailableTokens(), b.GetCapacityTokens(),
		}
		if weaker {
			row = append(row, reclaimWord(b.GetReclaim()))
		}
		if bar > 0 {
			row = append(row, creditBar(b, bar))
		}
		t.add(row...)
	}
	return t
}

// byDeadline says that lost credit of the budget comes back without proof.
func byDeadline(b *tokenleasev1.BudgetActivity) bool {
	return b.GetReclaim() == tokenleasev1.Reclaim_RECLAIM_DEADLINE
}

// shardList names some shards.
func shardList(shards []uint32) string {
	if len(shards) == 1 {
		return fmt.Sprintf("shard %d", shards[0])
	}
	text := fmt.Sprintf("%d shards (", len(shards))
	for i, s := range shards {
		if i == 10 {
			return text + ", ...)"
		}
		if i > 0 {
			text += ", "
		}
		text += strconv.FormatUint(uint64(s), 10)
	}
	return text + ")"
}

// topAnswer is what a question has ended with.
type topAnswer struct {
	order    string
	response *tokenleasev1.TopBudgetsResponse
	err      error
}

// topLive shows the ranking until it is quit. The first answer must come: without a
// broker there is nothing to show.
func (p *program) topLive(ctx context.Context, settings *clientSettings, flags *topFlags) error {
	question := func(ctx context.Context, order string) topAnswer {
		answer, err := ask(ctx, settings, settings.admin().TopBudgets, topRequest(order, topMost))
		return topAnswer{order: order, response: answer, err: err}
	}
	first := question(ctx, flags.order.value)
	if first.err != nil {
		return first.err
	}
	ticker, resized := time.NewTicker(time.Duration(flags.every)), time.NewTicker(resizeInterval)
	defer ticker.Stop()
	defer resized.Stop()
	view := &topView{order: flags.order.value, every: time.Duration(flags.every)}
	view.take(first, p.now())
	loop := &topLoop{
		p: p, view: view, question: question, ticks: ticker.C, resized: resized.C,
		width: -1, // so that the first frame is drawn
	}
	return loop.run(ctx)
}
