package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxFileBytes is the largest file that is read.
const MaxFileBytes = 1 << 20

// Node is a value of a file.
type Node = yaml.Node

// Parser collects what is wrong with one file.
type Parser struct {
	file    string
	faults  Faults
	aliases int // values not read because an alias stood there
}

// New is a parser of a file, whose name is used in messages only.
func New(file string) *Parser { return &Parser{file: file} }

// Err is a [Faults] of all that was wrong, or nil.
func (p *Parser) Err() error {
	if len(p.faults) == 0 {
		return nil
	}
	return p.faults.sorted()
}

// Troubles counts what kept values from being read. It grows with each.
func (p *Parser) Troubles() int { return len(p.faults) + p.aliases }

// Faultf records that something is wrong at a line.
func (p *Parser) Faultf(line int, path, format string, args ...any) {
	p.faults = append(p.faults, Fault{File: p.file, Line: line, Field: path, Problem: fmt.Sprintf(format, args...)})
}

// Document is the top of the one document of the file, nil if there is none. An
// empty file is told that it wants what the second argument says.
func (p *Parser) Document(data []byte, want string) *Node {
	if !p.checkBytes(data) {
		return nil
	}
	top := p.document(data, want)
	if top != nil {
		p.refuseReferences(top, "")
	}
	return top
}

// checkBytes says whether the file is text of a size that may be parsed.
func (p *Parser) checkBytes(data []byte) bool {
	if len(data) > MaxFileBytes {
		p.Faultf(1, "", "the file has %d bytes: at most %d are read", len(data), MaxFileBytes)
		return false
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		switch {
		case !utf8.Valid(line):
			p.Faultf(i+1, "", "the line is not UTF-8: save the file as UTF-8")
		case bytes.ContainsFunc(line, isForbidden):
			p.Faultf(i+1, "", "the line has a control character: remove it")
		}
	}
	return len(p.faults) == 0
}

// isForbidden says whether a rune may not stand in a file.
func isForbidden(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\r' }

// document parses the YAML.
func (p *Parser) document(data []byte, want string) *Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		p.Faultf(1, "", "the file is empty: want %s", want)
		return nil
	} else if err != nil {
		p.syntaxFault(data, err)
		return nil
	}
	if err := decoder.Decode(&second); err == nil {
		p.Faultf(second.Line, "", "a second document begins here: want one document in a file")
	} else if !errors.Is(err, io.EOF) {
		p.syntaxFault(data, err)
	}
	if first.Kind != yaml.DocumentNode || len(first.Content) != 1 {
		p.Faultf(1, "", "the file is empty: want %s", want)
		return nil
	}
	return first.Content[0]
}

// syntaxFault records an error of the YAML reader. A tab in the indentation, its
// most common cause, is named as such.
func (p *Parser) syntaxFault(data []byte, err error) {
	for i, line := range strings.Split(string(data), "\n") {
		indentation := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if strings.Contains(indentation, "\t") {
			p.Faultf(i+1, "", "the indentation has a tab: YAML indents with spaces")
			return
		}
	}
	line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if match := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); match != nil {
		text = strings.TrimPrefix(text, match[0])
		line, _ = strconv.Atoi(match[1]) // digits, and at most 1 MiB of lines
	}
	p.Faultf(line, "", "this is not YAML, here or just below: %s", text)
}

// refuseReferences records every anchor, alias, merge and explicit tag below a
// node: each lets a value stand for something that is not where it is read.
func (p *Parser) refuseReferences(node *Node, path string) {
	switch {
	case node.Kind == yaml.AliasNode:
		p.Faultf(node.Line, path, "the alias %s is not allowed: write the value itself", Quote("*"+node.Value))
	case node.Anchor != "":
		p.Faultf(node.Line, path, "the anchor %s is not allowed: write the value wherever it is needed", Quote("&"+node.Anchor))
	case node.Style&yaml.TaggedStyle != 0:
		p.Faultf(node.Line, path, "the tag %s is not allowed: write the value alone", Quote(node.Tag))
	}
	for i, child := range node.Content {
		switch {
		case node.Kind == yaml.SequenceNode:
			p.refuseReferences(child, Index(path, i))
		case node.Kind == yaml.MappingNode && i%2 == 1:
			p.refuseReferences(child, Join(path, node.Content[i-1].Value))
		default:
			p.refuseReferences(child, path)
		}
	}
}

// Join is the path of a field. A name that no field could have is quoted.
func Join(path, field string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
	if field == "" || len(field) > 40 || strings.Trim(field, letters) != "" {
		field = Quote(field)
	}
	if path == "" {
		return field
	}
	return path + "." + field
}

// Index is the path of an element of a list.
func Index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
