package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// activity is a budget of `top`.
func activity(account string, capacity, reserved, available int64) *tokenleasev1.BudgetActivity {
	return &tokenleasev1.BudgetActivity{
		Key: &tokenleasev1.BudgetKey{Account: account, Operation: "op"}, CapacityTokens: capacity, ReservedTokens: reserved, AvailableTokens: available,
		SpentTokensPerSecond: 1.25, WantedTokens: 3, WaitingHolders: 1,
	}
}

func topAnswered(order string, budgets ...*tokenleasev1.BudgetActivity) topAnswer {
	return topAnswer{order: order, response: &tokenleasev1.TopBudgetsResponse{Budgets: budgets}}
}

// requireFrame compares a frame as text, and holds it to its window.
func requireFrame(t *testing.T, v *topView, width, height int, want string) {
	t.Helper()
	lines := v.frame(width, height)
	if len(lines) > height {
		t.Errorf("%d lines in a window of %d", len(lines), height)
	}
	for _, line := range lines {
		if n := len([]rune(line)); n > width {
			t.Errorf("%d columns in a window of %d: %q", n, width, line)
		}
	}
	if got := strings.Join(lines, "\n"); got != strings.TrimPrefix(want, "\n") {
		t.Errorf("the frame of %dx%d:\n%s\nwant:%s", width, height, got, want)
	}
}

func TestTopFrames(t *testing.T) {
	v := &topView{order: orderBusiest, every: 2 * time.Second}
	v.take(topAnswered(orderBusiest, activity("acme", 40, 20, 10), activity("a\x1b[31m", 0, 0, 0), activity("zeta", 10, 1, 9)), frameClock())
	requireFrame(t, v, 100, 24, `
tokenlease top: busiest first, every 2s, 06:00:00Z
q quit   b busiest   s starved   p pause

ACCOUNT       OPERATION   SPENT/S   WANTED   WAITING   RESERVED   AVAILABLE   CAP   CREDIT
acme          op          1.2       3        1         20         10          40    [######---    ]
"a\x1b[31m"   op          1.2       3        1         0          0           0     [             ]
zeta          op          1.2       3        1         1          9           10    [#----------- ]`)
	requireFrame(t, v, 40, 5, `
tokenlease top: busiest first, every 2s…
q quit   b busiest   s starved   p pause

ACCOUNT   OPERATION   SPENT/S   WANTED …
acme      op          1.2       3      …`)
	requireFrame(t, v, 10, 1, "\ntokenleas…")
}

func TestTopTellsWhatIsMissing(t *testing.T) {
	v := &topView{order: orderBusiest, every: time.Second}
	v.take(topAnswer{order: orderBusiest, response: &tokenleasev1.TopBudgetsResponse{ShardsMissing: []uint32{9}}}, frameClock())
	v.take(topAnswer{order: orderBusiest, err: errors.New("the broker\nis gone")}, frameClock().Add(time.Minute))
	requireFrame(t, v, 60, 24, `
tokenlease top: busiest first, every 1s, 06:00:00Z
q quit   b busiest   s starved   p pause
NO ANSWER: the broker is gone
MISSING: shard 9 did not answer

Nothing is going on.`)
}

func TestTopKeys(t *testing.T) {
	v := &topView{order: orderBusiest, every: time.Second}
	v.take(topAnswered(orderBusiest, activity("acme", 40, 20, 10)), frameClock())
	if quit, again := v.key('s'); quit || !again || v.order != orderStarved {
		t.Error("s does not turn to the starved")
	}
	v.take(topAnswered(orderBusiest), frameClock()) // late
	if len(v.budgets) != 1 {
		t.Error("an answer about the other order is taken")
	}
	if quit, again := v.key('p'); quit || again || !v.paused {
		t.Error("p does not pause")
	}
	v.take(topAnswered(orderStarved), frameClock())
	if len(v.budgets) != 1 {
		t.Error("an answer is taken while paused")
	}
	if !strings.Contains(v.frame(80, 24)[0], "starved first, PAUSED at 06:00:00Z") {
		t.Errorf("paused: %q", v.frame(80, 24)[0])
	}
	if quit, again := v.key('p'); quit || !again || v.paused {
		t.Error("p does not go on")
	}
	if quit, again := v.key('x'); quit || again {
		t.Error("x does something")
	}
	for _, key := range []byte{'q', 'Q', keyInterrupt, keyEndOfText} {
		if quit, _ := v.key(key); !quit {
			t.Errorf("key %d does not quit", key)
		}
	}
}

