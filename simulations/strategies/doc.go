// Package strategies runs other ways of sharing a budget through the same
// scenarios: the same arrivals, clocks, round trips and faults. They show what a
// scenario is worth, and what strictness costs.
//
// They are models of a kind of system, not of one product, and small on purpose.
// Where systems of a kind differ, the model takes the kinder choice, and says so.
// One of them is no system at all: the oracle is what no network could have, and
// the measure for the others.
//
// # What is the same for all
//
// A check that arrives at a limiter which does not run is unavailable; at one that
// is paused it waits until that goes on. A limiter started twice takes turns with
// itself. Policies reach everyone at once, which is kinder than real roll-outs.
// Wall clocks are read by nobody, and nobody has a journal; what a scenario says
// of these changes nothing here.
//
// Those that need a central place have it at one of the scenario's brokers: the
// first, until it is silent towards the store for longer than a session lives;
// then at the next. Two kinds of systems are one here. A broker that takes over
// knows nothing of what was before, as where that is in memory: so an outage of the
// store alone disturbs nobody. And a store that is set back sets that back, too, as
// where it is in a database.
//
// A run is single-threaded and depends on the scenario and the seed alone.
package strategies
