// Package simulations runs the real broker and regional code in one thread, on
// simulated time, network, disks and store, and checks what must hold after
// every event.
//
// # The world
//
// A [World] has brokers, which may own shards (package broker/shard over the
// store in memory) and register holders (package broker, as a coroutine); sites,
// each one holder name whose processes run the real manager and hot path (package
// regional/holder) over a simulated journal; a network that loses, repeats, delays
// and reorders messages, each direction on its own; and an operator, who changes
// policies and attests. Everything happens in events on one heap. One seed gives
// one run, to the bit: [World.Hash] proves it.
//
// There are two kinds of world. In a swarm ([Draw], [Search]) the seed draws a
// small world, and which faults happen in it and when. In a scenario ([Play]) a
// file says all that, and the run is measured.
//
// # Work
//
// Where a limiter holds slots or a reservation for a check, its work goes on outside,
// for a random time: it ends, or takes longer than the policy gives it, and it does not
// end when its process does. What a reservation uses is used at its start or at its
// end. Only when the work has ended does the operator attest it.
//
// # Time
//
// [World.Now] is real time since the cluster was created. Every machine has a
// monotonic clock with an origin of its own, which may be slow and stands still
// while the machine sleeps, but is never fast: that is the premise of contract C2.
// Its wall clock says anything.
//
// # What is checked
//
// After every transaction that the store applied: every ledger's invariants
// (lease.Ledger.Check), each step between successive states of one budget
// (lease.CheckStep), that grant IDs only ever grow, that fences only rise, that
// ledger time is not ahead of real time, and that periods lie where the calendar has
// them. After every event of a process: what its epoch could still spend of a grant is
// at most what the store has reserved for it, summed over all processes that live,
// however outdated they are, or nothing by the process's clocks where the grant has
// lapsed; and slots that work holds are reserved for its epoch,
// though its process may be dead. At every registration: each epoch goes to one start.
// At every admission: a judge (package judge) that knows nothing of the protocol, and
// holds the rule of the budget, of any kind, against real time. At the
// end, when all faults have stopped: unknown credit is resolved wherever a proof
// exists, live holders have nothing reserved beyond what they hold, and whoever
// waits is served.
//
// After a restore that nobody has declared the checks that compare the store with
// what came before it rest: such a restore is beyond what the contract protects,
// until the first contact that knows better stops the shard. What was admitted is
// still measured.
//
// # What is not simulated
//
// A live clone of a journal, and a restored one under `journal: block`: both are
// beyond proof, and documented as such.
package simulations