// screenText is a terminal's output that can be waited for.
type screenText struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func (s *screenText) Write(b []byte) (int, error) {
	s.mu.Lock()
	s.text.Write(b)
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (s *screenText) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// waitFor waits until something has been shown.
func (s *screenText) waitFor(t *testing.T, part string) {
	t.Helper()
	for !strings.Contains(s.all(), part) {
		select {
		case <-s.changed:
		case <-time.After(patience):
			t.Fatalf("%q is not shown: %q", part, s.all())
		}
	}
}

// topRunning is a loop at a terminal, whose ticks and keys a test gives.
type topRunning struct {
	keys    *io.PipeWriter
	ticks   chan time.Time
	resized chan time.Time
	screen  *screenText
	console *fakeConsole
	ended   chan error
	stop    context.CancelFunc
}

func runTop(t *testing.T, question func(order string) topAnswer) *topRunning {
	t.Helper()
	t.Setenv("NO_COLOR", "1")
	in, keys := io.Pipe()
	r := &topRunning{
		keys: keys, ticks: make(chan time.Time), resized: make(chan time.Time), screen: &screenText{changed: make(chan struct{}, 1)},
		console: &fakeConsole{shows: true, width: 80, height: 10}, ended: make(chan error, 1),
	}
	p := &program{stdin: in, stdout: r.screen, stderr: io.Discard, screen: r.console, clock: frameClock}
	view := &topView{order: orderBusiest, every: time.Second}
	view.take(question(orderBusiest), frameClock())
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	loop := &topLoop{p: p, view: view, ticks: r.ticks, resized: r.resized, width: -1, question: func(_ context.Context, order string) topAnswer { return question(order) }}
	go func() { r.ended <- loop.run(ctx) }()
	t.Cleanup(func() { stop(); _ = keys.Close() })
	return r
}

// requireRestored wants the loop to end, and the terminal as it was.
func (r *topRunning) requireRestored(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("does not end")
	}
	if text := r.screen.all(); !strings.HasPrefix(text, ansiOtherScreen+ansiHideCursor) || !strings.HasSuffix(text, ansiPlain+ansiShowCursor+ansiFirstScreen) {
		t.Errorf("the screen is left as %q", text)
	}
	if r.console.raw != 1 {
		t.Errorf("the keys are left raw: %d", r.console.raw)
	}
}

func TestTopLives(t *testing.T) {
	var mu sync.Mutex
	asked := 0
	r := runTop(t, func(order string) topAnswer {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return topAnswered(order, activity(fmt.Sprintf("%s-%d", order, asked), 40, 20, 10))
	})
	r.screen.waitFor(t, "busiest-1")
	r.ticks <- time.Time{}
	r.screen.waitFor(t, "busiest-2")
	fmt.Fprint(r.keys, "s")
	r.screen.waitFor(t, "starved-3")
	fmt.Fprint(r.keys, "p")
	r.screen.waitFor(t, "PAUSED")
	r.ticks <- time.Time{} // asks nothing
	r.resized <- time.Time{}
	fmt.Fprint(r.keys, "b")
	r.screen.waitFor(t, "busiest-4")
	if strings.Contains(r.screen.all(), "\x1b[7m") || strings.Contains(r.screen.all(), ansiBold) {
		t.Error("there are styles, in spite of NO_COLOR")
	}
	fmt.Fprint(r.keys, "q")
	r.requireRestored(t)
}

func TestTopEndsByInterruptOrContext(t *testing.T) {
	answer := func(order string) topAnswer { return topAnswered(order) }
	r := runTop(t, answer)
	r.screen.waitFor(t, "Nothing is going on.")
	fmt.Fprint(r.keys, "\x03")
	r.requireRestored(t)

	r = runTop(t, answer)
	r.screen.waitFor(t, "Nothing is going on.")
	r.stop()
	r.requireRestored(t)

	r = runTop(t, answer) // nobody at the keys any more
	_ = r.keys.Close()
	r.ticks <- time.Time{}
	r.stop()
	r.requireRestored(t)
}

func TestTopWithoutRawKeys(t *testing.T) {
	p, stdout, _ := newProgram()
	p.screen = &fakeConsole{shows: true, width: 80, height: 24, rawErr: errors.New("no such terminal")}
	if err := (&topLoop{p: p, view: &topView{}}).run(t.Context()); err == nil || stdout.Len() > 0 {
		t.Errorf("ends with %v, and shows %q", err, stdout)
	}
}

func TestTopNeedsABroker(t *testing.T) {
	clearSettings(t)
	gone := serveFake()
	gone.Close()
	p, stdout, stderr := newProgram()
	p.screen = &fakeConsole{shows: true, width: 80, height: 24}
	if code := p.run(t.Context(), []string{"top", "--broker", gone.URL}); code != exitUnreachable || stdout.Len() > 0 {
		t.Errorf("%d, %q, %s", code, stdout, stderr)
	}
}
