// Package tally counts decisions by operation and reason, at the price of an
// addition.
//
// # Bounds
//
// An operation has a count of its own only if a policy names it, and at most
// [MaxOperations] have one: the rest is counted as [Other]. So whatever callers ask
// for, the series are bounded (no account ever names one).
//
// # Concurrency
//
// Everything exported may be called concurrently. A count is striped over the
// processors, so that those who count do not wait for one another.
package tally
