package strictyaml

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// unit is a unit of time.
type unit struct {
	name   string
	length time.Duration
	others []string // what people write instead
}

// units are all of them, the longest first.
func units() []unit {
	return []unit{
		{"d", 24 * time.Hour, []string{"day", "days"}},
		{"h", time.Hour, []string{"hr", "hrs", "hour", "hours"}},
		{"m", time.Minute, []string{"min", "mins", "minute", "minutes"}},
		{"s", time.Second, []string{"sec", "secs", "second", "seconds"}},
		{"ms", time.Millisecond, []string{"msec", "millisecond", "milliseconds"}},
		{"us", time.Microsecond, []string{"µs", "usec", "microsecond", "microseconds"}},
		{"ns", time.Nanosecond, []string{"nsec", "nanosecond", "nanoseconds"}},
	}
}

// Duration reads a whole number and a unit, such as 90s, of least to most.
func (p *Parser) Duration(node *Node, path string, least, most time.Duration) time.Duration {
	if node.Kind != yaml.ScalarNode || isEmpty(node) {
		p.WrongKind(node, path, "want a length of time such as 90s")
		return least
	}
	return p.length(node, path, node.Value, least, most)
}

// Offset reads a length of time that may be negative: -90s.
func (p *Parser) Offset(node *Node, path string, most time.Duration) time.Duration {
	if node.Kind != yaml.ScalarNode || isEmpty(node) {
		p.WrongKind(node, path, "want a length of time such as 90s or -90s")
		return 0
	}
	if digits, negative := strings.CutPrefix(node.Value, "-"); negative {
		return -p.length(node, path, digits, 0, most)
	}
	return p.length(node, path, node.Value, 0, most)
}

// length is the text of a node as a length of time.
func (p *Parser) length(node *Node, path, text string, least, most time.Duration) time.Duration {
	d, problem := parseLength(text, "", least, most)
	if problem != "" {
		p.Faultf(node.Line, path, "%s", problem)
		return least
	}
	return d
}

// parseLength reads a whole number and a unit, such as 90s. The problem is empty
// if that worked; it begins with the words that are to stand before the text.
func parseLength(text, before string, least, most time.Duration) (time.Duration, string) {
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	name := text[len(digits):]
	for _, u := range units() {
		if u.name == name && digits != "" {
			return scaled(text, digits, before, u, least, most)
		}
	}
	quoted := before + Quote(text)
	switch {
	case text == "0" && least == 0:
		return 0, quoted + " has no unit: want 0s"
	case name == "" && digits != "":
		return 0, fmt.Sprintf("%s has no unit: want %ss, %sm, %sh or %sd", quoted, digits, digits, digits, digits)
	}
	if length, ok := spelled(text); ok {
		return 0, fmt.Sprintf("%s is not understood: want %s", quoted, length)
	}
	return 0, quoted + " is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s"
}

// scaled is so many units, within bounds.
func scaled(text, digits, before string, u unit, least, most time.Duration) (time.Duration, string) {
	if problem := numberProblem(digits, "units"); problem != "" {
		return 0, before + problem
	}
	count, _ := strconv.ParseInt(digits, 10, 64) // numberProblem has seen to that
	switch {
	case count == 0 && least > 0 && least <= u.length:
		return 0, fmt.Sprintf("%s%s has no length: want 1%s or more", before, Quote(text), u.name)
	case count > int64(most/u.length):
		return 0, fmt.Sprintf("%s%s is too long: want at most %s", before, Quote(text), FormatDuration(most))
	case time.Duration(count)*u.length < least:
		return 0, fmt.Sprintf("%s%s is too short: want at least %s", before, Quote(text), FormatDuration(least))
	}
	return time.Duration(count) * u.length, ""
}

// spelled reads what people write instead of a length of time: "s", "1sec",
// "1 minute", "1.5s". It is for hints, so it may be generous.
func spelled(text string) (string, bool) {
	const longest = 366 * 24 * time.Hour
	lower := strings.ToLower(text)
	digits := lower[:len(lower)-len(strings.TrimLeft(lower, "0123456789."))]
	name := strings.TrimSpace(lower[len(digits):])
	count := 1.0
	if digits != "" {
		parsed, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return "", false
		}
		count = parsed
	}
	for _, u := range units() {
		for _, other := range append(u.others, u.name) {
			length := count * float64(u.length)
			if name == other && length >= 1 && length <= float64(longest) {
				return FormatDuration(time.Duration(length)), true
			}
		}
	}
	return "", false
}

// FormatDuration writes a length of time as it is read, in the longest unit that
// divides it.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	for _, u := range units() {
		if d%u.length == 0 {
			return strconv.FormatInt(int64(d/u.length), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(d), 10) + "ns" // not reached: 1ns divides all
}
