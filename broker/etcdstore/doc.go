// Package etcdstore is the store of the broker on etcd: Open connects to a
// cluster, StartEmbedded runs a cluster of one member inside this process.
//
// # Transactions are sent once
//
// The Go client of etcd retries unary calls up to a configured number of
// attempts. Here that number is one: no transaction is ever sent twice by the
// client. (gRPC itself sends a call again only if it never left this process, or
// if the server says that it has not seen it.) Every transaction should
// nevertheless compare something that it changes, so that a repetition by
// anything else on the way is refused.
//
// # Transactions go through the log
//
// etcd answers a transaction that changes nothing from one member's state, and
// one that holds no operation at all without even asking the other members, so
// that a member cut off from its cluster reports a guard as holding that no
// longer does. Txn therefore adds to each transaction without changes a deletion
// that never deletes, in the branch for refusal: it makes the transaction a write,
// which takes its place in the cluster's log. It raises no revision, and passes
// also when the cluster is out of space. Its key is the first key of the
// transaction followed by the byte 0, so it needs no permission of its own.
//
// # Unknown outcomes
//
// Every error but store.ErrTooLarge and store.ErrInvalid leaves the outcome
// unknown, also those by which etcd says that it refused: NOSPACE, a deadline, a
// lost leader.
//
// # Units
//
// Durations are time.Duration, etcd's leases count whole seconds and at least
// 2 s. Sizes are bytes.
//
// # Concurrency
//
// All exported methods may be called concurrently. Values that are read may be
// shared: never write to them.
package etcdstore
