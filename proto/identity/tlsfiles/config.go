package tlsfiles

import (
	"crypto/tls"
	"errors"
	"net/http"
	"sync/atomic"
)

// errNoCertificate is for a server without one.
var errNoCertificate = errors.New("tlsfiles: there is no certificate to show")

// ServerConfig is for a server. It asks for a certificate and lets every caller
// through the handshake, which proves only that the caller has the key of what it
// shows: an identity.Guard must judge each request. So a caller that is refused is
// told why, and one that was let in is judged again by what is in force later.
func (f *Files) ServerConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: tls.RequestClientCert,
		// A ticket would be the word of an authority that was in force once.
		SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if cert := f.state.Load().certificate; cert != nil {
				return cert, nil
			}
			return nil, errNoCertificate
		},
	}
}

// ClientConfig is for one new connection of a client that has no use for a Transport:
// it is of the files in force now.
func (f *Files) ClientConfig() *tls.Config { return f.state.Load().clientConfig() }

// clientConfig is for a client, as long as the state is in force.
func (s *state) clientConfig() *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: s.trust.Authorities}
	if s.certificate != nil {
		cfg.Certificates = []tls.Certificate{*s.certificate}
	}
	return cfg
}

// Transport is a http.RoundTripper whose connections are of the files in force.
type Transport struct {
	files   *Files
	make    func(*tls.Config) *http.Transport
	current atomic.Pointer[dated]
}

// dated is a transport of one state.
type dated struct {
	*http.Transport

	state *state
}

// Transport makes transports of a configuration for clients: one now, and one each
// time that the files have changed. Requests under way end on the connections that
// they have.
func (f *Files) Transport(build func(*tls.Config) *http.Transport) *Transport {
	return &Transport{files: f, make: build}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.newest().RoundTrip(req)
}

// CloseIdleConnections closes those that no request uses.
func (t *Transport) CloseIdleConnections() {
	if current := t.current.Load(); current != nil {
		current.CloseIdleConnections()
	}
}

func (t *Transport) newest() *http.Transport {
	for {
		current, state := t.current.Load(), t.files.state.Load()
		if current != nil && current.state == state {
			return current.Transport
		}
		next := &dated{t.make(state.clientConfig()), state}
		if t.current.CompareAndSwap(current, next) && current != nil {
			current.CloseIdleConnections()
		}
	}
}
