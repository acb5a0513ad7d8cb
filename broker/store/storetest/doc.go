// Package storetest is the suite that every implementation of store.Store
// passes: the semantics that the broker's safety rests on, one subtest each.
//
// The suite leaves its keys in the store, under a prefix of the caller's choice
// and one folder for each subtest, and removes the keys of earlier runs from
// there first. So one etcd serves many suites, one after another. Compaction is
// store-wide: do not run two suites over one store at the same time.
package storetest
