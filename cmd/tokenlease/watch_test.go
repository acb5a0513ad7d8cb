package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
)

// fakeConsole is a terminal of a size, on which frames are text.
type fakeConsole struct {
	asks, shows, tells bool
	width, height      int
	raw                int // how often keys were raw and are not any more
	rawErr             error
}

func (c *fakeConsole) Asks() bool       { return c.asks }
func (c *fakeConsole) Shows() bool      { return c.shows }
func (c *fakeConsole) Tells() bool      { return c.tells }
func (c *fakeConsole) Size() (w, h int) { return c.width, c.height }
func (c *fakeConsole) Raw() (func(), error) {
	if c.rawErr != nil {
		return nil, c.rawErr
	}
	c.raw += 1000
	return func() { c.raw -= 999 }, nil
}

// frameClock stands still.
func frameClock() time.Time { return time.Date(2026, 1, 31, 6, 0, 0, 0, time.UTC) }

// watchScript runs a watcher over frames, each a text or an error, and ends with the
// last of them.
func watchScript(t *testing.T, w *watcher, frames ...any) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	at := 0
	w.every, w.title = 2*time.Second, "tokenlease grants list"
	w.wait = func(_ context.Context, d time.Duration) bool {
		if d != 2*time.Second {
			t.Errorf("waits for %v", d)
		}
		at++
		return at < len(frames)
	}
	return w.run(ctx, func(_ context.Context, out io.Writer) error {
		switch frame := frames[at].(type) {
		case error:
			return frame
		default:
			fmt.Fprint(out, frame)
			return nil
		}
	})
}

// outage is a server that cannot be reached.
func outage() error {
	return (&clientSettings{server: brokerServer, url: "http://b:1"}).failed(connect.NewError(connect.CodeUnavailable, errors.New("dial tcp: refused")))
}

func TestWatchInAPipe(t *testing.T) {
	for _, test := range []struct {
		format outputFormat
		want   string
	}{
		{formatTable, "A\n1\n\nA\n2\n\nA\n3\n"},
		{formatJSON, "A\n1\nA\n2\nA\n3\n"},
		{formatYAML, "A\n1\n---\nA\n2\n---\nA\n3\n"},
	} {
		p, stdout, stderr := newProgram()
		w := &watcher{p: p, format: test.format}
		if err := watchScript(t, w, "A\n1\n", "A\n2\n", outage(), outage(), "A\n3\n"); err != nil {
			t.Fatal(err)
		}
		if stdout.String() != test.want {
			t.Errorf("%s: stdout is %q, want %q", test.format, stdout, test.want)
		}
		want := "tokenlease: cannot reach the broker at http://b:1: dial tcp: refused.\nIs it running? Name another with --broker URL or TOKENLEASE_BROKER\nStill watching.\nIt answers again.\n"
		if stderr.String() != want {
			t.Errorf("%s: stderr is %q, want %q", test.format, stderr, want)
		}
	}
}

func TestWatchEndsWhereWaitingIsOfNoUse(t *testing.T) {
	refused := (&clientSettings{server: brokerServer, url: "http://b:1"}).failed(connect.NewWireError(connect.CodePermissionDenied, errors.New("no")))
	for name, frames := range map[string][]any{
		"never reached":  {outage(), "late"},
		"refused":        {"A\n", refused, "late"},
		"wrong usage":    {usageErrorf("wrong")},
		"a broken write": {"A\n", errors.New("broken pipe"), "late"},
	} {
		p, stdout, _ := newProgram()
		if err := watchScript(t, &watcher{p: p, format: formatTable}, frames...); err == nil {
			t.Errorf("%s: goes on", name)
		}
		if strings.Contains(stdout.String(), "late") {
			t.Errorf("%s: stdout is %q", name, stdout)
		}
	}
}

// TestWatchGoesOnAfterANo: an answer that is printed is shown, whatever it is. One
// that is not printed ends it, as there is nothing to watch.
func TestWatchGoesOnAfterANo(t *testing.T) {
	p, stdout, _ := newProgram()
	w := &watcher{p: p, format: formatTable, wait: func(context.Context, time.Duration) bool { return true }}
	shown := 0
	err := w.run(t.Context(), func(_ context.Context, out io.Writer) error {
		if shown++; shown > 2 {
			return usageErrorf("enough")
		}
		fmt.Fprintln(out, "behind")
		return exitError{code: exitNo}
	})
	if exitCode(err) != exitUsage || stdout.String() != strings.Join([]string{"behind\n", "behind\n"}, "\n") {
		t.Errorf("%v, %q", err, stdout)
	}
}

