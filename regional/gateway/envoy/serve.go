package envoy

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Bounds of the listener.
const (
	// MaxMessageBytes is the largest request that is read: more than the headers
	// that Envoy accepts by default could fill.
	MaxMessageBytes = 1 << 20
	// MaxHeaderBytes bounds the headers of a request, which are read before anybody
	// knows who sends them.
	MaxHeaderBytes = 64 << 10
	// MaxConcurrentStreams is how many requests one connection may have under way.
	// Envoy opens another for what is beyond.
	MaxConcurrentStreams = 1000
	// HandshakeTimeout bounds how long a new connection may take to become one.
	HandshakeTimeout = 10 * time.Second
	// MinPingInterval is how often a gateway may ping an idle connection.
	MinPingInterval = 5 * time.Second
	// MaxConnectionAge is when a connection is closed in order, with a tenth of
	// jitter, so that what a gateway was allowed once is looked at again.
	MaxConnectionAge = 10 * time.Minute
	// StopTimeout bounds how long Serve waits for requests under way.
	StopTimeout = 5 * time.Second
)

// ServerOptions are those of a server for Envoy: bounds of headers, messages,
// streams and handshakes, and keep-alive that finds cut connections and bears with Envoy's own.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxHeaderListSize(MaxHeaderBytes),
		grpc.MaxConcurrentStreams(MaxConcurrentStreams),
		grpc.ConnectionTimeout(HandshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: MinPingInterval, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 20 * time.Second, Timeout: 5 * time.Second,
			MaxConnectionAge: MaxConnectionAge, MaxConnectionAgeGrace: time.Minute,
		}),
	}
}

// Serve serves on a listener until ctx ends, with [ServerOptions] and the options
// given, such as transport credentials. Then it says that it is not serving, and
// waits up to [StopTimeout] for requests under way. It closes the listener, and
// returns nil unless serving failed.
func (s *Service) Serve(ctx context.Context, listener net.Listener, options ...grpc.ServerOption) error {
	server := grpc.NewServer(append(ServerOptions(), options...)...)
	s.Register(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }() // stopped below
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.SetServing(false)
	hard := time.AfterFunc(StopTimeout, server.Stop)
	defer hard.Stop()
	server.GracefulStop()
	return <-ended
}
