package scenarios_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/scenarios"
)

// files are the shipped scenarios, by file, in order.
func files(t *testing.T) []string {
	t.Helper()
	all, err := fs.Glob(scenarios.Files, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// read parses a shipped scenario.
func read(t *testing.T, file string) (*scenario.Scenario, string) {
	t.Helper()
	data, err := scenarios.Files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := scenario.Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	return sc, string(data)
}

func TestThereAreAtLeastFifteen(t *testing.T) {
	if n := len(files(t)); n < 15 {
		t.Errorf("%d scenarios", n)
	}
}

// TestEachIsOnePage: a comment that tells the story, one lesson, and what must
// come of it.
func TestEachIsOnePage(t *testing.T) {
	titles := map[string]string{}
	for _, file := range files(t) {
		t.Run(file, func(t *testing.T) {
			sc, text := read(t, file)
			if lines := strings.Count(text, "\n"); lines > 66 || !strings.HasPrefix(text, "# ") {
				t.Errorf("%d lines, which begin with %.20q", lines, text)
			}
			for line := range strings.Lines(text) {
				if len(line) > 121 || strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
					t.Errorf("too long, or blanks at the end: %s", line)
				}
			}
			if other := titles[sc.Title]; other != "" {
				t.Errorf("%q is the title of %s already", sc.Title, other)
			}
			titles[sc.Title] = file
			if !sc.Mixed && (sc.Duration < 30*time.Second || sc.Duration > 2*time.Minute) {
				t.Errorf("it takes %v", sc.Duration)
			}
		})
	}
}

// TestEachHoldsTheCap: whatever else it expects, nothing is admitted above the
// budget.
func TestEachHoldsTheCap(t *testing.T) {
	for _, file := range files(t) {
		sc, _ := read(t, file)
		holds := slices.ContainsFunc(sc.Expect, func(e scenario.Expectation) bool {
			return e.Quantity == scenario.Excess && e.Strategy == scenario.Ours && e.AtMost != nil && *e.AtMost == 0
		})
		if !sc.Mixed && !holds {
			t.Errorf("%s does not expect an excess of 0", file)
		}
	}
}
