package main

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/holder"
)

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
"unavailable", never "allowed". It may be started before the brokers.`,
		Example: `  tokenlease limiter --region eu --instance gateway-1 \
    --brokers http://broker-1:7600,http://broker-2:7600 --journal-dir /var/lib/tokenlease-limiter`,
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
	listener, err := listen("listen", s.listen)
	if err != nil {
		return failure(err)
	}
	defer listener.Close()
	reg := newRegistry()
	l, err := regional.New(regional.Config{
		Region: s.region, Instance: s.instance, Brokers: s.brokers, HTTPClient: newHTTPClient(nil),
		JournalMode: holder.Journal(s.journal.value), JournalDir: s.journalDir,
		FirstGrantWait: s.firstGrantWait, MaxWaiters: s.maxWaiters, SyncInterval: s.syncInterval,
		Registerer: reg, Logger: log,
	})
	if err != nil {
		return failure(err)
	}
	log.Info("limiter serving", "address", listener.Addr().String(), "region", s.region, "instance", s.instance)
	return serveAll(ctx, l.Run, listener, limiterMux(l, reg), s.metricsListen, reg, l.Ready)
}

// limiterMux has everything that a limiter serves.
func limiterMux(l *regional.Limiter, reg *prometheus.Registry) *http.ServeMux {
	mux := newMux(reg, l.Ready, tokenleasev1connect.LimiterName)
	l.Mount(mux, edge.Options())
	return mux
}
