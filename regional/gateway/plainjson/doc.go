// Package plainjson asks for decisions in plain JSON, for gateways and services
// that have no client of the RPCs.
//
// # Who may ask
//
// These endpoints believe their caller: it has verified the account that it names,
// or holds the API keys that it shows. Whoever reaches them can spend any budget
// and read what is left of it. So mount them where only gateways come: on a
// listener of their own, behind mutual TLS, or on loopback. This package checks
// nobody's identity.
//
// # Decisions
//
//	POST /internal/rate-decisions
//	{"verifiedAccount":"acme","operation":"report.create","cost":5,"policyVersion":3,"decisionId":"7f3a"}
//
// cost (tokens; else the policy's default), policyVersion and decisionId (1 to 128
// printable ASCII characters; a repetition gets the recorded answer) are optional.
// The account must be a verified identity's: those of reserved prefixes are refused
// (see package clientkey).
//
//	200 {"decision":"allowed","reason":"allowed","limit":40,"remaining":35,"policyVersion":3,"grantId":"g1-00d-00000001"}
//	429 {"decision":"denied","reason":"exhausted","limit":40,"remaining":0,"policyVersion":3,
//	     "retryAfterSeconds":1,"retryAt":"2026-01-02T03:04:06Z"}
//	409 {"decision":"refresh","reason":"refresh","policyVersion":4}
//
// The status and the reasons are those of package httpanswer, as are the header
// fields RateLimit, RateLimit-Policy and Retry-After. retryAfterSeconds is the
// Retry-After, and retryAt the end of the wait by the limiter's wall clock, rounded
// up to a second; both are missing where waiting does not help. limit, remaining
// and policyVersion are missing where no policy is known. Further fields, where
// they apply: "replayed", "shadow" and "notStrict" are true, "debt" is in tokens,
// and "detail" is a sentence.
//
// A caller that names an older policyVersion than the one in force is told that one
// with 409, and asks again. Nothing is spent, and there is no balance under the old
// version.
//
// # Checks
//
//	POST /v1/ratelimit/check
//	{"apiKey":"sk-123","endpoint":"/v1/reports","requestCount":1}
//
//	200 {"allowed":true,"reason":"allowed","limit":40,"remaining":39}
//	429 {"allowed":false,"reason":"exhausted","limit":40,"remaining":0,"retryAfterSeconds":1}
//
// The account of a key is [HashedKey] of it unless Config.Account says otherwise:
// "key:" and 32 hexadecimal digits of its SHA-256. So a key is never written into
// the store, a log or an operator's table, and nobody who reads them can use it.
// Keys must be hard to guess, as API keys are; for others see [HashedKeyWith]. The
// operation is that of Config.Endpoints, or the endpoint itself where that is nil.
// requestCount times the endpoint's cost, 1 token where none is configured, is what
// is asked for; without requestCount it is the endpoint's cost, and the policy's
// default where none is configured.
//
//	POST /v1/ratelimit/check/batch
//	{"requests":[{"apiKey":"sk-123","endpoint":"/v1/reports"}, ...]}
//
//	200 {"responses":[{"status":200,"allowed":true,...},{"status":429,"allowed":false,...}]}
//
// has 1 to 1,000 checks. Each is decided on its own and answered in its place, with
// the status that it would have had alone. Checks of one budget are decided in
// order. A body that is not understood is refused as a whole; a check that is
// understood but not valid is answered in its place with 400.
//
// # Health
//
//	GET /v1/health
//
// is 200 {"status":"ok"} while Config.Ready says so, and else 503
// {"status":"unavailable"}.
//
// # What is refused
//
// Bodies are read strictly: each field stands at most once, under exactly its name;
// numbers are whole, from 0 to 2^63-1, in plain digits; texts are UTF-8 without
// control characters; nothing follows the object. A body has 64 KiB at the most,
// that of a batch 1 MiB. Anything else is an application/problem+json with status
// 400 (413 too large, 415 not application/json, 405 not POST) that names what is
// wrong and repeats no long value; nothing was asked then.
//
// Nothing is logged. Everything here may be used by any number of goroutines.
package plainjson
