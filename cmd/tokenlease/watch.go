package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// watchDefault is how often --watch alone looks.
	watchDefault = 2 * time.Second
	// watchLeast and watchMost bound the interval.
	watchLeast = 100 * time.Millisecond
	watchMost  = 24 * time.Hour
)

// watchFlag is the interval at which something is shown again; 0: once.
type watchFlag time.Duration

// String is the flag's value.
func (f *watchFlag) String() string {
	if *f == 0 {
		return ""
	}
	return time.Duration(*f).String()
}

// Type is what help calls the value.
func (f *watchFlag) Type() string { return "interval" }

// Set reads the flag.
func (f *watchFlag) Set(text string) error {
	every, err := time.ParseDuration(text)
	if err != nil || every < watchLeast || every > watchMost {
		return fmt.Errorf("want an interval from %v to 24h such as 2s, not %.40q", watchLeast, text)
	}
	*f = watchFlag(every)
	return nil
}

// shower prints something to the program's stdout, once.
type shower func(ctx context.Context, p *program, args []string) error

// showCommand completes a command that asks a server and shows what it says, once
// or, with --watch, again and again.
func (p *program) showCommand(cmd *cobra.Command, settings *clientSettings, args int, show shower) *cobra.Command {
	every := watchFlag(0)
	every.register(cmd.Flags())
	client := clientCommand(cmd, settings, args, func(ctx context.Context, args []string) error {
		return p.watch(ctx, every, cmd.CommandPath(), settings.output, func(ctx context.Context, p *program) error {
			return show(ctx, p, args)
		})
	})
	count := client.Args
	client.Args = func(cmd *cobra.Command, given []string) error {
		err := count(cmd, given)
		if err != nil && every != 0 && len(given) > 0 {
			if last := given[len(given)-1]; new(watchFlag).Set(last) == nil {
				return usageErrorf("%q is not taken as the interval: say --watch=%s", last, last)
			}
		}
		return err
	}
	return client
}

// register adds the flag that sets it.
func (f *watchFlag) register(flags *pflag.FlagSet) {
	flags.Var(f, "watch", "show it again and again, each `interval`, until interrupted; --watch alone: 2s, else --watch=10s")
	flags.Lookup("watch").NoOptDefVal = watchDefault.String()
}

// watch shows something once or, with an interval, again and again.
func (p *program) watch(ctx context.Context, every watchFlag, title string, format outputFormat, show func(ctx context.Context, p *program) error) error {
	if every == 0 {
		return show(ctx, p)
	}
	w := &watcher{p: p, every: time.Duration(every), title: title, format: format, wait: waitFor}
	if p.wait != nil {
		w.wait = p.wait
	}
	return w.run(ctx, func(ctx context.Context, out io.Writer) error {
		q := *p
		q.stdout, q.screen = out, noConsole{}
		if format == formatTable {
			q.stderr = out // in the frame, and not across it
		}
		return show(ctx, &q)
	})
}

// waitFor waits, and says whether the context still goes on.
func waitFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// watcher shows something again and again. On a terminal each frame takes the
// place of the one before, and what has changed is marked. Elsewhere frames follow
// each other: tables with a blank line between, or JSON or YAML documents.
type watcher struct {
	p      *program
	every  time.Duration
	title  string
	format outputFormat
	wait   func(context.Context, time.Duration) bool // false: ended

	frames int
	live   liveFrame
	said   string // the outage that was told last; empty: none
}

// run shows until the context ends, which is no error. The first frame must come.
// Later a server that cannot be reached is waited for, however long that takes, and
// something that is not there may come back; every other error ends it.
func (w *watcher) run(ctx context.Context, show func(context.Context, io.Writer) error) error {
	onTerminal := w.p.console().Shows()
	if onTerminal {
		defer w.live.begin(w.p.stdout)()
	}
	for {
		var frame bytes.Buffer
		err := show(ctx, &frame)
		if ctx.Err() != nil {
			return nil // interrupted, which is how this ends
		}
		if frame.Len() > 0 && isNo(err) {
			err = nil // a no that is shown is an answer like any other
		}
		if err != nil && (w.frames == 0 || !survives(err)) {
			return err
		}
		if err := w.put(frame.Bytes(), err, onTerminal); err != nil {
			return err
		}
		if !w.wait(ctx, w.every) {
			return nil
		}
	}
}

// isNo says that a command has printed its answer, which is no.
func isNo(err error) bool {
	var exit exitError
	return errors.As(err, &exit) && exit.code == exitNo
}

// survives says whether watching goes on after an error.
func survives(err error) bool {
	var server serverError
	code := exitCode(err)
	return errors.As(err, &server) && (code == exitUnreachable || code == exitNo)
}

// put shows a frame, or tells why there is none.
func (w *watcher) put(frame []byte, failed error, onTerminal bool) error {
	if onTerminal {
		return w.putLive(frame, failed)
	}
	if failed != nil {
		if text := failed.Error(); text != w.said {
			fmt.Fprintf(w.p.stderr, "tokenlease: %s\nStill watching.\n", text)
			w.said = text
		}
		return nil
	}
	if w.said != "" {
		fmt.Fprintln(w.p.stderr, "It answers again.")
		w.said = ""
	}
	if w.frames++; w.frames > 1 {
		if _, err := io.WriteString(w.p.stdout, separator(w.format)); err != nil {
			return err
		}
	}
	_, err := w.p.stdout.Write(frame)
	return err
}

// separator stands between two frames that follow each other.
func separator(format outputFormat) string {
	switch format {
	case formatJSON:
		return "" // documents end by themselves
	case formatYAML:
		return "---\n"
	default:
		return "\n"
	}
}

// putLive shows a frame in place of the one before. While there is none, that
// stays, below the reason.
func (w *watcher) putLive(frame []byte, failed error) error {
	status := fmt.Sprintf("%s   every %v   %s   Ctrl-C ends", w.title, w.every, w.p.now().UTC().Format("15:04:05Z"))
	if failed != nil {
		status = "NO ANSWER SINCE THE LAST FRAME: " + oneLine(failed.Error()) + "   " + status
	} else {
		w.frames++
		w.live.next(string(frame))
	}
	width, height := w.p.console().Size()
	return w.live.draw(w.p.stdout, status, width, height)
}
