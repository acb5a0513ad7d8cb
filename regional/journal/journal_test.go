package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"
)

func TestReopenShowsWhatWasWritten(t *testing.T) {
	cfg := testConfig(t)
	j := mustBegin(t, cfg, 7)
	if got := mustDraw(t, j, 7, Drawn{"g2", 10}, Drawn{"g1", 5}); got != 2 {
		t.Errorf("counter after the first draw is %d, want 2", got)
	}
	if got := mustDraw(t, j, 7, Drawn{"g2", 10}, Drawn{"g2", 15}, Drawn{"g3", 0}); got != 3 {
		t.Errorf("counter after the second draw is %d, want 3", got)
	}
	must(t, j.Close())

	j = mustOpen(t, cfg)
	if j.LastEpoch() != 7 || j.Cluster() != "cluster-1" {
		t.Errorf("last epoch %d of cluster %q, want 7 of cluster-1", j.LastEpoch(), j.Cluster())
	}
	epochs, err := j.Epochs()
	must(t, err)
	wantEpochs(t, epochs, []Epoch{
		{Number: 7, Nonce: "nonce-7", Counter: 3, Drawn: []Drawn{{"g1", 5}, {"g2", 15}, {"g3", 0}}},
	})
}

func TestEpochsLeavesOutTheCurrentOne(t *testing.T) {
	cfg := testConfig(t)
	j := mustBegin(t, cfg, 1)
	mustDraw(t, j, 1, Drawn{"g", 1})
	epochs, err := j.Epochs()
	must(t, err)
	wantEpochs(t, epochs, nil)

	must(t, j.Begin(2, "nonce-2"))
	epochs, err = j.Epochs()
	must(t, err)
	wantEpochs(t, epochs, []Epoch{{Number: 1, Nonce: "nonce-1", Counter: 2, Drawn: []Drawn{{"g", 1}}}})
}

func TestDrawIsRefused(t *testing.T) {
	cfg := testConfig(t)
	must(t, mustBegin(t, cfg, 1).Close())
	j := mustBegin(t, cfg, 2)
	mustDraw(t, j, 2, Drawn{"g", 10})
	for _, c := range []struct {
		name  string
		epoch uint64
		draws []Drawn
		want  error
	}{
		{"lower figure", 2, []Drawn{{"h", 1}, {"g", 9}}, ErrBackwards},
		{"lower figure within the draw", 2, []Drawn{{"h", 5}, {"h", 4}}, ErrBackwards},
		{"negative figure", 2, []Drawn{{"h", -1}}, ErrInvalid},
		{"no grant", 2, []Drawn{{"", 1}}, ErrInvalid},
		{"long grant", 2, []Drawn{{strings.Repeat("x", 1025), 1}}, ErrInvalid},
		{"epoch not begun", 3, []Drawn{{"h", 1}}, ErrEpoch},
		{"epoch not begun, no draws", 3, nil, ErrEpoch},
		{"earlier epoch", 1, []Drawn{{"h", 1}}, ErrEpoch},
	} {
		counter, err := j.Draw(c.epoch, c.draws)
		if counter != 0 {
			t.Errorf("%s: counter %d", c.name, counter)
		}
		t.Log(err)
		wantError(t, err, c.want)
	}
	if counter, err := j.Draw(2, nil); counter != 2 || err != nil {
		t.Errorf("a draw of nothing gives %d, %v, want 2", counter, err)
	}
	must(t, j.Finish(2))
	_, err := j.Draw(2, []Drawn{{"g", 11}})
	wantError(t, err, ErrEpoch)
	must(t, j.Close())
	wantEpochs(t, reopen(t, cfg), []Epoch{{Number: 1, Nonce: "nonce-1", Counter: 1}})
}

func TestRefusedDrawWritesNothing(t *testing.T) {
	cfg := testConfig(t)
	j := mustBegin(t, cfg, 1)
	mustDraw(t, j, 1, Drawn{"g", 10})
	_, err := j.Draw(1, []Drawn{{"a", 1}, {"g", 11}, {"h", 1}, {"g", 9}})
	wantError(t, err, ErrBackwards)
	must(t, j.Close())
	wantEpochs(t, reopen(t, cfg), []Epoch{{Number: 1, Nonce: "nonce-1", Counter: 2, Drawn: []Drawn{{"g", 10}}}})
}

