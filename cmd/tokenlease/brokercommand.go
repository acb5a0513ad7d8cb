package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/etcdstore"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// brokerCommand runs a broker.
func (p *program) brokerCommand() *cobra.Command {
	settings := &brokerSettings{}
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run a broker",
		Long: `Run a broker: it splits budgets into grants and records them on etcd.

With --data-dir it runs an etcd of one member itself, on loopback. With
--etcd-endpoints it uses a cluster, and several brokers can share it: each owns
some of the shards, passes on what it does not own, and when one dies the others
take over within --session-ttl.

Limiters and operators may ask any broker. Health is at /healthz and /readyz,
metrics are at /metrics.`,
		Example: `  # One broker with an etcd of its own.
  tokenlease broker --data-dir /var/lib/tokenlease

  # One of several, on an etcd cluster with TLS.
  tokenlease broker --listen 10.0.0.5:7600 --etcd-endpoints https://etcd-1:2379,https://etcd-2:2379 \
    --etcd-cacert ca.pem --etcd-cert broker.pem --etcd-key broker-key.pem`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settings.validate(); err != nil {
				return err
			}
			return p.runBroker(cmd.Context(), settings)
		},
	}
	addSettings(cmd, settings.register)
	return cmd
}

// noArguments refuses arguments, which these commands have none of.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageErrorf("unexpected argument %q: this command takes flags only", args[0])
	}
	return nil
}

func (p *program) runBroker(ctx context.Context, s *brokerSettings) error {
	log := newLogger(p.stderr, s.log)
	listener, err := listen("listen", s.listen)
	if err != nil {
		return failure(err)
	}
	defer listener.Close()
	advertise, err := s.advertised(listener.Addr())
	if err != nil {
		return err
	}
	st, closeStore, err := s.openStore(ctx, log)
	if err != nil {
		return failure(err)
	}
	defer closeStore()
	reg := newRegistry()
	id := "" // random
	if s.dataDir != "" {
		// The directory's lock says that no earlier broker on it runs: by the same
		// name it takes its shards over at once, without waiting for a session.
		id = "embedded"
	}
	b, err := broker.New(ctx, broker.Config{
		ID: id, Store: st, Prefix: s.etcd.prefix, Shards: s.shards, AdvertiseURL: advertise, SessionTTL: s.sessionTTL,
		HTTPClient: newHTTPClient(nil), Registerer: reg, Logger: log,
	})
	if err != nil {
		return failure(err)
	}
	log.Info("broker serving", "address", listener.Addr().String(), "advertise", advertise, "cluster", b.ClusterID(), "shards", b.Shards())
	return serveAll(ctx, b.Run, listener, brokerMux(b, reg), s.metricsListen, reg, b.Ready)
}

// brokerMux has everything that a broker serves.
func brokerMux(b *broker.Broker, reg *prometheus.Registry) *http.ServeMux {
	mux := newMux(reg, b.Ready, tokenleasev1connect.BrokerName, tokenleasev1connect.AdminName)
	b.Mount(mux, edge.Options())
	return mux
}

// serveAll runs a server's work and its listeners until ctx ends or one of them
// fails. The work ends first, in order, while requests are still answered.
func serveAll(ctx context.Context, work func(context.Context) error, listener net.Listener, mux http.Handler, metrics string, reg *prometheus.Registry, ready func() bool) error {
	group, gctx := errgroup.WithContext(ctx)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	group.Go(func() error {
		defer stopServing()
		err := work(gctx)
		if err == nil && ctx.Err() == nil {
			err = errors.New("stopped without being asked to")
		}
		return err
	})
	group.Go(func() error { return serve(serving, listener, mux) })
	if metrics != "" {
		extra, err := listen("metrics-listen", metrics)
		if err != nil {
			stopServing()
			return failure(errors.Join(err, group.Wait()))
		}
		plain := http.NewServeMux()
		addPlain(plain, reg, ready)
		group.Go(func() error { return serve(serving, extra, plain) })
	}
	return failure(group.Wait())
}

// failure ends the program with the exit code for a server that cannot run.
func failure(err error) error {
	if err == nil {
		return nil
	}
	return exitError{code: exitUnreachable, text: err.Error()}
}

// advertised is the URL at which others reach a broker that listens at addr.
func (s *brokerSettings) advertised(addr net.Addr) (string, error) {
	if s.advertise != "" {
		return s.advertise, nil
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return "", usageErrorf("--listen %s takes any address, so other brokers need to be told one: set --advertise URL", s.listen)
	}
	return "http://" + addr.String(), nil
}

// openStore opens the embedded etcd or connects to the cluster. Close it last.
func (s *brokerSettings) openStore(ctx context.Context, log *slog.Logger) (store.Store, func(), error) {
	if s.dataDir != "" {
		log.Info("starting the embedded etcd", "data-dir", s.dataDir)
		e, err := etcdstore.StartEmbedded(ctx, etcdstore.EmbeddedConfig{Dir: s.dataDir, Logger: log})
		if err != nil {
			return nil, nil, err
		}
		return e.Store(), func() {
			if err := e.Close(); err != nil {
				log.Error("the embedded etcd did not stop cleanly", "error", err)
			}
		}, nil
	}
	cfg, err := s.etcd.config()
	if err != nil {
		return nil, nil, err
	}
	cfg.Logger = log
	st, err := etcdstore.Open(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return st, func() { _ = st.Close() }, nil
}

// config reads the files that the settings name.
func (s *etcdSettings) config() (etcdstore.Config, error) {
	cfg := etcdstore.Config{Endpoints: s.endpoints, Username: s.user}
	if s.passwordFile != "" {
		password, err := os.ReadFile(s.passwordFile)
		if err != nil {
			return cfg, fmt.Errorf("--etcd-password-file: %w", err)
		}
		cfg.Password = strings.TrimRight(string(password), "\r\n")
	}
	if s.caCert == "" && s.cert == "" {
		return cfg, nil
	}
	cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if s.caCert != "" {
		pem, err := os.ReadFile(s.caCert)
		if err != nil {
			return cfg, fmt.Errorf("--etcd-cacert: %w", err)
		}
		cfg.TLS.RootCAs = x509.NewCertPool()
		if !cfg.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return cfg, fmt.Errorf("--etcd-cacert: %s has no certificate in PEM form", s.caCert)
		}
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return cfg, fmt.Errorf("--etcd-cert and --etcd-key: %w", err)
		}
		cfg.TLS.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
