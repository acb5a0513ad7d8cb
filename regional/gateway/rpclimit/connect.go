package rpclimit

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/protoadapt"

	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/admission"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// Connect makes an interceptor for Connect handlers. Clients pass it unchanged.
func Connect(decider decision.Decider, cfg Config) (connect.Interceptor, error) {
	l, err := newLimiter(decider, cfg)
	if err != nil {
		return nil, err
	}
	return connectInterceptor{l}, nil
}

// connectInterceptor implements [connect.Interceptor].
type connectInterceptor struct{ limiter *limiter }

// WrapStreamingClient changes nothing.
func (connectInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapUnary decides on a unary call.
func (i connectInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	l := i.limiter
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			return next(ctx, req)
		}
		call := Call{Procedure: req.Spec().Procedure, Header: req.Header(), Peer: req.Peer().Addr, Message: req.Any()}
		if l.exempt(call) {
			return next(ctx, req)
		}
		hold, a := l.admit(ctx, call)
		defer l.end(ctx, call, hold)
		headers := req.Peer().Protocol == connect.ProtocolConnect // errors of others have trailers alone
		if !httpanswer.Admitted(a) {
			return nil, connectError(deny(l.cfg.Writer, a), headers)
		}
		resp, err := next(admission.NewContext(ctx, a, hold), req)
		if err != nil {
			fields := http.Header{}
			l.cfg.Writer.Headers(fields, a)
			return resp, withFields(err, fields, headers)
		}
		l.cfg.Writer.Headers(resp.Header(), a)
		return resp, nil
	}
}

// WrapStreamingHandler decides at the start of a stream.
func (i connectInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	l := i.limiter
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		call := Call{Procedure: conn.Spec().Procedure, Header: conn.RequestHeader(), Peer: conn.Peer().Addr, Stream: true}
		if l.exempt(call) {
			return next(ctx, conn)
		}
		hold, a := l.admit(ctx, call)
		defer l.end(ctx, call, hold)
		if !httpanswer.Admitted(a) {
			return connectError(deny(l.cfg.Writer, a), false)
		}
		l.cfg.Writer.Headers(conn.ResponseHeader(), a)
		return next(admission.NewContext(ctx, a, hold), conn)
	}
}

// connectError is a denial as Connect tells it, with its metadata in headers or in
// trailers.
func connectError(d denial, headers bool) *connect.Error {
	err := connect.NewError(connect.Code(d.code), errors.New(d.message))
	for _, message := range d.details {
		if detail, problem := connect.NewErrorDetail(protoadapt.MessageV2Of(message)); problem == nil {
			err.AddDetail(detail)
		}
	}
	addFields(err.Meta(), d.header, headers)
	return err
}

// withFields adds the fields of an admitted call to its handler's error. The
// handler's error is not changed: it may be one that all calls share.
func withFields(err error, fields http.Header, headers bool) error {
	var told *connect.Error
	if !errors.As(err, &told) {
		told = connect.NewError(plainCode(err), err)
	}
	copied := connect.NewError(told.Code(), told.Unwrap())
	for _, detail := range told.Details() {
		copied.AddDetail(detail)
	}
	addFields(copied.Meta(), told.Meta(), true)
	addFields(copied.Meta(), fields, headers)
	return copied
}

// plainCode is the code that Connect gives to an error that has none.
func plainCode(err error) connect.Code {
	switch {
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	}
	return connect.CodeUnknown
}

// addFields sets the fields of from in to. Cache-Control belongs in headers alone:
// HTTP forbids it in trailers.
func addFields(to, from http.Header, headers bool) {
	for name, values := range from {
		if headers || name != httpanswer.FieldCacheControl {
			to[name] = append([]string(nil), values...)
		}
	}
}
