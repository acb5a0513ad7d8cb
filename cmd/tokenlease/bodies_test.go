package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// pipes is a listener whose connections are made in memory.
type pipes struct {
	made   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{made: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.made:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial makes a connection.
func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.made <- there
	return here, nil
}

// client speaks one version of HTTP over the pipes.
func (p *pipes) client(version2 bool) *http.Client {
	transport := newTransport(p.dial)
	if !version2 {
		transport = &http.Transport{DialContext: p.dial}
	}
	return &http.Client{Transport: transport}
}

// httpVersions are those that servers speak, by whether it is the second.
var httpVersions = map[string]bool{"HTTP/1.1": false, "HTTP/2": true}

// onPipes runs a test against a server in clear text, in a bubble of package
// synctest, in which time passes when everybody waits.
func onPipes(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, p *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- serve(ctx, p, handler, nil) }()
		test(t, p)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// post sends a body of unknown length, and returns the answer.
func (p *pipes) post(t *testing.T, client *http.Client, path string, body io.Reader) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// A body that does not come holds its place among the requests under way for ten
// seconds, and no longer.
func TestBodyThatNeverComes(t *testing.T) {
	for name, version2 := range httpVersions {
		for sent, first := range map[string]string{"nothing": "", "a part": "half of it"} {
			t.Run(name+" and "+sent, func(t *testing.T) {
				var read chan error
				onPipes(t, func(w http.ResponseWriter, r *http.Request) {
					_, err := io.ReadAll(r.Body)
					read <- err
					_, _ = io.WriteString(w, "too late")
				}, func(t *testing.T, p *pipes) {
					read = make(chan error, 1) // of the bubble
					client := p.client(version2)
					defer client.CloseIdleConnections()
					body, rest := io.Pipe()
					began := time.Now()
					go func() { // ends as the body is closed
						if first != "" {
							_, _ = io.WriteString(rest, first)
						}
					}()
					answered := make(chan struct{})
					go func() { // ends with the answer, or with the test
						defer close(answered)
						req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server/", body)
						if resp, err := client.Do(req); err == nil {
							_ = resp.Body.Close()
						}
					}()
					if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("the body is read with %v, want that it is late", err)
					}
					if took := time.Since(began); took != bodyTimeout {
						t.Errorf("it is given up after %v, want %v", took, bodyTimeout)
					}
					_ = rest.Close()
					<-answered
				})
			})
		}
	}
}

// Once its body is there, a request may hang for as long as it likes, and so may the
// next one on the same connection.
func TestRequestsHangAfterTheirBody(t *testing.T) {
	const hang = 75 * time.Second // longer than any Sync
	for name, version2 := range httpVersions {
		t.Run(name, func(t *testing.T) {
			onPipes(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				for range 3 { // a stream of answers
					select {
					case <-time.After(hang / 3):
					case <-r.Context().Done():
						t.Error("the request was ended:", r.Context().Err())
						return
					}
					_, _ = w.Write(body)
					if err := http.NewResponseController(w).Flush(); err != nil {
						t.Error(err)
					}
				}
			}, func(t *testing.T, p *pipes) {
				client := p.client(version2)
				defer client.CloseIdleConnections()
				for range 2 {
					body, rest := io.Pipe()
					go func() { // ends with the body, which comes in time, but only just
						<-time.After(bodyTimeout - time.Millisecond)
						_, _ = io.WriteString(rest, "x")
						_ = rest.Close()
					}()
					if got := p.post(t, client, "/tokenlease.v1.Broker/Sync", body); got != "xxx" {
						t.Errorf("answer %q, want all three parts", got)
					}
				}
			})
		})
	}
}

// A stream of checks is a body that goes on.
func TestStreamsOfMessagesGoOn(t *testing.T) {
	onPipes(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}, func(t *testing.T, p *pipes) {
		client := p.client(true)
		defer client.CloseIdleConnections()
		for _, path := range []string{
			tokenleasev1connect.LimiterCheckStreamProcedure,
			"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
		} {
			body, rest := io.Pipe()
			go func() { // ends with the body
				for range 5 {
					_, _ = io.WriteString(rest, "x")
					<-time.After(time.Minute)
				}
				_ = rest.Close()
			}()
			if got := p.post(t, client, path, body); got != "xxxxx" {
				t.Errorf("%s has read %q, want all that was sent", path, got)
			}
		}
	})
}

// What is left of a body once it is answered, HTTP/1.1 reads as well: that ends too.
func TestRestOfAnAnsweredBody(t *testing.T) {
	onPipes(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "nobody is let in", http.StatusUnauthorized)
	}, func(t *testing.T, p *pipes) {
		conn, err := p.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		began := time.Now()
		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 5\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err = io.ReadAll(resp.Body); err != nil {
			t.Error(err)
		}
		if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection has %d bytes more and %v, want its end", n, err)
		}
		if took := time.Since(began); took != bodyTimeout && took != bodyTimeout+500*time.Millisecond { // which net/http waits before it closes
			t.Errorf("it is closed after %v, want %v", took, bodyTimeout)
		}
	})
}

// The same over real connections, encrypted.
func TestBodyThatNeverComesOverTLS(t *testing.T) {
	for name, version2 := range httpVersions {
		t.Run(name, func(t *testing.T) {
			read := make(chan error, 1)
			server := httptest.NewUnstartedServer(bodiesWithin(10*time.Millisecond, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				read <- err
			})))
			server.EnableHTTP2 = version2
			server.StartTLS()
			defer server.Close()
			body, rest := io.Pipe()
			defer rest.Close()
			answered := make(chan struct{})
			go func() { // ends with the answer
				defer close(answered)
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
				if resp, err := server.Client().Do(req); err == nil {
					_ = resp.Body.Close()
				}
			}()
			if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the body is read with %v, want that it is late", err)
			}
			_ = rest.Close()
			<-answered
		})
	}
}
