package policyfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// unit is a unit of an interval.
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

// wantRefill is what a refill looks like.
const wantRefill = "want tokens per interval, such as 20 per 1s"

// refill reads "20 per 1s", or 0. The interval is in nanoseconds.
func (p *parser) refill(node *yaml.Node, path string) (tokens, interval int64) {
	if node.Kind != yaml.ScalarNode || isEmpty(node) {
		p.wrongKind(node, path, wantRefill+", or 0 for a fixed quota")
		return 0, 0
	}
	if isPlain(node) && node.Value == "0" {
		return 0, 0
	}
	tokens, interval, problem := parseRefill(node.Value)
	if problem != "" {
		p.faultf(node.Line, path, "%s", problem)
		return 0, 0
	}
	return tokens, interval
}

// parseRefill takes "20 per 1s" apart. The problem is empty if that worked.
func parseRefill(text string) (tokens, interval int64, problem string) {
	words := strings.Fields(text)
	if len(words) != 3 || words[1] != "per" {
		return 0, 0, quote(text) + " is not a refill: " + refillHint(text)
	}
	if problem := numberProblem(words[0]); problem != "" {
		return 0, 0, problem + "; a broken rate is written over a longer interval, such as 3 per 2s"
	}
	tokens, _ = strconv.ParseInt(words[0], 10, 64) // numberProblem has seen to that
	length, problem := parseInterval(words[2])
	switch {
	case problem != "":
		return 0, 0, problem
	case tokens == 0:
		return 0, 0, quote(text) + " refills nothing: want 0 for a fixed quota"
	}
	return tokens, int64(length), ""
}

// refillHint guesses what was meant by a text without " per ".
func refillHint(text string) string {
	tokens, rest, found := strings.Cut(strings.ReplaceAll(text, "per", "/"), "/")
	tokens, rest = strings.TrimSpace(tokens), strings.ReplaceAll(rest, " ", "")
	if numberProblem(tokens) != "" {
		return wantRefill
	}
	if !found {
		return fmt.Sprintf("want an interval as well, such as %s per 1s", tokens)
	}
	if length, ok := spelledInterval(rest); ok {
		return fmt.Sprintf("want %s per %s", tokens, length)
	}
	return wantRefill
}

// parseInterval reads a whole number and a unit, such as 90s. The problem is
// empty if that worked.
func parseInterval(text string) (time.Duration, string) {
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	name := text[len(digits):]
	for _, u := range units() {
		if u.name == name && digits != "" {
			return scaledInterval(text, digits, u)
		}
	}
	if name == "" {
		return 0, fmt.Sprintf("the interval %s has no unit: want %ss, %sm, %sh or %sd", quote(text), digits, digits, digits, digits)
	}
	if length, ok := spelledInterval(text); ok {
		return 0, fmt.Sprintf("the interval %s is not understood: want %s", quote(text), length)
	}
	return 0, fmt.Sprintf("the interval %s is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s", quote(text))
}

// scaledInterval is so many units, within bounds.
func scaledInterval(text, digits string, u unit) (time.Duration, string) {
	if problem := numberProblem(digits); problem != "" {
		return 0, "the interval " + problem
	}
	count, _ := strconv.ParseInt(digits, 10, 64) // numberProblem has seen to that
	switch {
	case count == 0:
		return 0, fmt.Sprintf("the interval %s has no length: want 1%s or more", quote(text), u.name)
	case count > int64(tokenleasev1.MaxRefillInterval/u.length):
		return 0, fmt.Sprintf("the interval %s is too long: want at most 366d", quote(text))
	}
	return time.Duration(count) * u.length, ""
}

// spelledInterval reads what people write instead of an interval: "s", "1sec",
// "1 minute", "1.5s". It is for hints, so it may be generous.
func spelledInterval(text string) (string, bool) {
	lower := strings.ToLower(text)
	digits := lower[:len(lower)-len(strings.TrimLeft(lower, "0123456789."))]
	name := lower[len(digits):]
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
			if name == other && length >= 1 && length <= float64(tokenleasev1.MaxRefillInterval) {
				return formatInterval(int64(length)), true
			}
		}
	}
	return "", false
}

// formatInterval writes a positive number of nanoseconds in the longest unit
// that divides it.
func formatInterval(ns int64) string {
	for _, u := range units() {
		if ns%int64(u.length) == 0 {
			return strconv.FormatInt(ns/int64(u.length), 10) + u.name
		}
	}
	return strconv.FormatInt(ns, 10) + "ns" // not reached: 1ns divides all
}
