package scenario

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// Scenario is one file: a world, what is asked of it, what goes wrong in it, and
// what must come of that. Parse makes it complete: defaults are filled in and
// names are checked.
type Scenario struct {
	File     string // as given to Parse
	Title    string // one line
	Lesson   string // what it teaches, in a few sentences
	Seed     uint64 // that it runs with unless told otherwise; default 1
	Duration time.Duration
	// Mixed leaves everything else to the seed, which draws a small world and its
	// faults: the scenario of the search for bugs.
	Mixed bool

	Shards    uint32 // default 1
	Regions   []Region
	Brokers   []Broker // default: two, broker-1 and broker-2
	Links     []Link   // exceptions from the regions' round trips
	Store     Delay    // round trip of a commit; default 2ms
	Policies  []lease.Policy
	Workloads []Workload
	Faults    []Fault
	Expect    []Expectation
}

// Region is where limiters run.
type Region struct {
	Name     string
	Limiters int    // 1 or more; default 1. Their instance names are "1", "2", ...
	Journal  string // block, confirm or off; default block
	// RoundTrip between its limiters and any broker. Default 20ms.
	RoundTrip Delay
	// Wait is how long a check waits for credit at the most. Default 500ms.
	Wait  time.Duration
	Clock Clock
}

// Broker is one broker process. All of them want all shards.
type Broker struct {
	Name  string
	Clock Clock
}

// Clock of a process. Its monotonic clock has an origin of its own anyway.
type Clock struct {
	Wall time.Duration // the wall clock is this much ahead of real time; may be negative
	// SlowPercent is by how much the monotonic clock is slow: 0 to 50. (A fast
	// one would break the premise of contract C2, and the cap with it.)
	SlowPercent int
}

// Delay is a distribution of round trips. A message takes half of one.
type Delay struct {
	Base time.Duration
	// Jitter is the mean of what comes on top, exponentially distributed.
	Jitter time.Duration
}

// Link is the round trip between two ends, other than their region's.
type Link struct {
	Line      int
	Ends      [2]string // see Fault.Ends
	RoundTrip Delay
}

// Arrivals says how the checks of a workload arrive.
type Arrivals string

// The ways of arriving.
const (
	Poisson Arrivals = "poisson" // independent of one another; the default
	Steady  Arrivals = "steady"  // in equal intervals
	Bursts  Arrivals = "bursts"  // Burst at once, then a pause
	Diurnal Arrivals = "diurnal" // Poisson, at a rate that swings once a Period
	Times   Arrivals = "times"   // at given moments
)

// Workload is a stream of checks of one operation.
type Workload struct {
	Line      int
	Operation string
	Arrivals  Arrivals
	Rate      lease.Rate // checks over all regions and accounts, on average
	Burst     int        // Bursts: checks that arrive at once
	Period    time.Duration
	// LowPercent is the lowest rate of Diurnal, in percent of the highest, which
	// is Rate. Default 10.
	LowPercent int
	Times      []time.Duration // Times, in order
	// Accounts is how many accounts there are; each has a budget of its own.
	// Default 1.
	Accounts int
	// Zipf is the exponent by which some accounts are asked for more than others;
	// 0 for all alike.
	Zipf float64
	// Regions that the checks arrive in, by weight. Default: all alike.
	Regions []Weight
	// Rotate moves the weights on by one region each time it has passed; 0 never.
	Rotate time.Duration
	// Cost of a check, drawn evenly from Cost to MaxCost, in tokens. Default: the
	// policy's default cost.
	Cost, MaxCost int64
	// Work is how long what is admitted holds its slots, under a policy that has
	// some from the beginning. Default 1s.
	Work        time.Duration
	From, Until time.Duration // default: from 0 to the scenario's Duration
}

// Weight is a region's part of a workload.
type Weight struct {
	Region int // index into Scenario.Regions
	Weight int
}

// Kind is a kind of fault, by the name of its field in the file.
type Kind string

