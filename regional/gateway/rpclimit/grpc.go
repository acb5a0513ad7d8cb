package rpclimit

import (
	"context"
	"net/http"
	"net/textproto"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/admission"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// pushbackKey is the metadata in which a gRPC server tells retrying clients when to
// come back, by gRPC's retry design (A6).
const pushbackKey = "grpc-retry-pushback-ms"

// GRPC makes interceptors for a gRPC server.
func GRPC(decider decision.Decider, cfg Config) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor, error) {
	l, err := newLimiter(decider, cfg)
	if err != nil {
		return nil, nil, err
	}
	return l.unary, l.stream, nil
}

// unary decides on a unary call.
func (l *limiter) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	call := grpcCall(ctx, info.FullMethod)
	call.Message = req
	if l.exempt(call) {
		return handler(ctx, req)
	}
	hold, a := l.admit(ctx, call)
	defer l.end(ctx, call, hold)
	if !httpanswer.Admitted(a) {
		return nil, l.grpcError(a, func(md metadata.MD) {
			_ = grpc.SetHeader(ctx, md) // fails when the call is over: nobody reads it then
			_ = grpc.SetTrailer(ctx, md)
		})
	}
	_ = grpc.SetHeader(ctx, l.admittedFields(a)) // as above
	return handler(admission.NewContext(ctx, a, hold), req)
}

// stream decides at the start of a stream.
func (l *limiter) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := stream.Context()
	call := grpcCall(ctx, info.FullMethod)
	call.Stream = true
	if l.exempt(call) {
		return handler(srv, stream)
	}
	hold, a := l.admit(ctx, call)
	defer l.end(ctx, call, hold)
	if !httpanswer.Admitted(a) {
		return l.grpcError(a, func(md metadata.MD) {
			_ = stream.SetHeader(md) // as in unary
			stream.SetTrailer(md)
		})
	}
	_ = stream.SetHeader(l.admittedFields(a)) // as in unary
	return handler(srv, admittedStream{stream, admission.NewContext(ctx, a, hold)})
}

// admittedStream is a stream whose context knows its admission.
type admittedStream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // it is how a stream has one
}

// Context implements grpc.ServerStream.
func (s admittedStream) Context() context.Context { return s.ctx }

// grpcError is a denial as gRPC tells it; its metadata goes to set.
func (l *limiter) grpcError(a decision.Answer, set func(metadata.MD)) error {
	d := deny(l.cfg.Writer, a)
	md := metadataOf(d.header)
	md.Set(pushbackKey, d.pushback())
	set(md)
	told := status.New(d.code, d.message)
	if detailed, err := told.WithDetails(d.details...); err == nil {
		told = detailed
	}
	return told.Err()
}

func (l *limiter) admittedFields(a decision.Answer) metadata.MD {
	fields := http.Header{}
	l.cfg.Writer.Headers(fields, a)
	return metadataOf(fields)
}

// grpcCall is what the context tells of a call.
func grpcCall(ctx context.Context, procedure string) Call {
	call := Call{Procedure: procedure}
	md, _ := metadata.FromIncomingContext(ctx)
	call.Header = headerOf(md)
	if from, ok := peer.FromContext(ctx); ok && from.Addr != nil {
		call.Peer = from.Addr.String()
	}
	return call
}

// headerOf is metadata under canonical names, without the pseudo-headers.
func headerOf(md metadata.MD) http.Header {
	h := make(http.Header, len(md))
	for name, values := range md {
		if strings.HasPrefix(name, ":") {
			continue
		}
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		h[canonical] = append(h[canonical], values...)
	}
	return h
}

// metadataOf is fields as metadata. What concerns caches of HTTP means nothing in
// gRPC.
func metadataOf(h http.Header) metadata.MD {
	md := make(metadata.MD, len(h))
	for name, values := range h {
		if name != httpanswer.FieldCacheControl {
			md.Append(name, values...)
		}
	}
	return md
}
