package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// stack is a broker over a store in memory and the limiters of some regions, in a
// bubble of package synctest: time passes when everybody waits, so a test says
// at which instant something happens.
type stack struct {
	t      *testing.T
	store  *store.Memory
	admin  tokenleasev1connect.AdminClient
	broker *wireless
	reg    *prometheus.Registry // of the broker
	ends   []func()             // run at the end, the last first, within the bubble
}

// stackRegion is the limiter of one region of a stack.
type stackRegion struct {
	*regional.Limiter
	reg  *prometheus.Registry
	net  *wireless
	stop func()
}

// onStack runs a test with policies in force.
func onStack(t *testing.T, policies string, test func(s *stack)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stack{t: t, store: store.NewMemory(), broker: &wireless{}, reg: prometheus.NewRegistry()}
		mux := http.NewServeMux()
		s.broker.handler = mux
		b, err := broker.New(t.Context(), broker.Config{
			Store: s.store, Shards: 4, ID: "a", AdvertiseURL: "http://broker", HTTPClient: &http.Client{Transport: s.broker}, Registerer: s.reg,
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Mount(mux, edge.Options())
		s.admin = tokenleasev1connect.NewAdminClient(&http.Client{Transport: s.broker}, "http://broker")
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = b.Run(ctx) })
		s.ends = append(s.ends, func() { stop(); running.Wait() })
		defer func() {
			for _, end := range slices.Backward(s.ends) {
				end()
			}
		}()
		if err := b.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.apply(policies)
		test(s)
	})
}

// apply puts policies in force, and waits until the shards have read them.
func (s *stack) apply(text string) {
	s.t.Helper()
	doc, err := policyfile.Parse("policies.yaml", []byte(text))
	if err == nil {
		_, err = s.admin.ApplyPolicies(s.t.Context(), connect.NewRequest(&pb.ApplyPoliciesRequest{
			Policies: doc.Policies, Plans: doc.Plans, DefaultPlan: doc.DefaultPlan, Accounts: doc.Accounts, AppliedBy: "ann",
		}))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
}

// region starts a limiter without a journal.
func (s *stack) region(name string, change ...func(*regional.Config)) *stackRegion {
	s.t.Helper()
	r := &stackRegion{reg: prometheus.NewRegistry(), net: &wireless{handler: s.broker.handler}}
	cfg := regional.Config{
		Region: name, Instance: "limiter-0", Brokers: []string{"http://broker"}, HTTPClient: &http.Client{Transport: r.net},
		JournalMode: holder.JournalOff, Registerer: r.reg,
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if r.Limiter, err = regional.New(cfg); err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	r.stop = func() { stop(); running.Wait() }
	s.ends = append(s.ends, r.stop)
	synctest.Wait()
	if !r.Ready() {
		s.t.Fatal("the limiter is not registered")
	}
	return r
}

// pass lets time pass.
func (s *stack) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wireless is a network without connections: a request is a call of the handler,
// and its answer is read as it is written. It can be cut.
type wireless struct {
	handler http.Handler
	cut     atomic.Bool
	delay   atomic.Int64 // of each direction, in nanoseconds
	calls   atomic.Int64
}

var errWireless = errors.New("the network is cut")

// RoundTrip implements http.RoundTripper.
func (n *wireless) RoundTrip(req *http.Request) (*http.Response, error) {
	n.calls.Add(1)
	if n.cut.Load() {
		return nil, errWireless
	}
	if d := time.Duration(n.delay.Load()); d > 0 {
		<-time.After(d)
		defer func() { <-time.After(d) }()
	}
	body, out := io.Pipe()
	answer := &pipeAnswer{header: http.Header{}, body: out, begun: make(chan struct{})}
	go func() { // ends with the handler
		defer answer.end()
		n.handler.ServeHTTP(answer, req)
	}()
	select {
	case <-answer.begun:
		return &http.Response{
			StatusCode: answer.status, Header: answer.sent, Body: body, Request: req, Trailer: answer.trailer,
			Proto: "HTTP/2.0", ProtoMajor: 2, ContentLength: -1,
		}, nil
	case <-req.Context().Done():
		_ = body.Close()
		return nil, req.Context().Err()
	}
}

// pipeAnswer is the handler's side of an answer.
type pipeAnswer struct {
	header, sent, trailer http.Header
	status                int
	body                  *io.PipeWriter
	once                  sync.Once
	begun                 chan struct{}
}

func (a *pipeAnswer) Header() http.Header { return a.header }

func (a *pipeAnswer) WriteHeader(status int) {
	a.once.Do(func() {
		a.status, a.sent, a.trailer = status, a.header.Clone(), http.Header{}
		close(a.begun)
	})
}

func (a *pipeAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush implements http.Flusher: what is written is on its way already.
func (a *pipeAnswer) Flush() { a.WriteHeader(http.StatusOK) }

func (a *pipeAnswer) end() {
	a.WriteHeader(http.StatusOK)
	for name, values := range a.header {
		if trailer, ok := cutTrailer(name); ok {
			a.trailer[trailer] = values
		}
	}
	_ = a.body.Close()
}

func cutTrailer(name string) (string, bool) {
	if len(name) > len(http.TrailerPrefix) && name[:len(http.TrailerPrefix)] == http.TrailerPrefix {
		return name[len(http.TrailerPrefix):], true
	}
	return "", false
}
