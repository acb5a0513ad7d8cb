package lease

import (
	"slices"
	"time"
)

// A bucket earns credit by refill. The other kinds earn none: a token that is
// neither out nor counts as spent is available, so that is all their state:
//
//	available = max(0, capacity - reserved - counted)
//
// What counts is told by the kind. In a rolling window a spent token counts until W
// after its spend was settled, which is the latest instant at which it can have
// been spent (contract C1). In a fixed window it counts until the period ends in
// which it was settled. A slot that is given back counts no more.

// Release is spent tokens of a rolling window that stop to count at At.
type Release struct {
	At     Time  `json:"at_ns"`
	Tokens int64 `json:"tokens"`
}

// The releases of a window are kept exactly until there are more than maxReleases.
// Then each is moved up to the next multiple of the window's releaseSteps-th part,
// and those that meet are one. What was moved stays where it is, so no token comes
// back later than by one such part, and none earlier.
const (
	maxReleases  = 64
	releaseSteps = 32
)

// Counted is the spent tokens that still take room. It is 0 in a bucket, whose
// room is refilled as time passes.
func (l *Ledger) Counted() int64 {
	sum := l.Used
	for _, r := range l.Recovering {
		sum = plus(sum, r.Tokens)
	}
	return sum
}

// derive sets what is available, of every kind but a bucket.
func (l *Ledger) derive() {
	l.Available = max(0, l.Rule.Capacity-l.Reserved()-l.Counted())
}

// settle takes over tokens that are known to be spent, the latest by now. They
// leave reserved, and count as their kind wants it.
func (l *Ledger) settle(tokens int64) {
	if tokens == 0 {
		return
	}
	switch l.Rule.Kind {
	case RollingWindow:
		l.retain(Release{At: l.Updated.Add(l.Rule.Window), Tokens: tokens})
	case FixedWindow:
		l.Used = plus(l.Used, tokens)
	case TokenBucket, Concurrency:
	}
}

// retain adds a release, which is not before any that is there.
func (l *Ledger) retain(r Release) {
	if last := len(l.Recovering) - 1; last >= 0 && l.Recovering[last].At >= r.At {
		l.Recovering[last].Tokens = plus(l.Recovering[last].Tokens, r.Tokens)
		return
	}
	l.Recovering = append(l.Recovering, r)
	if len(l.Recovering) > maxReleases {
		l.coarsen()
	}
}

// coarsen moves every release up to a multiple of a part of the window.
func (l *Ledger) coarsen() {
	step := Time(max(1, l.Rule.Window/releaseSteps))
	coarse := l.Recovering[:0]
	for _, r := range l.Recovering {
		if over := r.At % step; over > 0 {
			r.At = r.At.Add(step.Sub(over))
		}
		if last := len(coarse) - 1; last >= 0 && coarse[last].At == r.At {
			coarse[last].Tokens = plus(coarse[last].Tokens, r.Tokens)
			continue
		}
		coarse = append(coarse, r)
	}
	l.Recovering = coarse
}

// release lets go what a rolling window has left behind: an interval (t-W, t]
// does not have its beginning in it, so a token comes back at its time exactly.
func (l *Ledger) release() {
	n := 0
	for ; n < len(l.Recovering) && l.Recovering[n].At <= l.Updated; n++ {
	}
	if n == len(l.Recovering) {
		l.Recovering = nil
	} else {
		l.Recovering = slices.Delete(l.Recovering, 0, n)
	}
	l.derive()
}

// afterReleases is how long it takes, from the time that the ledger stands at, until
// a rolling window has room for tokens, which are at most its capacity: until enough
// of what counts has left it, or else until what is out, spent now, has as well.
func (l *Ledger) afterReleases(tokens int64) (wait time.Duration) {
	counted, reserved := l.Counted(), l.Reserved()
	for _, r := range l.Recovering {
		counted -= r.Tokens
		if tokens <= l.Rule.Capacity-reserved-counted {
			return r.At.Sub(l.Updated)
		}
	}
	return l.Rule.Window
}

// Turn tells a fixed window in which period now lies: it began at began, in
// milliseconds since 1970, and has left to go. In another period than before
// nothing counts but what is out. Periods are not entered twice: one that began
// before the one that was told last changes nothing, whatever the wall clock does.
// Ledgers of other kinds are left alone.
//
// Whoever owns fixed windows tells them before any other transition; wall clocks
// decide where periods lie, and nothing else.
func (l *Ledger) Turn(now Time, began int64, left time.Duration) {
	if l.Rule.Kind != FixedWindow {
		return
	}
	l.Advance(now)
	switch {
	case l.Began == 0: // what is used counts in the period in which that was decided
		l.Began = began
	case began > l.Began:
		l.Began, l.Used = began, 0
	case began < l.Began:
		return // a clock was set back: the period lasts until that time has come again
	}
	l.ends = l.Updated.Add(max(1, left))
	l.derive()
}

// adjust installs other numbers of the same kind, other than a bucket's. What is
// out and what counts is kept. In a longer window what counts does so for longer;
// what has left the shorter one is forgotten, so a longer window holds for windows
// that begin after the change (contract C8). Another period or zone takes over
// what the period before has used.
func (l *Ledger) adjust(rule Rule) {
	longer := rule.Window - l.Rule.Window
	for i := range l.Recovering {
		l.Recovering[i].At = l.Recovering[i].At.Add(longer)
	}
	if rule.Period != l.Rule.Period || rule.Zone != l.Rule.Zone {
		l.Began, l.ends = 0, 0
	}
	l.Rule = rule
	l.release()
}

// convert installs a rule of another kind. What was spent under the one before
// cannot be told in its terms, so it starts as if all that is not out had been
// spent at this moment: a bucket empty, a window full of what counts. Slots start
// free but for what is out, since none of them was ever given to work.
func (l *Ledger) convert(rule Rule) {
	l.Rule = rule
	l.Available, l.Remainder, l.Cut, l.CutFor = 0, 0, 0, 0
	l.Recovering, l.Used, l.Began, l.ends = nil, 0, 0, 0
	l.settle(max(0, rule.Capacity-l.Reserved()))
	if rule.Kind != TokenBucket {
		l.derive()
	}
}

// keep leaves a grant of slots with no more than held outstanding, and gives the
// rest back. It says false when nothing is left.
func (l *Ledger) keep(id GrantID, held int64) bool {
	g := l.Grant(id)
	held = max(0, min(held, g.Outstanding()))
	g.Returned = g.Issued - g.Spent - held
	l.clamp()
	return held > 0
}
