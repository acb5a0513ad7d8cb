package main

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// console is the terminal that a person may sit at. Tests have one of their own.
type console interface {
	// Asks says that a question can be put and answered: stdin and stderr are a
	// terminal.
	Asks() bool
	// Shows says that stdout is a terminal that can move its cursor.
	Shows() bool
	// Tells says that a line of progress on stderr is seen, and mixes with no data.
	Tells() bool
	// Size is that of the window, in characters. It is never less than 1.
	Size() (width, height int)
	// Raw lets each key be read as it is pressed, until restore is called.
	Raw() (restore func(), err error)
}

// console is the program's terminal.
func (p *program) console() console {
	if p.screen != nil {
		return p.screen
	}
	return fileConsole{in: p.stdin, out: p.stdout, err: p.stderr}
}

// now is the time by the wall clock, for ages that are shown.
func (p *program) now() time.Time {
	if p.clock != nil {
		return p.clock()
	}
	return time.Now()
}

// fileConsole looks at the files that the program was started with.
type fileConsole struct {
	in       io.Reader
	out, err io.Writer
}

// Asks implements console.
func (c fileConsole) Asks() bool { return isTerminal(c.in) && isTerminal(c.err) }

// Shows implements console.
func (c fileConsole) Shows() bool { return isTerminal(c.out) && !isDumb() }

// Tells implements console.
func (c fileConsole) Tells() bool { return isTerminal(c.err) && !isTerminal(c.out) && !isDumb() }

// Size implements console.
func (c fileConsole) Size() (width, height int) {
	width, height = 80, 24
	if f, ok := c.out.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			width, height = w, h
		}
	}
	return width, height
}

// Raw implements console.
func (c fileConsole) Raw() (restore func(), err error) {
	f, ok := c.in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(int(f.Fd()), before) }, nil
}

// isTerminal says whether a reader or a writer is one.
func isTerminal(of any) bool {
	f, ok := of.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// isDumb says that the terminal cannot move its cursor.
func isDumb() bool { return os.Getenv("TERM") == "dumb" }

// noConsole is what a command has whose output is not shown as it comes.
type noConsole struct{}

// Asks implements console.
func (noConsole) Asks() bool { return false }

// Shows implements console.
func (noConsole) Shows() bool { return false }

// Tells implements console.
func (noConsole) Tells() bool { return false }

// Size implements console.
func (noConsole) Size() (width, height int) { return 80, 24 }

// Raw implements console.
func (noConsole) Raw() (restore func(), err error) { return func() {}, nil }
