package strictyaml

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Number reads a plain decimal of 0 or more. What is counted, if anything, goes
// into messages: "tokens". It is 0 after a fault.
func (p *Parser) Number(node *Node, path, counted string) int64 {
	switch {
	case node.Kind != yaml.ScalarNode || isEmpty(node):
		p.WrongKind(node, path, "want a whole number such as 40")
		return 0
	case !isPlain(node):
		p.Faultf(node.Line, path, "%s is text: want a whole number without quotes", Quote(node.Value))
		return 0
	}
	if problem := numberProblem(node.Value, counted); problem != "" {
		p.Faultf(node.Line, path, "%s", problem)
		return 0
	}
	n, _ := strconv.ParseInt(node.Value, 10, 64) // numberProblem has seen to that
	return n
}

// Count reads a number of least to most. It is least after a fault.
func (p *Parser) Count(node *Node, path, counted string, least, most int64) int64 {
	before := p.Troubles()
	n := p.Number(node, path, counted)
	switch {
	case p.Troubles() > before:
	case n < least:
		p.Faultf(node.Line, path, "%d is too small: want at least %d", n, least)
	case n > most:
		p.Faultf(node.Line, path, "%d is too large: want at most %d", n, most)
	default:
		return n
	}
	return least
}

// numberProblem says why a text is not a number of what is counted, and what
// would be one; empty if it is.
func numberProblem(text, counted string) string {
	if isDigits(text) && (text == "0" || text[0] != '0') {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Sprintf("%s is too large: want at most %d", Quote(text), math.MaxInt64)
		}
		return ""
	}
	return Quote(text) + " " + notANumber(text, counted)
}

// notANumber says what kind of number a text is instead.
func notANumber(text, counted string) string {
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
		return strings.TrimSuffix("is not whole: want a whole number of "+counted, " of ")
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

// Percent reads a share such as 50%, of least to most. It may stand in quotes.
func (p *Parser) Percent(node *Node, path string, least, most int) int {
	digits, found := strings.CutSuffix(node.Value, "%")
	n, err := strconv.ParseInt(digits, 10, 32)
	if node.Kind != yaml.ScalarNode || !found || numberProblem(digits, "") != "" || err != nil || int(n) < least || int(n) > most {
		p.WrongKind(node, path, fmt.Sprintf("want %d%% to %d%%, in whole percent", least, most))
		return least
	}
	return int(n)
}

// Decimal reads a number with up to six places behind the point, such as 1.1, of
// 0 to most.
func (p *Parser) Decimal(node *Node, path string, most int) float64 {
	whole, broken, point := strings.Cut(node.Value, ".")
	n, err := strconv.ParseFloat(node.Value, 64)
	plain := isPlain(node) && numberProblem(whole, "") == "" && (!point || isDigits(broken) && len(broken) <= 6)
	if !plain || err != nil || n > float64(most) {
		p.WrongKind(node, path, fmt.Sprintf("want 0 to %d, such as 1.1", most))
		return 0
	}
	return n
}
