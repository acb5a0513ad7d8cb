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
func testConfig(t testing.TB) Config {
	t.Helper()
	return Config{
		Path:        filepath.Join(t.TempDir(), DefaultFile),
		Region:      "eu-west",
		Instance:    "limiter-0",
		LockTimeout: time.Millisecond,
		NoSync:      true,
	}
}

func mustOpen(t testing.TB, cfg Config) *Journal {
	t.Helper()
	j, err := Open(cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// mustBegin opens a journal that is bound to a cluster and has begun an epoch.
func mustBegin(t testing.TB, cfg Config, epoch uint64) *Journal {
	t.Helper()
	j := mustOpen(t, cfg)
	must(t, j.BindCluster("cluster-1"))
	must(t, j.Begin(epoch, fmt.Sprint("nonce-", epoch)))
	return j
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustDraw(t testing.TB, j *Journal, epoch uint64, draws ...Drawn) uint64 {
	t.Helper()
	counter, err := j.Draw(epoch, draws)
	if err != nil {
		t.Fatalf("Draw: %v", err)
	}
	return counter
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want one that wraps %v", err, want)
	}
}

// reopen opens the file anew and returns what it proves.
func reopen(t testing.TB, cfg Config) []Epoch {
	t.Helper()
	j, err := Open(cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	epochs, err := j.Epochs()
	must(t, err)
	must(t, j.Close())
	return epochs
}

func wantEpochs(t testing.TB, got, want []Epoch) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("epochs differ (-want +got):\n%s", diff)
	}
}

// sample fills a journal with two unfinished epochs, the first with n grants, and closes it. With 400
// grants or more the first has branch pages.
func sample(t testing.TB, cfg Config, n int) []Epoch {
	t.Helper()
	j := mustBegin(t, cfg, 3)
	var draws []Drawn
	for i := range n {
		draws = append(draws, Drawn{GrantID: fmt.Sprintf("grant-%04d-of-some-budget", i), Tokens: int64(100 + i)})
		if i%50 == 49 || i == n-1 {
			mustDraw(t, j, 3, draws...)
			draws = nil
		}
	}
	must(t, j.Begin(4, "nonce-4"))
	mustDraw(t, j, 4, Drawn{"a", 1}, Drawn{"b", 20})
	mustDraw(t, j, 4, Drawn{"b", 21})
	must(t, j.Close())
	return reopen(t, cfg)
}

// usedBytes returns the content of a file up to its last page in use.
func usedBytes(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	m, err := readMetas(f, int64(len(b)))
	must(t, err)
	return b[:m.end*m.pageSize]
}
