// Package dashboard is the operators' page of a broker: who has what of every
// budget, and the few things that an operator does about it.
//
// The page is plain HTML, CSS and JavaScript modules, embedded as they stand in
// the folder page. Nothing is built and nothing is fetched from elsewhere, so it
// works on a network of its own. It asks the Admin service of the broker that
// served it, at the same origin, and knows nothing that the service does not tell:
// whatever a caller may not do is refused by the service, and the page offers what
// WhoAmI lists.
//
// [Handler] serves the page. [Guard] goes around everything that a broker serves,
// page or no page: a browser carries its user's certificate, and reaches loopback,
// for any site that the user looks at. So requests of other origins are refused, and
// so are those of names that are not the broker's (DNS rebinding). Callers that are
// no browsers are not concerned: they send neither Origin nor Sec-Fetch-Site.
//
// Names of accounts, operations and holders, and reasons, are written by others.
// The page only ever sets them as text. Behind that stands its content security
// policy: no inline script or style, no other origin, no HTML made from text.
//
// Everything here may be used by any number of goroutines.
package dashboard
