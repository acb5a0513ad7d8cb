package policyfile

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tokenlease/tokenlease/proto/nearest"
)

// field is one field of a mapping and how its value is read.
type field struct {
	name     string
	required bool
	read     func(value *yaml.Node, path string)
}

// mapping reads the fields of a mapping, and records those that are unknown,
// doubled or missing. It says whether the node is a mapping at all.
func (p *parser) mapping(node *yaml.Node, path string, fields []field) bool {
	if node.Kind != yaml.MappingNode {
		p.wrongKind(node, path, "want the fields "+names(fields))
		return false
	}
	lines := map[string]int{} // where each field stood first
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if first, ok := lines[key.Value]; ok && key.Kind == yaml.ScalarNode {
			p.faultf(key.Line, join(path, key.Value), "stands twice, first in line %d: remove one", first)
			continue
		}
		lines[key.Value] = key.Line
		p.entry(key, value, path, fields)
	}
	for _, f := range fields {
		if _, ok := lines[f.name]; f.required && !ok {
			p.faultf(node.Line, join(path, f.name), "is missing")
		}
	}
	return true
}

// entry reads one field of a mapping.
func (p *parser) entry(key, value *yaml.Node, path string, fields []field) {
	if key.Kind != yaml.ScalarNode {
		if key.Kind != yaml.AliasNode { // those are recorded already
			p.faultf(key.Line, path, "the name of a field is %s: want one of %s", kindName(key), names(fields))
		}
		return
	}
	for _, f := range fields {
		if f.name == key.Value {
			f.read(value, join(path, f.name))
			return
		}
	}
	p.unknownField(key, path, fields)
}

// unknownField records a field that does not exist, and what was probably meant.
func (p *parser) unknownField(key *yaml.Node, path string, fields []field) {
	var known []string
	for _, f := range fields {
		known = append(known, f.name)
	}
	at := join(path, key.Value)
	if key.Value == "<<" {
		p.faultf(key.Line, at, "merging is not allowed: write the fields out")
		return
	}
	switch key.Value {
	case "rolling-window", "fixed-window", "concurrency":
		p.faultf(key.Line, at, "this rule is not available yet: want token-bucket")
		return
	}
	if near := nearest.Word(key.Value, known); near != "" {
		p.faultf(key.Line, at, "is unknown: did you mean %s?", near)
		return
	}
	p.faultf(key.Line, at, "is unknown: want one of %s", names(fields))
}

// wrongKind records that a node has another form than was wanted. An alias has
// been recorded before.
func (p *parser) wrongKind(node *yaml.Node, path, want string) {
	if node.Kind == yaml.AliasNode {
		p.aliases++
		return
	}
	p.faultf(node.Line, path, "is %s: %s", kindName(node), want)
}

// kindName is what a node is, for people.
func kindName(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a group of fields"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case isEmpty(node):
		return "empty"
	default:
		return quote(node.Value)
	}
}

// isEmpty says whether nothing at all was written.
func isEmpty(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Value == "" && isPlain(node)
}

// isPlain says whether a scalar stands without quotes, and on its line.
func isPlain(node *yaml.Node) bool {
	const other = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return node.Kind == yaml.ScalarNode && node.Style&other == 0
}

// names lists fields for people.
func names(fields []field) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.name)
	}
	return strings.Join(all, ", ")
}
