package etcdstore

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/broker/store"
)

// crashEntries is more than a member takes between two snapshots of its log.
const crashEntries = 12_000

// TestEmbeddedSurvivesKill kills a process that commits as fast as it can, twice
// on the same directory: every acknowledged commit is there at the next start, and
// the checks of the directory find nothing wrong with it.
func TestEmbeddedSurvivesKill(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		commitUntilKilled(t, dir)
		return
	}
	commits := crashEntries
	if testing.Short() {
		commits = 500
	}
	dir := t.TempDir()
	for _, commits := range []int{commits, 500} {
		acknowledged := killAfter(t, dir, commits)
		e := mustStart(t, EmbeddedConfig{Dir: dir})
		res, err := e.Store().Range(t.Context(), store.RangeRequest{Key: "head"})
		if err != nil || len(res.KVs) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		// Newer ones are fine: they were under way, or their answer not yet read.
		if got := res.KVs[0].ModRevision; got < acknowledged {
			t.Errorf("the newest commit after a kill is %d, but %d was acknowledged", got, acknowledged)
		}
		mustClose(t, e)
	}
}

// killAfter runs this test in a process of its own, kills it after a number of
// commits, and returns the last one that was acknowledged.
func killAfter(t *testing.T, dir string, commits int) (acknowledged int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for seen := 0; seen < commits && lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "committed %d", &acknowledged); err == nil {
			seen++
		} else if strings.Contains(lines.Text(), "FAIL") {
			t.Error(lines.Text())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // says that it was killed
	if acknowledged == 0 {
		t.Fatal("the process committed nothing")
	}
	return acknowledged
}

func commitUntilKilled(t *testing.T, dir string) {
	e, err := start(t, EmbeddedConfig{Dir: dir})
	if err != nil {
		t.Fatalf("FAIL: %v", err)
	}
	for {
		res := mustTxn(t, e.Store(), store.Txn{Then: []store.Op{put("head", "1"), put("budget", "1")}})
		fmt.Printf("committed %d\n", res.Revision)
	}
}
