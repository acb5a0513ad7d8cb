package lease

import (
	"math"
	"time"
)

// A lower capacity takes room away, and with it the memory of what was spent: a
// bucket of 10 of which 5 are spent is full once it is cut to 5. If its record
// went then, a policy that is raised again would find a full bucket of 10, and
// admit 15. So the ledger keeps what was cut, until it is made up for.
//
// What a bucket lacks to be full does not depend on its capacity: it rises by
// what is spent and what is owed, and falls by what is refilled. It is capacity -
// available - reserved + debt, plus Cut.

// lack is what the ledger lacks to be full under its own rule; negative while
// more than the capacity is out.
func (l *Ledger) lack() int64 { return l.Rule.Capacity - l.Available - l.Reserved() + l.Debt }

// makeUp counts time in which the budget was full, and would have gone on
// refilling had its capacity not been cut. It counts whole stretches, so the cut
// is made up for later rather than sooner.
func (l *Ledger) makeUp(full time.Duration) {
	if l.Cut == 0 || l.lack() != 0 {
		return
	}
	if full > math.MaxInt64-l.CutFor {
		full = math.MaxInt64 - l.CutFor
	}
	l.CutFor += full
	if wait, ok := l.Rule.Refill.wait(l.Cut, 0); ok && l.CutFor >= wait {
		l.Cut, l.CutFor = 0, 0
	}
}

// recut settles the cut after a change of the rule: lacked is what a full bucket
// lacked before it, cut included.
func (l *Ledger) recut(lacked int64) {
	l.Cut = max(0, lacked-l.lack())
	if l.Cut == 0 {
		l.CutFor = 0
	}
}
