package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/tokenlease/tokenlease/proto/strictjson"
)

// JSON is the top of a JSON document, read as a file of the same fields would be:
// what reads a mapping, a number or a name of a file reads it from JSON too. It is
// nil where the document is none. Texts are as in double quotes; numbers keep their
// digits, and null is empty.
func (p *Parser) JSON(data []byte) *Node {
	if err := strictjson.Check(data); err != nil {
		p.Faultf(1, "", "%v", err)
		return nil
	}
	r := jsonReader{Decoder: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
	r.UseNumber()
	top, err := r.value()
	if err != nil {
		p.Faultf(r.line, "", "the body is not JSON: %v", err)
		return nil
	}
	return top
}

// jsonReader makes nodes of tokens.
type jsonReader struct {
	*json.Decoder

	data []byte
	at   int64 // up to which lines were counted
	line int
}

// next is the next token. The document has been seen to be valid, so there is one.
func (r *jsonReader) next() (json.Token, error) {
	token, err := r.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	end := r.InputOffset()
	r.line += bytes.Count(r.data[r.at:end], []byte("\n"))
	r.at = end
	return token, err
}

// value reads one value and all that is in it.
func (r *jsonReader) value() (*Node, error) {
	token, err := r.next()
	if err != nil {
		return nil, err
	}
	node := &Node{Kind: yaml.ScalarNode, Line: r.line}
	switch t := token.(type) {
	case json.Delim:
		node.Kind = yaml.SequenceNode
		if t == '{' {
			node.Kind = yaml.MappingNode // of names and values in turn
		}
		return node, r.within(node)
	case string:
		node.Value, node.Style = t, yaml.DoubleQuotedStyle
	case json.Number:
		node.Value = t.String()
	case bool:
		node.Value = "false"
		if t {
			node.Value = "true"
		}
	default:
		node.Value = "null"
	}
	return node, nil
}

// within reads what is in an object or a list, to its end.
func (r *jsonReader) within(node *Node) error {
	for r.More() {
		child, err := r.value()
		if err != nil {
			return err
		}
		node.Content = append(node.Content, child)
	}
	_, err := r.next()
	return err
}
