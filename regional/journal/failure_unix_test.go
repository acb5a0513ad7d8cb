//go:build unix

package journal

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// fillDisk is a child process whose disk refuses to write in the middle of a draw.
func fillDisk(j *Journal, cfg Config) int {
	signal.Ignore(syscall.SIGXFSZ)
	_ = j.BindCluster("cluster-1")
	_ = j.Begin(1, "nonce")
	_, before := j.Draw(1, []Drawn{{"g", 10}})
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit)
	full := limit
	full.Cur = 1
	_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full)
	_, first := j.Draw(1, []Drawn{{"g", 20}})
	_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
	_, later := j.Draw(1, []Drawn{{"g", 30}})
	_, read := j.Epochs()
	fmt.Fprintln(os.Stdout, "before", before)
	fmt.Fprintln(os.Stdout, "first", errors.Is(first, ErrFailed) && errors.Is(first, syscall.EFBIG))
	fmt.Fprintln(os.Stdout, "later", errors.Is(later, first) && errors.Is(read, first))
	fmt.Fprintln(os.Stdout, "close", j.Close(), j.LastEpoch())
	again, err := Open(cfg)
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		return 1
	}
	epochs, err := again.Epochs()
	fmt.Fprintln(os.Stdout, "again", epochs[0].Drawn[0].Tokens == 10 || epochs[0].Drawn[0].Tokens == 20, err)
	return 0
}

func TestFailureIsFinal(t *testing.T) {
	cmd, out := child(t, "full", testConfig(t).Path)
	for _, want := range []string{
		"before <nil>", "first true", "later true", "close <nil> 1", "again true <nil>",
	} {
		if !out.Scan() || out.Text() != want {
			t.Errorf("the process says %q, want %q", out.Text(), want)
		}
	}
	must(t, cmd.Wait())
}

// TestFileCutShortWhileOpen takes the pages away under the mapping, where reading them is a memory fault.
func TestFileCutShortWhileOpen(t *testing.T) {
	for name, call := range map[string]func(*Journal) error{
		"draw":   func(j *Journal) error { _, err := j.Draw(1, []Drawn{{"g", 2}}); return err },
		"epochs": func(j *Journal) error { _, err := j.Epochs(); return err },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			j := mustBegin(t, cfg, 1)
			mustDraw(t, j, 1, Drawn{"g", 1})
			must(t, os.Truncate(cfg.Path, 0))
			err := call(j)
			wantError(t, err, ErrFailed)
			wantError(t, err, ErrCorrupt)
			if again := call(j); !errors.Is(again, err) {
				t.Errorf("the second error is %v, the first %v", again, err)
			}
			t.Log(j.Close())
		})
	}
}
