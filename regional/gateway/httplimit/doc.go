// Package httplimit limits the requests that an http.Handler of net/http serves.
//
//	limit := httplimit.New(limiter, httplimit.Config{Request: identify})
//	mux.Handle("POST /reports", limit(reports))
//
// A request that is not admitted is answered as package httpanswer says, and the
// handler never sees it. An admitted one carries the RateLimit fields in its
// response; the handler may overwrite them, Cache-Control included, before it
// writes.
//
// # Who asks
//
// Config.Request finds the verified account and the operation. If it fails, or
// finds no account, the request is answered 400: there is no budget that all
// unknown callers share. Text of its error is for Config.OnAnswer alone.
//
// # Decision IDs
//
// A repeated decision ID gets the recorded answer and spends nothing. So
// Config.IDHeader is for handlers that treat the same header as their own
// idempotency key; before any other handler it would let callers repeat work for
// free.
//
// # Slots and late costs
//
// See package admission for the modes. [Settle] is what a handler calls when it
// knows its cost. A handler that hijacks its connection, or leaves work to other
// goroutines, must not return before that work has ended: then its slots are given
// back.
//
// The http.ResponseWriter is passed on as it is, so whatever it can do, such as
// flushing, hijacking and http.ResponseController, it can do in the handler.
package httplimit
