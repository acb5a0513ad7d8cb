package report

import (
	"strings"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// deadlines tells, for the operations whose credit lapses under some version of their
// policy, that this is weaker than proof; empty: there are none.
func deadlines(run Run) string {
	var of []string
	seen := map[string]bool{}
	tell := func(p lease.Policy) {
		if p.ReclaimMargin == 0 {
			return
		}
		text := plain(p.Operation) + " after " + strictyaml.FormatDuration(p.MaxStaleness+p.ReclaimMargin)
		if !seen[text] {
			seen[text] = true
			of = append(of, text)
		}
	}
	for _, p := range run.Scenario.Policies {
		tell(p)
	}
	for i := range run.Scenario.Faults {
		tell(run.Scenario.Faults[i].Policy)
	}
	if len(of) == 0 {
		return ""
	}
	return "credit of silent limiters lapses, of " + strings.Join(of, ", ") +
		" (weaker than proof: the cap holds where clocks lag and processes pause by less than the margin); " +
		count(run.main().Lapsed) + " tokens have lapsed"
}
