package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// A report of a budget whose credit lapses says that this is weaker than proof, in the
// terminal and on the page; others say nothing of it.
func TestDeadlinesAreToldToBeWeaker(t *testing.T) {
	deadline := lease.Policy{Operation: "report.sign", MaxStaleness: 20 * time.Second, ReclaimMargin: 10 * time.Second}
	for name, change := range map[string]func(*scenario.Scenario){
		"at first": func(sc *scenario.Scenario) { sc.Policies = append(sc.Policies, deadline) },
		"later": func(sc *scenario.Scenario) {
			sc.Faults = append(sc.Faults, scenario.Fault{Kind: scenario.Policy, Policy: deadline})
		},
		"never": func(*scenario.Scenario) {},
	} {
		run := invented(3, 100)
		run.Results[0].Lapsed = 41
		change(run.Scenario)
		var text, page bytes.Buffer
		if err := Text(&text, []Run{run}, true); err != nil {
			t.Fatal(err)
		}
		if err := HTML(&page, []Run{run}); err != nil {
			t.Fatal(err)
		}
		for _, got := range []string{text.String(), page.String()} {
			for _, want := range []string{"report.sign after 30s", "weaker than proof", "41 tokens have lapsed"} {
				if strings.Contains(got, want) != (name != "never") {
					t.Errorf("%s: %q is there: %v", name, want, name == "never")
				}
			}
		}
	}
}
