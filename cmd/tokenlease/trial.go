package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/dashboard"
	"github.com/tokenlease/tokenlease/broker/etcdstore"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional"
)

// trial is a whole deployment in this process: an embedded etcd, a broker, and a
// limiter per region, each with a network of its own that can be cut.
type trial struct {
	dir    string
	log    *slog.Logger
	etcd   *etcdstore.Embedded
	broker *broker.Broker
	url    string // of the broker
	admin  tokenleasev1connect.AdminClient
	group  *errgroup.Group
	ctx    context.Context //nolint:containedctx // the life of the whole trial
	stop   context.CancelFunc
}

// region is one limiter of a trial.
type region struct {
	name    string
	limiter *regional.Limiter
	link    *link
	reg     *prometheus.Registry
	stop    context.CancelFunc
	ended   chan struct{}
	err     error // of its Run, once ended is closed
}

// startTrial starts etcd and a broker on listener, with everything kept in dir.
func startTrial(ctx context.Context, dir string, listener net.Listener, log *slog.Logger, extend func(*http.ServeMux)) (*trial, error) {
	etcd, err := etcdstore.StartEmbedded(ctx, etcdstore.EmbeddedConfig{Dir: filepath.Join(dir, "etcd")})
	if err != nil {
		return nil, err
	}
	t := &trial{dir: dir, log: log, etcd: etcd, url: "http://" + listener.Addr().String()}
	reg := newRegistry()
	t.broker, err = broker.New(ctx, broker.Config{
		Store: etcd.Store(), AdvertiseURL: t.url, HTTPClient: newHTTPClient(nil), Registerer: reg, Logger: log,
		ProgramVersion: version(),
	})
	if err != nil {
		return nil, errors.Join(err, etcd.Close())
	}
	t.admin = tokenleasev1connect.NewAdminClient(newHTTPClient(nil), t.url)
	life, stop := context.WithCancel(context.WithoutCancel(ctx)) // regions stop first
	t.stop = stop
	t.group, t.ctx = errgroup.WithContext(life)
	mux := brokerMux(t.broker, reg)
	if extend != nil {
		extend(mux)
	}
	handler, err := (&dashboardSettings{path: dashboard.DefaultPath}).serve(mux, t.url)
	if err != nil {
		return nil, errors.Join(err, etcd.Close())
	}
	t.group.Go(func() error { return serveAll(t.ctx, served{work: t.broker.Run, listener: listener, handler: handler}) })
	if err := t.broker.WaitReady(t.ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the broker did not become ready: %w", err), t.close())
	}
	return t, nil
}

// trialIdle is how long a region keeps credit that it does not use: longer than by default,
// since whoever tries something types it.
const trialIdle = 5 * time.Minute

// startRegion starts a limiter, or starts it again with the journal that it left.
func (t *trial) startRegion(name string) (*region, error) {
	r := &region{name: name, link: &link{}, reg: newRegistry(), ended: make(chan struct{})}
	var err error
	r.limiter, err = regional.New(regional.Config{
		Region: name, Instance: "limiter-0", Brokers: []string{t.url}, HTTPClient: newHTTPClient(r.link.Dial),
		JournalDir: filepath.Join(t.dir, name), StopTimeout: 2 * time.Second, Registerer: r.reg, Logger: t.log.With("region", name),
		IdleAfter: trialIdle,
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(t.ctx)
	r.stop = stop
	go func() { // ends when the trial or the region stops
		defer close(r.ended)
		r.err = r.limiter.Run(ctx)
	}()
	return r, nil
}

// close stops everything in order: regions hand their credit back first.
func (t *trial) close(regions ...*region) error {
	var errs []error
	for _, r := range regions {
		r.stop()
		<-r.ended
		errs = append(errs, r.err)
	}
	t.stop()
	errs = append(errs, t.group.Wait(), t.etcd.Close())
	return errors.Join(errs...)
}
