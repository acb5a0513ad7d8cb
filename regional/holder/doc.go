// Package holder is the region's side of the protocol: the credit that the hot
// path spends, and the manager that decides what to ask for, return and settle.
// It does no I/O, starts no goroutine and reads no clock; package regional runs
// it, and simulations run it on simulated time.
//
// # Three numbers per grant
//
// Of each grant the manager knows what was issued and what it has returned. The
// hot path has a bound: how much of the grant it may spend in all. What it has
// spent is bound - credit, where credit is the atomic that it subtracts from.
//
//	spent <= bound <= issued - returned
//
// With a journal, bound also stays at or below drawn, the figure that the
// journal has on disk. So whatever a crash leaves behind, the journal's drawn is
// at least what was spent.
//
// # Why the hot path cannot over-admit
//
// Credit enters the atomic only from the manager, and only credit that the
// broker has issued under a grant of this epoch and that has not been returned.
// [Budget.Spend] takes it by compare-and-swap from a balance that covers the
// cost, so the balance never goes below zero and each token is taken once.
// Credit leaves towards the broker by the same atomic: it is taken out before
// the return is reported (contract C5.3).
//
// # Answers
//
// Each budget has at most one request on its way. Its sequence number is unique
// in the epoch; only the answer to the newest request of the budget is applied,
// and once. Grants that have been closed are remembered until the broker
// confirms that they are gone, and answers about them are ignored.
//
// # Concurrency
//
// The methods of [Budget] that are marked so may be called concurrently with
// everything. All of [Manager] belongs to one goroutine.
package holder
