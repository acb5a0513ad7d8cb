package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tokenlease/tokenlease/broker/etcdstore"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
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

	out, code := tokenlease(t, "restore", "declare", "--data-dir", data, "--because", "the copy", "--by", "ann", "--yes")
	if code != 0 || !strings.Contains(out, "the copy") {
		t.Fatalf("declare ended with %d: %s", code, out)
	}
	generation := strings.Fields(strings.Split(out, "\n")[1])[0]
	if out, code := tokenlease(t, "restore", "status", "--data-dir", data, "--etcd-prefix", "/elsewhere/"); code != exitRefused {
		t.Errorf("status of another prefix ended with %d: %s", code, out)
	}
	broker = launch(t, address, args...)
	if out, code := tokenlease(t, "restore", "status", "--data-dir", data); code != exitUnreachable {
		t.Errorf("status of a directory in use ended with %d: %s", code, out)
	}
	<-eu.done // it is told that it is fenced, and ends by itself
	if code := eu.cmd.ProcessState.ExitCode(); code == 0 {
		t.Errorf("a fenced limiter ended with %d", code)
	}
	eu = launch(t, limiter, limiterArgs(broker.url, "eu", journal)...)
	if got := ask1(t, eu.url).check("acme"); got.GetReason() != tokenleasev1.Reason_REASON_EXHAUSTED || got.GetHasRetry() {
		t.Errorf("not attested: %v", got)
	}
	if out, code := tokenlease(t, "restore", "attest", "--broker", broker.url, "--generation", generation, "--because", "it has ended", "--by", "ann", "--yes"); code != 0 {
		t.Fatalf("attest ended with %d: %s", code, out)
	}
	if out, code := tokenlease(t, "restore", "attest", "--broker", broker.url, "--generation", generation, "--because", "for another reason", "--by", "bob", "--yes"); code != 0 || strings.Contains(out, "another") || !strings.Contains(out, "it has ended") {
		t.Errorf("a second attestation ended with %d: %s", code, out)
	}
	eventually(t, "refill is spent", func() bool { return ask1(t, eu.url).check("acme").GetAllowed() })
	verified(t, broker.url)
	eu.kill(syscall.SIGTERM)
	if reserved, orphaned := verified(t, broker.url); reserved != 0 || orphaned != 0 {
		t.Errorf("%d reserved, %d orphaned after an orderly stop", reserved, orphaned)
	}
}

// The cluster record names a generation whose declaration was deleted: the program
// says so, and another declaration is the way on. It speaks to etcd itself.
func TestEndToEndRestoreWithoutTheDeclaration(t *testing.T) {
	etcd, err := etcdstore.StartEmbedded(t.Context(), etcdstore.EmbeddedConfig{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	cluster := record.Encode(record.Cluster{ID: "c", Shards: 1, Generation: 7})
	put := store.Op{Kind: store.OpPut, Key: record.NewLayout("/tokenlease/").Cluster(), Value: cluster}
	if _, err := etcd.Store().Txn(t.Context(), store.Txn{Then: []store.Op{put}}); err != nil {
		t.Fatal(err)
	}
	restore := func(args ...string) (string, int) {
		t.Helper()
		return tokenlease(t, append([]string{"restore"}, append(args, "--etcd-endpoints", etcd.Endpoints()[0])...)...)
	}
	if out, code := restore("status", "-o", "json"); code != 0 || !strings.Contains(out, `"generation": 7`) {
		t.Errorf("status ended with %d: %s", code, out)
	}
	if out, code := restore("attest", "--generation", "7", "--because", "b", "--by", "ann", "--yes"); code != exitRefused {
		t.Errorf("attest ended with %d: %s", code, out)
	}
	out, code := restore("declare", "--because", "the key is gone", "--by", "ann", "--yes")
	if code != 0 || !strings.Contains(out, "the key is gone") {
		t.Fatalf("declare ended with %d: %s", code, out)
	}
	generation := strings.Fields(strings.Split(out, "\n")[1])[0]
	if out, code := restore("attest", "--generation", generation, "--because", "b", "--by", "ann", "--yes"); code != 0 {
		t.Errorf("attest ended with %d: %s", code, out)
	}
}
