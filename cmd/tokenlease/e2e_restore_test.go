package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// The steps of `tokenlease restore --help`, with the real program: the data
// directory of a broker is replaced by an older copy while a limiter goes on.
func TestEndToEndRestore(t *testing.T) {
	data, copied := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy")
	address, limiter, journal := freeAddress(t), freeAddress(t), t.TempDir()
	args := []string{"broker", "--data-dir", data, "--shards", "4"}
	copyTo := func(to, from string) {
		t.Helper()
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	broker := launch(t, address, args...)
	apply(t, broker.url, policyFile(t, 100, "50 per 1s", 5))
	broker.kill(syscall.SIGTERM)
	copyTo(copied, data)

	broker = launch(t, address, args...)
	eu := launch(t, limiter, limiterArgs(broker.url, "eu", journal)...)
	if !ask1(t, eu.url).check("acme").GetAllowed() {
		t.Fatal("denied")
	}
	broker.kill(syscall.SIGTERM)
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	copyTo(data, copied)

	if out, code := tokenlease(t, "restore", "declare", "--data-dir", data, "--because", "the copy", "--by", "ann"); code != 0 || !strings.Contains(out, "the copy") {
		t.Fatalf("declare ended with %d: %s", code, out)
	}
	broker = launch(t, address, args...)
	<-eu.done // it is told that it is fenced, and ends by itself
	if code := eu.cmd.ProcessState.ExitCode(); code == 0 {
		t.Errorf("a fenced limiter ended with %d", code)
	}
	eu = launch(t, limiter, limiterArgs(broker.url, "eu", journal)...)
	if got := ask1(t, eu.url).check("acme"); got.GetReason() != tokenleasev1.Reason_REASON_EXHAUSTED || got.GetHasRetry() {
		t.Errorf("not attested: %v", got)
	}
	if out, code := tokenlease(t, "restore", "attest", "--broker", broker.url, "--because", "it has ended", "--by", "ann"); code != 0 {
		t.Fatalf("attest ended with %d: %s", code, out)
	}
	eventually(t, "refill is spent", func() bool { return ask1(t, eu.url).check("acme").GetAllowed() })
	verified(t, broker.url)
	eu.kill(syscall.SIGTERM)
	if reserved, orphaned := verified(t, broker.url); reserved != 0 || orphaned != 0 {
		t.Errorf("%d reserved, %d orphaned after an orderly stop", reserved, orphaned)
	}
}
