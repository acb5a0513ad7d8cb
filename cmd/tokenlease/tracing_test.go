package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// traceReceiver takes OTLP over HTTP, as a collector does.
type traceReceiver struct {
	*httptest.Server
	mu    sync.Mutex
	raw   bytes.Buffer
	spans map[string][]*otlp.Span // by service
}

func newTraceReceiver(t *testing.T) *traceReceiver {
	t.Helper()
	r := &traceReceiver{spans: map[string][]*otlp.Span{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := io.Reader(req.Body)
		if req.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(body); err != nil {
				t.Error(err)
				return
			}
		}
		data, err := io.ReadAll(body)
		if err != nil || req.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", req.URL.Path, err)
			return
		}
		var export collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(data, &export); err != nil {
			t.Error(err)
			return
		}
		r.add(data, &export)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *traceReceiver) add(data []byte, export *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw.Write(data)
	for _, resource := range export.GetResourceSpans() {
		service := ""
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			r.spans[service] = append(r.spans[service], scope.GetSpans()...)
		}
	}
}

// runTraced runs a broker and a limiter that trace to the endpoint, decides one check,
// and stops them.
func runTraced(t *testing.T, endpoint string) decision.Answer {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	settings := traceSettings{endpoint: endpoint, sample: 1}
	open := func(service string) *tracing {
		traces, err := settings.open(ctx, service, "1", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return traces
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()

	atBroker := open("tokenlease-broker")
	defer atBroker.close()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	b, err := broker.New(ctx, broker.Config{
		Store: store.NewMemory(), Shards: 1, AdvertiseURL: server.URL, HTTPClient: server.Client(), ClientOptions: atBroker.calling(),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Mount(mux, append(atBroker.handling(), edge.Options())...)
	serving, stopBroker := context.WithCancel(context.Background())
	running.Go(func() { _ = b.Run(serving) })
	defer stopBroker()
	if err := b.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	doc, err := policyfile.Parse("policies.yaml", []byte(devPolicies))
	if err != nil {
		t.Fatal(err)
	}
	admin := tokenleasev1connect.NewAdminClient(server.Client(), server.URL)
	if _, err := admin.ApplyPolicies(ctx, connect.NewRequest(&pb.ApplyPoliciesRequest{Policies: doc.Policies, AppliedBy: "ann"})); err != nil {
		t.Fatal(err)
	}

	atLimiter := open("tokenlease-limiter")
	defer atLimiter.close()
	l, err := regional.New(regional.Config{
		Region: "eu", Instance: "limiter-0", JournalMode: holder.JournalOff,
		Clients: []tokenleasev1connect.BrokerClient{tokenleasev1connect.NewBrokerClient(server.Client(), server.URL, atLimiter.calling()...)},
	})
	if err != nil {
		t.Fatal(err)
	}
	limiting, stopLimiter := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(limiting) }()
	answer := l.Wait(ctx, "secret-account", "report.create", 5)
	stopLimiter()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return answer
}

// The Sync that a check needs is one trace: a client's span at the limiter, and the
// broker's span below it. Nothing in it names the account.
func TestTraceOfASync(t *testing.T) {
	r := newTraceReceiver(t)
	if answer := runTraced(t, r.URL); !answer.Allowed {
		t.Fatalf("denied: %+v", answer)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	const sync = "tokenlease.v1.Broker/Sync"
	client := map[string]*otlp.Span{} // by span ID
	for _, s := range r.spans["tokenlease-limiter"] {
		if s.GetName() == sync && s.GetKind() == otlp.Span_SPAN_KIND_CLIENT {
			client[hex.EncodeToString(s.GetSpanId())] = s
		}
	}
	together := 0
	for _, s := range r.spans["tokenlease-broker"] {
		if s.GetName() != sync || s.GetKind() != otlp.Span_SPAN_KIND_SERVER {
			continue
		}
		if parent := client[hex.EncodeToString(s.GetParentSpanId())]; parent != nil && bytes.Equal(parent.GetTraceId(), s.GetTraceId()) {
			together++
		}
	}
	if together == 0 || together != len(client) {
		t.Errorf("%d Syncs of the limiter have a span at the broker below them, of %d", together, len(client))
	}
	if strings.Contains(r.raw.String(), "secret-account") || strings.Contains(r.raw.String(), "report.create") {
		t.Error("a trace says who asked, or what for")
	}
}

// A collector that is not there changes nothing.
func TestTracingWithoutACollector(t *testing.T) {
	r := newTraceReceiver(t)
	r.Close()
	if answer := runTraced(t, r.URL); !answer.Allowed {
		t.Errorf("denied: %+v", answer)
	}
}

func TestTraceSettings(t *testing.T) {
	for _, tc := range []struct {
		settings traceSettings
		want     string
	}{
		{traceSettings{sample: 0.01}, ""},
		{traceSettings{endpoint: "https://collector:4318", sample: 1}, ""},
		{traceSettings{endpoint: "http://127.0.0.1:4318"}, ""},
		{traceSettings{endpoint: "http://collector:4318"}, "--trace-endpoint http://collector:4318 is clear text: whoever is on the way could read who is asked what, and when; name it with https, send to a collector on loopback, or say --allow-plaintext"},
		{traceSettings{endpoint: "collector:4318"}, `--trace-endpoint "collector:4318" is not a URL such as http://127.0.0.1:7600`},
		{traceSettings{sample: 1.5}, "--trace-sample 1.5 must be 0 to 1"},
		{traceSettings{sample: -1}, "--trace-sample -1 must be 0 to 1"},
	} {
		got := ""
		if err := tc.settings.validate(false); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.settings, got, tc.want)
		}
	}
}
