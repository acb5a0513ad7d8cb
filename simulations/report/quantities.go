package report

import (
	"slices"

	"github.com/tokenlease/tokenlease/simulations/measure"
)

// quantity is a row of the comparison.
type quantity struct {
	name    string
	meaning string // for readers of the page
	cell    func(*measure.Result) string
	// rare quantities are left out when they are zero for all strategies.
	rare func(*measure.Result) bool
}

// quantities are the rows of the comparison, in order.
var quantities = []quantity{
	{
		name:    "admitted, tokens",
		meaning: "What the checks that were admitted cost, over all budgets and regions.",
		cell:    func(r *measure.Result) string { return count(r.Admitted) },
	},
	{
		name: "of the cap",
		meaning: "Admitted, beside the cap of the whole run: the sum of B + R*T over the budgets that were asked for. " +
			"B is the capacity, R the refill and T the length of the run.",
		cell: func(r *measure.Result) string { return percent(ratio(r.Admitted, r.Cap)) },
	},
	{
		name: "worst excess, tokens",
		meaning: "By how much the admissions of the worst interval, of any length T, were above B + R*T of their budget. " +
			"0 is the promise.",
		cell: func(r *measure.Result) string { return count(r.Excess) },
	},
	{
		name:    "worst excess at",
		meaning: "When that interval ended, since the start of the run.",
		cell:    excessAt,
	},
	{
		name: "utilisation",
		meaning: "Admitted, beside what the oracle admits of the same arrivals: one bucket for all regions, without latency " +
			"and without faults. Above 100% is overshoot.",
		cell: func(r *measure.Result) string { return percent(r.Utilisation) },
	},
	{
		name: "utilisation bound",
		meaning: "What utilisation can be at the most where credit is out in lumps: min(1, B/(R*tau)). Credit that is out " +
			"cannot be refilled; tau is how long a token was out on average in this run.",
		cell: bound,
	},
	{
		name:    "false denials",
		meaning: "Checks that were not admitted, and that the oracle admits. Strictness and distance cost these.",
		cell:    func(r *measure.Result) string { return count(r.FalseDenied) },
	},
	{
		name:    "exhausted (429)",
		meaning: "Checks that were denied since the budget was known to be used up.",
		cell:    func(r *measure.Result) string { return count(r.Exhausted) },
	},
	{
		name:    "unavailable (503)",
		meaning: "Checks for which no safe authority could be reached in time.",
		cell:    func(r *measure.Result) string { return count(r.Unavailable) },
	},
	{
		name:    "refused for good",
		meaning: "Checks that can never be admitted: they cost more than the capacity, or have no policy.",
		cell:    func(r *measure.Result) string { return count(r.Refused) },
		rare:    func(r *measure.Result) bool { return r.Refused != 0 },
	},
	{
		name:    "not yet answered",
		meaning: "Checks that were waiting when the run ended.",
		cell:    func(r *measure.Result) string { return count(r.Pending) },
		rare:    func(r *measure.Result) bool { return r.Pending != 0 },
	},
	{
		name:    "syncs per check",
		meaning: "Requests to a broker for each check that arrived.",
		cell:    func(r *measure.Result) string { return decimal(r.SyncsPer) },
	},
	{
		name: "unknown credit for",
		meaning: "For how long some credit was unknown: reserved for processes that are gone and have not accounted for it. " +
			"Nobody can spend it until a proof or an operator resolves it.",
		cell: func(r *measure.Result) string { return duration(r.UnknownFor) },
	},
	{
		name:    "unknown, token-seconds",
		meaning: "How much was unknown, times how long.",
		cell:    func(r *measure.Result) string { return decimal(r.UnknownTokenSecond) },
	},
	{
		name:    "recovery",
		meaning: "The longest time from the end of a fault until every region in which checks arrived had one admitted again.",
		cell:    recovery,
	},
	{
		name:    "stopped shards",
		meaning: "Shards that serve no more since the store was set back without notice.",
		cell:    func(r *measure.Result) string { return count(int64(r.Stopped)) },
		rare:    func(r *measure.Result) bool { return r.Stopped != 0 },
	},
}

// shown are the quantities that a table over the runs has.
func shown(runs ...Run) []quantity {
	var rows []quantity
	for _, q := range quantities {
		if q.rare == nil || occurs(q, runs) {
			rows = append(rows, q)
		}
	}
	return rows
}

func occurs(q quantity, runs []Run) bool {
	for _, run := range runs {
		if slices.ContainsFunc(run.Results, q.rare) {
			return true
		}
	}
	return false
}

func ratio(part, whole int64) float64 { return float64(part) / float64(whole) }

func excessAt(r *measure.Result) string {
	if r.Excess == 0 {
		return none
	}
	return duration(r.ExcessAt)
}

func bound(r *measure.Result) string {
	if r.Bound == 0 {
		return none
	}
	return percent(r.Bound)
}

func recovery(r *measure.Result) string {
	if r.Never {
		return "never"
	}
	return duration(r.Recovery)
}

// overview is one line of a table over many scenarios, after its name: ours, and
// the worst excess of each weak strategy.
func overview(run Run, others []string) []string {
	cells := []string{none, none, none, none}
	if r := run.result(ours); r != nil {
		cells = []string{count(r.Admitted), count(r.Excess), percent(r.Utilisation), bound(r)}
	}
	for _, strategy := range others {
		cell := none
		if r := run.result(strategy); r != nil {
			cell = count(r.Excess)
		}
		cells = append(cells, cell)
	}
	return cells
}
