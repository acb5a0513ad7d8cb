package strictyaml

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tokenlease/tokenlease/proto/nearest"
)

// Field is one field of a mapping and how its value is read.
type Field struct {
	Name     string
	Required bool
	Read     func(value *Node, path string)
	// Refused, if set, is what to say of the field instead of reading it. Such a
	// field is not among those that are offered.
	Refused string
}

// Mapping reads the fields of a mapping, and records those that are unknown,
// doubled or missing. It says whether the node is a mapping at all.
func (p *Parser) Mapping(node *Node, path string, fields []Field) bool {
	if node.Kind != yaml.MappingNode {
		p.WrongKind(node, path, "want the fields "+strings.Join(offered(fields), ", "))
		return false
	}
	lines := map[string]int{} // where each field stood first
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if first, ok := lines[key.Value]; ok && key.Kind == yaml.ScalarNode {
			p.Faultf(key.Line, Join(path, key.Value), "stands twice, first in line %d: remove one", first)
			continue
		}
		lines[key.Value] = key.Line
		p.entry(key, value, path, fields)
	}
	for _, f := range fields {
		if _, ok := lines[f.Name]; f.Required && !ok {
			p.Faultf(node.Line, Join(path, f.Name), "is missing")
		}
	}
	return true
}

// entry reads one field of a mapping.
func (p *Parser) entry(key, value *Node, path string, fields []Field) {
	if key.Kind != yaml.ScalarNode {
		if key.Kind != yaml.AliasNode { // those are recorded already
			p.Faultf(key.Line, path, "the name of a field is %s: want one of %s", kindName(key), strings.Join(offered(fields), ", "))
		}
		return
	}
	at := Join(path, key.Value)
	for _, f := range fields {
		switch {
		case f.Name != key.Value:
		case f.Refused != "":
			p.Faultf(key.Line, at, "%s", f.Refused)
			return
		default:
			f.Read(value, at)
			return
		}
	}
	if key.Value == "<<" {
		p.Faultf(key.Line, at, "merging is not allowed: write the fields out")
		return
	}
	p.Unknown(key.Line, at, key.Value, offered(fields))
}

// Lookup is the value of a field, or nil, for readers to whom it says which other
// fields a mapping has.
func Lookup(node *Node, name string) *Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Kind == yaml.ScalarNode && node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// LineOf is the line in which the name of a field stands, for what is wrong with the
// field beside others; that of the mapping if it has no such field.
func LineOf(node *Node, name string) int {
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Kind == yaml.ScalarNode && node.Content[i].Value == name {
			return node.Content[i].Line
		}
	}
	return node.Line
}

// Unknown records a word that is none of those known, and which of them was
// probably meant.
func (p *Parser) Unknown(line int, path, word string, known []string) {
	if near := nearest.Word(word, known); near != "" {
		p.Faultf(line, path, "is unknown: did you mean %s?", near)
		return
	}
	p.Faultf(line, path, "is unknown: want one of %s", strings.Join(known, ", "))
}

// List reads each element of a list, of which there is at least one. The words
// name what is listed: policy and policies.
func (p *Parser) List(node *Node, path, one, many string, read func(item *Node, path string)) {
	if node.Kind != yaml.SequenceNode {
		p.WrongKind(node, path, "want a list of "+many)
		return
	}
	if len(node.Content) == 0 {
		p.Faultf(node.Line, path, "is an empty list: want at least one %s", one)
	}
	for i, item := range node.Content {
		read(item, Index(path, i))
	}
}

// WrongKind records that a node has another form than was wanted. An alias has
// been recorded before.
func (p *Parser) WrongKind(node *Node, path, want string) {
	if node.Kind == yaml.AliasNode {
		p.aliases++
		return
	}
	p.Faultf(node.Line, path, "is %s: %s", kindName(node), want)
}

// kindName is what a node is, for people.
func kindName(node *Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a group of fields"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case isEmpty(node):
		return "empty"
	default:
		return Quote(node.Value)
	}
}

// IsMapping says whether a node is a group of fields.
func IsMapping(node *Node) bool { return node.Kind == yaml.MappingNode }

// IsList says whether a node is a list.
func IsList(node *Node) bool { return node.Kind == yaml.SequenceNode }

// IsEmptyText says whether a node is a text of no letters, in quotes: on purpose.
func IsEmptyText(node *Node) bool {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle
	return node.Kind == yaml.ScalarNode && node.Value == "" && node.Style&quoted != 0
}

// isEmpty says whether nothing at all was written.
func isEmpty(node *Node) bool {
	return node.Kind == yaml.ScalarNode && node.Value == "" && isPlain(node)
}

// isPlain says whether a scalar stands without quotes, and on its line.
func isPlain(node *Node) bool {
	const other = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return node.Kind == yaml.ScalarNode && node.Style&other == 0
}

// offered are the names of fields that may be written.
func offered(fields []Field) []string {
	var all []string
	for _, f := range fields {
		if f.Refused == "" {
			all = append(all, f.Name)
		}
	}
	return all
}
