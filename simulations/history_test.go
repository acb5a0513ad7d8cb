package simulations

import (
	"strings"
	"testing"
)

// What cannot be is refused in words of its own, and never as something else.
func TestParseHistoryWantsPlainNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"seed=010":              `"seed=010" in a history: want a whole number from 1 to 18446744073709551615, not "010"`,
		"seed=-1":               "want a whole number",
		"seed=1 seed=2":         "seed stands twice",
		"seed=1 run=0":          "want a whole number",
		"seed=1 sites=0":        `"sites=0" in a history: want a whole number from 1`,
		"seed=1 budgets=-1":     "want a whole number",
		"seed=1 brokers=+2":     "want a whole number",
		"seed=1 until=0s":       `"until=0s" in a history: want a length of time above 0, such as 12.5s`,
		"seed=1 until=-3s":      "want a length of time above 0",
		"seed=1 keep=0":         "want a whole number",
		"seed=1 keep=5-2":       "want 2-5 instead of 5-2",
		"seed=1 keep=2,":        "want a whole number",
		"seed=1 keep=1-9999999": "want a whole number",
	} {
		_, err := ParseHistory(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "strconv") || strings.Contains(err.Error(), "time:") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	h, err := ParseHistory("seed=3 keep=")
	if err != nil || h.Keep == nil || len(h.Keep) != 0 || h.String() != "seed=3 keep=" {
		t.Errorf("without faults: %v, %v", h, err)
	}
}
