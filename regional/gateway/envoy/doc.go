// Package envoy answers Envoy's rate limit filter: it serves
// envoy.service.ratelimit.v3.RateLimitService over any [decision.Decider].
//
// # Descriptors
//
// Envoy asks with a domain and a list of descriptors, each a list of entries. A
// [Mapping] says which of them is which budget: an account, an operation, and what
// one request costs. It is a strict YAML file, see [ParseMapping]. A descriptor
// matches a rule only if it has exactly the rule's entries, in the same order.
//
// No two accounts share a budget, and none gets a second one, by what is written
// into an entry: an account is one entry's whole value behind a fixed prefix, case
// and all, and a value that could be read as another account is refused. So are
// descriptors that repeat a key, values that are empty, begin or end with a blank
// or have control characters, names that are too long, and overrides of limits.
// Accounts with a prefix of package clientkey are refused as well, unless the rule
// gives that prefix: with "anonymous/" before Envoy's masked_remote_address, the
// account is the one that the other surfaces give the same address.
//
// # Hits
//
// A request that names no hits, or 0, costs what the rule says, 1 unless it says
// otherwise. Hits are tokens. A descriptor's own hits go before the request's; 0
// of them is a query. Hits that are negative are refused: they would mint tokens.
//
// A query asks whether one token would be admitted, and spends nothing. It is a
// decision of cost 0. Where the policy allows none, or where this region holds
// nothing, a reservation of one token is made and settled at 0; a decider that is
// no [decision.Reserver] is then answered with a denial.
//
// # Answers
//
// All descriptors of a request are one decision: all are spent, or none. Those of
// the same budget are added up. There is one status for each, in the same order.
//
//	allowed, fallback, shadow          OK
//	exhausted                          OVER_LIMIT, duration_until_reset is the wait
//	cost above capacity                OVER_LIMIT, without a wait
//	disabled, no policy, invalid       OVER_LIMIT, without a wait
//	refused, unmatched (deny)          OVER_LIMIT, without a wait
//	unavailable, overloaded, the rest  an error, UNAVAILABLE
//
// OVER_LIMIT is what a known denial is: Envoy enforces it whatever its failure
// mode. That nobody could tell is an error, and never told as a used-up budget;
// Envoy denies it only under failure_mode_deny, as the configuration of
// [FailClosedConfig] says. Descriptors that were not decided, because another one
// was refused or a query was denied, have the status UNKNOWN.
//
// Waits are rounded up to whole seconds, at least one: Envoy cuts fractions off.
// The limit is told in a unit where its window is exactly one of Envoy's, a month
// being 30 days there, and a year 365; else the unit is UNKNOWN. Numbers above
// 2^32-1 are told as that.
//
// The reason of everything but a plain admission is told in the dynamic metadata,
// for access logs: "reason", and "shadow" where the policy only watches.
//
// # Late costs
//
// With apply_on_stream_done Envoy charges what a request has cost after the fact,
// and ignores the answer. A rule that is late takes it for that: the traffic has
// happened, so each budget is charged by itself, as much of the cost as there is.
// Under a policy that is not postpaid that is found out in parts, by halves: a
// decision each, until the charge is whole, one token is denied, or the request's
// time is over. If the policy is postpaid and anything at all could be reserved,
// the rest becomes debt. Else it is lost, the answer is OVER_LIMIT, and a metric
// counts the tokens. A request cannot mix late descriptors with others.
//
// Envoy sends the charge for denied requests too. Take the cost from metadata that
// only an admitted request has: Envoy leaves out a charge whose number is missing.
//
// # What it does not do
//
// A request has no identity that survives a retry of the gateway's, so a repeated
// one is charged again. Messages with invalid UTF-8 or above 1 MiB end in an error
// before they are read.
//
// A [Service] may be used by any number of goroutines.
package envoy
