package lease

import (
	"math"
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

// A window keeps up to exactReleases exactly. Those that come on top are put on
// multiples of the window's releaseSteps-th part, of which 34 at the most lie ahead
// (the newest is less than a window and one such part away). So there are never more
// than maxReleases, and no token comes back later than by one such part, and none
// earlier. What was put somewhere stays there: guidance that was given from it holds.
const (
	exactReleases = 30
	releaseSteps  = 32
	maxReleases   = exactReleases + releaseSteps + 2
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

// derive sets what is available, of every kind but a bucket, and pays of it what is
// owed.
func (l *Ledger) derive() {
	l.Available = l.left()
	l.pay()
}

// left is what a window, or slots, leave beside what is out and what counts.
func (l *Ledger) left() int64 { return max(0, l.Rule.Capacity-l.Reserved()-l.Counted()) }

// settle takes over tokens that are known to be spent, the latest by now. They
// leave reserved, and count as their kind wants it.
func (l *Ledger) settle(tokens int64) {
	if tokens == 0 {
		return
	}
	l.remember()
	switch l.Rule.Kind {
	case RollingWindow:
		l.retain(l.Updated.Add(l.Rule.Window), tokens)
	case FixedWindow:
		l.Used = plus(l.Used, tokens)
	case TokenBucket, Concurrency:
	}
}

// retain adds tokens that stop to count at a time which is not before any that was
// given before.
func (l *Ledger) retain(at Time, tokens int64) { l.append(l.place(at), tokens) }

// append adds tokens that stop to count at a time which is not before the last one.
func (l *Ledger) append(at Time, tokens int64) {
	if last := len(l.Recovering) - 1; last >= 0 && l.Recovering[last].At == at {
		l.Recovering[last].Tokens = plus(l.Recovering[last].Tokens, tokens)
		return
	}
	l.Recovering = append(l.Recovering, Release{At: at, Tokens: tokens})
}

// place is the time, at the earliest at, at which what is added now stops to count.
func (l *Ledger) place(at Time) Time {
	n := len(l.Recovering)
	if n >= exactReleases {
		if over := at % Time(l.Rule.releaseStep()); over > 0 {
			at = at.Add(l.Rule.releaseStep() - time.Duration(over))
		}
	}
	if n > 0 { // one that was put on a multiple before may be ahead
		at = max(at, l.Recovering[n-1].At)
	}
	return at
}

// CountsFor is for how long a token of a rolling window counts at the most after it was
// settled as spent: for the window, and the part of it by which its release may be late.
func (r Rule) CountsFor() time.Duration {
	if r.Kind != RollingWindow {
		return 0
	}
	return r.Window + r.releaseStep()
}

// releaseStep is the part of the window by which a release may be late.
func (r Rule) releaseStep() time.Duration { return max(1, r.Window/releaseSteps) }

// release lets go what a rolling window has left behind: an interval (t-W, t]
// does not have its beginning in it, so a token comes back at its time exactly.
func (l *Ledger) release() {
	l.payAsReleased()
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
func (l *Ledger) afterReleases(tokens int64) (wait time.Duration, ok bool) {
	if l.Debt > 0 {
		return l.afterPayments(tokens)
	}
	counted, reserved := l.Counted(), l.Reserved()
	for _, r := range l.Recovering {
		counted -= r.Tokens
		if tokens <= l.Rule.Capacity-reserved-counted {
			return r.At.Sub(l.Updated), true
		}
	}
	return l.place(l.Updated.Add(l.Rule.Window)).Sub(l.Updated), true
}

// Turn tells a fixed window in which period now lies: it began at began, in
// milliseconds since 1970, and has left to go. In another period than before
// nothing counts but what is out, once the debt is paid. Periods are not entered twice: one that began
// before the one that was told last changes nothing, whatever the wall clock does,
// but that nobody knows any more when the one that was told last ends. A clock that
// stands before 1970 is wrong; all its periods are one. Ledgers of other kinds are
// left alone.
//
// Whoever owns fixed windows tells them before any other transition; wall clocks
// decide where periods lie, and nothing else.
func (l *Ledger) Turn(now Time, began int64, left time.Duration) {
	if l.Rule.Kind != FixedWindow {
		return
	}
	l.Advance(now)
	began = max(1, began) // 0 says that nothing is known yet
	switch {
	case l.Began == 0: // what is used counts in the period in which that was decided
		l.Began = began
	case began > l.Began:
		l.paySkipped(l.Rule.Period.passed(l.Began, began) - 1)
		l.Began, l.Used = began, 0
	case began < l.Began:
		l.ends = 0 // a clock was set back: the period lasts until that time has come again
		return
	}
	l.ends = l.Updated.Add(max(1, left))
	l.derive()
}

// adjust installs other numbers of the same kind, other than a bucket's. What is
// out and what counts is kept. In a longer window what counts does so for longer;
// what has left the shorter one is forgotten, so a longer window holds for windows
// that begin after the change (contract C8). Nothing counts for more than a whole
// window from now, since nothing is spent later than now: else what a long window
// has put off would be held up under a short one by a part of the long. Another
// period or zone takes over what the period before has used.
func (l *Ledger) adjust(rule Rule) {
	longer, latest := rule.Window-l.Rule.Window, l.Updated.Add(rule.Window)
	were := l.Recovering
	l.Recovering = nil
	if rule.Period != l.Rule.Period || rule.Zone != l.Rule.Zone {
		l.Began, l.ends = 0, 0
	}
	l.Rule = rule
	for _, r := range were {
		if at := min(r.At.Add(longer), latest); at > l.Updated {
			l.retain(at, r.Tokens)
		}
	}
	l.derive()
}

// convert installs a rule of another kind. What was spent under the one before
// cannot be told in its terms, so it starts as if all that is not out had been
// spent at this moment: a bucket empty, a window full of what counts. Slots start
// free but for what is out, since work that other kinds have admitted holds none:
// it is not known whether it goes on, and the slots hold for work that begins under
// them. They are never owed, so a debt ends with them.
//
// The kind may change back before the rule of before would have forgotten what was
// spent under it. So a record is not dropped until then, however full the rules in
// between find it.
func (l *Ledger) convert(rule Rule) {
	l.PastFor = max(l.PastFor, l.memory())
	l.remember()
	l.Rule = rule
	l.Available, l.Remainder, l.Cut, l.CutFor = 0, 0, 0, 0
	l.Recovering, l.Used, l.Began, l.ends = nil, 0, 0, 0
	l.settle(max(0, rule.Capacity-l.Reserved()))
	switch rule.Kind {
	case TokenBucket:
		l.recut(max(0, l.lack()-l.Debt) + l.Debt) // more than the capacity may be out, and be spent yet
		return
	case Concurrency:
		l.Debt = 0
	case RollingWindow, FixedWindow:
	}
	l.derive()
}

// memory is for how long the rule in force remembers what is spent now, from above;
// of slots, which are not spent, not at all.
func (l *Ledger) memory() time.Duration {
	switch l.Rule.Kind {
	case TokenBucket:
		if wait, ok := l.Rule.Refill.wait(plus(plus(l.Rule.Capacity, l.Cut), l.Debt), 0); ok {
			return wait
		}
		return math.MaxInt64
	case RollingWindow:
		return l.Rule.Window + l.Rule.releaseStep()
	case FixedWindow:
		return l.Rule.Period.Longest()
	case Concurrency:
	}
	return 0
}

// remember puts off the time until which the record is kept for the rules of before.
func (l *Ledger) remember() {
	if l.PastFor > 0 {
		l.Past = max(l.Past, l.Updated.Add(l.PastFor))
	}
}

// keep leaves a grant of slots with no more than held outstanding, and gives the
// rest back. It says false when nothing is left.
func (l *Ledger) keep(id GrantID, held int64) bool {
	g := l.Grant(id)
	held = max(0, min(held, g.Outstanding()))
	g.Returned, g.Kept = g.Issued-g.Spent-held, true
	g.Lasts, g.Lapses = 0, 0 // no deadline ends the work
	l.clamp()
	return held > 0
}
