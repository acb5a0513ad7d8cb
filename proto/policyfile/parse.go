package policyfile

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

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// MaxFileBytes is the largest file that Parse reads.
const MaxFileBytes = 1 << 20

// Parse reads a policy file. The name is used in messages only.
//
// The policies are in the order of the file, complete and valid. If anything is
// wrong there are none, and the error is a [Faults] that tells all of it.
func Parse(name string, data []byte) ([]*tokenleasev1.Policy, error) {
	p := &parser{file: name}
	var policies []*tokenleasev1.Policy
	if p.checkBytes(data) {
		if root := p.document(data); root != nil {
			p.refuseReferences(root, "")
			policies = p.root(root)
		}
	}
	if len(p.faults) > 0 {
		return nil, p.faults.sorted()
	}
	return policies, nil
}

// parser collects what is wrong with one file.
type parser struct {
	file    string
	faults  Faults
	aliases int // values not read because an alias stood there
}

// troubles counts what kept values from being read. It grows with each.
func (p *parser) troubles() int { return len(p.faults) + p.aliases }

// faultf records that something is wrong at a line.
func (p *parser) faultf(line int, path, format string, args ...any) {
	p.faults = append(p.faults, Fault{File: p.file, Line: line, Field: path, Problem: fmt.Sprintf(format, args...)})
}

// checkBytes says whether the file is text of a size that may be parsed.
func (p *parser) checkBytes(data []byte) bool {
	if len(data) > MaxFileBytes {
		p.faultf(1, "", "the file has %d bytes: at most %d are read", len(data), MaxFileBytes)
		return false
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		switch {
		case !utf8.Valid(line):
			p.faultf(i+1, "", "the line is not UTF-8: save the file as UTF-8")
		case bytes.ContainsFunc(line, isForbidden):
			p.faultf(i+1, "", "the line has a control character: remove it")
		}
	}
	return len(p.faults) == 0
}

// isForbidden says whether a rune may not stand in a file.
func isForbidden(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\r' }

// document is the top of the one document of the file, nil if there is none.
func (p *parser) document(data []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		p.faultf(1, "", "the file is empty: want a list of policies")
		return nil
	} else if err != nil {
		p.syntaxFault(data, err)
		return nil
	}
	if err := decoder.Decode(&second); err == nil {
		p.faultf(second.Line, "", "a second document begins here: want one document in a file")
	} else if !errors.Is(err, io.EOF) {
		p.syntaxFault(data, err)
	}
	if first.Kind != yaml.DocumentNode || len(first.Content) != 1 {
		p.faultf(1, "", "the file is empty: want a list of policies")
		return nil
	}
	return first.Content[0]
}

// syntaxFault records an error of the YAML reader. A tab in the indentation, its
// most common cause, is named as such.
func (p *parser) syntaxFault(data []byte, err error) {
	for i, line := range strings.Split(string(data), "\n") {
		indentation := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if strings.Contains(indentation, "\t") {
			p.faultf(i+1, "", "the indentation has a tab: YAML indents with spaces")
			return
		}
	}
	line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if match := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); match != nil {
		text = strings.TrimPrefix(text, match[0])
		line, _ = strconv.Atoi(match[1]) // digits, and at most 1 MiB of lines
	}
	p.faultf(line, "", "this is not YAML, here or just below: %s", text)
}

// refuseReferences records every anchor, alias, merge and explicit tag below a
// node: each lets a value stand for something that is not where it is read.
func (p *parser) refuseReferences(node *yaml.Node, path string) {
	switch {
	case node.Kind == yaml.AliasNode:
		p.faultf(node.Line, path, "the alias %s is not allowed: write the value itself", quote("*"+node.Value))
	case node.Anchor != "":
		p.faultf(node.Line, path, "the anchor %s is not allowed: write the value wherever it is needed", quote("&"+node.Anchor))
	case node.Style&yaml.TaggedStyle != 0:
		p.faultf(node.Line, path, "the tag %s is not allowed: write the value alone", quote(node.Tag))
	}
	for i, child := range node.Content {
		switch {
		case node.Kind == yaml.SequenceNode:
			p.refuseReferences(child, path+"["+strconv.Itoa(i)+"]")
		case node.Kind == yaml.MappingNode && i%2 == 1:
			p.refuseReferences(child, join(path, node.Content[i-1].Value))
		default:
			p.refuseReferences(child, path)
		}
	}
}

// join is the path of a field. A name that no field could have is quoted.
func join(path, field string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
	if field == "" || len(field) > 40 || strings.Trim(field, letters) != "" {
		field = quote(field)
	}
	if path == "" {
		return field
	}
	return path + "." + field
}
