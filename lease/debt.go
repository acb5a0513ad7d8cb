package lease

import (
	"math"
	"slices"
	"time"
)

// What a settlement uses beyond its reservation, under a policy that is postpaid, was
// used without credit. It becomes debt of the budget, told by its holder as one more
// cumulative counter of the grant. Debt is paid before anything is handed out again:
// by what is available, by what comes back, by refill and by what windows let go.
//
// To pay destroys tokens that are available, or would be, and does nothing else. Of a
// window they count as spent at the time at which they pay, as they would had they
// been granted and spent then. So whatever is owed or paid, no more can be admitted
// than without it: each of the arguments of the package comment, which let any
// available token be granted and spent at any time, holds as it stands.

// owe adds to the debt what a holder has newly told.
func (l *Ledger) owe(tokens int64) {
	if tokens == 0 || l.Rule.Kind == Concurrency {
		return
	}
	l.remember()
	l.Debt = min(plus(l.Debt, tokens), MaxCapacity)
}

// pay pays the debt of what is available. All that makes tokens available ends here,
// or, where time does it, in what is paid for each instant: Advance, payAsReleased and
// paySkipped.
func (l *Ledger) pay() {
	paid := min(l.Debt, l.Available)
	l.Debt -= paid
	l.Available -= paid
	if l.Rule.Kind != TokenBucket { // the room that a bucket has is refilled as ever
		l.settle(paid)
	}
}

// payAsReleased pays with what a rolling window has let go, each token at the time
// at which it did. (Were it paid at the time to which the ledger is brought, it would
// count for longer the less often that is done, and guidance would have been early.)
func (l *Ledger) payAsReleased() {
	for l.Debt > 0 && len(l.Recovering) > 0 && l.Recovering[0].At <= min(l.Updated, l.lastRound()) {
		l.payRounds(l.Updated)
		l.payNext()
	}
}

// lastRound is the last time that has a whole window before the end of time.
func (l *Ledger) lastRound() Time { return math.MaxInt64 - Time(l.Rule.Window) }

// payNext lets the first of what counts go, and pays with what that leaves, at its
// time. What pays takes the place of what went, so there are no more than before.
func (l *Ledger) payNext() {
	first := l.Recovering[0]
	l.Recovering = slices.Delete(l.Recovering, 0, 1)
	paid := min(l.Debt, l.left())
	if paid == 0 {
		return // more than the capacity is out or counts
	}
	l.remember()
	l.Debt -= paid
	at := first.At.Add(l.Rule.Window)
	if last := len(l.Recovering) - 1; last >= 0 {
		at = max(at, l.Recovering[last].At) // which was put off
	}
	l.append(at, paid)
}

// payRounds does at once what payNext does for all that counts, as often as the debt
// and the time until then have whole rounds of it. Each round, when all of the
// capacity is out or counts, puts off every release by a window.
func (l *Ledger) payRounds(until Time) {
	first, last := l.Recovering[0].At, l.Recovering[len(l.Recovering)-1].At
	counted, window := l.Counted(), Time(l.Rule.Window)
	if last-first >= window || last > until || l.Reserved()+counted != l.Rule.Capacity {
		return
	}
	rounds := min(l.Debt/counted, int64((until-last)/window))
	l.Debt -= rounds * counted
	for i := range l.Recovering {
		l.Recovering[i].At += Time(rounds) * window
	}
}

// afterPayments is afterReleases where something is owed: it lets pass what will.
func (l *Ledger) afterPayments(tokens int64) (wait time.Duration, ok bool) {
	ideal := Ledger{Rule: l.Rule, Updated: l.Updated, Debt: l.Debt, Recovering: slices.Clone(l.Recovering)}
	ideal.settle(l.Reserved())
	for ideal.Available < tokens { // which the capacity has, so something counts
		if ideal.Debt > 0 {
			ideal.payRounds(ideal.lastRound())
		}
		next := ideal.Recovering[0].At
		if next > ideal.lastRound() {
			return 0, false
		}
		ideal.Advance(next)
	}
	return ideal.Updated.Sub(l.Updated), true
}

// paySkipped pays with what the periods of a fixed window had in which the ledger was
// not told of any.
func (l *Ledger) paySkipped(periods int64) {
	each := max(0, l.Rule.Capacity-l.Reserved())
	if l.Debt == 0 || periods <= 0 || each == 0 {
		return
	}
	l.remember()
	if l.Debt/each < periods {
		l.Debt = 0
		return
	}
	l.Debt -= periods * each
}

// afterPeriods is how long it takes until a fixed window has room for tokens, which are
// at most its capacity: until the period ends, and as many more as it takes to pay.
func (l *Ledger) afterPeriods(tokens int64) (wait time.Duration, ok bool) {
	wait = l.ends.Sub(l.Updated)
	if wait <= 0 {
		return 0, false
	}
	beyond := max(0, l.Debt+tokens-l.Rule.Capacity)
	more := (beyond + l.Rule.Capacity - 1) / l.Rule.Capacity
	each := l.Rule.Period.Longest()
	if more > int64((math.MaxInt64-wait)/each) {
		return 0, false
	}
	return wait + time.Duration(more)*each, true
}