// The kinds of faults.
const (
	Cut     Kind = "cut"     // messages between two ends are lost
	Mess    Kind = "mess"    // messages between two ends are lost, repeated or late, by percent
	Pause   Kind = "pause"   // a process stands still, and goes on as if nothing had been
	Freeze  Kind = "freeze"  // likewise, and its monotonic clock with it: the machine sleeps
	Crash   Kind = "crash"   // a process dies
	Stop    Kind = "stop"    // a limiter ends in order
	Zombie  Kind = "zombie"  // a limiter is started twice, on two disks; the old one runs on
	Expire  Kind = "expire"  // a broker loses its session, and notices after For
	StoreIs Kind = "store"   // the store is in trouble: see Trouble
	Restore Kind = "restore" // the store goes back to what it was Age ago
	Policy  Kind = "policy"  // another version of a policy
	Attest  Kind = "attest"  // an operator attests that a holder's dead epochs are gone
	Wall    Kind = "wall"    // a wall clock steps
)

// Trouble of the store.
type Trouble string

// The troubles. In each, no commit gets an answer that tells its outcome.
const (
	Outage    Trouble = "outage"    // nothing is applied
	NoSpace   Trouble = "no-space"  // an error comes back; some are applied all the same
	Uncertain Trouble = "uncertain" // no answer; some are applied, some late, some never
	Slow      Trouble = "slow"      // answers are right, and take a second longer
)

// Fault is one thing that goes wrong, or that an operator does, at a moment.
type Fault struct {
	Line int
	At   time.Duration
	For  time.Duration // how long; 0: to the end, or a moment for kinds that are one
	Kind Kind
	// Target is whom it happens to: a region (all its limiters), a limiter
	// ("eu/2"), a broker, or "brokers".
	Target string
	// Ends of a Cut or Mess: as Target, or "store".
	Ends   [2]string
	OneWay bool // Cut: only what the first end sends to the second is lost
	// Mess, in percent of messages: lost, delivered twice, and delayed by up to
	// Delay (which may be hours), in any order.
	Loss, Duplicate, Late int
	Delay                 time.Duration

	Back    time.Duration // Crash, Stop: started again after; 0: never
	Journal string        // Crash, of limiters: kept (default), fresh or older
	Trouble Trouble
	Age     time.Duration
	// Restore: it is declared in the same moment (contract C6), and attested after
	// so long, when every process of before has been ended; 0: not in this run. An
	// undeclared one is told to nobody.
	Declared bool
	Attested time.Duration
	Policy   lease.Policy // Policy: complete, with its version
	Step     time.Duration
}

// Expectation bounds one quantity of a run.
type Expectation struct {
	Line     int
	Quantity Quantity
	Strategy string // whose run it is about; default "tokenlease"
	Region   string // of this region alone; empty: of all
	// Of what happened in [From, Until), or of a balance at Until. Default: the
	// whole run.
	From, Until time.Duration
	// AtLeast and AtMost bound the quantity, inclusive; nil: no bound. Units are
	// those of the quantity: durations in seconds.
	AtLeast, AtMost *float64
}

// Quantity is what an expectation is about.
type Quantity string

// The quantities.
const (
	Admitted    Quantity = "admitted"     // tokens
	Exhausted   Quantity = "exhausted"    // checks denied since the budget is used up
	Unavailable Quantity = "unavailable"  // checks that no safe authority could be asked for
	FalseDenied Quantity = "false-denied" // checks not admitted that the oracle admits
	Available   Quantity = "available"    // tokens, a balance
	Held        Quantity = "held"         // tokens reserved for live epochs, a balance
	Unknown     Quantity = "unknown"      // tokens reserved for dead epochs, a balance
	Excess      Quantity = "excess"       // tokens above an ideal bucket at the worst moment
	Utilisation Quantity = "utilisation"  // admitted, in percent of the oracle's
	Recovery    Quantity = "recovery"     // seconds until every region was admitted again
	Stopped     Quantity = "stopped"      // shards that serve no more since the store was set back
)
