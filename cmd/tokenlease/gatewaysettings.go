package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
	"github.com/tokenlease/tokenlease/regional/gateway/forwardauth"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
	"github.com/tokenlease/tokenlease/regional/gateway/plainjson"
)

// forwardAuthPath is where a limiter serves forward-auth.
const forwardAuthPath = "/forward-auth"

// gatewaySettings say in which forms a limiter answers gateways, besides RPC, and
// how it protects itself.
type gatewaySettings struct {
	plainJSON   bool
	forwardAuth string
	envoyListen string
	envoyMap    string

	replayFor           time.Duration
	maxReplays          int
	maxReservations     int
	maxQueue            int
	maxConcurrentChecks int
	maxChecksPerSecond  int
}

func (s *gatewaySettings) register(flags *pflag.FlagSet) {
	flags.BoolVar(&s.plainJSON, "plain-json", false, "serve plain JSON as well, for gateways that are trusted: POST "+plainjson.DecisionsPath+", POST "+plainjson.CheckPath+" and "+plainjson.BatchPath+", GET "+plainjson.HealthPath)
	flags.StringVar(&s.forwardAuth, "forward-auth", "", "YAML `file` of who may ask "+forwardAuthPath+" and what for; serves it (default: it is not served)")
	flags.StringVar(&s.envoyListen, "envoy-listen", "", "`address` of Envoy's rate limit service (default: it is not served)")
	flags.StringVar(&s.envoyMap, "envoy-mapping", "", "YAML `file` that maps Envoy's descriptors to accounts and operations (required with --envoy-listen)")
	flags.DurationVar(&s.replayFor, "replay-for", regional.DefaultReplayFor, "how long a repeated decision ID gets the recorded answer")
	flags.IntVar(&s.maxReplays, "max-replays", regional.DefaultMaxReplays, "how many answers are recorded; beyond, the oldest is forgotten early and decided anew")
	flags.IntVar(&s.maxReservations, "max-reservations", regional.DefaultMaxReservations, "how many reservations may be open; beyond, checks are shed")
	flags.IntVar(&s.maxQueue, "max-queue", regional.DefaultMaxQueue, "how many checks may wait for their turn at one budget")
	flags.IntVar(&s.maxConcurrentChecks, "max-concurrent-checks", 0, "shed checks beyond so many at once; 0: never")
	flags.IntVar(&s.maxChecksPerSecond, "max-checks-per-second", 0, "shed checks beyond so many a second; 0: never")
}

func (s *gatewaySettings) validate() error {
	if s.envoyListen != "" {
		if err := checkAddress("envoy-listen", s.envoyListen); err != nil {
			return err
		}
	}
	switch {
	case (s.envoyListen == "") != (s.envoyMap == ""):
		return usageErrorf("--envoy-listen and --envoy-mapping go together: the one says where Envoy asks, the other which budget a descriptor stands for")
	case s.replayFor < 0 || s.replayFor > time.Hour:
		return usageErrorf("--replay-for %v must be 0 to 1h", s.replayFor)
	}
	for _, n := range []struct {
		flag        string
		value, most int
	}{
		{"max-replays", s.maxReplays, 10_000_000}, {"max-reservations", s.maxReservations, 10_000_000}, {"max-queue", s.maxQueue, 1_000_000},
		{"max-concurrent-checks", s.maxConcurrentChecks, 10_000_000}, {"max-checks-per-second", s.maxChecksPerSecond, regional.MaxChecksPerSecond},
	} {
		if n.value < 0 || n.value > n.most {
			return usageErrorf("--%s %d must be 0 to %d", n.flag, n.value, n.most)
		}
	}
	return nil
}

