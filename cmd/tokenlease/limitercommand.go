package main

import (
	"context"
	"log/slog"
	"net/http"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/tokenlease/tokenlease/broker/dashboard"
	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/identity/tlsfiles"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// docsOf is where the documentation of the forms of a gateway is.
const docsOf = "https://pkg.go.dev/github.com/tokenlease/tokenlease/regional/gateway/"

// limiterCommand runs a regional limiter.
func (p *program) limiterCommand() *cobra.Command {
	settings := &limiterSettings{}
	cmd := &cobra.Command{
		Use:   "limiter",
		Short: "Run a regional limiter",
		Long: `Run a regional limiter: it answers checks from the credit that its region holds.

--region and --instance name it. Keep the name and the --journal-dir from start
to start: the next start tells from the journal what a crash left unspent. Two
running limiters must never share a name; the later start fences the earlier.

While no broker answers, the limiter spends what it holds, and then answers
"unavailable", never "allowed". It may be started before the brokers.

With --tls-cert, --tls-key and --tls-client-ca it serves TLS 1.3, and gateways need
the role gateway in their certificates. Brokers are asked over TLS where --brokers
names https; the certificate for them has the role holder, of this region and
instance, and is the same one unless --broker-cert names another. Files are read
again when they change, and at SIGHUP. Without certificates only loopback is served.

Gateways ask it over RPC (Connect, gRPC), and in these forms where they are turned
on: plain JSON (--plain-json), forward-auth for Traefik, Caddy, APISIX and NGINX
(--forward-auth FILE, at ` + forwardAuthPath + `), and Envoy's rate limit service
(--envoy-listen, --envoy-mapping FILE). All of them trust who asks to have verified
the account: keep them off the Internet. "tokenlease doctor envoy" reads an Envoy
configuration and names where it would admit on errors. Examples of both files are
below.`,
		Example: `  tokenlease limiter --region eu --instance gateway-1 \
    --brokers https://broker-1:7600,https://broker-2:7600 --journal-dir /var/lib/tokenlease-limiter \
    --tls-cert limiter.pem --tls-key limiter-key.pem --tls-client-ca ca.pem

  # A file for --forward-auth. Only these proxies may ask, and they set the header
  # once they have verified the account. Every field:
  # ` + docsOf + `forwardauth#ReadConfig
  proxies: [10.0.0.0/8]
  account-header: X-Account
  rules:
    - path: /api/reports
      method: POST
      operation: report.create
      cost: 5                 # left out: as the policy says
    - path: /
      operation: api

  # A file for --envoy-mapping. A descriptor has exactly a rule's entries, in this
  # order. Every field: ` + docsOf + `envoy#ParseMapping
  rules:
    - domain: api
      entries: [{key: operation, value: report.create}, {key: account}]
      account: {entry: account}
      operation: report.create
      cost: policy            # left out: 1`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settings.validate(); err != nil {
				return err
			}
			return p.runLimiter(cmd.Context(), settings)
		},
	}
	addSettings(cmd, settings.register)
	return cmd
}

func (p *program) runLimiter(ctx context.Context, s *limiterSettings) error {
	log := newLogger(p.stderr, s.log)
	forms, err := s.gateway.read()
	if err != nil {
		return err
	}
	reg := newRegistry()
	secure, err := s.tls.open(reg, log, s.gateway.paths())
	if err != nil {
		return err
	}
	client, files, err := s.brokerClient(reg, log)
	if err != nil {
		return err
	}
	traces, err := s.trace.open(ctx, "tokenlease-limiter", s.region+"/"+s.instance, log)
	if err != nil {
		return err
	}
	defer traces.close()
	listener, err := listen("listen", s.listen)
	if err != nil {
		return failure(err)
	}
	defer listener.Close()
	decisions, closeLog, err := s.decisions.open(s.region, s.instance, reg, log)
	if err != nil {
		return failure(err)
	}
	defer closeLog()
	cfg := regional.Config{
		Region: s.region, Instance: s.instance, Brokers: s.brokers, HTTPClient: client,
		JournalMode: holder.Journal(s.journal.value), JournalDir: s.journalDir,
		FirstGrantWait: s.firstGrantWait, MaxWaiters: s.maxWaiters, SyncInterval: s.syncInterval,
		DecisionLog: decisions, Registerer: reg, Logger: log,
	}
	for _, url := range s.brokers {
		cfg.Clients = append(cfg.Clients, tokenleasev1connect.NewBrokerClient(client, url, traces.calling()...))
	}
	s.gateway.apply(&cfg)
	l, err := regional.New(cfg)
	if err != nil {
		return failure(err)
	}
	mux := limiterMux(l, reg, append(secure.options(), traces.handling()...)...)
	if err := forms.mount(mux, l, reg); err != nil {
		return failure(err)
	}
	work := l.Run
	envoySecurity := secure
	if !s.tls.encrypts(s.gateway.envoyListen) {
		envoySecurity = nil
	}
	if extra, err := forms.envoy(l, reg, log, envoySecurity); err != nil {
		return failure(err)
	} else if extra != nil {
		work = both(l.Run, extra)
	}
	log.Info("limiter serving", "address", listener.Addr().String(), "region", s.region, "instance", s.instance)
	return serveAll(ctx, served{
		work: work, listener: listener, handler: guardLimiter(mux), security: secure, follow: files,
		metrics: s.metricsListen, metricsSecure: s.tls.encrypts(s.metricsListen), reg: reg, ready: l.Ready,
	})
}

// brokerClient calls brokers. The files are those that it follows, if any of the
// brokers is asked over TLS.
func (s *limiterSettings) brokerClient(reg prometheus.Registerer, log *slog.Logger) (*http.Client, []*tlsfiles.Files, error) {
	settings := s.towardsBrokers()
	files, err := settings.files(tlsfiles.Config{Use: "brokers", Registerer: reg, Logger: log}, s.brokers...)
	if err != nil || files == nil {
		return newHTTPClient(nil), nil, err
	}
	return newTLSClient(files), []*tlsfiles.Files{files}, nil
}

// both runs two works until ctx ends or one of them does, which ends the other.
func both(first, second func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var group errgroup.Group
		for _, work := range []func(context.Context) error{first, second} {
			group.Go(func() error {
				defer stop()
				return work(ctx)
			})
		}
		return group.Wait()
	}
}

// limiterMux has everything that a limiter serves. The options come before its own.
func limiterMux(l *regional.Limiter, reg *prometheus.Registry, options ...connect.HandlerOption) *http.ServeMux {
	mux := newMux(reg, l.Ready, tokenleasev1connect.LimiterName)
	l.Mount(mux, append(options, edge.Options())...)
	return mux
}

// guardLimiter keeps pages in a browser from spending credit: nobody looks at a
// limiter in one. Forward-auth is asked with the headers of the request that is
// decided, which may well be of a page, and has its own list of who may ask.
func guardLimiter(mux *http.ServeMux) http.Handler {
	guarded := dashboard.Guard(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == forwardAuthPath {
			mux.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}
