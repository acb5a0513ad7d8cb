package measure

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// ours is the strategy that an expectation is about unless it says otherwise,
// and oracle the one that others are compared with.
const (
	ours   = scenario.Ours
	oracle = "oracle"
)

// Finding is what came of an expectation.
type Finding struct {
	Expectation scenario.Expectation
	Measured    float64 // in the unit of the quantity; infinite for never
	OK          bool
	Problem     string // why nothing could be measured; then OK is false
}

// Check holds the results of a scenario, by strategy, against its expectations.
// Quantities that are relative to the oracle need its result, too.
func Check(sc *scenario.Scenario, results map[string]*Result) []Finding {
	findings := make([]Finding, 0, len(sc.Expect))
	for _, e := range sc.Expect {
		if e.Until >= sc.Duration && !isBalance(e.Quantity) {
			e.Until = 0 // the whole run
		}
		f := Finding{Expectation: e}
		var err error
		if f.Measured, err = measured(sc, &e, results); err != nil {
			f.Problem = err.Error()
		} else {
			f.OK = (e.AtLeast == nil || f.Measured >= *e.AtLeast) && (e.AtMost == nil || f.Measured <= *e.AtMost)
		}
		findings = append(findings, f)
	}
	return findings
}

// String is one line, such as "line 42: admitted in eu from 20s until 30s is 12,
// want at least 20".
func (f Finding) String() string {
	e := &f.Expectation
	var b strings.Builder
	fmt.Fprintf(&b, "line %d: %s", e.Line, e.Quantity)
	if e.Strategy != "" && e.Strategy != ours {
		fmt.Fprintf(&b, " of %s", e.Strategy)
	}
	if e.Region != "" {
		fmt.Fprintf(&b, " in %s", e.Region)
	}
	if e.From > 0 {
		fmt.Fprintf(&b, " from %s", strictyaml.FormatDuration(e.From))
	}
	switch {
	case e.Until > 0 && isBalance(e.Quantity):
		fmt.Fprintf(&b, " at %s", strictyaml.FormatDuration(e.Until))
	case e.Until > 0:
		fmt.Fprintf(&b, " until %s", strictyaml.FormatDuration(e.Until))
	}
	if f.Problem != "" {
		return b.String() + ": " + f.Problem
	}
	return b.String() + " is " + number(e.Quantity, f.Measured) + ", want " + wanted(e)
}

func wanted(e *scenario.Expectation) string {
	switch {
	case e.AtLeast == nil && e.AtMost == nil:
		return "anything"
	case e.AtMost == nil:
		return "at least " + number(e.Quantity, *e.AtLeast)
	case e.AtLeast == nil:
		return "at most " + number(e.Quantity, *e.AtMost)
	case *e.AtLeast == *e.AtMost:
		return number(e.Quantity, *e.AtLeast)
	}
	return number(e.Quantity, *e.AtLeast) + " to " + number(e.Quantity, *e.AtMost)
}

// number has up to three decimals, rounded, and the unit that a file has.
func number(q scenario.Quantity, v float64) string {
	if math.IsInf(v, 1) {
		return "never"
	}
	unit := map[scenario.Quantity]string{scenario.Utilisation: "%", scenario.Recovery: "s"}[q]
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) + unit
}

// measured is the quantity that the expectation is about.
func measured(sc *scenario.Scenario, e *scenario.Expectation, results map[string]*Result) (float64, error) {
	name := e.Strategy
	if name == "" {
		name = ours
	}
	r := results[name]
	if r == nil {
		return 0, fmt.Errorf("%s was not run", name)
	}
	w := newWindow(sc, e)
	if isWhole(e.Quantity) && !w.whole {
		return 0, fmt.Errorf("%s is measured of the whole run: leave out region, from and until", e.Quantity)
	}
	switch e.Quantity {
	case scenario.Excess:
		return float64(r.Excess), nil
	case scenario.Stopped:
		return float64(r.Stopped), nil
	case scenario.Recovery:
		if r.Never {
			return math.Inf(1), nil
		}
		return r.Recovery.Seconds(), nil
	case scenario.Available, scenario.Held, scenario.Unknown:
		return r.balanceAt(e, w.region)
	case scenario.Admitted:
		return float64(r.sum(w, Admitted)), nil
	case scenario.Exhausted:
		return float64(r.sum(w, Exhausted)), nil
	case scenario.Unavailable:
		return float64(r.sum(w, Unavailable)), nil
	case scenario.FalseDenied, scenario.Utilisation:
		if results[oracle] == nil {
			return 0, fmt.Errorf("%s needs the oracle, which was not run", e.Quantity)
		}
		if e.Quantity == scenario.FalseDenied {
			return float64(r.falselyDenied(w, results[oracle])), nil
		}
		return 100 * proportion(r.sum(w, Admitted), results[oracle].sum(w, Admitted)), nil
	}
	return 0, fmt.Errorf("%q is not a quantity", e.Quantity)
}

func isBalance(q scenario.Quantity) bool {
	return q == scenario.Available || q == scenario.Held || q == scenario.Unknown
}

func isWhole(q scenario.Quantity) bool {
	return q == scenario.Excess || q == scenario.Recovery || q == scenario.Stopped
}

// window is the part of a run that an expectation is about.
type window struct {
	from, until time.Duration // [from, until)
	region      int           // -1: all
	whole       bool
}

func newWindow(sc *scenario.Scenario, e *scenario.Expectation) window {
	w := window{from: e.From, until: e.Until, region: -1}
	if w.until == 0 || w.until >= sc.Duration {
		w.until = never // what ends after the arrivals do belongs to the whole run
	}
	for i := range sc.Regions {
		if sc.Regions[i].Name == e.Region {
			w.region = i
		}
	}
	w.whole = w.from == 0 && w.until == never && e.Region == ""
	return w
}

// has says that a check which ended at this moment is in the window.
func (w window) has(c *check, at time.Duration) bool {
	return at >= w.from && at < w.until && (w.region < 0 || int(c.region) == w.region)
}

// sum is tokens for admissions, and checks for what else.
func (r *Result) sum(w window, o Outcome) (sum int64) {
	for i := range r.checks {
		c := &r.checks[i]
		switch {
		case c.outcome != o || !w.has(c, c.end):
		case o == Admitted:
			sum += c.cost
		default:
			sum++
		}
	}
	return sum
}

// falselyDenied counts checks by when they were denied, or else arrived.
func (r *Result) falselyDenied(w window, oracle *Result) (sum int64) {
	for i := range r.checks {
		c := &r.checks[i]
		at := c.end
		if c.outcome == Pending {
			at = c.at
		}
		if c.outcome != Admitted && i < len(oracle.Outcomes) && oracle.Outcomes[i] == Admitted && w.has(c, at) {
			sum++
		}
	}
	return sum
}

// balanceAt is the balance at the expectation's moment, exactly.
func (r *Result) balanceAt(e *scenario.Expectation, region int) (float64, error) {
	m := &r.last
	for i := range r.moments {
		if r.moments[i].at == e.Until {
			m = &r.moments[i]
		}
	}
	switch {
	case e.Quantity == scenario.Held && region >= 0:
		return float64(m.held[region]), nil
	case region >= 0:
		return 0, fmt.Errorf("%s is measured over all regions: leave out region", e.Quantity)
	case e.Quantity == scenario.Available:
		return float64(m.available), nil
	case e.Quantity == scenario.Unknown:
		return float64(m.unknown), nil
	}
	var sum int64
	for _, held := range m.held {
		sum += held
	}
	return float64(sum), nil
}
