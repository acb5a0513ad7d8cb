package simulations

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// Faults says what may go wrong in a run. The zero value is a run in which
// nothing does.
type Faults struct {
	// Percent of messages that are lost, repeated, delayed by seconds, or held
	// back until long after they were of use.
	Loss, Duplicate, Slow, Late int
	// Percent of requests that go to any broker instead of the newest owner.
	Astray int
	// Percent of transactions of which the owner hears nothing but an error, and
	// of those that reach the store twice.
	Uncertain, Twice int
	// Percent of the points between two steps of a process at which it crashes.
	CrashPoint int
	// Percent of journal writes that fail.
	JournalError int
	// Percent of crashes after which the journal is not there, and of those after
	// which an older copy is, where the journal mode can stand it.
	FreshDisk, OldDisk int

	Crash        bool // processes crash and start again
	Rival        bool // a site starts a second process on another disk
	Stop         bool // processes stop in order
	PauseHolder  bool
	PauseBroker  bool
	LoseSession  bool // owners lose their ownership and notice late
	CrashBroker  bool
	Cut          bool // sites lose the network for a while, in one direction or both
	Isolate      bool // brokers lose the store for a while
	Freeze       bool // machines sleep: processes stand still, and so do their clocks
	ChangePolicy bool
	Attest       bool // an operator resolves what dead epochs held
	ForgetIdle   bool // brokers drop idle ledgers quickly
	Restore      bool // the store is set back to a copy, which is declared
	StepWall     bool // wall clocks step, by about Skew
	// Percent of checks that stand still between their look at the clocks and the
	// spend, where the policy bounds staleness; see Bounds.
	Stall int
	// Skew is how far wall clocks of brokers differ; 0: by years.
	Skew time.Duration
}

// Config of a run. [Draw] makes one from a seed.
type Config struct {
	Seed    uint64
	Brokers int
	Shards  uint32
	// TxnOps is the most operations of a transaction; 0 for the store's default.
	// A small one splits requests over several commits.
	TxnOps   int
	Policies []lease.Policy   // one per budget
	Kinds    []lease.Kind     // that policies are drawn from, and change to; nil: buckets
	Journals []holder.Journal // one per site
	Greedy   []bool           // sites that spend whatever they have, at once
	Bounds   Bounds           // on staleness, that policies have; zero: none
	Faults   Faults
	// Chaos is how long faults go on. Think is the mean pause between two checks
	// of a site and budget.
	Chaos, Think time.Duration
	// Work is how long what is admitted usually takes, where it holds slots or a
	// reservation, at the most. Reserve is the percentage of checks that reserve.
	Work    time.Duration
	Reserve int
	// Pace stretches the pauses between checks, campaigns and faults, for runs of
	// hours. Default 1.
	Pace int
	// Settings of processes; zero takes a short default that suits simulations.
	SyncInterval, IdleAfter, ListEvery, HangTime time.Duration
	// Keep, unless it is nil, leaves out every fault but those with these numbers,
	// in order: a shrunk history.
	Keep []int
	// Replay is the command that runs this again.
	Replay string
	// Note, if set, is told what messages and transactions say.
	Note func(at time.Duration, text string)
	// Hooks are for tests.
	Hooks Hooks
}

// Draw makes the configuration of a seed. Each seed draws which faults are on
// (swarm testing: Groce and others, ISSTA 2012), since some bugs show only
// where other faults are absent.
func Draw(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	cfg := Config{
		Seed: seed, Brokers: 1 + r.IntN(3), Shards: 1 + uint32(r.IntN(2)),
		Faults: drawFaults(r), Replay: fmt.Sprintf("tokenlease simulate --seed %d", seed),
		Chaos: time.Duration(15+r.IntN(25)) * time.Second,
		Think: time.Duration(50+r.IntN(450)) * time.Millisecond,
	}
	draw := func(least, most time.Duration) time.Duration {
		return least + time.Duration(r.Int64N(int64(most-least)))
	}
	cfg.SyncInterval = draw(50*time.Millisecond, 400*time.Millisecond)
	cfg.IdleAfter = draw(200*time.Millisecond, 4*time.Second)
	cfg.ListEvery = draw(300*time.Millisecond, 6*time.Second)
	cfg.HangTime = draw(300*time.Millisecond, 3*time.Second)
	budgets := 1 + r.IntN(2)
	if r.IntN(4) == 0 {
		budgets, cfg.TxnOps = 6, 8+r.IntN(10)
	}
	cfg.Kinds = kindsOf(r)
	cfg.Work = draw(100*time.Millisecond, 5*time.Second)
	if r.IntN(2) == 0 {
		cfg.Reserve = 1 + r.IntN(60)
	}
	for i := range budgets {
		cfg.Policies = append(cfg.Policies, drawPolicy(r, budgetKey(i).Operation, cfg.Kinds))
	}
	modes := []holder.Journal{holder.JournalBlock, holder.JournalConfirm, holder.JournalOff}
	for range 1 + r.IntN(3) {
		cfg.Journals = append(cfg.Journals, modes[r.IntN(3)])
		cfg.Greedy = append(cfg.Greedy, r.IntN(4) == 0)
	}
	if r.IntN(16) == 0 { // hours instead of seconds
		cfg.Pace = 20 + r.IntN(100)
		cfg.Chaos *= time.Duration(cfg.Pace)
	}
	if r := rand.New(rand.NewPCG(seed, 0x57a1e)); r.IntN(3) == 0 {
		cfg.bound(r)
	}
	return cfg
}

