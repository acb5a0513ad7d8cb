package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/dashboard"
	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// server serves the page with an Admin service, as a broker does.
type server struct {
	*httptest.Server

	down atomic.Bool

	mu    sync.Mutex
	calls []string      // such as "POST /tokenlease.v1.Admin/WhoAmI 200"
	more  chan struct{} // closed with the next call
}

// newServer serves the page with the handler.
func newServer(t testing.TB, admin tokenleasev1connect.AdminHandler) *server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(tokenleasev1connect.NewAdminHandler(admin, edge.Options()))
	return serve(t, mux)
}

// serve adds the page to mux, and serves it on a port of loopback.
func serve(t testing.TB, mux *http.ServeMux) *server {
	t.Helper()
	newHandler(t, dashboard.Config{}).Mount(mux)
	s := &server{more: make(chan struct{})}
	guarded := dashboard.Guard(mux)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if s.down.Load() && req.Method == http.MethodPost {
			panic(http.ErrAbortHandler) // as a broker that is gone
		}
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		guarded.ServeHTTP(seen, req)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, fmt.Sprintf("%s %s %d", req.Method, req.URL.Path, seen.status))
		close(s.more)
		s.more = make(chan struct{})
	}))
	t.Cleanup(s.Close)
	return s
}

// asked are the answers that were given of late.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// ui is the address of a view.
func (s *server) ui(hash string) string { return s.URL + "/ui/" + hash }

// answer is a unary method that always answers the same.
func answer[Resp any](resp *Resp) (*connect.Response[Resp], error) {
	return connect.NewResponse(resp), nil
}

// empty is a broker that knows nothing yet.
type empty struct {
	tokenleasev1connect.UnimplementedAdminHandler
}

// waitAsked waits until a procedure was asked so often since the last look.
func (s *server) waitAsked(t testing.TB, procedure string, times int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		s.mu.Lock()
		count, more := 0, s.more
		for _, call := range s.calls {
			if strings.HasPrefix(call, "POST "+procedure+" ") {
				count++
			}
		}
		s.mu.Unlock()
		if count >= times {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("%s was asked %d times, want %d", procedure, count, times)
		}
	}
}
