package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenlease/tokenlease/broker/dashboard"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
)

// devRegions are the regions of `dev`, with the ports of their limiters.
var devRegions = []struct {
	name string
	port int
}{{"eu", 7700}, {"us", 7701}, {"ap", 7702}}

// devGatewayPort and devEnvoyPort are where `dev` serves its example gateway and
// Envoy's rate limit service, both of region eu.
const devGatewayPort, devEnvoyPort = 7800, 7801

// devPolicies are what `dev` applies to a new cluster: the worked example, a
// generous policy, a quota that never refills, and one of each other kind.
const devPolicies = `policies:
  - operation: report.create
    token-bucket:
      capacity: 40
      refill: 20 per 1s
    cost: 5
  - operation: search
    token-bucket:
      capacity: 10000
      refill: 5000 per 1s
  - operation: trial.credits
    token-bucket:
      capacity: 100
  - operation: login
    rolling-window:
      limit: 3
      window: 1m
  - operation: mail.send
    fixed-window:
      limit: 1000
      period: day
      time-zone: Europe/Berlin
  - operation: export
    concurrency:
      slots: 2
    hold: 30s
  - operation: answer.tokens
    token-bucket:
      capacity: 1000
      refill: 50 per 1s
`

// devSettings configure `dev`.
type devSettings struct {
	listen    string
	dataDir   string
	plaintext bool
	log       logSettings
}

func (s *devSettings) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.listen, "listen", "127.0.0.1:7600", "`address` of the broker; with port 0 the limiters take free ports as well")
	flags.StringVar(&s.dataDir, "data-dir", "", "`directory` to keep everything in (default: a temporary one, removed at the end)")
	registerPlaintext(flags, &s.plaintext)
	s.log.register(flags)
	s.log.level.value = "warn"
	flags.Lookup("log-level").DefValue = "warn"
}

// devCommand runs everything in one process.
func (p *program) devCommand() *cobra.Command {
	settings := &devSettings{}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run etcd, a broker and three regions in one process, to try things",
		Long: `Run an embedded etcd, a broker and the limiters of three regions in this process,
on loopback, with sample policies, until interrupted. It prints what to try.

Each region has a network of its own, which can be cut and healed:
    curl -X POST http://127.0.0.1:7600/dev/regions/eu/cut
    curl -X POST http://127.0.0.1:7600/dev/regions/eu/heal

An example gateway in region eu shows what an API behind a limiter answers:
    curl -i -X POST -H 'X-Account: acme' http://127.0.0.1:7800/reports   # 5 of 40
    curl -i -X POST http://127.0.0.1:7800/login                          # 3 a minute
    curl -i -H 'X-Account: acme' 'http://127.0.0.1:7800/exports?seconds=5' # 2 at once
    curl -i -X POST -H 'X-Account: acme' 'http://127.0.0.1:7800/answers?tokens=120'
It believes whatever X-Account says; a real gateway verifies who asks. Envoy's
rate limit service is served beside it.`,
		Example: "  tokenlease dev",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkAddress("listen", settings.listen); err != nil {
				return err
			}
			if !settings.plaintext && !isLoopback(settings.listen) {
				return usageErrorf("--listen %s is not on loopback, and dev is clear text, open to everybody: say --%s to serve it there all the same", settings.listen, plaintextFlag)
			}
			return p.runDev(cmd.Context(), settings)
		},
	}
	addSettings(cmd, settings.register)
	return cmd
}

func (p *program) runDev(ctx context.Context, s *devSettings) (err error) {
	dir := s.dataDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "tokenlease-dev-"); err != nil {
			return failure(err)
		}
		defer os.RemoveAll(dir)
	}
	listener, err := listen("listen", s.listen)
	if err != nil {
		return failure(err)
	}
	regions := &sync.Map{} // name to *region
	t, err := startTrial(ctx, dir, listener, newLogger(p.stderr, s.log), func(mux *http.ServeMux) {
		addLinkControl(mux, regions)
		addPlainConfig(mux)
	})
	if err != nil {
		return failure(err)
	}
	started, err := p.startDevRegions(t, listener.Addr(), regions)
	if err == nil {
		err = t.applyPolicies(ctx, devPolicies, "dev")
	}
	gateway := ""
	if err == nil {
		gateway, err = p.startDevGateway(t, listener.Addr(), started[0])
	}
	if err != nil {
		return failure(errors.Join(err, t.close(started...)))
	}
	p.printDev(t, gateway, s.dataDir == "")
	select {
	case <-ctx.Done():
	case <-t.ctx.Done():
	}
	fmt.Fprintln(p.stderr, "stopping: regions hand their credit back")
	return failure(t.close(started...))
}

