//go:build unix

package journal

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childVariable tells a copy of the test program to play a limiter process.
const childVariable = "TOKENLEASE_JOURNAL_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(runChild(role, os.Args[1]))
	}
	os.Exit(m.Run())
}

// runChild is the main function of a limiter process of a test.
func runChild(role, path string) int {
	cfg := Config{Path: path, Region: "eu-west", Instance: "limiter-0", LockTimeout: 1}
	j, err := Open(cfg)
	if errors.Is(err, ErrLocked) {
		fmt.Fprintln(os.Stdout, "locked")
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stdout, "error", err)
		return 1
	}
	if role == "full" {
		return fillDisk(j, cfg)
	}
	if err := errors.Join(j.BindCluster("cluster-1"), j.Begin(j.LastEpoch()+1, "child")); err != nil {
		fmt.Fprintln(os.Stdout, "error", err)
		return 1
	}
	for i := int64(1); ; i++ { // until killed
		draws := []Drawn{{fmt.Sprint("g", i%7), i}, {fmt.Sprint("h", i), i}}
		counter, err := j.Draw(j.LastEpoch(), draws)
		if err != nil {
			fmt.Fprintln(os.Stdout, "error", err)
			return 1
		}
		fmt.Fprintln(os.Stdout, "drawn", counter, i)
	}
}

// child starts a process that plays a role on the file.
func child(t *testing.T, role, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe, path)
	cmd.Env = append(os.Environ(), childVariable+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

func TestOtherProcessIsLockedOut(t *testing.T) {
	cfg := testConfig(t)
	j := mustBegin(t, cfg, 1)
	cmd, out := child(t, "draw", cfg.Path)
	if !out.Scan() || out.Text() != "locked" {
		t.Errorf("the other process says %q, want locked", out.Text())
	}
	must(t, cmd.Wait())
	mustDraw(t, j, 1, Drawn{"g", 1})
}

// TestKilledProcess kills a limiter in the middle of its draws, some times over on one file. Every draw
// that it reported is in the file, and nothing beyond the one that it may have been at.
func TestKilledProcess(t *testing.T) {
	cfg := testConfig(t)
	for epoch := uint64(1); epoch <= 3; epoch++ {
		cmd, out := child(t, "draw", cfg.Path)
		var counter uint64
		var last int64
		for n := 0; out.Scan(); n++ {
			if _, err := fmt.Sscanf(out.Text(), "drawn %d %d", &counter, &last); err != nil {
				t.Fatalf("the child says %q", out.Text())
			}
			if n == 0 {
				_, err := Open(cfg)
				wantError(t, err, ErrLocked)
			}
			if n == 60 {
				must(t, cmd.Process.Kill())
			}
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the child ended with %v", err)
		}
		epochs := reopen(t, cfg)
		if len(epochs) != int(epoch) {
			t.Fatalf("%d epochs, want %d", len(epochs), epoch)
		}
		checkKilled(t, epochs[epoch-1], counter, last)
	}
}

// checkKilled compares an epoch with the last draw that its process reported.
func checkKilled(t *testing.T, e Epoch, counter uint64, last int64) {
	t.Helper()
	if e.Counter != counter && e.Counter != counter+1 {
		t.Errorf("counter %d, reported was %d", e.Counter, counter)
	}
	if e.Counter == counter+1 {
		last++ // the draw that was made durable and not reported
	}
	drawn := map[string]int64{}
	for _, d := range e.Drawn {
		drawn[d.GrantID] = d.Tokens
	}
	for i := int64(1); i <= last; i++ {
		if got := drawn[fmt.Sprint("h", i)]; got != i {
			t.Errorf("grant h%d has drawn %d", i, got)
		}
		if got := drawn[fmt.Sprint("g", i%7)]; got < i {
			t.Errorf("grant g%d has drawn %d, less than the reported %d", i%7, got, i)
		}
	}
	if want := int(last + min(last, 7)); len(drawn) != want {
		t.Errorf("%d grants, want %d", len(drawn), want)
	}
}
