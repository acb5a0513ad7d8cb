package main

import (
	"context"
	"io"
	"strings"
	"time"
)

// resizeInterval is how often the size of the window is looked at.
const resizeInterval = 200 * time.Millisecond

// Sequences of the screen that `top` draws on, so that what was on the terminal
// before is there again after it.
const (
	ansiOtherScreen = "\x1b[?1049h"
	ansiFirstScreen = "\x1b[?1049l"
)

// topLoop shows a topView on a terminal.
type topLoop struct {
	p        *program
	view     *topView
	question func(ctx context.Context, order string) topAnswer
	ticks    <-chan time.Time // when to ask
	resized  <-chan time.Time // when to look at the size of the window

	width, height int  // of the frame that is shown
	asking        bool // a question has no answer yet
}

// run shows until a key, the end of the context or the terminal ends it. The
// terminal is left as it was, whatever happens.
func (l *topLoop) run(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	console := l.p.console()
	restore, err := console.Raw()
	if err != nil {
		return failure(err)
	}
	defer restore()
	if _, err := io.WriteString(l.p.stdout, ansiOtherScreen+ansiHideCursor+ansiClear); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(l.p.stdout, ansiPlain+ansiShowCursor+ansiFirstScreen) }()
	keys, answers := pressed(ctx, l.p.stdin), make(chan topAnswer, 1)
	for {
		if err := l.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case key, ok := <-keys:
			if !ok {
				keys = nil // nobody is at the keys: it goes on until it is stopped
				continue
			}
			quit, again := l.view.key(key)
			if quit {
				return nil
			}
			l.changed()
			if again {
				l.ask(ctx, answers)
			}
		case <-l.ticks:
			if !l.view.paused {
				l.ask(ctx, answers)
			}
		case <-l.resized:
		case answer := <-answers:
			l.asking = false
			l.view.take(answer, l.p.now())
			l.changed()
			if answer.order != l.view.order { // the order has changed meanwhile
				l.ask(ctx, answers)
			}
		}
	}
}

// ask asks, unless an answer is awaited already.
func (l *topLoop) ask(ctx context.Context, answers chan<- topAnswer) {
	if l.asking {
		return
	}
	l.asking = true
	order := l.view.order
	go func() { answers <- l.question(ctx, order) }() // one at a time, and there is room for it
}

// changed has the frame drawn again.
func (l *topLoop) changed() { l.width = -1 }

// draw draws the frame, if it has changed or the window has.
func (l *topLoop) draw() error {
	width, height := l.p.console().Size()
	if width == l.width && height == l.height {
		return nil
	}
	l.width, l.height = width, height
	var b strings.Builder
	b.WriteString(ansiHome)
	for i, line := range l.view.frame(width, height) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if i == 0 && hasStyles() {
			line = ansiBold + line + ansiPlain
		}
		b.WriteString(line + ansiEndOfLine)
	}
	b.WriteString(ansiBelow)
	_, err := io.WriteString(l.p.stdout, b.String())
	return err
}

// pressed delivers keys as they are pressed, until reading ends. A goroutine that
// waits in a read ends with the program.
func pressed(ctx context.Context, r io.Reader) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		var one [1]byte
		for {
			if n, err := r.Read(one[:]); err != nil || n == 0 {
				return
			}
			select {
			case keys <- one[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return keys
}
