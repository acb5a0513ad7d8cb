// Package httpanswer is how a [decision.Answer] looks in HTTP: the status, the
// header fields and the problem body that every HTTP form of a gateway shares.
//
// # Status
//
//	allowed, fallback, shadow         200
//	exhausted, cost above capacity    429
//	unavailable, overloaded           503
//	disabled                          403
//	invalid                           400
//	refresh                           409
//	no policy                         500
//	anything else                     503
//
// 429 means that the budget is known to be used up, 503 that nobody could tell.
//
// # Header fields
//
// RateLimit-Policy and RateLimit are those of draft-ietf-httpapi-ratelimit-headers-11,
// written where a limit is known:
//
//	RateLimit-Policy: "default";q=40;w=2
//	RateLimit: "default";r=35;t=1
//
// q is the limit and r what this region can still admit, both in tokens and at
// most 15 digits, as structured fields want it; r is never above the truth. w is
// the time that the limit is for, and t the wait, both in whole seconds, rounded
// up. w is left out where no such time is known, t where there is no wait. A
// decision on several budgets shows the numbers of the first alone, which is the
// caller's own: others may be shared between accounts.
//
// Retry-After is in whole seconds, rounded up, at least 1. A denial that waiting
// cannot help has none. One of status 503 always has, with jitter, so that those
// who were turned away do not return together.
//
// Cache-Control is no-store on every denial and on every answer that carries any
// of these fields.
//
// RateLimit-Shadow names the reason for which a policy in shadow mode would have
// denied what was admitted, as a structured token:
//
//	RateLimit-Shadow: exhausted
//
// None of the fields above goes with it: clients that obey them would hold back
// what the shadow admits.
//
// RateLimit-Fallback is ?1 where no authority could be reached, and the policy's
// local allowance admitted the request.
//
// The older X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (the
// wait in seconds) are an option. Field names are written in the canonical form
// of net/http; their case means nothing.
//
// # What is never written
//
// Names of accounts and operations, the ID of a grant, and the numbers of any
// budget but the caller's.
package httpanswer
