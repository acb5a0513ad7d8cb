package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// shutdownTimeout bounds how long a server waits for requests to end.
	shutdownTimeout = 5 * time.Second
	// HTTP/2 pings find connections that were cut silently. Those who call ask
	// often: while a request hangs at a broker, nothing else tells a limiter that
	// the broker is still there, and that what it said last still holds.
	pingAfter         = 10 * time.Second
	pingTimeout       = 5 * time.Second
	callerPingAfter   = 2 * time.Second
	callerPingTimeout = 2 * time.Second
	// maxHeaderBytes bounds what is read of a request before anybody looks at it.
	maxHeaderBytes = 64 << 10
	// maxRequests bounds what one listener has under way. Each limiter may have a
	// watch and a hanging Sync in each shard, so it is far above what is usual.
	maxRequests = 100_000
	// maxHealthChecks bounds those of them that ask for health over RPC, which anybody
	// may: they must not take the places of others.
	maxHealthChecks = 1000
	// maxSmallBytes is the largest message to health and reflection, which are asked
	// with the name of a service or of a file.
	maxSmallBytes = 4 << 10
)

// newLogger logs to w as the settings say.
func newLogger(w io.Writer, s logSettings) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.level.value)) // one of the flag's words
	options := &slog.HandlerOptions{Level: level}
	if s.format.value == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// newRegistry has the metrics of the process and of Go.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// newMux serves health, reflection and metrics; services are added by their
// owners. Health follows ready. It is open to everybody, so a body for it is not
// even decompressed.
func newMux(reg *prometheus.Registry, ready func() bool, services ...string) *http.ServeMux {
	mux := http.NewServeMux()
	small := connect.WithReadMaxBytes(maxSmallBytes)
	path, health := grpchealth.NewHandler(readiness{ready: ready, services: services}, small, connect.WithCompression("gzip", nil, nil))
	mux.Handle(path, atMost(maxHealthChecks, health))
	reflector := grpcreflect.NewStaticReflector(services...)
	mux.Handle(grpcreflect.NewHandlerV1(reflector, small))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, small))
	addPlain(mux, reg, ready)
	return mux
}

// addPlain adds what people and probes ask for without RPC.
func addPlain(mux *http.ServeMux, reg *prometheus.Registry, ready func() bool) {
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
}

// readiness answers gRPC health checks.
type readiness struct {
	ready    func() bool
	services []string
}

// Check implements grpchealth.Checker.
func (r readiness) Check(_ context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	known := req.Service == ""
	for _, service := range r.services {
		known = known || service == req.Service
	}
	switch {
	case !known:
		return &grpchealth.CheckResponse{Status: grpchealth.StatusUnknown}, nil
	case r.ready():
		return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
}

// listen opens an address that the flag names.
func listen(flag, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the address %s is in use, perhaps by another tokenlease: stop that, or choose another with --%s (port 0 takes a free one)", address, flag)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another address with --%s", address, err, flag)
	}
	return listener, nil
}

// serve answers on the listener until ctx ends, and then lets requests end, for
// a while. HTTP/1.1 and HTTP/2 are both spoken: over TLS, or without security in
// clear text.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, s *security) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(s != nil)
	protocols.SetUnencryptedHTTP2(s == nil)
	server := &http.Server{
		Handler: atMost(maxRequests, handler), Protocols: &protocols,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes,
		HTTP2:       &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, MaxConcurrentStreams: 1000},
		BaseContext: func(net.Listener) context.Context { return requests },
	}
	protected := s.protect(server, listener)
	server.Handler = bodiesWithin(bodyTimeout, server.Handler)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(protected) }() // ends with Shutdown or Close
	select {
	case err := <-failed:
		return fmt.Errorf("the server on %s has failed: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	cancel() // hanging requests end now
	limit, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer stop()
	if err := server.Shutdown(limit); err != nil {
		return server.Close()
	}
	return nil
}

// atMost answers 503 to requests beyond so many at a time.
func atMost(most int64, handler http.Handler) http.Handler {
	var underWay atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer underWay.Add(-1)
		if underWay.Add(1) > most {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests are under way: try again later", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// newHTTPClient calls servers of this program over HTTP/2 in clear text, and those
// of https URLs by the authorities of the system. dial, if not nil, makes its
// connections.
func newHTTPClient(dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: newTransport(dial)}
}

// newTransport is what the clients of this program call servers with.
func newTransport(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	if dial == nil {
		dial = (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: pingAfter}).DialContext
	}
	return &http.Transport{
		Protocols: &protocols, DialContext: dial, IdleConnTimeout: 2 * time.Minute, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 5 * time.Second,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: callerPingAfter, PingTimeout: callerPingTimeout},
	}
}
