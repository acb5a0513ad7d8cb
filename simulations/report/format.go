package report

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// none stands in a table where there is nothing to tell.
const none = "-"

// count is a whole number, in groups of three digits.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// percent is a share, where 1 is all of it.
func percent(share float64) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return none
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
}

// decimal is a number with three digits or more that count.
func decimal(x float64) string {
	switch size := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return none
	case x == 0:
		return "0"
	case size >= 100 && size < 1e15:
		return count(int64(math.Round(x)))
	case size >= 0.001 && size < 1e15:
		return strconv.FormatFloat(x, 'f', 2-int(math.Floor(math.Log10(size))), 64)
	}
	return strconv.FormatFloat(x, 'e', 2, 64)
}

// duration is a time to about four digits.
func duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
	case d < time.Second:
		d = d.Round(time.Millisecond)
	case d < time.Minute:
		d = d.Round(10 * time.Millisecond)
	default:
		d = d.Round(time.Second)
	}
	return brief(d)
}

// brief is a time without parts that are zero: 2m, not 2m0s.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// plain is text from a scenario's file as it may go to a terminal: on one line,
// and in quotes when it has what a terminal would obey.
func plain(text string) string {
	text = strings.TrimSpace(text)
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// printable is text as it may stand on a page or in a plot: white space becomes
// single spaces, and what no page may hold becomes a mark.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.Join(strings.Fields(text), " "))
}