func TestWatchIsInterrupted(t *testing.T) {
	p, stdout, stderr := newProgram()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{p: p, every: time.Second, format: formatTable, wait: waitFor}
	err := w.run(ctx, func(_ context.Context, out io.Writer) error {
		fmt.Fprintln(out, "A")
		cancel() // before the answer is there
		return outage()
	})
	if err != nil || stdout.Len() > 0 || stderr.Len() > 0 {
		t.Errorf("ends with %v, %q, %q", err, stdout, stderr)
	}
	if waitFor(ctx, time.Hour) {
		t.Error("waits on after the end")
	}
}

func TestWatchOnATerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	p, stdout, stderr := newProgram()
	p.screen, p.clock = &fakeConsole{shows: true, width: 24, height: 5}, frameClock
	w := &watcher{p: p, format: formatTable}
	err := watchScript(t, w, "ID   N\na    1\nb    1\n", "ID    N\na     1\nb     27\n", outage(), "ID   N\na    1 and what is too long\nb    27\nc    1\nd    1\n")
	if err != nil {
		t.Fatal(err)
	}
	status := "tokenlease grants list …" + ansiEndOfLine + "\r\n"
	line := func(text string) string { return text + ansiEndOfLine + "\r\n" }
	want := ansiHideCursor + ansiHome + ansiClear +
		ansiHome + status + line("  ID   N") + line("  a    1") + line("  b    1") + ansiBelow +
		ansiHome + status + line("  ID    N") + line("  a     1") + line("* b     27") + ansiBelow +
		ansiHome + line("NO ANSWER SINCE THE LAS…") + line("  ID    N") + line("  a     1") + line("* b     27") + ansiBelow +
		ansiHome + status + line("  ID   N") + line("* a    1 and what is to…") + line("  ... 3 more lines: mak…") + ansiBelow +
		ansiPlain + ansiShowCursor + "\r\n"
	if got := stdout.String(); got != want {
		t.Errorf("frames:\n got %q\nwant %q", got, want)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr has %q", stderr)
	}
}

// TestWatchMarksChange: what passes by itself is no change, and neither is another
// width of a column.
func TestWatchMarksChange(t *testing.T) {
	var f liveFrame
	f.next("a   1   3s ago\nb   2   -\n")
	f.next("a     1     4s ago\nb     3     -\n")
	if f.marked[0] || !f.marked[1] {
		t.Errorf("marked: %v", f.marked)
	}
	f.next("b     3     -\na     1     5s ago\n")
	if f.marked[0] || f.marked[1] {
		t.Errorf("another order is marked: %v", f.marked)
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	f.next("b     4     -\n")
	var b strings.Builder
	if err := f.draw(&b, "status", 80, 24); err != nil {
		t.Fatal(err)
	}
	if want := ansiReverse + "* b     4     -" + ansiPlain; !strings.Contains(b.String(), want) {
		t.Errorf("%q does not have %q", b.String(), want)
	}
}

// What tells something beside its table has all of it in each frame.
func TestWatchedCommands(t *testing.T) {
	server := serveFake(func(f *fake) { f.faults = []string{"a cannot be read"} })
	t.Cleanup(server.Close)
	for _, test := range []struct {
		args        []string
		frame, once string // what each of two frames has, and what stderr says without --watch
	}{
		{[]string{"restore", "status"}, "Generation 1.\nGENERATION ", "Generation 1.\n"},
		{[]string{"restore", "status", "-o", "json"}, `"generation": 1`, "Generation 1.\n"},
		{[]string{"verify"}, "\nREVISION ", ""},
		{[]string{"shards", "list"}, "\n  a cannot be read\n", "tokenlease: warning: 1 record cannot be read: figures are too low by what it holds, which stays reserved until it is mended; see `tokenlease verify`\n  a cannot be read\n"},
	} {
		clearSettings(t)
		args := append(test.args, "--broker", server.URL)
		p, stdout, stderr := newProgram()
		frames := 0
		p.wait = func(_ context.Context, every time.Duration) bool {
			frames++
			return every == 3*time.Second && frames < 2
		}
		code := p.run(t.Context(), append(args, "--watch=3s"))
		if got := "\n" + stdout.String(); code != exitYes || strings.Count(got, test.frame) != 2 || stderr.Len() > 0 {
			t.Errorf("%v ended with %d, %q, %q", args, code, got, stderr)
		}
		p, stdout, stderr = newProgram()
		if code := p.run(t.Context(), args); code != exitYes || strings.Count("\n"+stdout.String(), test.frame) > 1 || stderr.String() != test.once {
			t.Errorf("%v without --watch ended with %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

func TestWatchFlag(t *testing.T) {
	for text, good := range map[string]bool{"2s": true, "100ms": true, "24h": true, "99ms": false, "25h": false, "5": false, "-1s": false, "": false} {
		if err := new(watchFlag).Set(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
