// Package decision is the vocabulary of a decision: what a gateway asks, what it
// is answered, and who answers.
//
// A limiter in the process ([regional.Limiter]) and a client of a limiter over
// RPC ([remote.Client]) are both a [Decider], and every form that gateways speak
// is written over that alone.
//
// # Units
//
// Tokens are whole, in int64. A wait is a duration from the moment at which the
// answer was made; RetryAt is the same as a point in time by the wall clock of
// whoever made the answer. A wait is never too short.
//
// # A missing answer is no permission
//
// The zero Answer denies. Whoever cannot get an answer makes one with
// [Unavailable].
//
// [regional.Limiter]: https://pkg.go.dev/github.com/tokenlease/tokenlease/regional#Limiter
// [remote.Client]: https://pkg.go.dev/github.com/tokenlease/tokenlease/regional/gateway/remote#Client
package decision
