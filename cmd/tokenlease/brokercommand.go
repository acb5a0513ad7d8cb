package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/dashboard"
	"github.com/tokenlease/tokenlease/broker/etcdstore"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/identity/tlsfiles"
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
metrics are at /metrics. The operators' page is at --dashboard-path, for a browser.
With --plain-config limits and plans are also shown and set in plain JSON:
https://pkg.go.dev/github.com/tokenlease/tokenlease/broker/plainconfig

With --tls-cert, --tls-key and --tls-client-ca everything is served over TLS 1.3, and
callers may do what the roles in their certificates allow: holder (a limiter, under
its own name), viewer, operator, broker. "tokenlease certs show FILE" tells the roles
of a certificate, and --roles gives other names theirs. Other brokers are asked with
the same certificate and checked by the same authorities. All of these files are read
again when they change, and at SIGHUP. Without them only loopback is served.`,
		Example: `  # One broker with an etcd of its own.
  tokenlease broker --data-dir /var/lib/tokenlease

  # One of several, on an etcd cluster, with TLS to all sides.
  tokenlease broker --listen 10.0.0.5:7600 --etcd-endpoints https://etcd-1:2379,https://etcd-2:2379 \
    --etcd-cacert etcd-ca.pem --etcd-cert broker.pem --etcd-key broker-key.pem \
    --tls-cert broker.pem --tls-key broker-key.pem --tls-client-ca ca.pem

  # A file for --roles: names in certificates that are not of tokenlease's own form,
  # as "tokenlease certs show" tells them.
  peers:
    - name: dns:limiter-0.eu.example.org
      roles: [holder, gateway]
      holders: [eu/limiter-0]
    - name: email:anna@example.org
      roles: [operator]
      as: anna                # recorded as; left out: the name`,
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
	reg := newRegistry()
	secure, err := s.tls.open(reg, log, s.paths())
	if err != nil {
		return err
	}
	listener, err := listen("listen", s.listen)
	if err != nil {
		return failure(err)
	}
	defer listener.Close()
	advertise, err := s.advertised(listener.Addr())
	if err != nil {
		return err
	}
	st, follow, closeStore, err := s.openStore(ctx, reg, log)
	if err != nil {
		return failure(err)
	}
	defer closeStore()
	traces, err := s.trace.open(ctx, "tokenlease-broker", advertise, log)
	if err != nil {
		return err
	}
	defer traces.close()
	id := "" // random
	if s.dataDir != "" {
		// The directory's lock says that no earlier broker on it runs: by the same
		// name it takes its shards over at once, without waiting for a session.
		id = "embedded"
	}
	b, err := broker.New(ctx, broker.Config{
		ID: id, Store: st, Prefix: s.etcd.prefix, Shards: s.shards, AdvertiseURL: advertise, SessionTTL: s.sessionTTL,
		HTTPClient: secure.client(), ClientOptions: traces.calling(), CertificateExpires: secure.expires(), Registerer: reg, Logger: log,
		ProgramVersion: version(), AuditRetention: time.Duration(s.auditFor),
	})
	if err != nil {
		return failure(err)
	}
	mux := brokerMux(b, reg, append(secure.options(), traces.handling()...)...)
	if s.plainConfig {
		addPlainConfig(mux)
	}
	handler, err := s.dashboard.serve(mux, advertise)
	if err != nil {
		return failure(err)
	}
	log.Info("broker serving", "address", listener.Addr().String(), "advertise", advertise, "cluster", b.ClusterID(), "shards", b.Shards())
	return serveAll(ctx, served{
		work: b.Run, listener: listener, handler: handler, security: secure, follow: follow,
		metrics: s.metricsListen, metricsSecure: s.tls.encrypts(s.metricsListen), reg: reg, ready: b.Ready,
		names: s.dashboard.known(advertise),
	})
}

// paths are those that a broker serves beside its methods, and who may ask for them.
func (s *brokerSettings) paths() []identity.Path {
	paths := append(plainPaths(), identity.Path{
		Prefix: "/v1/config/", Read: identity.Viewer | identity.Operator, Write: identity.Operator,
	})
	if s.dashboard.path != "" {
		paths = append(paths, identity.Path{Prefix: s.dashboard.path, Read: identity.Viewer | identity.Operator})
	}
	return paths
}

