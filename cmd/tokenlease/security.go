package main

import (
	"context"
	"crypto/tls"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	grpctls "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/identity/tlsfiles"
)

// security is how the listeners of a server are served over TLS, and who is let
// in. nil: clear text, and everybody is.
type security struct {
	files  *tlsfiles.Files
	guard  *identity.Guard
	maxAge time.Duration
	log    *slog.Logger
}

// handshakeLogs is how many failed handshakes and the like are logged in a second;
// anybody who reaches the port can cause them.
const handshakeLogs = 1

// options are those of every RPC handler.
func (s *security) options() []connect.HandlerOption {
	if s == nil {
		return nil
	}
	return []connect.HandlerOption{connect.WithInterceptors(s.guard.Interceptor())}
}

// protect sets up a server and its listener.
func (s *security) protect(server *http.Server, listener net.Listener) net.Listener {
	if s == nil {
		return listener
	}
	server.Handler = s.guard.Handler(server.Handler)
	server.TLSConfig = s.files.ServerConfig()
	server.ErrorLog = log.New(&seldom{s.log, rate.NewLimiter(handshakeLogs, 10)}, "", 0)
	connections := s.guard.Connections()
	server.ConnContext, server.ConnState = connections.Context, connections.State
	return tls.NewListener(listener, server.TLSConfig)
}

// seldom logs what http.Server has to say, but not all of it when that is much.
type seldom struct {
	log   *slog.Logger
	limit *rate.Limiter
}

// Write implements io.Writer.
func (s *seldom) Write(line []byte) (int, error) {
	if s.limit.Allow() {
		s.log.Warn("a connection has failed", "problem", strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

// grpc are the options of a server of grpc-go.
func (s *security) grpc() []grpc.ServerOption {
	if s == nil {
		return nil
	}
	return append(s.guard.ServerOptions(),
		grpc.Creds(grpctls.NewTLS(s.files.ServerConfig())),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingAfter, Timeout: pingTimeout, MaxConnectionAge: s.maxAge, MaxConnectionAgeGrace: time.Minute,
		}),
	)
}

// expires is when the certificate of the server does; nil: it has none.
func (s *security) expires() func() time.Time {
	if s == nil {
		return nil
	}
	return s.files.Expires
}

// client calls servers of the same authorities with the certificate of this one.
func (s *security) client() *http.Client {
	if s == nil {
		return newHTTPClient(nil)
	}
	return newTLSClient(s.files)
}

// newTLSClient is newHTTPClient for https URLs. It follows the files.
func newTLSClient(files *tlsfiles.Files) *http.Client {
	return &http.Client{Transport: files.Transport(func(cfg *tls.Config) *http.Transport {
		transport := newTransport(nil)
		transport.TLSClientConfig = cfg
		return transport
	})}
}

// follow reads files again when they have changed, and at SIGHUP, until ctx ends.
func follow(ctx context.Context, files *tlsfiles.Files) {
	ticks := time.NewTicker(tlsfiles.PollEvery)
	defer ticks.Stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	files.Run(ctx.Done(), ticks.C, hangups)
}

// plainPaths are the paths that every server has besides its methods.
func plainPaths() []identity.Path {
	every := identity.Holder | identity.Gateway | identity.Viewer | identity.Operator | identity.Broker
	return []identity.Path{
		{Prefix: "/healthz", Open: true},
		{Prefix: "/readyz", Open: true},
		{Prefix: "/grpc.health.v1.Health/Check", Open: true},
		{Prefix: "/grpc.health.v1.Health/", Write: every}, // to watch it is a stream that stays
		{Prefix: "/grpc.reflection.v1.ServerReflection/", Write: every},
		{Prefix: "/grpc.reflection.v1alpha.ServerReflection/", Write: every},
		{Prefix: "/metrics", Read: identity.Viewer | identity.Operator},
	}
}
