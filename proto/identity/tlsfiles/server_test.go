package tlsfiles_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/identity/localca"
	"github.com/tokenlease/tokenlease/proto/identity/tlsfiles"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	connectpb "github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// pipes is a network in memory, so that a test can let time pass over connections
// of real TLS.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	ended chan struct{}

	mu    sync.Mutex
	dials int
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), ended: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		p.mu.Lock()
		p.dials++
		p.mu.Unlock()
		return here, nil
	case <-p.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) dialled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.ended) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// services are a broker whose Watch sends a beat each 10 s, as the real one does.
type services struct {
	connectpb.UnimplementedBrokerHandler
	connectpb.UnimplementedAdminHandler
}

// Watch implements tokenleasev1connect.BrokerHandler.
func (services) Watch(ctx context.Context, _ *connect.Request[pb.WatchRequest], stream *connect.ServerStream[pb.WatchResponse]) error {
	beat := time.NewTicker(10 * time.Second)
	defer beat.Stop()
	for {
		if err := stream.Send(&pb.WatchResponse{}); err != nil {
			return err
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Register implements tokenleasev1connect.BrokerHandler: it hangs, as a Sync may.
func (services) Register(ctx context.Context, _ *connect.Request[pb.RegisterRequest]) (*connect.Response[pb.RegisterResponse], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// WhoAmI implements tokenleasev1connect.AdminHandler.
func (services) WhoAmI(ctx context.Context, _ *connect.Request[pb.WhoAmIRequest]) (*connect.Response[pb.WhoAmIResponse], error) {
	return connect.NewResponse(&pb.WhoAmIResponse{Name: identity.FromContext(ctx).Name}), nil
}

// world is a server over the files of a disk, in a bubble of package synctest.
type world struct {
	t     *testing.T
	disk  disk
	ca    *localca.Authority
	files *tlsfiles.Files
	net   *pipes
}

// inBubble runs a test against a server whose connections last for ten minutes.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, disk: disk{t, dir}, ca: newAuthority(t, "first"), net: newPipes()}
		w.disk.write("ca.pem", w.ca.CertificatePEM)
		w.disk.writePair(issue(t, w.ca, localca.Request{CommonName: "first", Hosts: []string{"server"}}))
		var err error
		if w.files, err = tlsfiles.Open(w.disk.config()); err != nil {
			t.Fatal(err)
		}
		guard := identity.NewGuard(identity.Config{Trust: w.files.Trust})
		options := connect.WithInterceptors(guard.Interceptor())
		mux := http.NewServeMux()
		mux.Handle(connectpb.NewBrokerHandler(services{}, options))
		mux.Handle(connectpb.NewAdminHandler(services{}, options))
		connections := guard.Connections()
		var protocols http.Protocols
		protocols.SetHTTP2(true)
		protocols.SetHTTP1(true)
		server := &http.Server{Handler: guard.Handler(mux), Protocols: &protocols, ConnContext: connections.Context, ConnState: connections.State, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
		var running sync.WaitGroup
		running.Go(func() { _ = server.Serve(tls.NewListener(w.net, w.files.ServerConfig())) })
		ended := make(chan struct{})
		ticks := time.NewTicker(tlsfiles.PollEvery)
		running.Go(func() { w.files.Run(ended, ticks.C, nil) })
		defer func() {
			close(ended)
			ticks.Stop()
			_ = server.Close()
			running.Wait()
		}()
		test(t, w)
	})
}

// client calls the server with a transport that a configuration makes.
func (w *world) transport(cfg *tls.Config) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	return &http.Transport{TLSClientConfig: cfg, Protocols: &protocols, DialContext: w.net.dial}
}

// as is a client that shows a certificate and wants to resume its sessions.
func (w *world) as(pair *localca.Pair) *http.Transport {
	return w.transport(&tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: "server", RootCAs: w.ca.Pool(), ClientSessionCache: tls.NewLRUClientSessionCache(10),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert := pair.TLS()
			return &cert, nil
		},
	})
}

// ask is what a request of the transport ends with, and under which name.
func (w *world) ask(transport http.RoundTripper) (string, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	resp, err := connectpb.NewAdminClient(&http.Client{Transport: transport}, "https://server").WhoAmI(ctx, connect.NewRequest(&pb.WhoAmIRequest{}))
	if err != nil {
		return "", err
	}
	return resp.Msg.GetName(), nil
}

func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

