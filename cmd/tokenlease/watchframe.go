package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Sequences of ANSI terminals: where the cursor goes, and what is erased.
const (
	ansiHome       = "\x1b[H"
	ansiClear      = "\x1b[2J"
	ansiEndOfLine  = "\x1b[K"
	ansiBelow      = "\x1b[J"
	ansiHideCursor = "\x1b[?25l"
	ansiShowCursor = "\x1b[?25h"
	ansiBold       = "\x1b[1m"
	ansiReverse    = "\x1b[7m"
	ansiPlain      = "\x1b[0m"
)

// hasStyles says whether text may be bold or reversed: NO_COLOR says that it may not.
func hasStyles() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// liveFrame is what a terminal shows now, and what was there before.
type liveFrame struct {
	lines  []string
	marked []bool // the lines that the frame before did not have
	before map[string]bool
}

// begin clears the window. What it returns leaves the terminal as it was, below
// the last frame.
func (f *liveFrame) begin(w io.Writer) (end func()) {
	fmt.Fprint(w, ansiHideCursor+ansiHome+ansiClear)
	return func() { fmt.Fprint(w, ansiPlain+ansiShowCursor+"\r\n") }
}

// next takes a new frame, and finds what has changed.
func (f *liveFrame) next(frame string) {
	f.lines = strings.Split(strings.TrimRight(frame, "\n"), "\n")
	f.marked = make([]bool, len(f.lines))
	seen := map[string]bool{}
	for i, line := range f.lines {
		key := essence(line)
		seen[key] = true
		f.marked[i] = f.before != nil && !f.before[key]
	}
	f.before = seen
}

// ages are what passes by itself.
var ages = regexp.MustCompile(`\S+ ago\b`)

// essence is a line without what says nothing about change: the widths of
// columns, and ages.
func essence(line string) string {
	return strings.Join(strings.Fields(ages.ReplaceAllString(line, "ago")), " ")
}

// draw writes the frame into a window of a size. What does not fit is counted, or
// cut with an ellipsis: whole rows are in the output of a pipe.
func (f *liveFrame) draw(w io.Writer, status string, width, height int) error {
	var b strings.Builder
	b.WriteString(ansiHome)
	put := func(text, style string) {
		if style != "" && hasStyles() {
			text = style + text + ansiPlain
		}
		b.WriteString(text + ansiEndOfLine + "\r\n")
	}
	put(cut(status, width), ansiBold)
	room := max(1, height-2) // the status, and the line that the cursor is on
	lines := f.lines
	if len(lines) > room {
		lines = lines[:room-1]
	}
	for i, line := range lines {
		mark, style := "  ", ""
		if f.marked[i] {
			mark, style = "* ", ansiReverse
		}
		put(cut(mark+line, width), style)
	}
	if left := len(f.lines) - len(lines); left > 0 {
		put(cut(fmt.Sprintf("  ... %d more lines: make the window higher, or choose fewer", left), width), "")
	}
	b.WriteString(ansiBelow)
	_, err := io.WriteString(w, b.String())
	return err
}

// cut is a text that fits into so many columns. Each character is taken to be one
// wide.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, width-1)]) + "…"
}

// oneLine is a text with its lines joined.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
