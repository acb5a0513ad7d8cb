package measure

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// Spans are the scenario's faults as a plot shows them, in order of time.
func Spans(sc *scenario.Scenario) []Span {
	spans := make([]Span, 0, len(sc.Faults))
	for i := range sc.Faults {
		f := &sc.Faults[i]
		until, ends := End(f)
		if !ends || until > sc.Duration {
			until = sc.Duration
		}
		spans = append(spans, Span{From: f.At, Until: max(f.At, until), Label: Label(f)})
	}
	slices.SortStableFunc(spans, func(a, b Span) int { return int(a.From - b.From) })
	return spans
}

// End is when the fault is over, and false for one that lasts to the end of the
// run. A moment is over at once.
func End(f *scenario.Fault) (at time.Duration, ok bool) {
	switch f.Kind {
	case scenario.Crash, scenario.Stop:
		return f.At + f.Back, f.Back > 0
	case scenario.Cut, scenario.Mess, scenario.Pause, scenario.Freeze, scenario.StoreIs:
		return f.At + f.For, f.For > 0
	case scenario.Restore:
		return f.At + f.Attested, !f.Declared || f.Attested > 0
	case scenario.Zombie, scenario.Expire, scenario.Policy, scenario.Attest, scenario.Wall:
	}
	return f.At + f.For, true
}

// Label names the fault in a few words.
func Label(f *scenario.Fault) string {
	switch f.Kind {
	case scenario.Cut, scenario.Mess:
		between := " - "
		if f.OneWay {
			between = " > "
		}
		return strings.TrimSpace(string(f.Kind) + " " + strings.Trim(f.Ends[0]+between+f.Ends[1], "- "))
	case scenario.StoreIs:
		return "store " + string(f.Trouble)
	case scenario.Policy:
		return fmt.Sprintf("policy %s: %d", f.Policy.Operation, f.Policy.Rule.Capacity)
	case scenario.Restore:
		if f.Declared {
			return "restore declared"
		}
		return "store restored"
	case scenario.Wall:
		return fmt.Sprintf("wall %s %+g s", f.Target, f.Step.Seconds())
	case scenario.Pause, scenario.Freeze, scenario.Crash, scenario.Stop, scenario.Zombie, scenario.Expire, scenario.Attest:
	}
	return strings.TrimSpace(string(f.Kind) + " " + f.Target)
}

// recovery is how long after the end of a fault each region had a check admitted
// again, at the worst, as far as checks arrived there that the oracle admits (any,
// where its outcomes are not known). never is set when one had none until the run
// ended. What operators do is not a fault, and a region that has ended for good is
// not waited for.
func recovery(sc *scenario.Scenario, checks []check, oracle []Outcome) (longest time.Duration, never bool) {
	for i := range sc.Faults {
		f := &sc.Faults[i]
		end, ok := End(f)
		if !ok || f.Kind == scenario.Policy || f.Kind == scenario.Attest {
			continue
		}
		for region := range sc.Regions {
			if gone(sc, region) {
				continue
			}
			took, asked, again := after(checks, oracle, region, end)
			never = never || asked && !again
			longest = max(longest, took)
		}
	}
	return longest, never
}

// after is how long after a moment the region had a check admitted.
func after(checks []check, oracle []Outcome, region int, moment time.Duration) (took time.Duration, asked, again bool) {
	for i := range checks {
		c := &checks[i]
		if int(c.region) != region {
			continue
		}
		asked = asked || c.at >= moment && (i >= len(oracle) || oracle[i] == Admitted)
		if c.outcome == Admitted && c.end >= moment && (!again || c.end-moment < took) {
			took, again = c.end-moment, true
		}
		if asked && again && c.at >= moment+took {
			break // later arrivals end later still
		}
	}
	if !asked {
		return 0, false, false
	}
	return took, true, again
}

// gone says that all of the region ends and is never started again.
func gone(sc *scenario.Scenario, region int) bool {
	r := &sc.Regions[region]
	for i := range sc.Faults {
		f := &sc.Faults[i]
		if (f.Kind == scenario.Crash || f.Kind == scenario.Stop) && f.Back == 0 &&
			(f.Target == r.Name || r.Limiters <= 1 && f.Target == r.Name+"/1") {
			return true
		}
	}
	return false
}