const holderURI = "spiffe://example.org/tokenlease/holder/eu/limiter-0"

// A client that was let in by an authority keeps its connection, has a stream, and
// would resume its session. Once the authority is removed from the file, all of it
// ends: at the next request, the next message, and the next handshake.
func TestCase55RemovedAuthorityIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		next := newAuthority(t, "next")
		w.disk.write("ca.pem", w.ca.CertificatePEM, next.CertificatePEM)
		holder := w.as(issue(t, w.ca, localca.Request{URIs: []string{holderURI}}))
		defer holder.CloseIdleConnections()
		if name, err := w.ask(holder); err != nil || name != holderURI {
			t.Fatalf("before: %q, %v", name, err)
		}
		stream, err := connectpb.NewBrokerClient(&http.Client{Transport: holder}, "https://server").Watch(t.Context(), connect.NewRequest(&pb.WatchRequest{
			Holder: &pb.Holder{Region: "eu", Instance: "limiter-0"}, Epoch: 1,
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for range 3 {
			if !stream.Receive() {
				t.Fatalf("the stream: %v", stream.Err())
			}
		}

		w.disk.write("ca.pem", next.CertificatePEM)
		w.pass(2 * tlsfiles.PollEvery)
		if _, err := w.ask(holder); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("on the connection that was let in: %v", err)
		}
		if w.net.dialled() != 1 {
			t.Fatalf("there were %d connections: the first was not kept", w.net.dialled())
		}
		for stream.Receive() { // until the next beat at the latest
		}
		if code := connect.CodeOf(stream.Err()); code != connect.CodeUnauthenticated {
			t.Errorf("the stream ends with %v", stream.Err())
		}

		_ = stream.Close()
		synctest.Wait() // the connection has nothing to do any more
		holder.CloseIdleConnections()
		if _, err := w.ask(holder); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("on a connection that would resume the session: %v", err)
		}
		if w.net.dialled() != 2 {
			t.Errorf("there were %d connections, want a second one", w.net.dialled())
		}
	})
}

// A certificate that expires is refused from the next request on, on the connection
// that it has opened.
func TestExpiredCertificateEndsOnItsConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		pair := issue(t, w.ca, localca.Request{URIs: []string{holderURI}, Life: 2 * time.Minute})
		holder := w.as(pair)
		defer holder.CloseIdleConnections()
		for range 2 {
			if _, err := w.ask(holder); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Minute)
		}
		w.pass(time.Second) // the end has whole seconds, and is part of the life
		if _, err := w.ask(holder); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("after its end: %v", err)
		}
		if w.net.dialled() != 1 {
			t.Errorf("there were %d connections, want one", w.net.dialled())
		}
	})
}

// No session is resumed: the server gives no tickets, and takes none.
func TestSessionsAreNotResumed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cache := tls.NewLRUClientSessionCache(10)
		cert := issue(t, w.ca, localca.Request{URIs: []string{holderURI}}).TLS()
		for range 3 {
			conn, err := w.net.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			client := tls.Client(conn, &tls.Config{ServerName: "server", RootCAs: w.ca.Pool(), ClientSessionCache: cache, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}})
			if _, err := client.Write([]byte("GET / HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			for buf := make([]byte, 1024); err == nil; { // tickets would come before the answer
				_, err = client.Read(buf)
			}
			if state := client.ConnectionState(); state.DidResume || state.Version != tls.VersionTLS13 {
				t.Errorf("resumed: %v, version %x", state.DidResume, state.Version)
			}
			_ = client.Close()
			if session, ok := cache.Get("server"); ok {
				t.Errorf("the server has given a ticket: %v", session)
			}
		}
	})
}

func TestOlderTLSIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		conn, err := w.net.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = tls.Client(conn, &tls.Config{ServerName: "server", RootCAs: w.ca.Pool(), MaxVersion: tls.VersionTLS12}).HandshakeContext(t.Context())
		if err == nil || err.Error() != "remote error: tls: protocol version not supported" {
			t.Errorf("TLS 1.2: %v", err)
		}
	})
}

