package edge

import (
	"context"
	"strings"

	"connectrpc.com/connect"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// MaxRequestBytes is the largest request that [Options] lets a handler read,
// after decompression. It is well above the largest valid one, so that an
// overlong field is answered as what it is: an invalid argument.
//
// Requests of service Admin have smaller bounds: some of its methods are open to
// callers of no role.
const MaxRequestBytes = 16 << 20

// Bounds of requests of service Admin, after decompression.
const (
	// MaxApplyBytes is the largest ApplyPoliciesRequest: in either form, above what
	// fits into one transaction of the store.
	MaxApplyBytes = 4 << 20
	// MaxAdminBytes is the largest of all others, above the largest valid one.
	MaxAdminBytes = 64 << 10
)

// Bounds of the elements of one request: the messages in it, at whatever depth, and
// what is in its lists. They hold before the request is decoded.
const (
	// MaxLimiterElements is as many as the largest valid batch has: of each check its
	// key, and its parts with theirs.
	MaxLimiterElements = tokenleasev1.MaxBatchChecks * (2 + 2*tokenleasev1.MaxCheckParts)
	// MaxBrokerElements is as many as the largest valid Sync has: the holder, reports,
	// closes and final accounts, and all of their keys.
	MaxBrokerElements = 1 + 2*tokenleasev1.MaxSyncBudgets + 2*tokenleasev1.MaxSyncCloses +
		tokenleasev1.MaxSyncAccounts*(1+2*tokenleasev1.MaxAccountGrants)
	// MaxAdminElements is far fewer than the lengths of the lists of an
	// ApplyPoliciesRequest would allow, and twice what can change at once: a policy is
	// three elements and takes 200 bytes of the store, so what fits into a transaction is
	// some 7,500 policies, or 22,500 elements. The rest is for what is named and stays.
	MaxAdminElements = 50_000
)

// compressMinBytes is the size from which answers are compressed. Below it, as
// nearly all are, compressing costs more than it saves.
const compressMinBytes = 1024

// validator is a message that can tell whether it is valid.
type validator interface {
	Validate() error
}

// Options are the options of every handler at the edge: the limits on the size of
// a request and on its elements, errors of bounded length, and [Validate].
func Options() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithConditionalHandlerOptions(func(spec connect.Spec) []connect.HandlerOption {
			most := maxElements(spec.Procedure)
			return []connect.HandlerOption{
				connect.WithReadMaxBytes(maxBytes(spec.Procedure)),
				connect.WithCodec(binaryCodec{most}),
				connect.WithCodec(jsonCodec{"json", most}),
				connect.WithCodec(jsonCodec{"json; charset=utf-8", most}),
			}
		}),
		connect.WithCompressMinBytes(compressMinBytes),
		connect.WithInterceptors(Validate()),
	)
}

// maxBytes is the largest request of a procedure.
func maxBytes(procedure string) int {
	switch {
	case procedure == tokenleasev1connect.AdminApplyPoliciesProcedure:
		return MaxApplyBytes
	case strings.HasPrefix(procedure, "/"+tokenleasev1connect.AdminName+"/"):
		return MaxAdminBytes
	}
	return MaxRequestBytes
}

// maxElements is the most elements of a request of a procedure. What is of none of the
// services has the smallest.
func maxElements(procedure string) int {
	switch {
	case strings.HasPrefix(procedure, "/"+tokenleasev1connect.BrokerName+"/"):
		return MaxBrokerElements
	case strings.HasPrefix(procedure, "/"+tokenleasev1connect.AdminName+"/"):
		return MaxAdminElements
	}
	return MaxLimiterElements
}

// Validate is an interceptor that refuses invalid requests with
// [connect.CodeInvalidArgument]. The message of the error names the field.
//
// It checks unary requests and what handlers receive from streams. Messages
// without a Validate method, such as those of health checks, pass. So do all
// messages of clients: a server has to check anyway.
func Validate() connect.Interceptor { return interceptor{} }

// interceptor implements [connect.Interceptor].
type interceptor struct{}

// WrapUnary checks the request before next sees it.
func (interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if !req.Spec().IsClient {
			if err := check(req.Any()); err != nil {
				return nil, err
			}
		}
		return next(ctx, req)
	}
}

// WrapStreamingClient changes nothing.
func (interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler checks each message as it is received. For a server
// stream that is the one request, before the handler runs.
func (interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, checkedConn{conn})
	}
}

// checkedConn is a stream that delivers valid messages only.
type checkedConn struct {
	connect.StreamingHandlerConn
}

// Receive reads the next message and checks it.
func (c checkedConn) Receive(msg any) error {
	if err := c.StreamingHandlerConn.Receive(msg); err != nil {
		return err
	}
	return check(msg)
}

// check is the verdict on one message.
func check(msg any) error {
	v, ok := msg.(validator)
	if !ok {
		return nil
	}
	if err := v.Validate(); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return nil
}
