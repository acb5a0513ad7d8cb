package report

import (
	"fmt"
	"math"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// invented is a run that never was: its numbers are made to be looked at, and to
// be counted in tests. The capacity is shared by the regions, the first of which
// is lost at half time.
func invented(regions int, capacity int64, faults ...measure.Span) Run {
	const bins = 400
	s := &measure.Series{Step: 100 * time.Millisecond, Faults: faults}
	ideal := &measure.Series{Step: s.Step}
	grow(s, regions, bins)
	grow(ideal, 1, bins)
	for i := range bins {
		s.Capacity[i], ideal.Capacity[i] = capacity, capacity
		left := capacity
		for r := range regions {
			swing := 0.5 + 0.4*math.Sin(float64(i)/25+float64(2*r))
			held := int64(float64(capacity/int64(regions)) * swing)
			left -= held
			if r == 0 && i >= bins/2 && i < bins*3/4 {
				s.Unknown[i] = held
				s.Unavailable[r][i] = int64(1 + i%3)
			} else {
				s.Held[r][i] = held
				s.Admitted[r][i] = held * int64(i%4) / 30
				s.Exhausted[r][i] = int64(i % 4 / 3)
			}
		}
		ideal.Admitted[0][i] = capacity * int64(i%2) / 10
		s.Available[i] = left * int64(60+i%20) / 80
	}
	run := Run{
		Scenario: &scenario.Scenario{
			File:     "simulations/scenarios/lost-region.yaml",
			Title:    "A region is lost, and comes back with its journal",
			Lesson:   "What it held stays reserved.\nNobody else can spend it.\n\nIts journal proves what was never spent.",
			Duration: bins * s.Step,
			Policies: []lease.Policy{{
				Operation: "report.create",
				Rule:      lease.Rule{Capacity: capacity, Refill: lease.Rate{Tokens: capacity / 2, Interval: time.Second}},
			}},
		},
		Results:  inventedResults(capacity),
		Findings: []Finding{{"line 40: worst excess at most 0: 0", true}, {"line 41: recovery at most 2: 1.25", true}},
		Wall:     20 * time.Millisecond,
	}
	for r := range regions {
		name := fmt.Sprintf("region-%d", r+1)
		run.Scenario.Regions = append(run.Scenario.Regions, scenario.Region{Name: name})
		run.Results[0].Regions = append(run.Results[0].Regions,
			measure.Region{Name: name, Checks: 100, Admitted: 5 * capacity, Exhausted: 7, Unavailable: int64(3 * r)})
	}
	run.Results[0].Series, run.Results[1].Series = s, ideal
	return run
}

func grow(s *measure.Series, regions, bins int) {
	s.Capacity, s.Available, s.Unknown = make([]int64, bins), make([]int64, bins), make([]int64, bins)
	for range regions {
		s.Held = append(s.Held, make([]int64, bins))
		s.Admitted = append(s.Admitted, make([]int64, bins))
		s.Exhausted = append(s.Exhausted, make([]int64, bins))
		s.Unavailable = append(s.Unavailable, make([]int64, bins))
	}
}

func inventedResults(capacity int64) []*measure.Result {
	base := measure.Result{Seed: 7, Events: 12345, Checks: 1200, Offered: 60 * capacity, Cap: 21 * capacity}
	results := make([]*measure.Result, 6)
	for i, strategy := range []string{ours, oracle, "independent", "static", "local-async", "expiring-leases"} {
		r := base
		r.Strategy = strategy
		r.Admitted, r.Utilisation = 20*capacity, 1
		results[i] = &r
	}
	main := results[0]
	main.Hash, main.Admitted, main.Utilisation, main.Bound = "9f86d081884c7d65", 19*capacity, 0.95, 0.98765
	main.FalseDenied, main.Exhausted, main.Unavailable, main.Syncs, main.SyncsPer = 13, 110, 40, 41, 41.0/1200
	main.UnknownFor, main.UnknownTokenSecond, main.Recovery = 10*time.Second, 123.456, 1250*time.Millisecond
	results[2].Admitted, results[2].Utilisation = 50*capacity, 2.5
	results[2].Excess, results[2].ExcessAt = 2*capacity, 2*time.Second
	results[3].Admitted, results[3].Utilisation, results[3].FalseDenied = 15*capacity, 0.75, 400
	results[4].Excess, results[4].ExcessAt = capacity/2+1, 21*time.Second
	results[5].Excess, results[5].ExcessAt = capacity/3+1, 33500*time.Millisecond
	results[5].Never = true
	return results
}

// flapping is a link that goes up and down.
func flapping(times int) []measure.Span {
	spans := make([]measure.Span, times)
	for i := range spans {
		from := 5*time.Second + time.Duration(i)*time.Second
		spans[i] = measure.Span{From: from, Until: from + 400*time.Millisecond, Label: "cut region-2 - brokers"}
	}
	return spans
}
