package main

import (
	"os"
	"strconv"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progressLine shows on a terminal how far long work has come. Elsewhere it is
// silent.
type progressLine struct {
	bar *progressbar.ProgressBar // nil: silent
	max int64
}

// progress starts a line on stderr, if that is a terminal that can move its cursor.
func (p *program) progress(unit string) *progressLine {
	f, ok := p.stderr.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return &progressLine{}
	}
	return &progressLine{bar: progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(f), progressbar.OptionSetItsString(unit), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100_000_000), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetRenderBlankState(false),
	)}
}

// set shows how much is done, and a remark.
func (l *progressLine) set(done, of int64, remark string) {
	if l.bar == nil {
		return
	}
	if of != l.max {
		l.max = of
		l.bar.ChangeMax64(of)
	}
	l.bar.Describe(remark)
	_ = l.bar.Set64(done) // a line that cannot be shown is no reason to stop
}

// done takes the line away.
func (l *progressLine) done() {
	if l.bar != nil {
		_ = l.bar.Clear()
	}
}

// grouped is a whole number with its thousands apart.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// countOf is a number of things.
func countOf(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return grouped(n) + " " + thing
}
