// Package lease is the pure core of tokenlease: the ledger of one budget, the
// grants that it is split into, and the rule by which it is shared.
//
// # Words
//
// A budget is one global allowance, named by a [Key]. Its [Ledger] holds what is
// available to hand out and the grants that are out. A [Grant] is credit held by
// one epoch of one holder. Its counters issued, spent and returned only ever
// grow; outstanding = issued - spent - returned is what its holder may still
// spend. The sum of outstanding over the grants of a budget is reserved.
//
// # Units
//
// Tokens are whole, in int64. Ledger time ([Time]) is in nanoseconds since the
// cluster was created. Fractions of a token are kept exactly, as a numerator
// over the refill interval. Products are taken in 128 bits, so nothing
// overflows; counters that would pass [MaxCounter] are refused.
//
// # The invariant
//
// For every ledger, after every transition (see [Ledger.Check]):
//
//	available = 0  or  available + reserved <= capacity
//
// and the fraction of a token is 0 unless there is room for one more.
//
// # Why the regions together never exceed the cap
//
// Let U be the true unspent credit in the regions. A holder spends only what it
// was issued and has not returned, and its reports never run ahead of what it
// did, so U <= reserved at every moment, whatever messages are lost, late or
// repeated: counters are cumulative and merged by max, so an old report changes
// nothing, and a repeated one changes nothing twice.
//
// A spend lowers U. A grant moves credit from available to U. A return lowers U
// before it is reported, and then moves at most as much from reserved to
// available. A settlement lowers reserved alone. An attestation counts what is
// outstanding as spent: it lowers reserved alone. So only refill raises
// available + U. It runs at rate R of ledger time at most, which is never faster
// than real time, and it stops where available + reserved reaches the capacity B.
// Hence available + U <= B at all times, and what is admitted in any interval of
// length T, which is the fall of available + U plus what was minted, is at most
// B + R*T.
//
// Lowering the capacity below what is out leaves available at 0; nothing is
// granted until reserved has come down to the new capacity. Until then the old
// capacity is the guarantee.
//
// # After a restore
//
// A store that was restored from an older copy may have lost grants, closes,
// returns, epochs and time, so it bounds neither U nor what is available. Until
// the moment of its declaration the history that was lost kept available + U <= B.
// From then on nothing of that history is granted, so U only falls; the new
// generation has available = 0 and no room ([NewUnknown]). Once every process of
// before has ended, U = 0, and the budget starts at 0 as if all of it had just been
// spent ([NewSpent]). So available + U <= B at every moment, and only refill after
// the attestation raises it: the bound holds over any interval, whatever was lost.
// Where the lost history had a larger capacity than the copy, B is that one for
// intervals that reach back to it.
//
// # Transitions
//
// Each transition takes the ledger time now, first advances the ledger to it
// under the rule and the reserved credit that held until then, and then applies
// itself. (Else a report that frees room would let the time before it earn
// credit for that room.) A now before the last one earns nothing and moves
// nothing. A transition that returns an error has changed nothing but, at the
// most, the clock and the refill that is due anyway.
//
// # Concurrency
//
// Nothing here does I/O, starts a goroutine, takes a lock or reads a clock. A
// ledger belongs to one goroutine at a time.
package lease
