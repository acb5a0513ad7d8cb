package identity_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/identity/localca"
)

// A server of grpc-go, as Envoy asks one, has the same guard.
func TestServersOfGRPC(t *testing.T) {
	s := &site{t: t, ca: newAuthority(t)}
	s.trust.Store(&identity.Trust{Authorities: s.ca.Pool()})
	guard := identity.NewGuard(identity.Config{Trust: s.trust.Load, Paths: []identity.Path{{Prefix: "/grpc.health.v1.Health/", Write: identity.Gateway}}})
	own := s.issue(localca.Request{Hosts: []string{"127.0.0.1"}}).TLS()
	server := grpc.NewServer(append(guard.ServerOptions(), grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert,
	})))...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() { server.Stop(); <-served })
	client := func(pairs ...*localca.Pair) healthpb.HealthClient {
		cfg := &tls.Config{RootCAs: s.ca.Pool()}
		for _, pair := range pairs {
			cfg.Certificates = append(cfg.Certificates, pair.TLS())
		}
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return healthpb.NewHealthClient(conn)
	}
	role := func(role identity.Roles, life time.Duration) *localca.Pair {
		return s.issue(localca.Request{URIs: []string{identity.URI("example.org", role, "x")}, Life: life})
	}
	gateway := client(role(identity.Gateway, 0))
	for who, test := range map[string]struct {
		client healthpb.HealthClient
		want   codes.Code
	}{
		"a gateway":           {gateway, codes.OK},
		"a viewer":            {client(role(identity.Viewer, 0)), codes.PermissionDenied},
		"nobody":              {client(), codes.Unauthenticated},
		"an expired gateway":  {client(role(identity.Gateway, -time.Hour)), codes.Unauthenticated},
		"a gateway once more": {gateway, codes.OK},
	} {
		if _, err := test.client.Check(t.Context(), &healthpb.HealthCheckRequest{}); status.Code(err) != test.want {
			t.Errorf("%s checks: %v, want %v", who, err, test.want)
		}
		stream, err := test.client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != test.want {
			t.Errorf("%s watches: %v, want %v", who, err, test.want)
		}
	}
	s.trust.Store(&identity.Trust{Authorities: newAuthority(t).Pool()})
	if _, err := gateway.Check(t.Context(), &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("on the connection that was let in, once the authority is removed: %v", err)
	}
}

// Who is not let in is told so at once: a message that never comes does not keep the
// stream.
func TestRefusedBeforeTheMessage(t *testing.T) {
	s := &site{t: t, ca: newAuthority(t)}
	s.trust.Store(&identity.Trust{Authorities: s.ca.Pool()})
	guard := identity.NewGuard(identity.Config{Trust: s.trust.Load})
	own := s.issue(localca.Request{Hosts: []string{"127.0.0.1"}}).TLS()
	server := grpc.NewServer(append(guard.ServerOptions(), grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert,
	})))...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() { server.Stop(); <-served })
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: s.ca.Pool()})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// As a stream of messages, of which none is sent.
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, healthpb.Health_Check_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&healthpb.HealthCheckResponse{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("nobody, who sends no message: %v, want unauthenticated", err)
	}
}
