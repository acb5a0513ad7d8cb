package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

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
// owners. Health follows ready.
func newMux(reg *prometheus.Registry, ready func() bool, services ...string) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(grpchealth.NewHandler(readiness{ready: ready, services: services}))
	reflector := grpcreflect.NewStaticReflector(services...)
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector))
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
// a while. HTTP/1.1 and HTTP/2 are both spoken in clear text.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: handler, Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		HTTP2:       &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, MaxConcurrentStreams: 1000},
		BaseContext: func(net.Listener) context.Context { return requests },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }() // ends with Shutdown or Close
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

// newHTTPClient calls servers of this program over HTTP/2, in clear text for
// http URLs. dial, if not nil, makes its connections.
func newHTTPClient(dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	if dial == nil {
		dial = (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: pingAfter}).DialContext
	}
	return &http.Client{Transport: &http.Transport{
		Protocols: &protocols, DialContext: dial, IdleConnTimeout: 2 * time.Minute, ForceAttemptHTTP2: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: callerPingAfter, PingTimeout: callerPingTimeout},
	}}
}
