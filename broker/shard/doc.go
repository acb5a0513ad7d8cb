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
//   - Grant IDs begin with their generation, so the copy's older grant counter
//     repeats none.
//
// What a broker grants from the copy before the declaration is outside of this: so a
// restore is declared in the store before a broker serves. HighestHead and epochs
// that the store has not given out stop an undeclared one at the first contact.
//
// # Time
//
// Ledger time continues from the value stored with the last commit, by a clock
// that starts after the read that gave it. Time in which nobody owned the shard
// earns nothing (C2).
package shard