// A connection in use lives for its age and no longer, and no request fails by its
// end.
func TestConnectionsHaveABoundedAge(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		holder := w.as(issue(t, w.ca, localca.Request{URIs: []string{holderURI}}))
		defer holder.CloseIdleConnections()
		seen, since := 0, time.Now()
		for range 360 {
			if _, err := w.ask(holder); err != nil {
				t.Fatal(err)
			}
			if n := w.net.dialled(); n != seen {
				if age := time.Since(since); seen > 0 && (age < 8*time.Minute || age > 12*time.Minute+20*time.Second) {
					t.Errorf("connection %d lived for %v, want 8m to 12m", seen, age)
				}
				seen, since = n, time.Now()
			}
			w.pass(10 * time.Second)
		}
		if seen < 5 || seen > 8 {
			t.Errorf("an hour took %d connections of 8m to 12m", seen)
		}
	})
}

// A stream from the server ends in order when its connection is old, and a request
// that only hangs is cut.
func TestOldConnectionsEndWithTheirRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for what, call := range map[string]struct {
			call func(context.Context, connectpb.BrokerClient) error
			most time.Duration
			code connect.Code
		}{
			"a stream": {most: 12*time.Minute + 10*time.Second, code: connect.CodeAborted, call: func(ctx context.Context, c connectpb.BrokerClient) error {
				stream, err := c.Watch(ctx, connect.NewRequest(&pb.WatchRequest{Holder: &pb.Holder{Region: "eu", Instance: "limiter-0"}, Epoch: 1}))
				if err != nil {
					return err
				}
				for stream.Receive() { // until it ends
				}
				_ = stream.Close()
				return stream.Err()
			}},
			"a request": {most: 12*time.Minute + 90*time.Second, code: connect.CodeUnavailable, call: func(ctx context.Context, c connectpb.BrokerClient) error {
				_, err := c.Register(ctx, connect.NewRequest(&pb.RegisterRequest{Holder: &pb.Holder{Region: "eu", Instance: "limiter-0"}, StartNonce: "0123456789abcdef"}))
				return err
			}},
		} {
			holder := w.as(issue(t, w.ca, localca.Request{URIs: []string{holderURI}}))
			begun := time.Now()
			err := call.call(t.Context(), connectpb.NewBrokerClient(&http.Client{Transport: holder}, "https://server"))
			took := time.Since(begun)
			if connect.CodeOf(err) != call.code || took < 8*time.Minute || took > call.most+time.Second {
				t.Errorf("%s ended after %v with %v, want %v after 8m to %v", what, took, err, call.code, call.most)
			}
			holder.CloseIdleConnections()
		}
	})
}

// A renewal is in use within seconds on both sides, without a restart and without a
// request that fails.
func TestRenewalWithoutARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		mine := disk{t, w.disk.path("mine")}
		if err := os.Mkdir(mine.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		mine.write("ca.pem", w.ca.CertificatePEM)
		mine.writePair(issue(t, w.ca, localca.Request{CommonName: "before", URIs: []string{holderURI}}))
		files, err := tlsfiles.Open(mine.config())
		if err != nil {
			t.Fatal(err)
		}
		shown := ""
		transport := files.Transport(func(cfg *tls.Config) *http.Transport {
			cfg.VerifyConnection = func(state tls.ConnectionState) error {
				shown = state.PeerCertificates[0].Subject.CommonName
				return nil
			}
			return w.transport(cfg)
		})
		defer transport.CloseIdleConnections()
		if name, err := w.ask(transport); err != nil || name != holderURI || shown != "first" {
			t.Fatalf("before: %q at %q, %v", name, shown, err)
		}

		// Both sides get certificates of another authority; each first learns to trust it.
		next := newAuthority(t, "next")
		w.disk.write("ca.pem", w.ca.CertificatePEM, next.CertificatePEM)
		mine.write("ca.pem", w.ca.CertificatePEM, next.CertificatePEM)
		if err := settle(files); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * tlsfiles.PollEvery)
		w.disk.writePair(issue(t, next, localca.Request{CommonName: "second", Hosts: []string{"server"}}))
		mine.writePair(issue(t, next, localca.Request{CommonName: "after", URIs: []string{"spiffe://example.org/tokenlease/operator/anna"}}))
		w.pass(2 * tlsfiles.PollEvery)
		if err := settle(files); err != nil {
			t.Fatal(err)
		}
		name, err := w.ask(transport)
		if err != nil || name != "spiffe://example.org/tokenlease/operator/anna" || shown != "second" {
			t.Errorf("after: %q at %q, %v", name, shown, err)
		}
		if n := w.net.dialled(); n != 2 {
			t.Errorf("there were %d connections, want one before and one after", n)
		}
	})
}
