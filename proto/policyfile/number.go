package policyfile

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// number reads a number of tokens: a plain decimal. It is 0 after a fault.
func (p *parser) number(node *yaml.Node, path string) int64 {
	switch {
	case node.Kind != yaml.ScalarNode || isEmpty(node):
		p.wrongKind(node, path, "want a whole number such as 40")
		return 0
	case !isPlain(node):
		p.faultf(node.Line, path, "%s is text: want a whole number without quotes", quote(node.Value))
		return 0
	}
	if problem := numberProblem(node.Value); problem != "" {
		p.faultf(node.Line, path, "%s", problem)
		return 0
	}
	n, _ := strconv.ParseInt(node.Value, 10, 64) // numberProblem has seen to that
	return n
}

// numberProblem says why a text is not a number of tokens, and what would be
// one; empty if it is.
func numberProblem(text string) string {
	if isDigits(text) && (text == "0" || text[0] != '0') {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Sprintf("%s is too large: want at most %d", quote(text), math.MaxInt64)
		}
		return ""
	}
	return quote(text) + " " + notANumber(text)
}

// notANumber says what kind of number a text is instead.
func notANumber(text string) string {
	lower := strings.ToLower(text)
	unsigned := strings.TrimLeft(lower, "+-")
	switch {
	case text == "":
		return "is empty: want a whole number"
	case lower == "null" || text == "~":
		return "is empty: want a whole number"
	case strings.HasPrefix(text, "-"):
		return "is negative: want 0 or more"
	case strings.HasPrefix(text, "+"):
		return "has a sign: want " + unsigned
	case isDigits(text):
		return "begins with a 0, which may be read as octal: want " + decimal(text)
	case len(unsigned) > 1 && unsigned[0] == '0' && strings.ContainsAny(unsigned[1:2], "xob"):
		return "is not decimal: want a whole number in decimal digits"
	case isDigits(strings.ReplaceAll(text, "_", "")):
		return "has underscores: want " + decimal(strings.ReplaceAll(text, "_", ""))
	case isDigits(strings.ReplaceAll(text, ",", "")):
		return "has commas: want " + decimal(strings.ReplaceAll(text, ",", ""))
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(lower, "e") {
		return "has an exponent: want a whole number with all its digits"
	} else if err == nil {
		return "is not whole: want a whole number of tokens"
	}
	return "is not a number: want a whole number such as 40"
}

// isDigits says whether a text is one or more decimal digits.
func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// decimal is a text of digits without leading zeros, as it should be written.
func decimal(digits string) string {
	trimmed := strings.TrimLeft(digits, "0")
	switch {
	case trimmed == "":
		return "0"
	case len(trimmed) > 19:
		return "a smaller number"
	}
	return trimmed
}
