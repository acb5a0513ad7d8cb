package report

import (
	"path"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// The strategies by name that reports treat in a way of their own.
const (
	ours   = "tokenlease"
	oracle = "oracle"
)

// Run is one scenario, and what came of it.
type Run struct {
	Scenario *scenario.Scenario
	// Results by strategy, in the order to be shown: tokenlease first, then the
	// oracle, then the others. At least one.
	Results  []*measure.Result
	Findings []Finding
	// LeftOut are the strategies that have no model of the scenario's kinds of rules.
	LeftOut []string
	// Wall is how long the run of tokenlease took, in real time. The page leaves
	// it out, so that the same seed gives the same page.
	Wall time.Duration
}

// Finding is what an expectation came to.
type Finding struct {
	Text string // what was expected, and what was found
	OK   bool
}

// OK says that every expectation was met, and that no rule was found broken.
func (r Run) OK() bool {
	for _, f := range r.Findings {
		if !f.OK {
			return false
		}
	}
	return r.broken() == ""
}

// Broken is the rule that the run of the real code broke; empty: none.
func (r Run) Broken() string { return r.broken() }

// broken is the rule that the run of the real code broke, if any.
func (r Run) broken() string {
	if main := r.result(ours); main != nil {
		return main.Broken
	}
	return ""
}

// result is that of a strategy, or nil if it did not run.
func (r Run) result(strategy string) *measure.Result {
	for _, result := range r.Results {
		if result.Strategy == strategy {
			return result
		}
	}
	return nil
}

// main is the result that the report is about: ours, where that ran.
func (r Run) main() *measure.Result {
	if result := r.result(ours); result != nil {
		return result
	}
	return r.Results[0]
}

// eventsPerSecond of real time, of the real code; 0 where it is not known.
func (r Run) eventsPerSecond() float64 {
	if r.Wall <= 0 {
		return 0
	}
	return float64(r.main().Events) / r.Wall.Seconds()
}

// name is what a scenario is called in tables: its file, without what all of
// them have in common.
func (r Run) name() string {
	base := path.Base(strings.ReplaceAll(r.Scenario.File, `\`, "/"))
	for _, extension := range []string{".yaml", ".yml"} {
		base = strings.TrimSuffix(base, extension)
	}
	return base
}

// verdict in a word.
func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "FAILED"
}

// weak are the strategies that overviews compare ours with: all that ran in some
// run, other than ours and the oracle, in the order in which they come up.
func weak(runs []Run) []string {
	var names []string
	seen := map[string]bool{ours: true, oracle: true}
	for _, run := range runs {
		for _, result := range run.Results {
			if !seen[result.Strategy] {
				seen[result.Strategy] = true
				names = append(names, result.Strategy)
			}
		}
	}
	return names
}