func TestBegin(t *testing.T) {
	j := mustOpen(t, testConfig(t))
	wantError(t, j.Begin(1, "n"), ErrUnbound)
	must(t, j.BindCluster("c"))
	wantError(t, j.Begin(0, "n"), ErrBackwards)
	wantError(t, j.Begin(1, ""), ErrInvalid)
	must(t, j.Begin(5, "n"))
	wantError(t, j.Begin(5, "n"), ErrBackwards)
	wantError(t, j.Begin(4, "n"), ErrBackwards)
	if counter, err := j.Counter(5); counter != 1 || err != nil {
		t.Errorf("counter of a new epoch is %d, %v, want 1", counter, err)
	}
	_, err := j.Counter(4)
	wantError(t, err, ErrEpoch)
}

func TestForget(t *testing.T) {
	cfg := testConfig(t)
	j := mustBegin(t, cfg, 1)
	mustDraw(t, j, 1, Drawn{"a", 1}, Drawn{"b", 2}, Drawn{"c", 3})
	must(t, j.Forget(1, []string{"c", "a", "unknown", ""}))
	if counter, err := j.Counter(1); counter != 3 || err != nil {
		t.Errorf("counter %d, %v, want 3", counter, err)
	}
	must(t, j.Forget(1, []string{"a"}))
	if counter, err := j.Counter(1); counter != 3 || err != nil {
		t.Errorf("counter %d, %v, want 3 still: nothing was dropped", counter, err)
	}
	wantError(t, j.Forget(2, []string{"a"}), ErrEpoch)
	must(t, j.Close())
	wantEpochs(t, reopen(t, cfg), []Epoch{{Number: 1, Nonce: "nonce-1", Counter: 3, Drawn: []Drawn{{"b", 2}}}})

	j = mustOpen(t, cfg) // of an earlier epoch as well
	must(t, j.Forget(1, []string{"b"}))
	epochs, err := j.Epochs()
	must(t, err)
	wantEpochs(t, epochs, []Epoch{{Number: 1, Nonce: "nonce-1", Counter: 4}})
}

func TestFinish(t *testing.T) {
	cfg := testConfig(t)
	sample(t, cfg, 5)
	j := mustOpen(t, cfg)
	must(t, j.Finish(3))
	must(t, j.Finish(3))
	wantError(t, j.Finish(5), ErrEpoch)
	must(t, j.Close())
	epochs := reopen(t, cfg)
	if len(epochs) != 1 || epochs[0].Number != 4 {
		t.Errorf("epochs %v, want the fourth", epochs)
	}
	j = mustOpen(t, cfg)
	must(t, j.Finish(4))
	must(t, j.Close())
	j = mustOpen(t, cfg)
	if j.LastEpoch() != 4 {
		t.Errorf("last epoch %d, want 4, though it is finished", j.LastEpoch())
	}
	wantError(t, j.Begin(4, "n"), ErrBackwards)
}

func TestForeign(t *testing.T) {
	cfg := testConfig(t)
	must(t, mustBegin(t, cfg, 1).Close())
	other := cfg
	other.Instance = "limiter-1"
	_, err := Open(other)
	wantError(t, err, ErrForeign)
	other = cfg
	other.Region = "us-east"
	_, err = Open(other)
	wantError(t, err, ErrForeign)
	if want := "belongs to limiter eu-west/limiter-0, and this is us-east/limiter-0"; !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}

	j := mustOpen(t, cfg)
	wantError(t, j.BindCluster("cluster-2"), ErrForeign)
	wantError(t, j.BindCluster(""), ErrInvalid)
	must(t, j.BindCluster("cluster-1"))
	if j.Cluster() != "cluster-1" {
		t.Errorf("cluster %q, want cluster-1", j.Cluster())
	}
}