// halfHours is a time zone whose hours begin half an hour after those of others.
const halfHours = "Asia/Kolkata"

// kindsOf draws which kinds of rules a world has.
func kindsOf(r *rand.Rand) []lease.Kind {
	all := [][]lease.Kind{
		{lease.TokenBucket}, {lease.TokenBucket}, {lease.TokenBucket},
		{lease.RollingWindow}, {lease.FixedWindow}, {lease.Concurrency},
		{lease.TokenBucket, lease.RollingWindow, lease.FixedWindow},
		{lease.TokenBucket, lease.RollingWindow, lease.FixedWindow, lease.Concurrency},
	}
	return all[r.IntN(len(all))]
}

// drawPolicy draws a small policy of one of the kinds.
func drawPolicy(r *rand.Rand, operation string, kinds []lease.Kind) lease.Policy {
	p := lease.Policy{Operation: operation, DefaultCost: 1, Rule: lease.Rule{
		Kind: lease.TokenBucket, Version: 1, Capacity: 1 + r.Int64N(10), MaxSharePercent: 100,
	}}
	if len(kinds) > 0 {
		p.Rule.Kind = kinds[r.IntN(len(kinds))]
	}
	switch p.Rule.Kind {
	case lease.TokenBucket:
		p.Rule.Refill.Interval = time.Second
		if r.IntN(3) > 0 {
			p.Rule.Refill.Tokens = 1 + r.Int64N(4)
		}
	case lease.RollingWindow:
		p.Rule.Window = 500*time.Millisecond + time.Duration(r.Int64N(int64(3500*time.Millisecond)))
	case lease.FixedWindow:
		p.Rule.Period, p.Rule.Zone = lease.Minute, "UTC"
		if r.IntN(4) == 0 {
			p.Rule.Period = lease.Hour
		}
		if r.IntN(4) == 0 {
			p.Rule.Zone = halfHours
		}
	case lease.Concurrency:
		p.Rule.Capacity = 1 + r.Int64N(6)
	}
	if r.IntN(4) == 0 {
		p.Rule.MaxSharePercent = 50
	}
	p.Hold = 500*time.Millisecond + time.Duration(r.Int64N(int64(5*time.Second)))
	return p
}

// Rule draws the policies anew, of these kinds alone, and without bounds on staleness.
func (c *Config) Rule(kinds ...lease.Kind) {
	r := rand.New(rand.NewPCG(c.Seed, 0x4b1d))
	c.Kinds, c.Bounds = kinds, Bounds{}
	for i := range c.Policies {
		c.Policies[i] = drawPolicy(r, c.Policies[i].Operation, kinds)
	}
}

func drawFaults(r *rand.Rand) Faults {
	percent := func(most int) int {
		if r.IntN(2) == 0 {
			return 0
		}
		return 1 + r.IntN(most)
	}
	on := func() bool { return r.IntN(2) == 0 }
	return Faults{
		Loss: percent(20), Duplicate: percent(20), Slow: percent(40), Late: percent(10),
		Astray:    percent(20),
		Uncertain: percent(20), Twice: percent(20), CrashPoint: percent(3), JournalError: percent(4),
		FreshDisk: percent(50), OldDisk: percent(80),
		Crash: on(), Rival: on(), Stop: on(), PauseHolder: on(), PauseBroker: on(), LoseSession: on(),
		CrashBroker: on(), Cut: on(), ChangePolicy: on(), Attest: on(), ForgetIdle: on(),
		Isolate: on(), Freeze: on(), Restore: r.IntN(4) == 0,
		StepWall: on(), Skew: []time.Duration{0, 5 * time.Second, 2 * time.Minute, 2 * time.Minute}[r.IntN(4)],
	}
}

// budgetKey is the i-th budget of a world.
func budgetKey(i int) lease.Key {
	return lease.Key{Account: "acme", Operation: "op-" + string(rune('a'+i))}
}

func (c *Config) defaults() {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.SyncInterval, 250*time.Millisecond)
	set(&c.IdleAfter, 4*time.Second)
	set(&c.ListEvery, 5*time.Second)
	set(&c.HangTime, 3*time.Second)
	set(&c.Think, 200*time.Millisecond)
	c.Pace = max(1, c.Pace)
	if c.Brokers == 0 {
		c.Brokers = 1
	}
	if c.Shards == 0 {
		c.Shards = 1
	}
	for len(c.Greedy) < len(c.Journals) {
		c.Greedy = append(c.Greedy, false)
	}
}
