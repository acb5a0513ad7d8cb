package strictyaml

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Rate says what a rate such as "20 per 1s" is called, and what it may be.
type Rate struct {
	Name    string // "refill"
	Does    string // "refills"
	Counted string // "tokens"
	// Zero, if set, is what a rate of 0 means; then it may be written as 0.
	Zero    string
	Longest time.Duration // of the interval
}

// Rate reads "20 per 1s". It is 0 per 0s after a fault, and where 0 was written.
func (p *Parser) Rate(node *Node, path string, r Rate) (count int64, interval time.Duration) {
	if node.Kind != yaml.ScalarNode || isEmpty(node) {
		p.WrongKind(node, path, r.want()+r.orZero())
		return 0, 0
	}
	if isPlain(node) && node.Value == "0" && r.Zero != "" {
		return 0, 0
	}
	count, interval, problem := r.parse(node.Value)
	if problem != "" {
		p.Faultf(node.Line, path, "%s", problem)
		return 0, 0
	}
	return count, interval
}

// FormatRate writes a rate as it is read.
func FormatRate(count int64, interval time.Duration) string {
	if count <= 0 {
		return "0"
	}
	return fmt.Sprintf("%d per %s", count, FormatDuration(interval))
}

// want is what such a rate looks like.
func (r Rate) want() string { return "want " + r.Counted + " per interval, such as 20 per 1s" }

func (r Rate) orZero() string {
	if r.Zero == "" {
		return ""
	}
	return ", or 0 for " + r.Zero
}

// parse takes "20 per 1s" apart. The problem is empty if that worked.
func (r Rate) parse(text string) (count int64, interval time.Duration, problem string) {
	words := strings.Fields(text)
	if len(words) != 3 || words[1] != "per" {
		return 0, 0, Quote(text) + " is not a " + r.Name + ": " + r.hint(text)
	}
	if problem := numberProblem(words[0], r.Counted); problem != "" {
		return 0, 0, problem + "; a broken rate is written over a longer interval, such as 3 per 2s"
	}
	count, _ = strconv.ParseInt(words[0], 10, 64) // numberProblem has seen to that
	interval, problem = parseLength(words[2], "the interval ", 1, r.Longest)
	switch {
	case problem != "":
		return 0, 0, problem
	case count == 0 && r.Zero == "":
		return 0, 0, Quote(text) + " " + r.Does + " nothing: want 1 or more"
	case count == 0:
		return 0, 0, Quote(text) + " " + r.Does + " nothing: want 0 for " + r.Zero
	}
	return count, interval, ""
}

// hint guesses what was meant by a text without " per ".
func (r Rate) hint(text string) string {
	count, rest, found := strings.Cut(strings.ReplaceAll(text, "per", "/"), "/")
	count, rest = strings.TrimSpace(count), strings.ReplaceAll(rest, " ", "")
	if numberProblem(count, r.Counted) != "" || count == "0" {
		return r.want()
	}
	if !found {
		return fmt.Sprintf("want an interval as well, such as %s per 1s", count)
	}
	if length, ok := spelled(rest); ok {
		return fmt.Sprintf("want %s per %s", count, length)
	}
	return r.want()
}
