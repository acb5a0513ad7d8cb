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
// # Time
//
// Ledger time continues from the value stored with the last commit, by a clock
// that starts after the read that gave it. Time in which nobody owned the shard
// earns nothing (C2).
package shard
