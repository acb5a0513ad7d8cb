// Package shard is the broker's decision logic for one shard: a state machine
// without I/O, goroutines or clocks. A runner feeds it requests, runs the
// transactions it asks for, one at a time, and tells it the outcome; simulations
// do the same on simulated time.
//
// # A cycle
//
// [Shard.Next] takes what is waiting, applies to the ledgers in memory what it
// can, and returns one guarded transaction that records all of it and reads what
// is missing for the rest. [Shard.Result] takes the outcome. Only then do the
// answers leave.
//
// # Why a commit cannot be wrong
//
// Every transaction compares the create revision of the ownership key, so an
// owner whose session is gone commits nothing, whatever it still believes. It
// also compares the revision of the shard's head, which every commit with
// changes rewrites: commits form a chain, and one that is repeated late, by a
// library or a network, finds another head and is refused (contract C3.1).
//
// Reads ride in the same guarded transactions, so what is loaded is the state at
// a known place of the chain. An answer leaves only after a guarded transaction
// that began after its request arrived, even when it changes nothing: else a
// paused owner could tell from memory that a grant is gone which its successor
// counts as live (C3.2).
//
// An error of the store means that the outcome is unknown. Then everything in
// memory is dropped, its requests are answered with [ErrUncertain], and the
// shard is read again before anything else (C6). A transaction that is applied
// after that read is found by the next commit, whose head no longer matches.
//
// # Generations
//
// A restore of the store from an older copy is declared (C6), which starts a
// generation. It may have lost any grant, close, return, epoch or time, so nothing
// of an earlier generation is used any more, and nothing of it can come in:
//
//   - Commits: every transaction compares the generation ([record.Era]). An owner
//     that has not heard of the declaration commits nothing and answers nothing; it
//     finds its guard broken and reads the shard again. No other history of the
//     store, with the same revisions in it, passes that guard either.
//   - Epochs: those of a generation are above all earlier ones, and every fence in
//     memory is at least at their floor, whatever is stored. A process of before
//     hears that it is fenced, whatever head it has seen. Its accounts are
//     confirmed, so that it and its journal can end, and change nothing; its grants
//     are gone.
//   - Budgets: a record tells its generation. One of before, or none, means that all
//     is unknown: nothing is available and all of it is reserved, under a policy
//     raised or lowered as well, until the restore is attested. Nothing is written
//     for a budget until then, so nothing of that time can be read back later.
//   - After the attestation such a budget starts at 0, at the ledger time at which
//     this shard took over the attestation, and refills: it is a copy of its
//     operation's template, which has every later version of the policy installed.
//     A full record is dropped only while the template is full too; no template is
//     ever more than full, so a dropped record is never worth more than it was.
//   - A template is of accounts without a record, and of the policies that they have had
//     all the time. One that has a record may have been under others, and got it at any
//     time: what its budgets have spent counts as spent when they are first asked for.
//     That is recorded then, and never dropped again. So after a restore such an account
//     begins each budget with nothing, however late it comes: a bucket refills, a window
//     has to pass, and a quota has to be handed out anew, as every quota has.
//   - Grant IDs begin with their generation, so the copy's older grant counter
//     repeats none.
//
// What a broker grants from the copy before the declaration is outside of this: so a
// restore is declared in the store before a broker serves. HighestHead and epochs
// that the store has not given out stop an undeclared one at the first contact.
//
// # Policies
//
// Which policy rules a budget, and under which version, is told by package policyset
// from what is decided for many accounts, which every shard has read, and the record
// of the budget's own account, which is read with the budget. A ledger takes up higher
// versions only ([lease.Ledger.Install]), and what C8 promises rests on that: a version
// that fell would leave it under the terms of before for good, and one that stayed
// while the terms changed would hide the change. So the version of a ruling has to rise
// with every change of its terms and never fall, which it does along the chain of
// changes (policyset argues that), and a shard has to see each budget at places of
// that chain, in order: what it has read of the policies and of the account must be
// as both stood at one version. accounts.go says how it sees to that without a watch.
// A new owner reads all of it again, in transactions that began after the last commit
// of its predecessor, so it begins no earlier in the chain.
//
// Answers are under a version from the transaction that read it on. Budgets that are
// stored, have credit out and are not in memory are brought to it by a spread, which
// hints their holders; then the head says that the shard has taken the version up.
// Holders tell which version they have installed, and are hinted again at every beat
// until they do.
//
// # Deadlines
//
// Under a policy with a deadline a silent holder's credit counts as spent in the end
// (lease/lapse.go has the argument). Each answer about a grant that its holder may apply
// notes until when it may go by it, by what the holder has said to go by and by the policy in
// the answer, in the commit before the answer leaves. What lasts for how long is stored;
// when it ends is in memory, since an owner that takes over, or reads the shard again,
// waits for all of it from then on: every answer that a holder can still get was made
// before. Requests that wait are worked on before anything lapses.
//
// # What is shown
//
// A shard remembers what operators ask for and nobody decides from: when holders were
// heard, what happened to grants, how fast budgets are spent. It is in memory, bounded,
// and of commits that were applied; it costs no transaction, and a report of a grant
// that is known no memory.
//
// # Time
//
// Ledger time continues from the value stored with the last commit, by a clock
// that starts after the read that gave it. Time in which nobody owned the shard
// earns nothing (C2).
package shard
