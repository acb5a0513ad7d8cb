package compare_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/simulations/compare"
	"github.com/tokenlease/tokenlease/simulations/report"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// Strategies that have no model of a rule are left out, and the report says so.
func TestLeavesOutWhatHasNoModel(t *testing.T) {
	all := slices.DeleteFunc(shipped(t), func(sc *scenario.Scenario) bool { return sc.File != "slots.yaml" })
	if len(all) != 1 || (compare.Options{}).Runs(all[0]) != 2 {
		t.Fatalf("%d scenarios of slots", len(all))
	}
	runs, err := compare.Play(t.Context(), all, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := report.Text(&text, runs, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"not compared: independent, static, local-async, expiring-leases, of which there is no model for rules of this kind",
		"and slots, which are used again, have no cap on that",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, text.String())
		}
	}
}
