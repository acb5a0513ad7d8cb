package etcdstore

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv names the data directory for a test that runs itself in a process of
// its own; that process needs no shared member.
const childEnv = "ETCDSTORE_TEST_DIR"

// shared is the embedded member that the tests of this package share.
var shared *Embedded

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if os.Getenv(childEnv) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "etcdstore")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shared, err = StartEmbedded(context.Background(), EmbeddedConfig{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
