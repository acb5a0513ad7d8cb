package nearest

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	known := []string{"capacity", "refill", "max-cost", "max-share", "on-unavailable", "cost"}
	tests := []struct{ word, want string }{
		{"capacty", "capacity"},
		{"Capacity", "capacity"},
		{"max_cost", "max-cost"},
		{"maxCost", "max-cost"},
		{"refil", "refill"},
		{"onunavailable", "on-unavailable"},
		{"costs", "cost"},
		{"banana", ""},
		{"", ""},
		{"x", ""},
		{"coxyt", "cost"}, // exactly two edits
		{strings.Repeat("capacity", 1000), ""},
	}
	for _, test := range tests {
		if got := Word(test.word, known); got != test.want {
			t.Errorf("Word(%.20q) = %q, want %q", test.word, got, test.want)
		}
	}
}

func TestWordEdges(t *testing.T) {
	if got := Word("rat", []string{"cat", "bat"}); got != "cat" {
		t.Errorf("of two equally near words %q was taken, want the first", got)
	}
	if got := Word("ab", []string{"yz"}); got != "" {
		t.Errorf("Word(ab) = %q, which has no letter in common", got)
	}
	longest := strings.Repeat("w", maxWord)
	if got := Word(longest, []string{longest + "x"}); got == "" {
		t.Error("the longest word is not compared")
	}
	if got := Word(longest+"w", []string{longest + "x"}); got != "" {
		t.Error("a word above the longest is compared")
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"abc", "abd", 1}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2},
	}
	for _, test := range tests {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
