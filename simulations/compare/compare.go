// Package compare plays scenarios with the real code and with what others do, on
// the same workload and the same faults, and holds the results against what the
// scenarios expect.
package compare

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/simulations"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/report"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/strategies"
)

// Options say how scenarios are played. The zero value compares, with the seeds
// of the scenarios, one run after the other.
type Options struct {
	Seed    uint64 // of all scenarios; 0: each its own
	Alone   bool   // the real code and the oracle, without the other strategies
	Workers int    // runs side by side; below 1 is read as 1
	// Note, if set, is told what messages and transactions of the real code say.
	Note func(at time.Duration, text string)
	// Clock measures how long a run takes; nil: not at all.
	Clock func() time.Duration
	// Progress, unless it is nil, is told after each run, by one at a time.
	Progress func(done, of int, scenario, strategy string)
}

// Runs is how many runs Play takes for a scenario.
func (o Options) Runs(sc *scenario.Scenario) int { return 1 + len(o.others(sc)) }

// others are the strategies that are compared with the real code: those that have a
// model of all that the scenario has. The oracle always does.
func (o Options) others(sc *scenario.Scenario) []string {
	if o.Alone {
		return strategies.Names[:1]
	}
	return slices.DeleteFunc(slices.Clone(strategies.Names), func(name string) bool { return !strategies.Models(sc, name) })
}

// leftOut are the others that are not compared.
func (o Options) leftOut(sc *scenario.Scenario) []string {
	var names []string
	for _, name := range strategies.Names {
		if !o.Alone && !strategies.Models(sc, name) {
			names = append(names, name)
		}
	}
	return names
}

// Play plays scenarios, and gives their results in the same order: the real code
// first, then the oracle, then the others. What was found broken is told by the
// results. Those that were not played when ctx ended are left out, and its error
// is returned.
func Play(ctx context.Context, scenarios []*scenario.Scenario, o Options) ([]report.Run, error) {
	runs := make([]report.Run, len(scenarios))
	type task struct{ scenario, place int }
	var tasks []task
	for i, sc := range scenarios {
		runs[i] = report.Run{Scenario: sc, Results: make([]*measure.Result, o.Runs(sc)), LeftOut: o.leftOut(sc)}
		for place := range o.Runs(sc) {
			tasks = append(tasks, task{i, place})
		}
	}
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		next   int
		done   int
		failed error
	)
	take := func() (task, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(tasks) || failed != nil {
			return task{}, false
		}
		if failed = ctx.Err(); failed != nil {
			return task{}, false
		}
		next++
		return tasks[next-1], true
	}
	for range max(1, o.Workers) {
		wg.Go(func() {
			for t, ok := take(); ok; t, ok = take() {
				result, wall, err := o.run(scenarios[t.scenario], t.place)
				mu.Lock()
				run := &runs[t.scenario]
				run.Results[t.place] = result
				if t.place == 0 {
					run.Wall = wall
				}
				if err != nil && failed == nil {
					failed = err
				}
				done++
				if o.Progress != nil && err == nil {
					o.Progress(done, len(tasks), scenarios[t.scenario].File, result.Strategy)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failed != nil && ctx.Err() == nil {
		return nil, failed
	}
	runs = slices.DeleteFunc(runs, func(r report.Run) bool { return slices.Contains(r.Results, nil) })
	for i := range runs {
		judge(&runs[i])
	}
	return runs, failed
}

// run plays a scenario with the strategy at a place among the results.
func (o Options) run(sc *scenario.Scenario, place int) (r *measure.Result, wall time.Duration, err error) {
	seed := o.Seed
	if seed == 0 {
		seed = sc.Seed
	}
	if place > 0 {
		name := o.others(sc)[place-1]
		if r, err = strategies.Run(sc, seed, name); err != nil {
			err = fmt.Errorf("%s with strategy %s: %w", sc.File, name, err)
		}
		return r, 0, err
	}
	var start time.Duration
	if o.Clock != nil {
		start = o.Clock()
	}
	r, _ = simulations.Play(sc, simulations.Playing{Seed: seed, Note: o.Note}) // what is broken, the result tells
	if o.Clock != nil {
		wall = o.Clock() - start
	}
	return r, wall, nil
}

// judge compares the results of a run with the oracle's, and with what the
// scenario expects of the strategies that were played.
func judge(run *report.Run) {
	byName := map[string]*measure.Result{}
	for _, r := range run.Results {
		byName[r.Strategy] = r
	}
	for _, r := range run.Results {
		r.Against(byName[strategies.Names[0]])
	}
	played := *run.Scenario
	played.Expect = slices.DeleteFunc(slices.Clone(played.Expect), func(e scenario.Expectation) bool { return byName[e.Strategy] == nil })
	for _, f := range measure.Check(&played, byName) {
		run.Findings = append(run.Findings, report.Finding{Text: f.String(), OK: f.OK})
	}
}