// brokerMux has everything that a broker serves. The options come before its own.
func brokerMux(b *broker.Broker, reg *prometheus.Registry, options ...connect.HandlerOption) *http.ServeMux {
	mux := newMux(reg, b.Ready, tokenleasev1connect.BrokerName, tokenleasev1connect.AdminName)
	services := http.NewServeMux()
	b.Mount(services, append(options, edge.Options())...)
	limits := identity.Limits(identity.LimitsConfig{Service: tokenleasev1connect.AdminName, Registerer: reg})
	mux.Handle("/"+tokenleasev1connect.BrokerName+"/", services)
	mux.Handle("/"+tokenleasev1connect.AdminName+"/", limits(services))
	return mux
}

// served is what one server does.
type served struct {
	work     func(context.Context) error
	listener net.Listener
	handler  http.Handler
	security *security         // nil: clear text
	follow   []*tlsfiles.Files // read again when they change, besides those of security

	metrics       string   // address of another listener for metrics and health; empty: none
	metricsSecure bool     // it has the same security
	names         []string // by which browsers may reach that, besides localhost and IP addresses
	reg           *prometheus.Registry
	ready         func() bool
}

// serveAll runs a server's work and its listeners until ctx ends or one of them
// fails. The work ends first, in order, while requests are still answered.
func serveAll(ctx context.Context, s served) error {
	group, gctx := errgroup.WithContext(ctx)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	group.Go(func() error {
		defer stopServing()
		err := s.work(gctx)
		if err == nil && ctx.Err() == nil {
			err = errors.New("stopped without being asked to")
		}
		return err
	})
	group.Go(func() error { return serve(serving, s.listener, s.handler, s.security) })
	files := s.follow
	if s.security != nil {
		files = append(files, s.security.files)
	}
	for _, f := range files {
		group.Go(func() error {
			follow(serving, f)
			return nil
		})
	}
	if s.metrics != "" {
		extra, err := listen("metrics-listen", s.metrics)
		if err != nil {
			stopServing()
			return failure(errors.Join(err, group.Wait()))
		}
		plain := http.NewServeMux()
		addPlain(plain, s.reg, s.ready)
		secure := s.security
		if !s.metricsSecure {
			secure = nil
		}
		group.Go(func() error { return serve(serving, extra, dashboard.Guard(plain, s.names...), secure) })
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
	if s.tls.on() {
		return "https://" + addr.String(), nil
	}
	return "http://" + addr.String(), nil
}

// openStore opens the embedded etcd or connects to the cluster. Close it last, and
// follow the files, if there are any.
func (s *brokerSettings) openStore(ctx context.Context, reg prometheus.Registerer, log *slog.Logger) (store.Store, []*tlsfiles.Files, func(), error) {
	if s.dataDir != "" {
		log.Info("starting the embedded etcd", "data-dir", s.dataDir)
		e, err := etcdstore.StartEmbedded(ctx, etcdstore.EmbeddedConfig{Dir: s.dataDir, Logger: log})
		if err != nil {
			return nil, nil, nil, err
		}
		log.Info("the embedded etcd serves; etcdctl on this machine reaches it", "endpoints", e.Endpoints())
		return e.Store(), nil, func() {
			if err := e.Close(); err != nil {
				log.Error("the embedded etcd did not stop cleanly", "error", err)
			}
		}, nil
	}
	cfg, files, err := s.etcd.config(reg, log)
	if err != nil {
		return nil, nil, nil, err
	}
	st, err := etcdstore.Open(ctx, cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	var follow []*tlsfiles.Files
	if files != nil {
		follow = append(follow, files)
	}
	return st, follow, func() { _ = st.Close() }, nil
}

// config reads the files that the settings name. Those for TLS are to be followed; nil:
// there are none.
func (s *etcdSettings) config(reg prometheus.Registerer, log *slog.Logger) (etcdstore.Config, *tlsfiles.Files, error) {
	cfg := etcdstore.Config{Endpoints: s.endpoints, Username: s.user, Logger: log}
	if s.passwordFile != "" {
		password, err := os.ReadFile(s.passwordFile)
		if err != nil {
			return cfg, nil, fmt.Errorf("--etcd-password-file: %w", err)
		}
		cfg.Password = strings.TrimRight(string(password), "\r\n")
	}
	if s.caCert == "" && s.cert == "" {
		return cfg, nil, nil
	}
	files, err := tlsfiles.Open(tlsfiles.Config{
		Use: "etcd", CertFile: s.cert, KeyFile: s.key, CAFile: s.caCert, Registerer: reg, Logger: log,
	})
	if err != nil {
		return cfg, nil, fmt.Errorf("--etcd-cacert, --etcd-cert and --etcd-key: %w", err)
	}
	cfg.CurrentTLS = func() *tls.Config {
		current := files.ClientConfig()
		current.MinVersion = tls.VersionTLS12 // etcd is set up by others
		return current
	}
	return cfg, files, nil
}