func TestSecondOpenIsLocked(t *testing.T) {
	cfg := testConfig(t)
	j := mustOpen(t, cfg)
	_, err := Open(cfg)
	wantError(t, err, ErrLocked)
	for _, want := range []string{cfg.Path, "another limiter named eu-west/limiter-0 is running"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	must(t, j.Close())
	must(t, j.Close())
	must(t, mustOpen(t, cfg).Close())
}

func TestClosed(t *testing.T) {
	j := mustBegin(t, testConfig(t), 1)
	must(t, j.Close())
	_, err := j.Draw(1, []Drawn{{"g", 1}})
	wantError(t, err, ErrClosed)
	_, err = j.Epochs()
	wantError(t, err, ErrClosed)
	wantError(t, j.Finish(1), ErrClosed)
	if j.LastEpoch() != 1 {
		t.Errorf("last epoch %d, want 1", j.LastEpoch())
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"path":     func(c *Config) { c.Path = "" },
		"region":   func(c *Config) { c.Region = "" },
		"instance": func(c *Config) { c.Instance = strings.Repeat("x", 1025) },
		"timeout":  func(c *Config) { c.LockTimeout = -1 },
	} {
		cfg := testConfig(t)
		change(&cfg)
		_, err := Open(cfg)
		t.Log(name)
		wantError(t, err, ErrInvalid)
	}
}

func TestDirectories(t *testing.T) {
	cfg := testConfig(t)
	dir := filepath.Dir(cfg.Path)
	cfg.Path, cfg.NoSync = filepath.Join(dir, "a", "b", "own.db"), false
	must(t, mustOpen(t, cfg).Close())
	for path, want := range map[string]os.FileMode{cfg.Path: 0o600, filepath.Dir(cfg.Path): os.ModeDir | 0o700} {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}

	cfg.Path = dir
	if j := mustOpen(t, cfg); j.Path() != filepath.Join(dir, DefaultFile) {
		t.Errorf("the file in a directory is %s", j.Path())
	}

	cfg.Path = filepath.Join(dir, "a", "b", "own.db", "below", "a", "file")
	_, err := Open(cfg)
	if err == nil || !strings.Contains(err.Error(), "cannot make directory") {
		t.Errorf("a directory below a file gives %v", err)
	}
}

func TestInterruptedCreation(t *testing.T) {
	cfg := testConfig(t)
	must(t, os.WriteFile(cfg.Path, nil, 0o600))
	must(t, mustOpen(t, cfg).Close())

	cfg = testConfig(t)
	db, err := bbolt.Open(cfg.Path, 0o600, nil) // pages, but no bucket yet
	must(t, err)
	must(t, db.Close())
	must(t, mustOpen(t, cfg).Close())
}

func TestConcurrentCalls(t *testing.T) {
	cfg := testConfig(t)
	j := mustBegin(t, cfg, 1)
	const callers, draws = 8, 25
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for n := range draws {
				if _, err := j.Draw(1, []Drawn{{fmt.Sprint("g", i), int64(n)}}); err != nil {
					t.Error(err)
				}
				if _, err := j.Epochs(); err != nil {
					t.Error(err)
				}
				j.LastEpoch()
			}
		})
	}
	group.Wait()
	must(t, j.Close())
	e := reopen(t, cfg)[0]
	if e.Counter != 1+callers*draws || len(e.Drawn) != callers {
		t.Errorf("counter %d and %d grants, want %d and %d", e.Counter, len(e.Drawn), 1+callers*draws, callers)
	}
	for _, d := range e.Drawn {
		if d.Tokens != draws-1 {
			t.Errorf("grant %s has drawn %d, want %d", d.GrantID, d.Tokens, draws-1)
		}
	}
}

func Test100kGrants(t *testing.T) {
	cfg := testConfig(t)
	j := mustBegin(t, cfg, 1)
	const grants, block = 100_000, 10_000
	draws := make([]Drawn, grants)
	for i := range draws {
		draws[i] = Drawn{GrantID: fmt.Sprintf("%06x-grant", i*7919%grants), Tokens: int64(i)}
	}
	for part := range slices.Chunk(draws, block) {
		mustDraw(t, j, 1, part...)
	}
	must(t, j.Close())

	e := reopen(t, cfg)[0]
	slices.SortFunc(draws, func(a, b Drawn) int { return strings.Compare(a.GrantID, b.GrantID) })
	if !slices.Equal(e.Drawn, draws) {
		t.Error("the grants differ from those drawn")
	}
	j = mustOpen(t, cfg)
	must(t, j.Finish(1))
	must(t, j.Close())
	wantEpochs(t, reopen(t, cfg), nil)
}
