// Package store is the seam between the broker and the ordered, transactional
// key space it records its decisions on.
//
// There are two implementations: Memory in this package, for tests and
// simulations, and the one of package etcdstore, over a real etcd cluster. Both
// pass the suite of package storetest. Faulty wraps either and lets a test lose,
// delay, repeat or hide the outcome of a transaction.
//
// # Vocabulary
//
// Keys are UTF-8 paths without the byte 0, values are opaque. A transaction is a
// list of compares and a list of operations: all of it applies in one step, or
// nothing does. Every transaction that changes something raises the store's
// revision by one, and all its changes carry that revision; a transaction that
// only reads, or that was refused, does not raise it. A key remembers the
// revision that created it and the one that last changed it; deleting and
// putting it again starts a new life, with a new create revision.
//
// # Units
//
// Revisions count from 1, the revision of an empty store. Sizes are bytes,
// limits are numbers of keys or operations, times to live are durations.
//
// # What is not promised
//
// An error of Txn says nothing about its outcome, unless it is ErrTooLarge or
// ErrInvalid. Watches are late by an unknown time. A session's end is noticed
// late by its holder: its keys may be gone, and a successor elected, before Done
// fires. Only the compares of a transaction protect.
package store
