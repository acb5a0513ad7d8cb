package identity_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/identity/localca"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	connectpb "github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// site is a server of every service over TLS, behind a guard. The services have no
// methods: whatever is let in is answered as unimplemented.
type site struct {
	t     *testing.T
	ca    *localca.Authority
	trust atomic.Pointer[identity.Trust]
	url   string
	dials atomic.Int64 // of all clients
}

var authorities atomic.Int64 // each has a name of its own

func newAuthority(t *testing.T) *localca.Authority {
	t.Helper()
	ca, err := localca.New(fmt.Sprintf("authority %d of %s", authorities.Add(1), t.Name()), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// serve starts a site whose authority is of its own.
func serve(t *testing.T, option connect.HandlerOption, change ...func(*identity.Config)) *site {
	t.Helper()
	return serveBehind(t, func(next http.Handler) http.Handler { return next }, option, change...)
}

// serveBehind is serve with something between the guard and the services.
func serveBehind(t *testing.T, between func(http.Handler) http.Handler, option connect.HandlerOption, change ...func(*identity.Config)) *site {
	t.Helper()
	s := &site{t: t, ca: newAuthority(t)}
	s.trust.Store(&identity.Trust{Authorities: s.ca.Pool()})
	cfg := identity.Config{Trust: s.trust.Load, Paths: []identity.Path{
		{Prefix: "/healthz", Open: true},
		{Prefix: "/metrics", Read: identity.Viewer | identity.Operator},
		{Prefix: "/v1/config/", Read: identity.Viewer | identity.Operator, Write: identity.Operator},
	}}
	for _, f := range change {
		f(&cfg)
	}
	guard := identity.NewGuard(cfg)
	mux := http.NewServeMux()
	options := []connect.HandlerOption{connect.WithInterceptors(guard.Interceptor()), edge.Options()}
	if option != nil {
		options = append(options, option)
	}
	mux.Handle(connectpb.NewBrokerHandler(connectpb.UnimplementedBrokerHandler{}, options...))
	mux.Handle(connectpb.NewLimiterHandler(connectpb.UnimplementedLimiterHandler{}, options...))
	mux.Handle(connectpb.NewAdminHandler(adminHandler{}, options...))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if peer := identity.FromContext(r.Context()); peer != nil {
			_, _ = w.Write([]byte(peer.Name))
		}
	})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "https://" + listener.Addr().String()
	own := s.issue(localca.Request{Hosts: []string{"127.0.0.1"}})
	connections := guard.Connections()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	server := &http.Server{
		Handler: guard.Handler(between(mux)), Protocols: &protocols, ReadHeaderTimeout: time.Minute,
		ConnContext: connections.Context, ConnState: connections.State,
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(tls.NewListener(listener, &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own.TLS()}, ClientAuth: tls.RequestClientCert,
			NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true,
		}))
	}()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return s
}

// adminHandler knows who asks, and nothing else.
type adminHandler struct {
	connectpb.UnimplementedAdminHandler
}

// WhoAmI implements tokenleasev1connect.AdminHandler.
func (adminHandler) WhoAmI(ctx context.Context, _ *connect.Request[pb.WhoAmIRequest]) (*connect.Response[pb.WhoAmIResponse], error) {
	return connect.NewResponse(&pb.WhoAmIResponse{Name: identity.FromContext(ctx).Name}), nil
}

// issue makes a certificate of the site's authority.
func (s *site) issue(req localca.Request) *localca.Pair {
	s.t.Helper()
	pair, err := s.ca.Issue(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return pair
}

// client shows these certificates, or none. Its connections end with the test.
func (s *site) client(pairs ...*localca.Pair) *http.Client {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: s.ca.Pool()}
	if len(pairs) > 0 { // also one that the server has not asked for
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			shown := pairs[0].TLS()
			for _, more := range pairs[1:] {
				shown.Certificate = append(shown.Certificate, more.Certificate.Raw)
			}
			return &shown, nil
		}
	}
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	dialer := &net.Dialer{}
	transport := &http.Transport{TLSClientConfig: cfg, Protocols: &protocols, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		s.dials.Add(1)
		return dialer.DialContext(ctx, network, address)
	}}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// as is a client whose certificate has these URIs.
func (s *site) as(uris ...string) *http.Client {
	return s.client(s.issue(localca.Request{URIs: uris}))
}

// get asks for a plain path.
func (s *site) get(client *http.Client, method, path string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var body strings.Builder
	if _, err := copyBody(&body, resp); err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(body.String())
}

// poolOf has the authorities of several sites.
func poolOf(authorities ...*localca.Authority) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range authorities {
		pool.AddCert(ca.Certificate)
	}
	return pool
}

// code is what a call ended with.
func (s *site) code(client *http.Client) connect.Code {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	return s.call(ctx, client, "/tokenlease.v1.Admin/ListHolders", nil)
}

// That a broker has passed a request on is a broker's word: a method never sees the
// header of anybody else.
func TestForwardedIsABrokersWord(t *testing.T) {
	var seen atomic.Value
	s := serve(t, connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			seen.Store(req.Header().Get(identity.ForwardedHeader))
			return next(ctx, req)
		}
	})))
	for _, test := range []struct{ uri, want string }{
		{"spiffe://example.org/tokenlease/operator/anna", ""},
		{"spiffe://example.org/tokenlease/viewer/v", ""},
		{"spiffe://example.org/tokenlease/broker/b", "broker-0"},
	} {
		req := connect.NewRequest(&pb.WhoAmIRequest{})
		req.Header().Set(identity.ForwardedHeader, "broker-0")
		if _, err := connectpb.NewAdminClient(s.as(test.uri), s.url).WhoAmI(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if got := seen.Load(); got != test.want {
			t.Errorf("of %s the method sees %q, want %q", test.uri, got, test.want)
		}
	}
}
