package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// topView is what `top` shows. It is a plain value: keys and answers go in, frames
// of text come out.
type topView struct {
	order  string
	every  time.Duration
	paused bool

	budgets []*tokenleasev1.BudgetActivity
	missing []uint32
	at      time.Time // of the newest answer
	problem string    // why there is none newer; empty: there is
}

// Keys that end the view: ctrl-c is a key like others while the terminal is raw.
const (
	keyInterrupt = 3
	keyEndOfText = 4
)

// key takes a key, and says whether it ends the view and whether to ask at once.
func (v *topView) key(key byte) (quit, again bool) {
	switch key {
	case 'q', 'Q', keyInterrupt, keyEndOfText:
		return true, false
	case 'b', 'B':
		v.order, v.paused = orderBusiest, false
		return false, true
	case 's', 'S':
		v.order, v.paused = orderStarved, false
		return false, true
	case 'p', 'P', ' ':
		v.paused = !v.paused
		return false, !v.paused
	}
	return false, false
}

// take takes an answer. One to a question of another order is late, and says
// nothing; without one, what was shown stays.
func (v *topView) take(answer topAnswer, now time.Time) {
	switch {
	case answer.order != v.order || v.paused:
	case answer.err != nil:
		v.problem = oneLine(answer.err.Error())
	default:
		v.budgets, v.missing, v.at, v.problem = answer.response.GetBudgets(), answer.response.GetShardsMissing(), now, ""
	}
}

// barWidths: a bar is drawn where the window has room for one.
const (
	barLeast = 10
	barMost  = 40
)

// frame is what fills a window of a size: at most height lines of at most width
// characters.
func (v *topView) frame(width, height int) []string {
	state := fmt.Sprintf("every %v, %s", v.every, v.at.UTC().Format("15:04:05Z"))
	if v.paused {
		state = "PAUSED at " + v.at.UTC().Format("15:04:05Z")
	}
	lines := []string{
		fmt.Sprintf("tokenlease top: %s first, %s", v.order, state),
		"q quit   b busiest   s starved   p pause",
	}
	if v.problem != "" {
		lines = append(lines, "NO ANSWER: "+v.problem)
	}
	if len(v.missing) > 0 {
		lines = append(lines, "MISSING: "+shardList(v.missing)+" did not answer")
	}
	lines = append(lines, "")
	shown := v.budgets[:max(0, min(len(v.budgets), height-len(lines)-1))]
	if len(v.budgets) == 0 {
		lines = append(lines, "Nothing is going on.")
	} else {
		lines = append(lines, v.rows(shown, width)...)
	}
	lines = lines[:min(len(lines), max(1, height))]
	for i, line := range lines {
		lines[i] = cut(line, width)
	}
	return lines
}

// rows are the heading and the budgets, with a bar where there is room for it.
func (v *topView) rows(shown []*tokenleasev1.BudgetActivity, width int) []string {
	plain := tableLines(topTable(shown, 0))
	widest := 0
	for _, line := range plain {
		widest = max(widest, len([]rune(line)))
	}
	room := min(width-widest-6, barMost) // columns are 3 apart, and bars have ends
	if room < barLeast {
		return plain
	}
	return tableLines(topTable(shown, room))
}

// tableLines are the lines of a table.
func tableLines(t *table) []string {
	var b bytes.Buffer
	_ = t.write(&b) // a buffer takes everything
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// creditBar shows what is where: # is out, - available, and the rest not back yet.
// Whatever is not nothing has a character, as far as there is room.
func creditBar(b *tokenleasev1.BudgetActivity, width int) string {
	whole := max(b.GetCapacityTokens(), b.GetReservedTokens()+b.GetAvailableTokens(), 1)
	part := func(tokens int64) int {
		n := int(float64(tokens) / float64(whole) * float64(width))
		if tokens > 0 {
			n = max(n, 1)
		}
		return min(max(n, 0), width)
	}
	out := part(b.GetReservedTokens())
	available := min(part(b.GetAvailableTokens()), width-out)
	return "[" + strings.Repeat("#", out) + strings.Repeat("-", available) + strings.Repeat(" ", width-out-available) + "]"
}
