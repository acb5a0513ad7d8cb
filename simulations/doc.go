// Package simulations runs the real broker and regional code in one thread, on
// simulated time, network, disks and store, and checks what must hold after
// every event.
//
// # The world
//
// A [World] has brokers, which may own shards (package broker/shard over the
// store in memory); sites, each one holder name whose processes run the real
// manager and hot path (package regional/holder) over a simulated journal; a
// network that loses, repeats, delays and reorders requests and answers; and an
// operator, who changes policies and attests. Everything happens in events on
// one heap. One seed gives one run, to the bit: [World.Hash] proves it.
//
// # Time
//
// [World.Now] is real time since the cluster was created. Every broker and every
// process has a monotonic clock of the same rate and an origin of its own, and a
// wall clock that says anything.
//
// # What is checked
//
// After every transaction that the store applied: every ledger's invariants
// (lease.Ledger.Check), each step between successive states of one budget
// (lease.CheckStep), that grant IDs only ever grow, and that ledger time is not
// ahead of real time. After every event of a process: what its epoch could still
// spend of a grant is at most what the store has reserved for it, summed over
// all processes that live, however outdated they are. At every admission: a
// [Judge] that knows nothing of the protocol, an ideal bucket on real time. At
// the end, when all faults have stopped: unknown credit is resolved wherever a
// proof exists, live holders have nothing reserved beyond what they hold, and
// whoever waits is served.
//
// # What is not simulated
//
// A live clone of a journal, and a restored one under `journal: block`: both are
// beyond proof, and documented as such.
package simulations
