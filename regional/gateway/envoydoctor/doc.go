// Package envoydoctor reads a configuration of Envoy and names every place where
// an error of the limiter would be permission.
//
// Envoy's rate limit filter admits a request when the limiter cannot be asked,
// unless it is told to deny. It does not ask at all on routes that have no rate
// limit actions, or whose actions do not apply to a request. Both look like a limit
// in a configuration, and are none.
//
// [Read] takes a bootstrap file, in YAML or JSON; the JSON of the admin endpoint
// /config_dump, in which what a management server sent is found as well; or a file
// of resources as a management server has it.
//
// # Findings
//
// A finding of severity [FailsOpen] is a place where requests pass although no
// limiter has admitted them: an error is permission, or only a fraction of them is
// asked about or denied. So is a rate limit filter that cannot be read, as nobody
// can say that it fails closed.
//
// A [Warning] is worth a look: a route on which no limiter is asked, by intention
// or not; a time-out that fails under load; and whatever could not be read, such as
// a type that is unknown here, or routes that the file does not have. A file
// without one has been understood whole.
//
// # What is looked at
//
// Listeners with all their filter chains, HTTP connection managers, their filters
// (also those of ECDS), their routes (inline, RDS, scoped and in matchers) with
// configurations for each route, and static layers of the runtime. Rate limit
// filters anywhere else, such as in composite filters or in clusters, are found
// and looked at without their routes. Fields that are unknown here are passed over,
// and those of rate limit filters are named.
//
// The filter local_ratelimit asks nobody, so it is ignored. The doctor cannot tell
// whose limiter a filter asks, and looks at all.
package envoydoctor
