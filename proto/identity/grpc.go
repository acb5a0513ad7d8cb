package identity

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// ServerOptions put a guard in front of a server of grpc-go, which must have
// transport credentials of package credentials. Its methods are opened by
// Config.Paths, and may be of any service.
func (g *Guard) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.StatsHandler(grpcConnections{}),
		// Before anything but the headers is read: a message that never comes must not
		// keep the stream of somebody who is not let in.
		grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
			return ctx, g.enterGRPC(ctx, info.FullMethodName)
		}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := g.enterGRPC(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := g.enterGRPC(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, stream)
		}),
	}
}

// enterGRPC lets the caller of a method in.
func (g *Guard) enterGRPC(ctx context.Context, method string) error {
	c := connectionOf(ctx)
	remote := ""
	if p, ok := peer.FromContext(ctx); ok {
		remote = p.Addr.String()
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && c != nil {
			c.shown(&info.State)
		}
	}
	if c == nil {
		c = &connection{} // nothing was shown
	}
	_, refused := g.enter(c, http.MethodPost, method, nobody)
	if refused == nil {
		return nil
	}
	_ = g.note(refused, remote)
	code := codes.PermissionDenied
	if refused.code == connect.CodeUnauthenticated {
		code = codes.Unauthenticated
	}
	return status.Error(code, refused.err.Error())
}

// grpcConnections gives each connection a place for its verdict.
type grpcConnections struct{}

// TagConn implements stats.Handler.
func (grpcConnections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// HandleConn implements stats.Handler.
func (grpcConnections) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC implements stats.Handler.
func (grpcConnections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (grpcConnections) HandleRPC(context.Context, stats.RPCStats) {}
