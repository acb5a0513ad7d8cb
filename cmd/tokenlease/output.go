package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// outputFormat is how data is printed. It is a flag.
type outputFormat string

const (
	formatTable outputFormat = "table"
	formatJSON  outputFormat = "json"
	formatYAML  outputFormat = "yaml"
)

// String is the flag's value.
func (f *outputFormat) String() string { return string(*f) }

// Type is what help calls the value.
func (f *outputFormat) Type() string { return "format" }

// Set reads the flag.
func (f *outputFormat) Set(value string) error {
	switch outputFormat(value) {
	case formatTable, formatJSON, formatYAML:
		*f = outputFormat(value)
		return nil
	}
	return fmt.Errorf("want table, json or yaml, not %q", value)
}

// table is rows under a heading.
type table struct {
	heading []string
	rows    [][]string
}

// add appends a row; each value is printed as fmt prints it.
func (t *table) add(values ...any) {
	var row []string
	for _, v := range values {
		row = append(row, cell(fmt.Sprint(v)))
	}
	t.rows = append(t.rows, row)
}

// write prints the table. Nothing is ever cut.
func (t *table) write(w io.Writer) error {
	tabs := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{t.heading}, t.rows...) {
		if _, err := fmt.Fprintln(tabs, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return tabs.Flush()
}

// cell is a text as it stands in a table: "-" for none, in quotes when it has
// what would break the table or the terminal.
func cell(text string) string {
	switch {
	case text == "":
		return "-"
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return strconv.Quote(text)
	}
	return text
}

// plainLines is a text of somebody else as it stands in a message: in lines, and with what
// a terminal might obey written out.
func plainLines(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}

// moment is a point in time, given in milliseconds since 1970, in UTC.
func moment(unixMs int64) string {
	if unixMs == 0 {
		return ""
	}
	return time.UnixMilli(unixMs).UTC().Format("2006-01-02T15:04:05.000Z")
}

// write prints a message in the format: as the table, or with all its fields.
func (p *program) write(format outputFormat, m proto.Message, t *table) error {
	if format == formatTable {
		return t.write(p.stdout)
	}
	data, err := encode(format, m)
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(data)
	return err
}

// encode is a message as JSON or YAML, with the names of the proto files and
// with the fields that are zero. The same message gives the same bytes.
func encode(format outputFormat, m proto.Message) ([]byte, error) {
	options := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}
	raw, err := options.Marshal(m)
	if err != nil {
		return nil, err
	}
	if format == formatYAML {
		return toYAML(raw)
	}
	var compact, indented bytes.Buffer
	// The encoder varies its spaces on purpose.
	if err := json.Compact(&compact, raw); err != nil {
		return nil, err
	}
	if err := json.Indent(&indented, compact.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// toYAML writes JSON, which is YAML already, in YAML's own style.
func toYAML(raw []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return nil, err
	}
	restyle(&document)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, err
	}
	return b.Bytes(), encoder.Close()
}

// restyle takes the braces and the needless quotes from a node and all below it.
func restyle(node *yaml.Node) {
	empty := len(node.Content) == 0 && node.Kind != yaml.ScalarNode
	if !empty {
		node.Style = 0
	}
	for _, child := range node.Content {
		restyle(child)
	}
}
