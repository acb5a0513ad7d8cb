// Package lease is the pure core of tokenlease: the ledger of one budget, the
// grants that it is split into, and the rule by which it is shared.
//
// # Words
//
// A budget is one global allowance, named by a [Key]. Its [Ledger] holds what is
// available to hand out and the grants that are out. A [Grant] is credit held by
// one epoch of one holder. Its counters issued, spent and returned only ever
// grow; outstanding = issued - spent - returned is what its holder may still
// spend. The sum of outstanding over the grants of a budget is reserved. A fourth
// counter, owed, is what its holder has used beyond its reservations, under a policy
// that allows it; what is not paid of that is the budget's debt.
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
//	available = 0  or  available + reserved + counted <= capacity
//	debt >= 0, and debt = 0  or  available = 0
//
// where counted are the spent tokens that a window still counts: none in a bucket.
// In a bucket, the fraction of a token is 0 unless there is room for one more. For
// the other kinds, available is exactly what the capacity leaves.
//
// # Why the regions together never exceed the cap of a bucket
//
// Let U be the true unspent credit in the regions. A holder spends only what it
// was issued and has not returned, and its reports never run ahead of what it
// did, so U <= reserved at every moment, whatever messages are lost, late or
// repeated: counters are cumulative and merged by max, so an old report changes
// nothing, and a repeated one changes nothing twice.
//
// A spend lowers U. A grant moves credit from available to U. A return lowers U
// before it is reported, and then moves at most as much from reserved to
// available. A settlement lowers reserved alone. An attestation, or a deadline that has
// passed, counts what is outstanding as spent: it lowers reserved alone, and the holder
// spends no more of it then, so that U falls with it. (Why it does not, where a policy has a
// deadline, is told in lapse.go.) So only refill raises
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
// # Why no rolling window admits more than its limit
//
// A token that is spent at x is settled at some s >= x, when a report of it is
// applied. From x to s it is reserved, and from s to s+W, or later, it counts. So at
// any moment t every token that was spent in (t-W, t] is reserved or counts. A grant
// is made only of what is available, so reserved + counted <= L holds after it, and
// nothing else raises the sum: a return lowers reserved; a settlement, an
// attestation, a deadline and a journal's account move tokens from reserved to counted; a
// release lowers counted. So at most L are spent in (t-W, t]. (Ledger time is never
// faster than real time, so W of ledger time is at least W.) Releases are kept in a
// bounded list, for which some are put off, and none is put forward ([Release]).
//
// # Why no period of a fixed window admits more than its limit
//
// What is settled counts until the period ends in which that happens; what is out
// at a boundary goes on being reserved, and is charged to the new period. A token
// that is spent in a period is settled in it or later, so all that a period spends
// is, at its end, counted in it or still reserved. Their sum was at most L at each
// grant, and grants alone raise it. Periods only ever follow one another
// ([Ledger.Turn]): a wall clock that is set back does not enter one twice, and one
// that is wrong moves boundaries and nothing else.
//
// # Why no more than the slots are held at the same time
//
// A slot that is in use is outstanding: it is never spent. A holder gives a slot
// to other work, or back, only after its work has ended or its time is over. After
// a crash the slots that were drawn stay reserved until it is attested that their
// work has ended. Work that another kind of rule has admitted holds no slot.
//
// # Why debt makes nothing more admissible
//
// What is owed was used without credit, so none of the above holds for it: a policy
// that is postpaid is not strict. For all the rest it holds as it stands. Debt enters
// no sum of the above; while there is any, nothing is granted; and it is paid only by
// destroying tokens that are available or would be, at the time at which they are: of
// a window they count as spent then, and a bucket's refill is lost. Each argument
// allows that any available token is granted and spent at any time, and so it allows
// that.
//
// It is paid exactly. In a bucket refill pays before it fills, while there is room;
// in a rolling window each token pays at the time at which it leaves; in a fixed
// window each period pays once, whether the ledger was told of it or not. Nothing is
// lost beyond what is owed. It is charged once, whatever becomes of its messages, since
// its counter is cumulative and merges by max; a grant that has ended owes nothing more.
//
// # Changes of policy
//
// Between numbers of one kind, what is out and what counts is kept. What a higher
// limit of a window or of slots leaves is available at once, since what was spent is
// remembered exactly; a bucket remembers it as room, which only refill may fill. A
// rule of another kind starts as if all that is not out had just been spent; slots,
// which are not spent, start free but for what is out. A debt stays, but slots are not
// owed: under them it is dropped.
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
// intervals that reach back to it. A debt of that history is forgotten with it.
//
// # Transitions
//
// Each transition takes the ledger time now, first advances the ledger to it
// under the rule and the reserved credit that held until then, and then applies
// itself. (Else a report that frees room would let the time before it earn
// credit for that room.) Whoever applies an account has read now after it came. (Else
// it would be settled at a time before that at which its last token was spent, and
// come back so much too early.) A now before the last one earns nothing and moves
// nothing. A transition that returns an error has changed nothing but, at the
// most, the clock and the refill or the releases that are due anyway.
//
// # Concurrency
//
// Nothing here does I/O, starts a goroutine, takes a lock or reads a clock. A
// ledger belongs to one goroutine at a time.
package lease
