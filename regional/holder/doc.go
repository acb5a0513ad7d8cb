// Package holder is the region's side of the protocol: the credit that the hot
// path spends, and the manager that decides what to ask for, return and settle.
// It does no I/O, starts no goroutine and reads no clock; package regional runs
// it, and simulations run it on simulated time.
//
// # Three numbers per grant
//
// Of each grant the manager knows what was issued and what it has returned. The
// hot path has a bound: how much of the grant it may spend in all. What it has
// spent is bound - credit - held, where credit is the atomic that it subtracts from,
// and held is what callers have reserved or use as slots.
//
//	spent <= spent + held <= bound <= issued - returned
//
// With a journal, bound also stays at or below drawn, the figure that the
// journal has on disk. So whatever a crash leaves behind, the journal's drawn is
// at least what was spent.
//
// # Why the hot path cannot over-admit
//
// Credit enters the atomic from the manager, and only credit that the broker has
// issued under a grant of this epoch and that has not been returned. (What comes back
// from holds is treated below.)
// [Budget.Spend] takes it by compare-and-swap from a balance that covers the
// cost, so the balance never goes below zero and each token is taken once.
// Credit leaves towards the broker by the same atomic: it is taken out before
// the return is reported (contract C5.3).
//
// # Holds
//
// A hold is credit that is out of the balance, and neither spent nor free until it is
// settled: a reservation of work whose cost is not known yet, or the slots of work
// that goes on. [Budget.Hold] takes it as a spend is taken; [Budget.Settle] spends the
// cost and puts the rest back. So a token can come back into the balance after it
// has left, and the argument above needs two more parts.
//
// First: what is told as spent is spent for good, since the broker refills it. A
// token that is held is not told as spent. The two numbers that this takes are read
// as of one instant: see the type holds in hold.go.
//
// Second: nothing comes back to a balance that it was not taken from. Holds are of
// the live grant. When that ends here (it is closed, gone, contradicted, or the epoch
// ends), they lose their claim under the lock under which they are settled, before
// the balance is emptied, and nothing is held until credit of the next grant is
// admitted. What was held as tokens counts as spent then. Slots stay reserved at the
// broker under the grant's ID, which is remembered for the epoch; contract C4 says
// what gives them free.
//
// A hold whose time is over is settled by the manager, never early and within
// ReportWithin: tokens count as spent, slots go back, as the policy declares.
//
// The broker is told what is held, and levels, wants and needs are of free credit. A
// grant is not closed for idleness or for its counters while anything is held.
//
// # Debt
//
// A settlement may be above its hold where the policy is postpaid. The excess is
// taken from the balance, and what that does not cover is owed. The manager is
// signaled, and tells it in the next report, at most SyncInterval after the one before,
// as one more cumulative counter of the grant. Until then what would enter the balance
// pays it first, and counts as spent. Once it is told it is the ledger's to collect,
// before more of the budget is handed out to anybody; what this region holds by then
// may be spent, as any credit that is held. The type holds in hold.go says why each
// token of debt is paid once.
//
// A debt lives as long as the process until it is reported, and then as long as the
// ledger. So a crash loses what was settled since the newest report, while an
// orderly stop, the end of a grant here and a lost answer keep it. It is dropped when
// the policy becomes one of slots. Where the broker has ended the grant on its own, what
// was settled since the newest report has no grant to be told under: the next grant of
// the budget pays it, and if there is none before the budget goes idle, or the epoch
// ends, it is given up as in a crash. Such a budget is not strict.
//
// # Kinds of rules
//
// When an answer's policy is of another kind than the one before, the grant is closed
// before anything of the answer is taken over. So tokens are never used as slots, nor
// slots as tokens: [Budget.Hold] refuses the one under the other's rule, and
// [Budget.SpendAllowed] takes no slot. ([Budget.Spend] asks nothing: a check that
// looked at the policy before the change may still spend a slot, once, which is lost
// until its grant ends, and never in use twice.)
//
// # Staleness
//
// A policy may bound how old the broker's newest answer on a budget may be while credit
// is spent by it. The bound counts from a reading of the host's clocks that was taken
// before the request was made, and whichever clock has moved furthest since then ends
// it: see the type until. It is in place before credit of the answer is. After it the
// credit stays where it is and cannot be taken: neither spent nor held; what is held may be
// settled. A check that waits has the broker asked, whose answer starts the bound anew. A
// budget that has a grant asks after a third of the bound by itself, and its requests
// hang no longer than that; when it is idle for long enough its grant is closed.
//
// Each report tells the bound that is in place, since under a deadline the broker counts
// what a silent holder has as spent afterwards: it needs to know by what the holder goes
// until it has the next answer. Where slots are held, nothing bounds the work.
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
