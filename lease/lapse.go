package lease

import (
	"errors"
	"time"
)

// ErrNotLapsed means that a grant has no deadline, or that it has not passed.
var ErrNotLapsed = errors.New("lease: the grant has not lapsed")

// This file has what silence does to a grant under a policy that says so (contract
// C4.4); under any other it does nothing.
//
// # Why a lapsed grant is spent no more
//
// The premise, which the policy declares: by whichever of its clocks has moved
// furthest, a holder stops within MaxStaleness counted from before it sent a request; and
// how far those clocks may lag the broker's in that time, and how long its process may
// pause between a look at them and what it then admits, is less than ReclaimMargin in all.
//
// Let q be the newest request of the holder that was answered about the grant, sent at
// s. From s on the holder applies one answer, to q or to a newer request (contract
// C5.3), and until then it goes by what it went by at s, the bound that q tells, which
// was counted from an earlier moment. So it spends nothing after s + the longest of that
// bound and of what the answers to q say, each with its margin. That is what Lasts is to be
// at least:
//
//   - Nothing but a request which tells a bound, and an answer under a policy with a
//     deadline, leads to one: else the grant never lapses. So does not that of a holder
//     which has not installed a policy that came to declare one, or knows of none.
//   - A policy's margin is declared for its own bound. Lasts becomes what the policy says
//     (Extend) where the bound that q tells is within the policy's; else the longer stays
//     (Prolong), and never is the longest.
//   - q may come twice, or wait, and be answered under several policies; nobody knows
//     which answer is applied. Only its first answer makes Lasts shorter.
//   - A request that does not name the grant tells nothing of it: its holder may have
//     ended it, with slots in use. It makes Lasts no shorter either, unless its answer is
//     what opens the grant.
//
// q was applied at a ledger time now that was read after q had come, and ledger time
// is not faster than the broker's clock, which C2 holds to be no faster than real time: when
// it reaches now + Lasts, s + Lasts has passed. A newer request that was answered by then
// has put the deadline off in the same way, before its answer left (C3.2); and one that
// comes later finds the grant gone, and so does its answer.
//
// A process looks at the bound first and takes credit afterwards. What it takes was
// admitted under a bound that had not passed (holder.Manager draws nothing while it has),
// so an answer that comes too late gives nothing to a process that looked before it.
//
// Lapses is kept in memory. Who reads the ledger anew has it start over from a ledger
// time that was read after every request had come that was answered before: the owner's
// own, which no other has owned the shard since. Lasts is stored, in the commit before the
// answer leaves.
//
// What is outstanding then counts as spent at that moment, as by an attestation: later
// than it can have been spent in truth.

// Extend notes a request of the holder that is answered at now, after which the grant
// lapses when lasts has passed; 0: never. It says whether that is another length of time
// than before, which has to be stored. One that its holder has ended while slots of it may
// be in use never lapses.
func (l *Ledger) Extend(now Time, id GrantID, lasts time.Duration) (changed bool) {
	g := l.Grant(id)
	if g == nil || g.Kept {
		return false
	}
	changed = g.Lasts != lasts
	g.Lasts, g.Lapses = lasts, 0
	if lasts > 0 {
		g.Lapses = max(now, l.Updated).Add(lasts)
	}
	return changed
}

// Prolong is Extend where something longer may still hold: of lasts and what there was
// the longer counts, and never is the longest.
func (l *Ledger) Prolong(now Time, id GrantID, lasts time.Duration) (changed bool) {
	g := l.Grant(id)
	if g == nil || g.Kept {
		return false
	}
	if g.Lasts == 0 || lasts > 0 && lasts < g.Lasts {
		lasts = g.Lasts
	}
	return l.Extend(now, id, lasts)
}

// Restart has every deadline start over at now: those of a ledger that was read anew.
func (l *Ledger) Restart(now Time) {
	for i := range l.Grants {
		l.Extend(now, l.Grants[i].ID, l.Grants[i].Lasts)
	}
}

// NextLapse is the earliest deadline of a grant; ok is false for none.
func (l *Ledger) NextLapse() (at Time, ok bool) {
	for i := range l.Grants {
		if g := &l.Grants[i]; g.Lasts > 0 && (!ok || g.Lapses < at) {
			at, ok = g.Lapses, true
		}
	}
	return at, ok
}

// Lapse ends a grant whose deadline has passed. What is outstanding counts as spent at
// this moment; it returns that amount in tokens.
//
// Errors: ErrGone, ErrNotLapsed.
func (l *Ledger) Lapse(now Time, id GrantID) (counted int64, err error) {
	g := l.Grant(id)
	switch {
	case g == nil:
		return 0, ErrGone
	case g.Lasts == 0 || now < g.Lapses:
		return 0, ErrNotLapsed
	}
	return l.Attest(now, id)
}
