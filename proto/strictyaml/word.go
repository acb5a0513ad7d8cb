package strictyaml

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/tokenlease/tokenlease/proto/nearest"
)

// Boolean reads true or false, and nothing that YAML takes for them.
func (p *Parser) Boolean(node *Node, path string) bool {
	if !isPlain(node) || node.Value != "true" && node.Value != "false" {
		p.WrongKind(node, path, "want true or false")
	}
	return node.Value == "true"
}

// Choice reads one of the words. It is the first of them after a fault.
func (p *Parser) Choice(node *Node, path string, words ...string) string {
	if node.Kind == yaml.ScalarNode && slices.Contains(words, node.Value) {
		return node.Value
	}
	want := "want " + words[0]
	if len(words) > 1 {
		want = "want one of " + strings.Join(words, ", ")
		if near := nearest.Word(node.Value, words); near != "" && node.Kind == yaml.ScalarNode {
			want = "did you mean " + near + "?"
		}
	}
	p.WrongKind(node, path, want)
	return words[0]
}

// Name reads a name of at most so many bytes, such as the example.
func (p *Parser) Name(node *Node, path string, most int, example string) string {
	if node.Kind != yaml.ScalarNode || isEmpty(node) {
		p.WrongKind(node, path, "want a name such as "+example)
		return ""
	}
	name := node.Value
	switch {
	case isPlain(node) && node.ShortTag() != "!!str":
		p.Faultf(node.Line, path, "%s reads as something else than a name: put it in quotes", Quote(name))
	case name == "" || len(name) > most:
		p.Faultf(node.Line, path, "has %d bytes: want 1 to %d", len(name), most)
	case strings.ContainsFunc(name, unicode.IsControl):
		p.Faultf(node.Line, path, "%s has a control character: remove it", Quote(name))
	}
	return name
}

// Text reads text of at most so many bytes, in any style that YAML has for it.
// Its lines are joined, and blanks between words become one; in double quotes it
// stands as it is.
func (p *Parser) Text(node *Node, path string, most int) string {
	if node.Kind != yaml.ScalarNode || isEmpty(node) {
		p.WrongKind(node, path, "want a text")
		return ""
	}
	text := node.Value
	if words := strings.Fields(text); node.Style&yaml.DoubleQuotedStyle == 0 || len(words) == 0 {
		text = strings.Join(words, " ")
	}
	switch {
	case isPlain(node) && node.ShortTag() != "!!str":
		p.Faultf(node.Line, path, "%s reads as something else than text: put it in quotes", Quote(node.Value))
	case text == "" || len(text) > most:
		p.Faultf(node.Line, path, "has %d bytes: want 1 to %d", len(text), most)
	case strings.ContainsFunc(text, unicode.IsControl):
		p.Faultf(node.Line, path, "%s has a control character: remove it", Quote(text))
	}
	return text
}

// FormatName writes a name as it is read, in quotes unless it is plainly one.
func FormatName(name string) string {
	node := yaml.Node{Kind: yaml.ScalarNode, Value: name}
	plain := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`).MatchString(name)
	if plain && node.ShortTag() == "!!str" {
		return name
	}
	// Go's escapes are all escapes of YAML as well.
	return strconv.Quote(name)
}
