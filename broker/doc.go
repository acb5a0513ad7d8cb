// Package broker is the global side of tokenlease: it owns shards of the budgets,
// decides what each holder gets, and records every decision in a store before it
// answers.
//
// # Structure
//
//	Connect handlers (service.go, admin.go)
//	  -> the shard's owner, here or at another broker (forward.go)
//	    -> one runner per owned shard (runner.go)
//	      -> decisions, without I/O (package shard, over package lease)
//	        -> one guarded transaction at a time (package store)
//
// Package record says what is stored where. Package etcdstore is the store on
// etcd, embedded or external.
//
// # Ownership
//
// Each broker has a session in the store. Live brokers share the shards by
// rendezvous hashing; a broker creates the ownership key of a shard that is its
// own and has no owner, bound to its session, and gives up shards that belong to
// a broker that has joined. Sessions only elect: what protects is that every
// commit compares the ownership key and the head of the shard. An operator may give
// a shard to a broker (shards.go): while that one is live, it goes before the hash.
//
// # Seeing
//
// What operators are shown is read from the store, at one revision an answer (view.go,
// list.go). Lists are paged by key, so pages are stable, and a call reads a bounded
// number of keys: a filter that few pass gets pages that are not full. Filters that the
// order of keys serves are cheap: region, instance and grant ID; and an account, whose
// budgets list their grants.
//
// What is not worth a commit is kept by the owners of the shards, in memory: when a
// holder was heard (heard.go), what happened to a grant (explain.go), and how fast a
// budget is spent (top.go). Whoever is asked asks the others, each for its own shards
// (ask.go), and names the shards that did not answer. An owner knows of nothing from
// before it began, and says since when that is.
//
// # Acting
//
// What an operator does is one transaction with its audit entry: whose word it is,
// whether a certificate vouches for that, why, and what stood before and after.
// Retiring a holder (retire.go) is many: the fence, and then each of its grants, by the
// owner of its shard; it is repeated until nothing is left. The owner of shard 0 deletes
// audit entries that are too old or too many (auditkeep.go). Denied attempts are
// never stored.
//
// # Concurrency
//
// Everything exported may be called concurrently.
package broker
