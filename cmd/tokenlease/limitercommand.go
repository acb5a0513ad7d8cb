package main

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/tokenlease/tokenlease/proto/edge"
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

Gateways ask it over RPC (Connect, gRPC), and in these forms where they are turned
on: plain JSON (--plain-json), forward-auth for Traefik, Caddy, APISIX and NGINX
(--forward-auth FILE, at ` + forwardAuthPath + `), and Envoy's rate limit service
(--envoy-listen, --envoy-mapping FILE). All of them trust who asks to have verified
the account: keep them off the Internet. "tokenlease doctor envoy" reads an Envoy
configuration and names where it would admit on errors. Examples of both files are
below.`,
		Example: `  tokenlease limiter --region eu --instance gateway-1 \
    --brokers http://broker-1:7600,http://broker-2:7600 --journal-dir /var/lib/tokenlease-limiter

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
	listener, err := listen("listen", s.listen)
	if err != nil {
		return failure(err)
	}
	defer listener.Close()
	reg := newRegistry()
	cfg := regional.Config{
		Region: s.region, Instance: s.instance, Brokers: s.brokers, HTTPClient: newHTTPClient(nil),
		JournalMode: holder.Journal(s.journal.value), JournalDir: s.journalDir,
		FirstGrantWait: s.firstGrantWait, MaxWaiters: s.maxWaiters, SyncInterval: s.syncInterval,
		Registerer: reg, Logger: log,
	}
	s.gateway.apply(&cfg)
	l, err := regional.New(cfg)
	if err != nil {
		return failure(err)
	}
	mux := limiterMux(l, reg)
	if err := forms.mount(mux, l, reg); err != nil {
		return failure(err)
	}
	work := l.Run
	if extra, err := forms.envoy(l, reg, log); err != nil {
		return failure(err)
	} else if extra != nil {
		work = both(l.Run, extra)
	}
	log.Info("limiter serving", "address", listener.Addr().String(), "region", s.region, "instance", s.instance)
	return serveAll(ctx, work, listener, mux, s.metricsListen, reg, l.Ready)
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

// limiterMux has everything that a limiter serves.
func limiterMux(l *regional.Limiter, reg *prometheus.Registry) *http.ServeMux {
	mux := newMux(reg, l.Ready, tokenleasev1connect.LimiterName)
	l.Mount(mux, edge.Options())
	return mux
}
