package explore

import (
	"slices"

	"github.com/tokenlease/tokenlease/regional/holder"
)

// Presets are the scopes that are searched, the small ones first.
func Presets() []Scope { return slices.Clone(presets) }

// Preset is the scope of that name.
func Preset(name string) (Scope, bool) {
	at := slices.IndexFunc(presets, func(s Scope) bool { return s.Name == name })
	if at < 0 {
		return Scope{}, false
	}
	return presets[at], true
}

var both, first = [regions]int{1, 1}, [regions]int{1, 0}

// otherGreedy lets the second region take and spend what it can get.
var otherGreedy = [regions]bool{false, true}

var presets = []Scope{
	{
		Name: "small", About: "two regions share a budget over a network that loses, repeats and reorders",
		Capacity: 2, Refill: 1, Ticks: 1, Journal: holder.JournalOff, Starts: both, Greedy: otherGreedy,
		Checks: [regions]int{3, 1}, Costs: []int64{1}, Requests: [regions]int{4, 2}, Answers: 3, GiveUps: 1,
	},
	{
		Name: "refill", About: "what is spent is reported at once, so that time has all of the room to fill",
		Capacity: 2, Refill: 1, Ticks: 2, Journal: holder.JournalOff, Starts: first,
		Checks: [regions]int{3, 0}, Costs: []int64{1, 2}, Requests: [regions]int{5, 0}, Answers: 2, Eager: true,
	},
	{
		Name: "returns", About: "credit goes back when it is called back",
		Capacity: 2, Refill: 1, Ticks: 1, Journal: holder.JournalOff, Starts: both, Greedy: otherGreedy,
		Checks: [regions]int{2, 1}, Costs: []int64{1}, Requests: [regions]int{4, 1}, Answers: 2, GiveUps: 1, Hints: 1,
	},
	{
		Name: "reopen", About: "grants are closed when they are idle, and opened again under another ID",
		Capacity: 2, Refill: 0, Ticks: 2, Journal: holder.JournalOff, Starts: first,
		Checks: [regions]int{3, 0}, Costs: []int64{1}, Requests: [regions]int{6, 0}, Answers: 2, GiveUps: 1, Hints: 1,
		IdleClose: true,
	},
	{
		Name: "lists", About: "likewise, with grants compared, and answers that come again when their request is over",
		Capacity: 2, Refill: 0, Ticks: 2, Journal: holder.JournalOff, Starts: first,
		Checks: [regions]int{3, 0}, Costs: []int64{1}, Requests: [regions]int{6, 0}, Answers: 3, Repeats: true, GiveUps: 1,
		IdleClose: true, Lists: true, Eager: true,
	},
	{
		Name: "stops", About: "a limiter closes grants and stops in order, and another takes its place",
		Capacity: 2, Refill: 1, Ticks: 1, Journal: holder.JournalOff, Starts: [regions]int{2, 0},
		Checks: [regions]int{2, 0}, Costs: []int64{1}, Requests: [regions]int{4, 0}, Answers: 1, GiveUps: 1,
		Stops: 1, IdleClose: true, Crashes: true,
	},
	{
		Name: "idle", About: "ledgers that are not used go, when they are full",
		Capacity: 2, Refill: 1, Ticks: 3, Journal: holder.JournalOff, Starts: first,
		Checks: [regions]int{3, 0}, Costs: []int64{1}, Requests: [regions]int{4, 0}, Answers: 1,
		IdleClose: true, Alone: true,
	},
	{
		Name: "commits", About: "a commit of uncertain outcome is applied late or twice",
		Capacity: 2, Refill: 1, Ticks: 1, Journal: holder.JournalOff, Starts: both,
		Checks: [regions]int{2, 1}, Costs: []int64{1}, Requests: [regions]int{3, 2}, Answers: 2, Doubts: 1,
	},
	{
		Name: "fail-over", About: "the old owner of a shard lives on",
		Capacity: 2, Refill: 1, Ticks: 1, Journal: holder.JournalOff, Starts: both, Greedy: otherGreedy,
		Checks: [regions]int{2, 1}, Costs: []int64{1}, Requests: [regions]int{3, 1}, Answers: 2,
		FailOvers: 1, IdleClose: true, Stops: 1,
	},
	{
		Name: "doubts", About: "two doubtful commits, and a fail-over among them",
		Capacity: 2, Refill: 1, Ticks: 1, Journal: holder.JournalOff, Starts: first,
		Checks: [regions]int{3, 0}, Costs: []int64{1}, Requests: [regions]int{4, 0}, Answers: 2, Doubts: 2, FailOvers: 1,
	},
	{
		Name: "restart", About: "a limiter crashes, or a rival takes its name, and operators resolve what it held",
		Capacity: 2, Refill: 0, Ticks: 0, Journal: holder.JournalOff, Starts: [regions]int{2, 1},
		Checks: [regions]int{2, 1}, Costs: []int64{1}, Requests: [regions]int{3, 2}, Answers: 3,
		Crashes: true, Rivals: true, Attests: 1,
	},
	{
		Name: "journal", About: "journals prove what was not drawn, those of this disk only",
		Capacity: 2, Refill: 0, Ticks: 0, Journal: holder.JournalBlock, Starts: [regions]int{3, 0},
		Checks: [regions]int{2, 0}, Costs: []int64{1}, Requests: [regions]int{2, 0}, Answers: 2,
		Crashes: true, Rivals: true, Fresh: true,
	},
	{
		Name: "fences", About: "a process is fenced while it closes and reopens grants, and its successor accounts for it",
		Capacity: 2, Refill: 0, Ticks: 1, Journal: holder.JournalBlock, Starts: [regions]int{2, 0},
		Checks: [regions]int{2, 0}, Costs: []int64{1}, Requests: [regions]int{3, 0}, Answers: 2,
		Rivals: true, Crashes: true, IdleClose: true,
	},
	{
		Name: "copies", About: "older copies of a journal come back, and writes fail",
		Capacity: 2, Refill: 0, Ticks: 0, Journal: holder.JournalConfirm, Starts: [regions]int{2, 1},
		Checks: [regions]int{2, 1}, Costs: []int64{1}, Requests: [regions]int{4, 2}, Answers: 2,
		Crashes: true, Copies: true, BadDisks: 1,
	},
	{
		Name: "policy", About: "the capacity is lowered below what is out, and raised again",
		Capacity: 2, Refill: 1, Ticks: 1, Journal: holder.JournalOff, Starts: first,
		Checks: [regions]int{2, 0}, Costs: []int64{1}, Requests: [regions]int{4, 0}, Answers: 2,
		Capacities: []int64{1, 3}, Hints: 1,
	},
	{
		Name: "policies", About: "likewise, with another region",
		Capacity: 2, Refill: 1, Ticks: 1, Journal: holder.JournalOff, Starts: both, Greedy: otherGreedy,
		Checks: [regions]int{2, 1}, Costs: []int64{1}, Requests: [regions]int{3, 1}, Answers: 2,
		Capacities: []int64{1, 3},
	},
	{
		Name: "window", About: "two regions share a rolling window",
		Capacity: 2, Window: 2, Ticks: 3, Journal: holder.JournalOff, Starts: both, Greedy: otherGreedy,
		Checks: [regions]int{2, 1}, Costs: []int64{1}, Requests: [regions]int{3, 1}, Answers: 1,
	},
	{
		Name: "windows", About: "a rolling window gets another limit, is not used, and leaves memory",
		Capacity: 2, Window: 1, Ticks: 2, Journal: holder.JournalOff, Starts: first,
		Checks: [regions]int{2, 0}, Costs: []int64{1}, Requests: [regions]int{3, 0}, Answers: 1, IdleClose: true, Alone: true,
		Capacities: []int64{1, 3},
	},
	{
		Name: "deadline", About: "what a silent limiter holds lapses, by an owner or the next one, with clocks that are late by nearly the margin",
		Capacity: 1, Refill: 1, Ticks: 9, Stride: 3, Bounds: []Bound{{5, 4}}, Lag: 3, Journal: holder.JournalOff, Starts: first,
		Checks: [regions]int{2, 0}, Costs: []int64{1}, Requests: [regions]int{3, 0}, Answers: 1, Alone: true, FailOvers: 1,
	},
	{
		Name: "sooner", About: "likewise, under a policy that comes to let it lapse sooner",
		Capacity: 2, Refill: 0, Ticks: 12, Stride: 3, Bounds: []Bound{{11, 4}, {5, 4}}, Lag: 3, Journal: holder.JournalOff, Starts: first,
		Checks: [regions]int{1, 0}, Costs: []int64{1}, Requests: [regions]int{2, 0}, Answers: 2, Alone: true, Eager: true, Capacities: []int64{2},
	},
	{
		Name: "then-never", About: "likewise, under one that comes to let nothing lapse",
		Capacity: 1, Refill: 0, Ticks: 9, Stride: 3, Bounds: []Bound{{5, 4}}, Lag: 3, Journal: holder.JournalOff, Starts: first,
		Checks: [regions]int{1, 0}, Costs: []int64{1}, Requests: [regions]int{2, 0}, Answers: 1, Alone: true, Capacities: []int64{1},
	},
	{
		Name: "from-then-on", About: "likewise, under one that let nothing lapse at first",
		Capacity: 2, Refill: 0, Ticks: 12, Stride: 3, Bounds: []Bound{{0, 0}, {5, 4}}, Lag: 3, Journal: holder.JournalOff, Starts: first,
		Checks: [regions]int{1, 0}, Costs: []int64{1}, Requests: [regions]int{2, 0}, Answers: 1, Alone: true, Eager: true, Capacities: []int64{2},
	},
	{
		Name: "standard", About: "two regions, with checks of two costs",
		Capacity: 3, Refill: 1, Ticks: 1, Journal: holder.JournalOff, Starts: both, Greedy: otherGreedy,
		Checks: [regions]int{3, 1}, Costs: []int64{1, 2}, Requests: [regions]int{4, 2}, Answers: 3, GiveUps: 1,
	},
}
