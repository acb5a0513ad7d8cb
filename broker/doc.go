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
// commit compares the ownership key and the head of the shard.
//
// # Concurrency
//
// Everything exported may be called concurrently.
package broker