// startDevRegions starts the limiters, each served on a port of its own.
func (p *program) startDevRegions(t *trial, broker net.Addr, regions *sync.Map) ([]*region, error) {
	var started []*region
	for _, d := range devRegions {
		listener, err := devListen(broker, d.port)
		if err != nil {
			return started, fmt.Errorf("region %s: %w", d.name, err)
		}
		r, err := t.startRegion(d.name)
		if err != nil {
			return started, errors.Join(err, listener.Close())
		}
		started = append(started, r)
		regions.Store(d.name, r)
		t.group.Go(func() error { return serve(t.ctx, listener, guardLimiter(limiterMux(r.limiter, r.reg)), nil) })
		fmt.Fprintf(p.stdout, "region %-3s http://%s\n", d.name, listener.Addr())
	}
	return started, nil
}

// devListen takes a port of loopback, any free one where the broker is not at its
// usual place.
func devListen(broker net.Addr, port int) (net.Listener, error) {
	if tcp, ok := broker.(*net.TCPAddr); ok && tcp.Port != 7600 {
		port = 0
	}
	return listen("listen", fmt.Sprintf("127.0.0.1:%d", port))
}

// startDevGateway serves the example gateway and Envoy's service over a region's
// limiter, and tells the gateway's URL.
func (p *program) startDevGateway(t *trial, broker net.Addr, r *region) (string, error) {
	handler, err := devGateway(r.limiter, r.limiter.Ready)
	if err != nil {
		return "", err
	}
	mapping, err := devMapping()
	if err != nil {
		return "", err
	}
	listener, err := devListen(broker, devGatewayPort)
	if err != nil {
		return "", fmt.Errorf("the example gateway: %w", err)
	}
	forEnvoy, err := devListen(broker, devEnvoyPort)
	if err != nil {
		return "", errors.Join(fmt.Errorf("the service for Envoy: %w", err), listener.Close())
	}
	work := serveEnvoy(forEnvoy, envoy.Config{Decider: r.limiter, Mapping: mapping, Registerer: r.reg, Logger: t.log})
	t.group.Go(func() error { return serve(t.ctx, listener, handler, nil) })
	t.group.Go(func() error { return work(t.ctx) })
	url := "http://" + listener.Addr().String()
	fmt.Fprintf(p.stdout, "gateway    %s\nfor Envoy  %s\n", url, forEnvoy.Addr())
	return url, nil
}

// addLinkControl lets the regions' networks be cut and healed over HTTP.
func addLinkControl(mux *http.ServeMux, regions *sync.Map) {
	control := func(act func(*link), done string) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			found, _ := regions.Load(req.PathValue("region"))
			r, ok := found.(*region)
			if !ok {
				http.Error(w, "no such region: want eu, us or ap", http.StatusNotFound)
				return
			}
			act(r.link)
			fmt.Fprintf(w, "the network of %s is %s\n", r.name, done) //nolint:gosec // one of three names
		}
	}
	mux.Handle("POST /dev/regions/{region}/cut", control((*link).Cut, "cut"))
	mux.Handle("POST /dev/regions/{region}/heal", control((*link).Heal, "healed"))
}

// applyPolicies puts the policies of a file's text in force.
func (t *trial) applyPolicies(ctx context.Context, text, by string) error {
	doc, err := policyfile.Parse("built-in policies", []byte(text))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = t.admin.ApplyPolicies(ctx, connect.NewRequest(&tokenleasev1.ApplyPoliciesRequest{Policies: doc.Policies, AppliedBy: by}))
	return err
}

func (p *program) printDev(t *trial, gateway string, temporary bool) {
	fmt.Fprintf(p.stdout, `broker     %s
dashboard  %s
etcd       %s

One budget of 40 tokens, refilled by 20 a second, for all three regions; a report
costs 5. Try in another terminal:

    tokenlease check acme report.create                  # asks region eu
    tokenlease check acme report.create --limiter http://127.0.0.1:7701
    tokenlease budgets show acme report.create
    tokenlease grants list
    curl '%s/v1/config/limit?account=acme&operation=report.create'
    curl -X POST %s/dev/regions/eu/cut     # eu spends what it holds, and no more
    tokenlease verify

The example gateway, an API in region eu:

    curl -i -X POST -H 'X-Account: acme' %s/reports
    curl -i -X POST %s/login              # three a minute

(From the source, say "go run ./cmd/tokenlease" for "tokenlease".)
`, t.url, t.url+dashboard.DefaultPath, t.etcd.Endpoints()[0], t.url, t.url, gateway, gateway)
	if temporary {
		fmt.Fprintln(p.stdout, "Nothing is kept: name a --data-dir to keep it. Interrupt to stop.")
	}
}
