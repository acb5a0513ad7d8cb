package etcdstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/tokenlease/tokenlease/broker/store"
)

// start starts a member of its own, without fsync.
func start(t *testing.T, cfg EmbeddedConfig) (*Embedded, error) {
	t.Helper()
	cfg.UnsafeNoFsync = true
	e, err := StartEmbedded(t.Context(), cfg)
	if err == nil {
		t.Cleanup(func() { _ = e.Close() })
	}
	return e, err
}

func mustStart(t *testing.T, cfg EmbeddedConfig) *Embedded {
	t.Helper()
	e, err := start(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustClose(t *testing.T, e *Embedded) {
	t.Helper()
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.Done():
	default:
		t.Fatal("a closed member is not done")
	}
}

// written is a data directory with one key in it, no longer in use.
func written(t *testing.T) (dir string, rev int64) {
	t.Helper()
	dir = t.TempDir()
	e := mustStart(t, EmbeddedConfig{Dir: dir})
	rev = mustTxn(t, e.Store(), store.Txn{Then: []store.Op{put("k", "kept")}}).Revision
	mustClose(t, e)
	return dir, rev
}

func TestEmbeddedKeepsDataOverRestartsOnOtherPorts(t *testing.T) {
	dir, rev := written(t)
	for _, addr := range []string{"", freeAddress(t), freeAddress(t)} {
		e := mustStart(t, EmbeddedConfig{Dir: dir, ClientAddr: addr})
		if addr != "" && e.Endpoints()[0] != "http://"+addr {
			t.Errorf("endpoints %v, want http://%s", e.Endpoints(), addr)
		}
		remote, err := Open(t.Context(), Config{Endpoints: e.Endpoints()})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Store{e.Store(), remote} {
			res, err := s.Range(t.Context(), store.RangeRequest{Key: "k"})
			if err != nil || len(res.KVs) != 1 || string(res.KVs[0].Value) != "kept" || res.KVs[0].ModRevision != rev {
				t.Fatalf("after a restart on %q: %+v, %v", addr, res, err)
			}
		}
		res := mustTxn(t, e.Store(), store.Txn{
			If:   []store.Compare{{Key: "k", Target: store.ModRevision, Revision: rev}},
			Then: []store.Op{put("k", "kept")},
		})
		if !res.Succeeded || res.Revision != rev+1 {
			t.Fatalf("revision %d follows %d, succeeded %v", res.Revision, rev, res.Succeeded)
		}
		rev = res.Revision
		if err := remote.Close(); err != nil {
			t.Error(err)
		}
		mustClose(t, e)
	}
}

// A directory that is copied while nobody uses it starts elsewhere.
func TestEmbeddedDirCanMove(t *testing.T) {
	dir, _ := written(t)
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	e := mustStart(t, EmbeddedConfig{Dir: moved})
	if res, err := e.Store().Range(t.Context(), store.RangeRequest{Key: "k"}); err != nil || len(res.KVs) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestEmbeddedDirInUse(t *testing.T) {
	dir := t.TempDir()
	e := mustStart(t, EmbeddedConfig{Dir: dir})
	if _, err := start(t, EmbeddedConfig{Dir: dir}); !errors.Is(err, ErrDirInUse) {
		t.Errorf("error %v, want ErrDirInUse", err)
	}
	mustClose(t, e)
	mustStart(t, EmbeddedConfig{Dir: dir})
}

// The lock is one between processes: another process sees it.
func TestEmbeddedDirInUseByAnotherProcess(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		if _, err := claimDir(dir); !errors.Is(err, ErrDirInUse) {
			t.Errorf("error %v, want ErrDirInUse", err)
		}
		return
	}
	dir := t.TempDir()
	mustStart(t, EmbeddedConfig{Dir: dir})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A database opened by something that does not know our lock.
func TestEmbeddedDatabaseInUse(t *testing.T) {
	dir, _ := written(t)
	db, err := bolt.Open(filepath.Join(dir, "member", "snap", "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := start(t, EmbeddedConfig{Dir: dir}); !errors.Is(err, ErrDirInUse) {
		t.Errorf("error %v, want ErrDirInUse", err)
	}
}

func TestEmbeddedAddressInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	dir := t.TempDir()
	_, err = start(t, EmbeddedConfig{Dir: dir, ClientAddr: addr})
	if err == nil || !strings.Contains(err.Error(), addr+" is in use") {
		t.Errorf("error %v, want one that says that %s is in use", err, addr)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	mustStart(t, EmbeddedConfig{Dir: dir, ClientAddr: addr})
}

func TestEmbeddedForeignDir(t *testing.T) {
	cases := map[string]func(t *testing.T, dir string){
		"other files":    func(t *testing.T, dir string) { write(t, filepath.Join(dir, "photo.jpg"), "x") },
		"another marker": func(t *testing.T, dir string) { write(t, filepath.Join(dir, markerName), "format 9\n") },
		"a plain etcd": func(t *testing.T, dir string) {
			if err := os.MkdirAll(filepath.Join(dir, "member", "wal"), 0o700); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			prepare(t, dir)
			if _, err := start(t, EmbeddedConfig{Dir: dir}); !errors.Is(err, ErrDirForeign) {
				t.Errorf("error %v, want ErrDirForeign", err)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// overwrite damages a file from the given offset on.
func overwrite(t *testing.T, path string, offset int64, n int) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte(strings.Repeat("damage! ", n/8)), offset)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestEmbeddedCorruptDir(t *testing.T) {
	cases := map[string]func(t *testing.T, dir string){
		"database": func(t *testing.T, dir string) {
			overwrite(t, filepath.Join(dir, "member", "snap", "db"), 0, 32<<10)
		},
		"log": func(t *testing.T, dir string) { overwrite(t, oldestLog(t, dir), 256, 64) },
		"database missing": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "member", "snap", "db")); err != nil {
				t.Fatal(err)
			}
		},
		"log missing": func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "member", "wal")); err != nil {
				t.Fatal(err)
			}
		},
		"empty log": func(t *testing.T, dir string) {
			if err := os.Truncate(oldestLog(t, dir), 0); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			dir, _ := written(t)
			damage(t, dir)
			_, err := start(t, EmbeddedConfig{Dir: dir})
			if !errors.Is(err, ErrDirCorrupt) {
				t.Fatalf("error %v, want ErrDirCorrupt", err)
			}
			t.Log(err)
		})
	}
}

