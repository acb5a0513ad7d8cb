package journal

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var (
	seed   = flag.Uint64("journal.seed", 1, "first seed of the random tests")
	rounds = flag.Int("journal.rounds", 1000, "files damaged by the random tests")
)

// testConfig returns a Config on a new directory: no fsync, and no wait for the lock.
func testConfig(tb testing.TB) Config {
	tb.Helper()
	return Config{
		Path:        filepath.Join(tb.TempDir(), DefaultFile),
		Region:      "eu-west",
		Instance:    "limiter-0",
		LockTimeout: time.Millisecond,
		NoSync:      true,
	}
}

func mustOpen(tb testing.TB, cfg Config) *Journal {
	tb.Helper()
	j, err := Open(cfg)
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	tb.Cleanup(func() { _ = j.Close() })
	return j
}

// mustBegin opens a journal that is bound to a cluster and has begun an epoch.
func mustBegin(tb testing.TB, cfg Config, epoch uint64) *Journal {
	tb.Helper()
	j := mustOpen(tb, cfg)
	must(tb, j.BindCluster("cluster-1"))
	must(tb, j.Begin(epoch, fmt.Sprint("nonce-", epoch)))
	return j
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func mustDraw(tb testing.TB, j *Journal, epoch uint64, draws ...Drawn) uint64 {
	tb.Helper()
	counter, err := j.Draw(epoch, draws)
	if err != nil {
		tb.Fatalf("Draw: %v", err)
	}
	return counter
}

func wantError(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Errorf("error is %v, want one that wraps %v", err, want)
	}
}

// reopen opens the file anew and returns what it proves.
func reopen(tb testing.TB, cfg Config) []Epoch {
	tb.Helper()
	j, err := Open(cfg)
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	epochs, err := j.Epochs()
	must(tb, err)
	must(tb, j.Close())
	return epochs
}

func wantEpochs(tb testing.TB, got, want []Epoch) {
	tb.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		tb.Errorf("epochs differ (-want +got):\n%s", diff)
	}
}

// sample fills a journal with two unfinished epochs, the first with n grants, and closes it. With 400
// grants or more the first has branch pages.
func sample(tb testing.TB, cfg Config, n int) []Epoch {
	tb.Helper()
	j := mustBegin(tb, cfg, 3)
	var draws []Drawn
	for i := range n {
		draws = append(draws, Drawn{GrantID: fmt.Sprintf("grant-%04d-of-some-budget", i), Tokens: int64(100 + i)})
		if i%50 == 49 || i == n-1 {
			mustDraw(tb, j, 3, draws...)
			draws = nil
		}
	}
	must(tb, j.Begin(4, "nonce-4"))
	mustDraw(tb, j, 4, Drawn{"a", 1}, Drawn{"b", 20})
	mustDraw(tb, j, 4, Drawn{"b", 21})
	must(tb, j.Close())
	return reopen(tb, cfg)
}

// usedBytes returns the content of a file up to its last page in use.
func usedBytes(tb testing.TB, path string) []byte {
	tb.Helper()
	b, err := os.ReadFile(path)
	must(tb, err)
	f, err := os.Open(path)
	must(tb, err)
	defer f.Close()
	m, err := readMetas(f, int64(len(b)))
	must(tb, err)
	return b[:m.end*m.pageSize]
}
