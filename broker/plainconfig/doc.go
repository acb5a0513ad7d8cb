// Package plainconfig shows and sets limits in plain JSON, for services that have no
// client of the RPCs. It is thin: everything is asked of the Admin service.
//
// A limit is a policy, by the names that a policy file has for it (see package
// policyfile), and is refused as strictly: 1.5, 1e3 or "5" is no number of tokens,
// each field is known and stands once, and all that is wrong is told.
//
// # Who may ask
//
// Nobody is checked here. Over the service of the same process ([Within]) everything is
// asked in the caller's name, so whoever may not call ListPolicies, ListAccounts or
// ApplyPolicies may not do the same here. Over a client of another process everything
// is asked in that client's name: let only operators come to the handlers then.
//
// # Plans
//
// A plan is created once, and then replaced as a whole:
//
//	POST /v1/config/plan
//	{"plan":"premium","limits":[{"operation":"report.create","token-bucket":{"capacity":400,"refill":"200 per 1s"}}]}
//
//	201 {"version":2,"changes":[{"subject":"plan premium"},{"subject":"plan premium","operation":"report.create"}]}
//
//	POST /v1/config/plan
//	{"plan":"premium","limits":[]}
//
//	409 {"type":"about:blank","title":"Conflict","status":409,"detail":"the plan is there already: PUT replaces it"}
//
//	PUT /v1/config/plan
//	{"plan":"premium","limits":[{"operation":"report.create","token-bucket":{"capacity":500,"refill":"200 per 1s"}}],"because":"ticket 4711","by":"ann"}
//
//	200 {"version":3,"changes":[{"subject":"plan premium","operation":"report.create"}]}
//
// version is the policy version in force from then on. "because" and "by" are recorded;
// where callers have certificates it is the name in theirs that is. A request with
// "if-version" changes nothing unless that version is in force; without it, the one
// that was in force when the request came. A change that was overtaken is answered
// with 409, and may be sent again. A repeated PUT changes nothing:
//
//	PUT /v1/config/plan
//	{"plan":"premium","limits":[{"operation":"report.create","token-bucket":{"capacity":500,"refill":"200 per 1s"}}]}
//
//	200 {"version":3,"changes":[]}
//
// # Accounts
//
// An account is assigned to a plan with POST if it is on none of its own, and with PUT
// whatever it is on. What it has of its own stays. Names keep their case.
//
//	POST /v1/config/plan
//	{"account":"Acme","plan":"premium"}
//
//	201 {"version":4,"changes":[{"subject":"account Acme"}]}
//
//	PUT /v1/config/plan
//	{"account":"Acme","plan":"gold"}
//
//	400 {"type":"about:blank","title":"Bad Request","status":400,"detail":"..."}
//
// # Limits
//
// What rules one operation of one account: "from" says whose limit it is, that of the
// account, of its plan, or the one for everybody.
//
//	GET /v1/config/limit?account=Acme&operation=report.create
//
//	200 {"account":"Acme","operation":"report.create","from":"plan","plan":"premium","version":4,"limit":{"operation":"report.create","token-bucket":{"capacity":500,"refill":"200 per 1s"},"cost":1,"max-share":"100%","reclaim":"proof","on-unavailable":"reject"}}
//
//	GET /v1/config/limit?account=acme&operation=report.create
//
//	200 {"account":"acme","operation":"report.create","from":"everybody","version":4,"limit":{"operation":"report.create","token-bucket":{"capacity":40,"refill":"20 per 1s"},"cost":5,"max-share":"100%","reclaim":"proof","on-unavailable":"reject"}}
//
// What rules every operation of an account, and what is in force for everybody and for
// plans:
//
//	GET /v1/config/limits?account=Acme
//
//	200 {"account":"Acme","plan":"premium","version":4,"limits":[{"operation":"report.create","from":"plan","limit":{"operation":"report.create","token-bucket":{"capacity":500,"refill":"200 per 1s"},"cost":1,"max-share":"100%","reclaim":"proof","on-unavailable":"reject"}}]}
//
//	GET /v1/config/limits
//
//	200 {"version":4,"limits":[{"operation":"report.create","from":"everybody","limit":{"operation":"report.create","token-bucket":{"capacity":40,"refill":"20 per 1s"},"cost":5,"max-share":"100%","reclaim":"proof","on-unavailable":"reject"}}],"plans":[{"plan":"premium","limits":[{"operation":"report.create","token-bucket":{"capacity":500,"refill":"200 per 1s"},"cost":1,"max-share":"100%","reclaim":"proof","on-unavailable":"reject"}]}]}
//
// An operation that an operator has disabled has "disabled" beside its limit, with
// because, by and since: all of it is denied.
//
// # Removing
//
// A removal has no body. A plan that accounts are on stays.
//
//	DELETE /v1/config/plan?plan=premium
//
//	409 {"type":"about:blank","title":"Conflict","status":409,"detail":"..."}
//
//	DELETE /v1/config/plan?account=Acme&because=they+have+left&by=ann
//
//	200 {"version":5,"changes":[{"subject":"account Acme"}]}
//
//	DELETE /v1/config/plan?plan=premium
//
//	200 {"version":6,"changes":[{"subject":"plan premium"},{"subject":"plan premium","operation":"report.create"}],"warnings":["..."]}
//
// # What is refused
//
// Payment is not handled here. A request with a field or parameter about money, such as
// price, card or invoice, is refused by name, and so is every other one that is not
// known:
//
//	POST /v1/config/plan
//	{"plan":"gold","limits":[{"operation":"o","token-bucket":{"capacity":1.5}}],"limit":3}
//
//	400 {"type":"about:blank","title":"Bad Request","status":400,"detail":"limits[0].token-bucket.capacity: \"1.5\" is not whole: want a whole number of tokens","faults":[{"field":"limits[0].token-bucket.capacity","problem":"\"1.5\" is not whole: want a whole number of tokens"},{"field":"limit","problem":"is unknown: did you mean limits?"}]}
//
//	POST /v1/config/plan
//	{"plan":"gold","limits":[{"operation":"o","price":"9.99"}],"billing":{"cardNumber":"4111"}}
//
//	400 {"type":"about:blank","title":"Bad Request","status":400,"detail":"limits[0].price: payment is not handled here: this API sets limits alone","faults":[{"field":"limits[0].price","problem":"payment is not handled here: this API sets limits alone"},{"field":"billing","problem":"payment is not handled here: this API sets limits alone"}]}
//
// Every refusal is an application/problem+json: 400 not understood, or it names a
// plan that is not there, 401 and 403 not allowed, 404 not there, 405 another method, 409 not as things are, 413 more than 256
// KiB, 415 not application/json, 429 too many, 503 the broker cannot answer now. After
// a 503 it is not known whether the change was made: it is safe to repeat it, but a
// repeated POST may find its own plan there.
//
// Nothing is logged. Everything here may be used by any number of goroutines.
package plainconfig
