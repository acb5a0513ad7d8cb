package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run the real program by its name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tokenlease": main})
}

// TestScripts runs the scripts in testdata/script, each against servers of its
// own. $BROKER and $LIMITER are their URLs; nobody listens at $NOBODY, at $STRANGER
// there is another kind of server, and at $DAMAGED a broker that cannot read a record.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			server := serveFake()
			env.Defer(server.Close)
			stranger := httptest.NewServer(http.NotFoundHandler())
			env.Defer(stranger.Close)
			damaged := serveFake(func(f *fake) {
				f.faults = []string{"the record at /tokenlease/holders/eu/limiter-1 cannot be read"}
			})
			env.Defer(damaged.Close)
			env.Setenv("DAMAGED", damaged.URL)
			gone := httptest.NewServer(http.NotFoundHandler())
			gone.Close()
			env.Setenv("BROKER", server.URL)
			env.Setenv("LIMITER", server.URL)
			env.Setenv("NOBODY", gone.URL)
			env.Setenv("STRANGER", stranger.URL)
			env.Setenv("TOKENLEASE_BROKER", server.URL)
			env.Setenv("TOKENLEASE_LIMITER", server.URL)
			env.Setenv("USER", "ann")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs the program and wants the exit code: "exits 2 tokenlease check".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGUMENT...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = err.Error()
	}
	if code != args[0] && code != "exit status "+args[0] {
		ts.Fatalf("ended with %q, want %s", code, args[0])
	}
}
