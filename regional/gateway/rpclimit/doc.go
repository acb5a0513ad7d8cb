// Package rpclimit limits the calls that Connect and gRPC servers take, by
// interceptors over a [decision.Decider].
//
//	connect.WithInterceptors(interceptor)              // from Connect
//	grpc.ChainUnaryInterceptor(unary)                  // from GRPC
//	grpc.ChainStreamInterceptor(stream)
//
// A call is decided once, before its handler runs; a stream at its start, whatever
// it carries later. In mode Slots a stream holds its slot until its handler
// returns. See package admission for the modes; [Settle] is what a handler calls
// when it knows its cost.
//
// # Codes
//
//	exhausted, cost above capacity    resource_exhausted
//	unavailable, overloaded, unknown  unavailable
//	disabled                          permission_denied
//	invalid                           invalid_argument
//	refresh                           failed_precondition
//	no policy                         internal
//
// # Details and metadata
//
// Every denial has a google.rpc.ErrorInfo: its reason is that of the answer in
// capitals, such as EXHAUSTED, its domain [Domain], and its metadata has
// policy_version where one is known. A denial that waiting can help has a
// google.rpc.RetryInfo. The wait of an unavailable one has jitter.
//
// The metadata carries the fields of package httpanswer, in lower case: of admitted
// calls in the response's headers; of denials of gRPC servers in headers and
// trailers, and of Connect servers in the error's metadata. Denials by gRPC
// servers also carry grpc-retry-pushback-ms, which retrying clients obey: the wait,
// or -1 where a repetition cannot help.
//
// # What is not limited
//
// Interceptors see every call of a server. Config.Exempt names those that must
// not cost anybody's budget, such as health checks.
package rpclimit
