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

	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// devRegions are the regions of `dev`, with the ports of their limiters.
var devRegions = []struct {
	name string
	port int
}{{"eu", 7700}, {"us", 7701}, {"ap", 7702}}

// devPolicies are what `dev` applies to a new cluster: the worked example, a
// generous policy, and a quota that never refills.
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
`

// devSettings configure `dev`.
type devSettings struct {
	listen  string
	dataDir string
	log     logSettings
}

func (s *devSettings) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.listen, "listen", "127.0.0.1:7600", "`address` of the broker; with port 0 the limiters take free ports as well")
	flags.StringVar(&s.dataDir, "data-dir", "", "`directory` to keep everything in (default: a temporary one, removed at the end)")
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
    curl -X POST http://127.0.0.1:7600/dev/regions/eu/heal`,
		Example: "  tokenlease dev",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkAddress("listen", settings.listen); err != nil {
				return err
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
	t, err := startTrial(ctx, dir, listener, newLogger(p.stderr, s.log), func(mux *http.ServeMux) { addLinkControl(mux, regions) })
	if err != nil {
		return failure(err)
	}
	started, err := p.startDevRegions(t, listener.Addr(), regions)
	if err == nil {
		err = t.applyPolicies(ctx, devPolicies, "dev")
	}
	if err != nil {
		return failure(errors.Join(err, t.close(started...)))
	}
	p.printDev(t, s.dataDir == "")
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
		port := d.port
		if tcp, ok := broker.(*net.TCPAddr); ok && tcp.Port != 7600 {
			port = 0
		}
		listener, err := listen("listen", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return started, fmt.Errorf("region %s: %w", d.name, err)
		}
		r, err := t.startRegion(d.name)
		if err != nil {
			return started, errors.Join(err, listener.Close())
		}
		started = append(started, r)
		regions.Store(d.name, r)
		t.group.Go(func() error { return serve(t.ctx, listener, limiterMux(r.limiter, r.reg)) })
		fmt.Fprintf(p.stdout, "region %-3s http://%s\n", d.name, listener.Addr())
	}
	return started, nil
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
	policies, err := policyfile.Parse("built-in policies", []byte(text))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = t.admin.ApplyPolicies(ctx, connect.NewRequest(&tokenleasev1.ApplyPoliciesRequest{Policies: policies, AppliedBy: by}))
	return err
}

func (p *program) printDev(t *trial, temporary bool) {
	fmt.Fprintf(p.stdout, `broker     %s
etcd       %s

One budget of 40 tokens, refilled by 20 a second, for all three regions; a report
costs 5. Try in another terminal:

    tokenlease check acme report.create                  # asks region eu
    tokenlease check acme report.create --limiter http://127.0.0.1:7701
    tokenlease budgets show acme report.create
    tokenlease grants list
    curl -X POST %s/dev/regions/eu/cut     # eu spends what it holds, and no more
    tokenlease verify

(From the source, say "go run ./cmd/tokenlease" for "tokenlease".)
`, t.url, t.etcd.Endpoints()[0], t.url)
	if temporary {
		fmt.Fprintln(p.stdout, "Nothing is kept: name a --data-dir to keep it. Interrupt to stop.")
	}
}
