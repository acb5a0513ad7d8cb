package strategies_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/strategies"
)

func ruled(rule lease.Rule) lease.Policy {
	p := policy(1, rule.Capacity, 0)
	rule.Version, rule.MaxSharePercent = 1, 50
	p.Rule = rule
	return p
}

// The oracle has an exact model of each kind.
func TestOracleOfEveryKind(t *testing.T) {
	rolling := ruled(lease.Rule{Kind: lease.RollingWindow, Capacity: 3, Window: 2 * second})
	expect(t, "three in 2 s", world(rolling, in(0, 1, 2, 0, second), in(1, 1, 1, second, 2*second-1, 2*second, 3*second)),
		strategies.Oracle, numbers{admitted: 5, exhausted: 3})
	// The wall clock's minute begins at 40 s.
	fixed := world(ruled(lease.Rule{Kind: lease.FixedWindow, Capacity: 3, Period: lease.Minute, Zone: "UTC"}),
		in(0, 1, 2, second, 30*second, 40*second-1, 40*second, 41*second))
	fixed.Duration = time.Minute
	expect(t, "three a minute", fixed, strategies.Oracle, numbers{admitted: 6, exhausted: 4})
	slots := world(ruled(lease.Rule{Kind: lease.Concurrency, Capacity: 3}), in(0, 1, 2, 0, second), in(1, 1, 2, 1500*time.Millisecond, 2*second, 3*second))
	for i := range slots.Workloads {
		slots.Workloads[i].Work = 2 * second
	}
	expect(t, "three at a time, for 2 s", slots, strategies.Oracle, numbers{admitted: 6, exhausted: 4})
}

// Limiters that are alone have windows of their own: all of the limit, or a part.
func TestRollingWindowOfEach(t *testing.T) {
	sc := world(ruled(lease.Rule{Kind: lease.RollingWindow, Capacity: 3, Window: 2 * second}), in(0, 1, 4, 0), in(1, 1, 4, 0), in(2, 1, 4, 0))
	expect(t, "four in each of three", sc, strategies.Independent, numbers{admitted: 9, excess: 6, exhausted: 3})
	expect(t, "four in each of three", sc, strategies.Static, numbers{admitted: 3, exhausted: 9})
}

// What has no model is refused by name, and left out by who asks before.
func TestKindsWithoutAModel(t *testing.T) {
	window := lease.Rule{Kind: lease.RollingWindow, Capacity: 3, Window: second}
	slots := lease.Rule{Kind: lease.Concurrency, Capacity: 3}
	for _, c := range []struct {
		sc   *scenario.Scenario
		name string
		says string
	}{
		{world(ruled(window)), strategies.LocalAsync, "strategy local-async has no model of a rolling-window: leave it out"},
		{world(ruled(slots)), strategies.Static, "strategy static has no model of a concurrency"},
		{with(world(policy(1, 40, 20)), scenario.Fault{Kind: scenario.Policy, Policy: ruled(slots)}), strategies.Independent, "no model of a concurrency"},
		{world(ruled(window)), strategies.Independent, ""},
		{world(ruled(slots)), strategies.Oracle, ""},
	} {
		_, err := strategies.Run(c.sc, 1, c.name)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
		if strategies.Models(c.sc, c.name) != (c.says == "") {
			t.Errorf("%s: it is not told whether there is a model", c.name)
		}
	}
}
