package main

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/otelconnect"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
)

const (
	// traceTimeout bounds one export, and traceFlush what is left to send at the end.
	traceTimeout = 5 * time.Second
	traceFlush   = 3 * time.Second
	// traceLogs is how often an export that fails is logged.
	traceLogs = time.Minute
)

// traceSettings say where a server sends the traces of its RPCs.
type traceSettings struct {
	endpoint string
	sample   float64
}

// register adds the settings to flags.
func (s *traceSettings) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.endpoint, "trace-endpoint", "", "`URL` of an OpenTelemetry collector that takes OTLP over HTTP, such as https://collector:4318 (default: nothing is traced)")
	flags.Float64Var(&s.sample, "trace-sample", 0.01, "share of the traces that begin here to send, 0 to 1; a trace that a caller has begun is sent if the caller sends it")
}

// validate checks the settings together. plaintext allows clear text beyond loopback.
func (s *traceSettings) validate(plaintext bool) error {
	if s.endpoint != "" {
		if err := checkURL("trace-endpoint", s.endpoint); err != nil {
			return err
		}
		if isClear(s.endpoint) && !plaintext {
			return usageErrorf("--trace-endpoint %s is clear text: whoever is on the way could read who is asked what, and when; name it with https, send to a collector on loopback, or say --%s", s.endpoint, plaintextFlag)
		}
	}
	if !(s.sample >= 0 && s.sample <= 1) { // NaN is none either
		return usageErrorf("--trace-sample %v must be 0 to 1", s.sample)
	}
	return nil
}

// collector is the URL that traces are sent to: by default at the path of OTLP.
func (s *traceSettings) collector() string {
	u, err := url.Parse(s.endpoint)
	if err != nil || strings.Trim(u.Path, "/") != "" {
		return s.endpoint
	}
	return u.JoinPath("v1", "traces").String()
}

// tracing is how a server's RPCs are traced; nil: not at all.
//
// Spans carry the names of methods and their outcomes, and nothing of a request: no
// account, no operation. They wait in a bounded queue and are dropped beyond it, so a
// collector that is slow or away holds up nobody.
type tracing struct {
	provider    *sdktrace.TracerProvider
	interceptor connect.Interceptor
	log         *slog.Logger
}

// open starts tracing, if it is on. service names the server, and instance this one
// of it.
func (s *traceSettings) open(ctx context.Context, service, instance string, log *slog.Logger) (*tracing, error) {
	if s.endpoint == "" {
		return nil, nil //nolint:nilnil // off is no error
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(s.collector()), otlptracehttp.WithTimeout(traceTimeout))
	if err != nil {
		return nil, usageErrorf("--trace-endpoint: %w", err)
	}
	seldom := rate.NewLimiter(rate.Every(traceLogs), 1)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if seldom.Allow() {
			log.Warn("traces cannot be sent, and are dropped; nothing else is affected", "endpoint", s.endpoint, "error", err)
		}
	}))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(s.sample))),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", service), attribute.String("service.instance.id", instance), attribute.String("service.version", version()),
		)),
	)
	interceptor, err := otelconnect.NewInterceptor(
		otelconnect.WithTracerProvider(provider), otelconnect.WithPropagator(propagation.TraceContext{}),
		otelconnect.WithTrustRemote(), // who asks is known, and a trace goes through both
		otelconnect.WithoutMetrics(),
		otelconnect.WithFilter(func(_ context.Context, spec connect.Spec) bool {
			return spec.StreamType == connect.StreamTypeUnary // streams last as long as their callers
		}),
	)
	if err != nil {
		return nil, failure(err)
	}
	return &tracing{provider: provider, interceptor: interceptor, log: log}, nil
}

// handling are the options of RPC handlers.
func (t *tracing) handling() []connect.HandlerOption {
	if t == nil {
		return nil
	}
	return []connect.HandlerOption{connect.WithInterceptors(t.interceptor)}
}

// calling are the options of RPC clients.
func (t *tracing) calling() []connect.ClientOption {
	if t == nil {
		return nil
	}
	return []connect.ClientOption{connect.WithInterceptors(t.interceptor)}
}

// close sends what waits, for a while.
func (t *tracing) close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), traceFlush)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last traces were not sent", "error", err)
	}
}
