package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// streamRows is how many rows a stream collects before it writes: they decide how
// wide the columns of its table are.
const streamRows = 1000

// listStream prints a list of any length as its pages come, and holds no more than
// streamRows of it. What comes out is what program.write prints of all of it at
// once; only the columns of a table may grow after the first rows.
type listStream struct {
	w      io.Writer
	format outputFormat
	field  string // name of the list in the message that has it, its first field

	pending table // rows of a table that wait
	widths  []int
	begun   bool
	count   int64
}

// newListStream prints to the program's stdout.
func (p *program) newListStream(format outputFormat, field string, heading []string) *listStream {
	return &listStream{w: p.stdout, format: format, field: field, pending: table{heading: heading}}
}

// add takes one element, and its row for a table.
func (s *listStream) add(element proto.Message, row ...any) error {
	s.count++
	if s.format == formatTable {
		s.pending.add(row...)
		if len(s.pending.rows) >= streamRows {
			return s.flush()
		}
		return nil
	}
	data, err := encode(s.format, element)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	var b strings.Builder
	switch {
	case s.format == formatJSON && !s.begun:
		fmt.Fprintf(&b, "{\n  %q: [\n    ", s.field)
	case s.format == formatJSON:
		b.WriteString(",\n    ")
	case !s.begun:
		b.WriteString(s.field + ":\n  - ")
	default:
		b.WriteString("  - ")
	}
	s.begun = true
	b.WriteString(strings.Join(lines, "\n    "))
	if s.format == formatYAML {
		b.WriteByte('\n')
	}
	_, err = io.WriteString(s.w, b.String())
	return err
}

// finish ends the output. Rest is the message with its list left empty.
func (s *listStream) finish(rest proto.Message) error {
	if s.format == formatTable {
		return s.flush()
	}
	data, err := encode(s.format, rest)
	if err != nil {
		return err
	}
	if s.begun {
		empty, ending := fmt.Sprintf("{\n  %q: []", s.field), "\n  ]"
		if s.format == formatYAML {
			empty, ending = s.field+": []\n", ""
		}
		after, found := bytes.CutPrefix(data, []byte(empty))
		if !found {
			return fmt.Errorf("%s is not the first field of %T", s.field, rest)
		}
		data = append([]byte(ending), after...)
	}
	_, err = s.w.Write(data)
	return err
}

// flush writes the rows that wait, below the heading or below earlier ones.
func (s *listStream) flush() error {
	rows := s.pending.rows
	if !s.begun {
		rows = append([][]string{s.pending.heading}, rows...)
		s.widths = make([]int, len(s.pending.heading))
	}
	s.begun, s.pending.rows = true, nil
	for _, row := range rows {
		for i, text := range row {
			s.widths[i] = max(s.widths[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, text := range row {
			b.WriteString(text)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", s.widths[i]-utf8.RuneCountInString(text)+3))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(s.w, b.String())
	return err
}

// countLine tells on a terminal how many there are so far, where that disturbs no
// data.
type countLine struct {
	w    io.Writer // nil: silent
	unit string
}

// counting starts a line on stderr.
func (p *program) counting(unit string) *countLine {
	if !p.console().Tells() {
		return &countLine{}
	}
	return &countLine{w: p.stderr, unit: unit}
}

// set shows a number.
func (l *countLine) set(n int64) {
	if l.w != nil {
		fmt.Fprint(l.w, "\r"+grouped(n)+" "+l.unit+ansiEndOfLine)
	}
}

// done takes the line away.
func (l *countLine) done() {
	if l.w != nil {
		fmt.Fprint(l.w, "\r"+ansiEndOfLine)
	}
}
