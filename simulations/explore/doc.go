// Package explore enumerates every history of a small scope on the real ledger,
// shard and limiter code: any message is delivered any number of times or never,
// in any order, and between any two events time may pass, a commit may be
// doubtful, the ownership may change, a process may crash.
//
// # Words
//
// A [Scope] bounds what happens; what it allows happens in every order. A state
// is the world between two events: the store, the owners of the shard (current
// and not), the processes of the limiters, their disks, the judge, the messages
// and late commits on the network, and how much of the scope is used up. An event
// leads from a state to the next, and runs the real code until it is at rest.
//
// # What is checked
//
// After each event: what was admitted conforms to an ideal bucket (package
// judge); what is available in the store and unspent in living processes could
// be admitted at once (contract C1), so that a fault shows before the credit it
// made up is spent; the unspent credit of each grant is reserved, until it has
// lapsed and its process's clocks let it spend nothing of it. After each
// commit: the ledger's invariants and steps (lease.CheckStep), grant IDs are
// new, fences and ledger time only rise, ledger time is not ahead of real time,
// and a record goes only when it is full. No honest process is accused of a
// contradiction, and no honest store of having been set back.
//
// # How it is quick
//
// States are made of parts that are shared by all states which have them, and
// what a part does on an input is remembered, so the real code runs once for
// each pair of part and input: some ten thousand times in a search of millions
// of events. A part is copied deeply before the code changes it, fields that are
// not exported included, and is known by a fingerprint of its content.
//
// The search is breadth first: the first violation has the shortest history.
// The states found before are known by fingerprints of 128 bits; that two states
// of a search share one is less likely than a fault of the machine.
//
// # Caveats
//
// An owner is looked at only at rest: requests do not hang, hints have no
// subscribers, and a commit's outcome is known, or in doubt, before anything
// else happens to its owner. A registration takes one step. Time moves by whole
// seconds. Clocks of processes are late all alike, and none stands still. Longer histories, and more than one budget or shard, are the business
// of package simulations.
package explore
