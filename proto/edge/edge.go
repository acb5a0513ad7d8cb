package edge

import (
	"context"
	"strings"

	"connectrpc.com/connect"

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

// compressMinBytes is the size from which answers are compressed. Below it, as
// nearly all are, compressing costs more than it saves.
const compressMinBytes = 1024

// validator is a message that can tell whether it is valid.
type validator interface {
	Validate() error
}

// Options are the options of every handler at the edge: the limit on the size of
// a request, errors of bounded length, and [Validate].
func Options() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithConditionalHandlerOptions(func(spec connect.Spec) []connect.HandlerOption {
			return []connect.HandlerOption{connect.WithReadMaxBytes(maxBytes(spec.Procedure))}
		}),
		connect.WithCompressMinBytes(compressMinBytes),
		connect.WithCodec(jsonCodec{"json"}),
		connect.WithCodec(jsonCodec{"json; charset=utf-8"}),
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
