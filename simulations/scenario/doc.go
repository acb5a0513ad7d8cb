// Package scenario describes simulated worlds, and reads them from YAML files,
// strictly: what cannot be meant is refused with its line, its field and what
// would be right.
//
// A file looks like this; only what has no default is required, and
// simulations/README.md shows every field:
//
//	title: A region goes dark
//	lesson: >
//	  What the lost region may still hold stays reserved.
//	duration: 60s
//	regions:
//	  - {name: eu, round-trip: 20ms}
//	  - {name: us, round-trip: {base: 90ms, jitter: 10ms}}
//	policies:                      # as in a policy file
//	  - operation: report.create
//	    token-bucket: {capacity: 40, refill: 20 per 1s}
//	    cost: 5
//	workload:
//	  - operation: report.create
//	    rate: 6 per 1s             # checks; arrivals: poisson unless said
//	    regions: {eu: 70, us: 30}  # by weight
//	faults:
//	  - {at: 20s, for: 10s, cut: [us, brokers]}
//	  - {at: 40s, crash: eu/1, back: 5s, journal: fresh}
//	expect:
//	  - {unavailable: us, from: 22s, until: 30s, at-least: 1}
//	  - {excess: tokenlease, at-most: 0}
//
// Each fault and each expectation is of one kind, named by one field; its value is
// whom it is about: a region, a limiter such as eu/1, a broker, brokers, or the
// store.
package scenario
