package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// regions is how many regions there are, with one limiter each.
const regions = 2

// Limits of a scope, from the size of a state.
const (
	maxStarts = 3 // of one region's limiter
	maxOwners = 3 // of the shard, one after the other
)

// Scope bounds the histories that are enumerated. Within it everything happens
// that can, in every order. What is 0 or false does not happen.
type Scope struct {
	Name  string
	About string // what it is aimed at, in a sentence

	Capacity int64 // of the budget, in tokens
	Refill   int64 // tokens a tick
	Window   int   // ticks of a rolling window; 0: a token bucket
	Ticks    int   // how many seconds pass
	Stride   int   // seconds that pass at a time; 0 is 1
	// Bounds are those that the policy has on staleness, by version; later ones have none.
	Bounds []Bound
	// Lag is by how many seconds the clocks of processes, and checks after a look at
	// them, are late in the length of a bound.
	Lag int

	Journal holder.Journal
	// Checks is how many checks each process makes, by region, and Costs what one
	// may cost. A check that finds too little credit leaves its wish and goes.
	Checks [regions]int
	Costs  []int64
	// Greedy regions spend what they have as soon as they have it.
	Greedy [regions]bool
	// Requests is how many requests of a process reach the network, by region;
	// those after that are lost.
	Requests [regions]int
	// Answers is how many answers are kept on the network; those that find it
	// full are lost. An answer whose request is over is dropped unless Repeats is
	// set: the honest holder ignores it.
	Answers int
	Repeats bool
	// Eager processes report all that they spend at once; others once in a tick,
	// unless somebody waits.
	Eager bool

	GiveUps   int  // requests that a process gives up waiting for
	Hints     int  // hints to sync, whoever has need of it
	IdleClose bool // grants that were not used for a tick are closed
	Lists     bool // grants are compared in each tick
	Stops     int  // processes that stop in order

	// Starts is how often a process is started, by region, the first included.
	Starts   [regions]int
	Rivals   bool // a process may start on another disk while the old one lives on
	Crashes  bool // the newest process may crash, with the journal write on its way durable or not
	Fresh    bool // after a crash, the next may find a fresh disk
	Copies   bool // or an older copy of the old one
	BadDisks int  // journal writes that fail, done or not
	Attests  int  // grants of the dead that an operator resolves

	Doubts    int    // commits of uncertain outcome
	Fates     []Fate // what becomes of those; empty: everything
	FailOvers int    // how often the ownership changes; the old owner lives on
	Alone     bool   // owners do what is due without a request: they drop idle ledgers

	// Capacities are those of the later versions of the policy, each put in force
	// at any time.
	Capacities []int64

	MaxStates int // stop there; 0: go on to the end
	MaxDepth  int // look no deeper; 0: to the end

	// Cores that search; 0 is 1. The result does not depend on it.
	Cores int
	// Clock measures how long it takes; nil: rates are not known.
	Clock func() time.Duration
	// Hooks break the rules from outside.
	Hooks Hooks
}

// Bound is a policy's bound on staleness, in seconds: for how long what is held is
// spent without news, and what is waited beyond that until it counts as spent; 0: for
// ever.
type Bound struct{ Staleness, Margin int }

// tick is the unit of time.
const tick = time.Second

// origin of every monotonic clock: none starts at 0.
const origin = time.Hour

func at(ticks uint8) time.Duration { return time.Duration(ticks) * tick }

func mono(ticks uint8) time.Duration { return origin + at(ticks) }

// rule is the policy's rule in version 1, 2 and so on.
func (s *Scope) rule(version int) lease.Rule {
	capacity := s.Capacity
	if version > 1 {
		capacity = s.Capacities[version-2]
	}
	if s.Window > 0 {
		return lease.Rule{Kind: lease.RollingWindow, Version: int64(version), Capacity: capacity, Window: at(uint8(s.Window)), MaxSharePercent: 100}
	}
	return lease.Rule{
		Kind: lease.TokenBucket, Version: int64(version), Capacity: capacity,
		Refill: lease.Rate{Tokens: s.Refill, Interval: tick}, MaxSharePercent: 100,
	}
}

// policy is the policy in version 1, 2 and so on.
func (s *Scope) policy(version int) lease.Policy {
	p := lease.Policy{Operation: key.Operation, DefaultCost: 1, Rule: s.rule(version)}
	if version <= len(s.Bounds) {
		b := s.Bounds[version-1]
		p.MaxStaleness, p.ReclaimMargin = time.Duration(b.Staleness)*tick, time.Duration(b.Margin)*tick
	}
	return p
}

// Validate says what is wrong with the bounds, together.
func (s *Scope) Validate() error {
	switch {
	case s.Capacity < 1 || s.Refill < 0 || s.Ticks < 0 || s.Ticks > 100:
		return fmt.Errorf("scope %s: capacity %d, refill %d, %d ticks", s.Name, s.Capacity, s.Refill, s.Ticks)
	case s.Window < 0 || s.Window > 100 || s.Window > 0 && s.Refill > 0:
		return fmt.Errorf("scope %s: a window of %d ticks, and a refill of %d: a window has none", s.Name, s.Window, s.Refill)
	case s.Stride < 0 || s.Stride > 100 || s.Lag < 0 || s.Lag > 100:
		return fmt.Errorf("scope %s: %d seconds at a time, clocks late by %d", s.Name, s.Stride, s.Lag)
	case slices.Max(s.Starts[:]) > maxStarts || slices.Min(s.Starts[:]) < 0:
		return fmt.Errorf("scope %s: a region starts %d times at the most", s.Name, maxStarts)
	case s.FailOvers >= maxOwners:
		return fmt.Errorf("scope %s: ownership changes %d times at the most", s.Name, maxOwners-1)
	case s.Copies && s.Journal == holder.JournalBlock:
		return fmt.Errorf("scope %s: copies of a journal come back only where its counter is confirmed (contract C4.2)", s.Name)
	case len(s.Costs) == 0:
		return fmt.Errorf("scope %s: no costs of checks", s.Name)
	}
	for version := range 1 + len(s.Capacities) {
		p := s.policy(version + 1)
		if err := p.Validate(); err != nil {
			return fmt.Errorf("scope %s: policy version %d: %w", s.Name, version+1, err)
		}
		if margin := p.ReclaimMargin; margin > 0 && time.Duration(s.Lag)*tick >= margin {
			return fmt.Errorf("scope %s: a margin of %v is for less than %d seconds of lag", s.Name, margin, s.Lag)
		}
	}
	return nil
}
