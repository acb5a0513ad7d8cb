// Package policyfile reads and writes policies, plans and accounts as YAML, strictly.
//
// A file has one or more of these, in any order:
//
//	policies:                 # for everybody
//	  - operation: report.create
//	    token-bucket: {capacity: 40, refill: 20 per 1s}
//	plans:
//	  - plan: premium
//	    policies:             # left out: none, so those for everybody
//	      - operation: report.create
//	        token-bucket: {capacity: 400, refill: 200 per 1s}
//	default-plan: premium     # of accounts without a plan; "" is none
//	accounts:
//	  - account: Acme
//	    plan: premium         # left out: the default plan
//	    policies:             # left out: none of its own
//	      - operation: report.export
//	        concurrency: {slots: 2}
//
// A policy of an account goes before that of its plan, and that before the one for
// everybody. What a file does not name is not its matter. A plan, and what an account
// has of its own, is named as a whole: what stands there is all of it.
//
// Names keep their case: Acme and acme are two accounts. A name that YAML takes for
// something else than a text, such as 007, 1e3, true or null, is refused unless it
// stands in quotes.
//
// A policy looks like this; what may be left out is said behind it:
//
//	policies:
//	  - operation: report.create
//	    token-bucket:
//	      capacity: 40
//	      refill: 20 per 1s     # left out or 0: a fixed quota
//	    cost: 5                 # left out: 1
//	    max-cost: 40            # left out: no limit but the capacity
//	    allow-zero-cost: false  # left out: false
//	    max-share: 100%         # left out: 100%
//	    hold: 60s               # how long a reservation or a slot lasts; left out: 60s
//	    postpaid: false         # left out: false
//	    shadow: false           # left out: false
//	    disabled: true          # left out: false
//	    disabled-because: abuse # only with disabled: true
//	    max-staleness: 30s      # how long credit is spent without news; left out: no limit
//	    reclaim: deadline       # left out: proof
//	    reclaim-margin: 15s     # only with deadline, and needed there with max-staleness
//	    on-unavailable: local   # left out: reject
//	    local:                  # only with local, and needed there
//	      capacity: 5
//	      refill: 1 per 1s      # left out or 0: none
//	      for: 10m
//
// A policy has one rule. These are the others:
//
//	fixed-window:
//	  limit: 1000
//	  period: day              # minute, hour, day, week or month
//	  time-zone: Europe/Berlin # left out: UTC
//
//	rolling-window:
//	  limit: 3
//	  window: 60s
//
//	concurrency:
//	  slots: 10
//
// The units of a length of time are ns, us, ms, s, m, h and d, a day of 24 hours.
//
// Strict means that nothing is guessed. YAML readers turn 1.5 into 1, 010 into 8
// and nothing into 0, and a mistyped field into no field at all. Each of them
// would silently be another limit than the one that was meant. Here every number
// of tokens is a plain decimal, every field is known and stands once, and a file
// with one fault yields no policy, but all the faults, each with its line.
//
// [Parse] fills in what was left out, so that two files which mean the same give
// equal documents, and [Format] writes what Parse reads. A policy as JSON has the
// same fields; [JSON] writes it, and [ReadPolicy] reads it.
package policyfile
