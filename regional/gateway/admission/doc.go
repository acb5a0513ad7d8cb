// Package admission makes one decision safely, for every form of a gateway: a
// bound on its time, panics that deny, requests that name no budget refused, and
// credit that is held until the work has ended.
//
// # Modes
//
// [Spend] spends the cost before the work starts. [Slots] holds slots while the
// work goes on, for concurrency rules, and gives them back when it ends, also by
// a panic. [Late] reserves a bound of a cost that is known only afterwards: the
// handler settles the actual cost with [Settle]; if it does not, the whole bound
// is settled when it ends.
//
// A reservation whose request named no cost has a bound that only the policy
// knows. Not settled by its handler, it is left to end by itself, and then counts
// as spent: the same in the end, after the policy's hold time.
//
// An ID of the caller's admits once in these two modes. A repetition of it while the
// first request is at work is invalid, and leaves the hold alone: it is the first
// one's. So is one after that work has ended, which the limiter says. (A remote
// client repeats what was lost on its way under an ID of its own where the request
// has none, and such a repetition is not one of the caller's.)
//
// # A missing answer is no permission
//
// A decider that panics, does not answer in time or answers nothing denies as
// unavailable. So does a reservation that says allowed and holds nothing, unless
// the policy admits without authority (shadow, fallback).
//
// A [Gate] and a [Hold] may be used by any number of goroutines.
package admission
