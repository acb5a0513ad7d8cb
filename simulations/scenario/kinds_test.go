package scenario_test

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// Rules of every kind are read, and written again.
func TestRulesOfEveryKind(t *testing.T) {
	const bucket = "    token-bucket: {capacity: 4, refill: 1 per 1s}"
	for _, c := range []struct {
		rule string
		want lease.Rule
		work time.Duration
	}{
		{"    rolling-window: {limit: 3, window: 60s}", lease.Rule{Kind: lease.RollingWindow, Capacity: 3, Window: time.Minute}, 0},
		{"    fixed-window: {limit: 30, period: day, time-zone: Europe/Berlin}", lease.Rule{Kind: lease.FixedWindow, Capacity: 30, Period: lease.Day, Zone: "Europe/Berlin"}, 0},
		{"    concurrency: {slots: 6}\n    hold: 20s", lease.Rule{Kind: lease.Concurrency, Capacity: 6}, time.Second},
	} {
		sc, err := scenario.Parse("s.yaml", []byte(instead(bucket, c.rule)))
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		c.want.Version, c.want.MaxSharePercent = 1, 100
		if got := sc.Policies[0].Rule; got != c.want || sc.Workloads[0].Work != c.work {
			t.Errorf("%s: %+v, work %v, want %+v", c.rule, got, sc.Workloads[0].Work, c.want)
		}
		again, err := scenario.Parse("s.yaml", scenario.Format(sc))
		if err != nil || again.Policies[0] != sc.Policies[0] || again.Workloads[0].Work != c.work {
			t.Errorf("%s is written as\n%s%v", c.rule, scenario.Format(sc), err)
		}
	}
}

// What is not simulated is refused, as is work that holds nothing.
func TestRefusesWhatIsNotSimulated(t *testing.T) {
	requireRefusals(t, func(value string) string { return instead("1 per 1s}", "1 per 1s}\n    "+value) }, []refusal{
		{"postpaid: true", []string{"10: policies[0].postpaid: is not simulated: remove it"}},
		{"shadow: true", []string{"10: policies[0].shadow: is not simulated: remove it"}},
		{"disabled: true", []string{"10: policies[0].disabled: is not simulated: remove it"}},
		{"on-unavailable: local\n    local: {capacity: 1, refill: 0, for: 10s}", []string{"10: policies[0].on-unavailable: is not simulated: remove it"}},
	})
	requireRefusals(t, func(value string) string { return least("    work: " + value) }, []refusal{
		{"2s", []string{"13: workload[0].work: goes with concurrency alone, and the policy is a token-bucket: remove it"}},
	})
}
