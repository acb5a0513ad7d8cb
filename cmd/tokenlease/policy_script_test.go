package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/proto/edge"
)

// TestPolicyScripts runs the scripts in testdata/policy, each against a broker of its
// own over a store in memory, without a limiter. Nobody listens at $NOBODY.
func TestPolicyScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/policy",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			url, stop, err := startMemoryBroker()
			if err != nil {
				return err
			}
			env.Defer(stop)
			gone := httptest.NewServer(http.NotFoundHandler())
			gone.Close()
			env.Setenv("NOBODY", gone.URL)
			env.Setenv("TOKENLEASE_BROKER", url)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// startMemoryBroker starts a real broker that keeps nothing.
func startMemoryBroker() (url string, stop func(), err error) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	ctx, cancel := context.WithCancel(context.Background())
	b, err := broker.New(ctx, broker.Config{Store: store.NewMemory(), Shards: 4, ID: "a", AdvertiseURL: server.URL, HTTPClient: server.Client()})
	if err != nil {
		cancel()
		return "", nil, err
	}
	b.Mount(mux, edge.Options())
	addPlainConfig(mux)
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) })
	return server.URL, func() { cancel(); running.Wait(); server.Close() }, b.WaitReady(ctx)
}