// paths are those that a limiter serves beside its methods, and who may ask for
// them.
func (s *gatewaySettings) paths() []identity.Path {
	paths := append(plainPaths(), identity.Path{Prefix: "/envoy.service.ratelimit.v3.RateLimitService/", Write: identity.Gateway})
	if s.plainJSON {
		paths = append(paths, identity.Path{Prefix: plainjson.HealthPath, Open: true})
		for _, path := range []string{plainjson.DecisionsPath, plainjson.CheckPath, plainjson.BatchPath} {
			paths = append(paths, identity.Path{Prefix: path, Read: identity.Gateway, Write: identity.Gateway})
		}
	}
	if s.forwardAuth != "" {
		paths = append(paths, identity.Path{Prefix: forwardAuthPath, Read: identity.Gateway, Write: identity.Gateway})
	}
	return paths
}

// apply completes a limiter's configuration.
func (s *gatewaySettings) apply(cfg *regional.Config) {
	cfg.ReplayFor, cfg.MaxReplays, cfg.MaxReservations = s.replayFor, s.maxReplays, s.maxReservations
	cfg.MaxQueue = s.maxQueue
	cfg.MaxConcurrentChecks, cfg.MaxChecksPerSecond = s.maxConcurrentChecks, s.maxChecksPerSecond
}

// forms are the ways in which a limiter answers, besides RPC, with their files
// read: a mistake in one is told before anything starts.
type forms struct {
	settings *gatewaySettings
	forward  forwardauth.Config
	mapping  *envoy.Mapping
}

func (s *gatewaySettings) read() (*forms, error) {
	f := &forms{settings: s}
	if s.forwardAuth != "" {
		data, err := os.ReadFile(s.forwardAuth)
		if err != nil {
			return nil, usageErrorf("--forward-auth: %w", err)
		}
		if f.forward, err = forwardauth.ReadConfig(s.forwardAuth, data); err != nil {
			return nil, usageErrorf("--forward-auth:\n%w", err)
		}
	}
	if s.envoyMap != "" {
		data, err := os.ReadFile(s.envoyMap)
		if err != nil {
			return nil, usageErrorf("--envoy-mapping: %w", err)
		}
		if f.mapping, err = envoy.ParseMapping(s.envoyMap, data); err != nil {
			return nil, usageErrorf("--envoy-mapping:\n%w", err)
		}
	}
	return f, nil
}

// mount adds the forms that are served beside the RPCs.
func (f *forms) mount(mux *http.ServeMux, l *regional.Limiter, reg prometheus.Registerer) error {
	writer := httpanswer.Writer{Details: true} // callers are gateways
	if f.settings.plainJSON {
		api, err := plainjson.New(plainjson.Config{Decider: l, Ready: l.Ready, Answers: writer})
		if err != nil {
			return err
		}
		api.Mount(mux)
	}
	if f.settings.forwardAuth != "" {
		cfg := f.forward
		cfg.Decider, cfg.Registerer = l, reg
		handler, err := forwardauth.New(cfg)
		if err != nil {
			return err
		}
		mux.Handle(forwardAuthPath, handler)
	}
	return nil
}

// envoy is the work of Envoy's service, or nil where it is not served.
func (f *forms) envoy(l *regional.Limiter, reg prometheus.Registerer, log *slog.Logger, secure *security) (func(context.Context) error, error) {
	if f.mapping == nil {
		return nil, nil //nolint:nilnil // nothing to do is no error
	}
	listener, err := listen("envoy-listen", f.settings.envoyListen)
	if err != nil {
		return nil, err
	}
	log.Info("Envoy's rate limit service serving", "address", listener.Addr().String())
	return serveEnvoy(listener, envoy.Config{Decider: l, Mapping: f.mapping, Registerer: reg, Logger: log}, secure.grpc()...), nil
}

// serveEnvoy serves Envoy's service on a listener.
func serveEnvoy(listener net.Listener, cfg envoy.Config, options ...grpc.ServerOption) func(context.Context) error {
	service := envoy.New(cfg)
	return func(ctx context.Context) error {
		if err := service.Serve(ctx, listener, options...); err != nil {
			return fmt.Errorf("the service for Envoy on %s has failed: %w", listener.Addr(), err)
		}
		return nil
	}
}