func oldestLog(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no log: %v", err)
	}
	return files[0]
}

func TestEmbeddedNotReady(t *testing.T) {
	dir := t.TempDir()
	_, err := start(t, EmbeddedConfig{Dir: dir, ReadyTimeout: time.Nanosecond})
	if err == nil || !strings.Contains(err.Error(), "not ready after 1ns") {
		t.Errorf("error %v, want one that says that the member is not ready", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := StartEmbedded(ctx, EmbeddedConfig{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	mustStart(t, EmbeddedConfig{Dir: dir}) // nothing was left behind
}

// The history goes by itself, or the database would grow to its quota.
func TestEmbeddedForgetsHistory(t *testing.T) {
	e := mustStart(t, EmbeddedConfig{Dir: t.TempDir(), History: time.Second})
	s := e.Store()
	first := mustTxn(t, s, store.Txn{Then: []store.Op{put("k", "1")}}).Revision
	mustTxn(t, s, store.Txn{Then: []store.Op{put("k", "2")}})
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range 600 {
		_, err := s.Range(t.Context(), store.RangeRequest{Key: "k", Revision: first})
		if errors.Is(err, store.ErrCompacted) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		<-ticker.C
	}
	t.Error("the first revision was still there after 30 s")
}

func TestEmbeddedMaxTxnOps(t *testing.T) {
	e := mustStart(t, EmbeddedConfig{Dir: t.TempDir(), MaxTxnOps: 300})
	if n := e.Store().MaxTxnOps(); n != 300 {
		t.Errorf("MaxTxnOps = %d, want 300", n)
	}
	ops := make([]store.Op, 300)
	for i := range ops {
		ops[i] = put("k"+strings.Repeat("x", i), "1")
	}
	mustTxn(t, e.Store(), store.Txn{Then: ops})
}

func TestEmbeddedConfigValidate(t *testing.T) {
	for want, cfg := range map[string]EmbeddedConfig{
		"no data directory":      {},
		"not an IP address":      {Dir: "d", ClientAddr: "here:1"},
		"not a loopback address": {Dir: "d", ClientAddr: "0.0.0.0:2379"},
		"must not be negative":   {Dir: "d", QuotaBytes: -1},
		"too short":              {Dir: "d", History: time.Millisecond},
	} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// An orderly life leaves no errors in the log, though etcd itself logs some.
func TestEmbeddedIsQuiet(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}))
	dir := t.TempDir()
	for range 2 {
		e := mustStart(t, EmbeddedConfig{Dir: dir, Logger: logger})
		remote, err := Open(t.Context(), Config{Endpoints: e.Endpoints(), Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		mustTxn(t, remote, store.Txn{Then: []store.Op{put("k", "1")}})
		if err := remote.Close(); err != nil {
			t.Error(err)
		}
		mustClose(t, e)
	}
	if out.Len() > 0 {
		t.Errorf("logged:\n%s", out.String())
	}
}

// Data is removed only where a note proves that it never served: data without
// the note, such as a member that was put back from a copy, is kept.
func TestEmbeddedKeepsDataWithoutANote(t *testing.T) {
	dir := t.TempDir()
	e := mustStart(t, EmbeddedConfig{Dir: dir})
	mustTxn(t, e.Store(), store.Txn{Then: []store.Op{put("k", "v")}})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, startingName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the note of a first start is still there: %v", err)
	}
	again := mustStart(t, EmbeddedConfig{Dir: dir})
	res, err := again.Store().Range(t.Context(), store.RangeRequest{Key: "k", End: "l"})
	if err != nil || len(res.KVs) != 1 {
		t.Errorf("the data is gone: %v, %v", res, err)
	}
}
