// Package remote asks a limiter over RPC. Its [Client] is a [decision.Reserver], as
// a limiter in the process is, so every form of a gateway works over either.
//
//	client, err := remote.New(remote.Config{URLs: []string{"http://limiter:8080"}})
//	answer := client.Decide(ctx, request)
//
// # Time and repetition
//
// A decision ends within Config.Timeout, and the MaxWait of its request on top. A
// limiter that fails, or does not answer within two thirds of that, is asked once
// more, or another one is, under the same decision ID; the client makes a random
// one where the request has none. So a limiter that had decided already repeats its
// answer and spends nothing twice. Another limiter spends again: too much is
// counted then, never too little. What comes of neither attempt is
// [decision.Unavailable]: a missing answer is no permission.
//
// # Several limiters
//
// A key is asked for at one of the limiters, always the same one while it answers,
// because credit and recorded decisions are each limiter's own. One that failed is
// left out for a second. A reservation is settled where it was made.
//
// # Private deny hints
//
// After a limiter has denied a cost of a key as exhausted, with a wait, the client
// answers checks of that key and of the same or a higher cost itself, with what is
// left of the wait, until it is over, and no longer than Config.HintFor. Detail
// says so. Nobody is admitted by a hint. The cost must be comparable: a denial of
// the policy's default cost answers checks of the default cost alone.
//
// A hint ends early when any answer for its key shows another policy version, when
// the key is admitted at such a cost after all, and when a settlement through this
// client returns credit. Credit that comes back otherwise, or a raised policy, is
// seen when the hint ends: at most HintFor later than a limiter would.
//
// Hints are not made of, nor used for: decisions on several budgets, shadow and
// fallback answers, recorded answers, and requests that may wait for their turn.
// They are not used for requests with a decision ID, whose recorded answer may be an
// admission, nor for those that name another policy version, which may have to be
// told to refresh. They belong to one account and are told to nobody else.
//
// # Connections
//
// [HTTPClient] makes the client to use: HTTP/2, in clear text for http URLs, with
// pings, so that a connection that was cut silently is found within seconds.
// Whatever else is given should do the same; http.DefaultClient does not.
//
// # Concurrency
//
// A [Client] may be used by any number of goroutines.
package remote
