package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/broker/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemorySuite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		m := store.NewMemory()
		t.Cleanup(func() { _ = m.Close() })
		return m
	}, storetest.Options{
		Prefix: "suite/",
		Compact: func(_ context.Context, s store.Store, rev int64) error {
			return s.(*store.Memory).Compact(rev)
		},
	})
}

func put(key, value string) store.Op {
	return store.Op{Kind: store.OpPut, Key: key, Value: []byte(value)}
}

// apply runs a transaction that must apply.
func apply(t *testing.T, m *store.Memory, ops ...store.Op) int64 {
	t.Helper()
	res, err := m.Apply(store.Txn{Then: ops})
	if err != nil || !res.Succeeded {
		t.Fatalf("Apply = %+v, %v", res, err)
	}
	return res.Revision
}

// dump is the whole contents, at the given revision.
func dump(t *testing.T, m *store.Memory, rev int64) string {
	t.Helper()
	res, err := m.Range(t.Context(), store.RangeRequest{End: "\x00", Revision: rev})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, kv := range res.KVs {
		fmt.Fprintf(&b, "%s=%s(%d,%d) ", kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision)
	}
	return strings.TrimSpace(b.String())
}

func newSession(t *testing.T, m *store.Memory) store.Session {
	t.Helper()
	s, err := m.NewSession(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func done(s store.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func TestMemoryRevisionsStartAtOne(t *testing.T) {
	m := store.NewMemory()
	if rev := m.Revision(); rev != 1 {
		t.Errorf("an empty store is at revision %d, want 1", rev)
	}
	if rev := apply(t, m, put("a", "1")); rev != 2 {
		t.Errorf("the first change has revision %d, want 2", rev)
	}
}

func TestMemoryKeepsItsOwnCopyOfValues(t *testing.T) {
	m := store.NewMemory()
	op := put("a", "1")
	apply(t, m, op)
	op.Value[0] = 'x'
	if got := dump(t, m, 0); got != "a=1(2,2)" {
		t.Errorf("contents %s", got)
	}
}

func TestMemoryMaxTxnOps(t *testing.T) {
	m := store.NewMemory()
	if n := m.MaxTxnOps(); n != 128 {
		t.Errorf("default of %d operations, want 128", n)
	}
	m.SetMaxTxnOps(1)
	if _, err := m.Apply(store.Txn{Then: []store.Op{put("a", "1"), put("b", "1")}}); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("two operations where one fits: error %v, want ErrTooLarge", err)
	}
}

// A paused owner: its session is gone and a successor may be elected, but its
// Done has not fired.
func TestMemoryExpireSessionWithoutNotice(t *testing.T) {
	m := store.NewMemory()
	s := newSession(t, m)
	owner := put("owner", "1")
	owner.Session = s.ID()
	apply(t, m, put("z", "plain"), owner)

	m.ExpireSession(s.ID(), false)
	if got := dump(t, m, 0); got != "z=plain(2,2)" {
		t.Errorf("contents %s, want only the plain key", got)
	}
	if done(s) {
		t.Error("Done fired although the session was expired without notice")
	}
	if _, err := m.Apply(store.Txn{Then: []store.Op{owner}}); err == nil {
		t.Error("a put under the expired session was applied")
	}
	rev := m.Revision()
	m.ExpireSession(s.ID(), true)
	if !done(s) {
		t.Error("Done did not fire with notice")
	}
	if m.Revision() != rev {
		t.Error("telling the holder changed the store")
	}
}

func TestMemoryExpireSessionIsOneRevisionInKeyOrder(t *testing.T) {
	m := store.NewMemory()
	s := newSession(t, m)
	var ops []store.Op
	for _, key := range []string{"c", "a", "b"} {
		op := put(key, "1")
		op.Session = s.ID()
		ops = append(ops, op)
	}
	rev := apply(t, m, ops...)
	m.ExpireSession(s.ID(), true)
	events, err := m.Events("", "\x00", rev)
	if err != nil || len(events) != 3 {
		t.Fatalf("events %+v, %v", events, err)
	}
	for i, want := range []string{"a", "b", "c"} {
		if e := events[i]; !e.Deleted || e.KV.Key != want || e.KV.ModRevision != rev+1 {
			t.Errorf("event %d = %+v, want the deletion of %s at %d", i, e, want, rev+1)
		}
	}
}

func TestMemoryRestoreGoesBack(t *testing.T) {
	m := store.NewMemory()
	kept := newSession(t, m)
	bound := put("bound", "1")
	bound.Session = kept.ID()
	apply(t, m, put("a", "1"), bound)
	snapshot := m.Snapshot()
	before := dump(t, m, 0)

	apply(t, m, put("a", "2"), put("b", "2"))
	late := newSession(t, m)
	m.ExpireSession(kept.ID(), false)
	for range 2 { // a snapshot can be restored again
		m.Restore(snapshot)
		if got := dump(t, m, 0); got != before {
			t.Errorf("contents after restore %s, want %s", got, before)
		}
		if m.Revision() != snapshot.Revision() {
			t.Errorf("revision %d after restore, want %d", m.Revision(), snapshot.Revision())
		}
		if rev := apply(t, m, put("a", "other")); rev != snapshot.Revision()+1 {
			t.Errorf("revision %d follows the restored %d", rev, snapshot.Revision())
		}
	}
	op := put("late", "1")
	op.Session = late.ID()
	if _, err := m.Apply(store.Txn{Then: []store.Op{op}}); err == nil {
		t.Error("a session begun after the snapshot survived the restore")
	}
	apply(t, m, bound) // its session lives again
	if s := newSession(t, m); s.ID() <= late.ID() {
		t.Errorf("session ID %d was given out again", s.ID())
	}
}

// What a snapshot holds must not change with the store that it came from, nor
// with the stores that it was restored into.
func TestMemorySnapshotIsIndependent(t *testing.T) {
	m := store.NewMemory()
	for i := range 10 {
		apply(t, m, put("a", fmt.Sprint(i)), put(fmt.Sprint("k", i), "1"))
	}
	snapshot := m.Snapshot()
	want := dump(t, m, 0)
	wantOld := dump(t, m, 5)

	one, two := store.NewMemory(), store.NewMemory()
	one.Restore(snapshot)
	two.Restore(snapshot)
	apply(t, m, put("a", "m"), put("k0", "m"))
	apply(t, one, put("a", "one"), put("k1", "one"))
	if err := one.Compact(one.Revision()); err != nil {
		t.Fatal(err)
	}
	if got := dump(t, two, 0); got != want {
		t.Errorf("second store: %s, want %s", got, want)
	}
	if got := dump(t, two, 5); got != wantOld {
		t.Errorf("second store at revision 5: %s, want %s", got, wantOld)
	}
	events, err := two.Events("", "\x00", snapshot.Revision()-1)
	if err != nil || len(events) != 2 || string(events[0].KV.Value) != "9" {
		t.Errorf("second store's last events %+v, %v", events, err)
	}
}

func TestMemoryCompactKeepsWhatIsCurrent(t *testing.T) {
	m := store.NewMemory()
	apply(t, m, put("gone", "1"), put("a", "1"))
	apply(t, m, store.Op{Kind: store.OpDelete, Key: "gone"})
	rev := apply(t, m, put("a", "2"))
	apply(t, m, put("a", "3"), put("b", "3"))
	want, wantRev := dump(t, m, 0), dump(t, m, rev)
	if err := m.Compact(rev); err != nil {
		t.Fatal(err)
	}
	if got := dump(t, m, 0); got != want {
		t.Errorf("contents %s, want %s", got, want)
	}
	if got := dump(t, m, rev); got != wantRev {
		t.Errorf("contents at %d: %s, want %s", rev, got, wantRev)
	}
	if err := m.Compact(rev); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("compacting again: error %v, want ErrCompacted", err)
	}
	if err := m.Compact(rev + 100); err == nil {
		t.Error("a revision to come was compacted")
	}
	if _, err := m.Events("", "\x00", rev-2); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("events before the compaction: error %v, want ErrCompacted", err)
	}
}

func TestMemoryWatchEndsAtRestore(t *testing.T) {
	m := store.NewMemory()
	snapshot := m.Snapshot()
	watch := m.Watch(t.Context(), "", "\x00", 0)
	m.Restore(snapshot)
	if batch := <-watch; batch.Err == nil {
		t.Errorf("batch %+v, want an error", batch)
	}
	if _, open := <-watch; open {
		t.Error("the watch went on after its error")
	}
}

func TestMemoryClosed(t *testing.T) {
	m := store.NewMemory()
	s := newSession(t, m)
	watch := m.Watch(t.Context(), "", "\x00", 0)
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Fatal(err)
	}
	if _, open := <-watch; open {
		t.Error("the watch delivered something")
	}
	if !done(s) {
		t.Error("the session is not done")
	}
	_, txnErr := m.Txn(t.Context(), store.Txn{Then: []store.Op{put("a", "1")}})
	_, rangeErr := m.Range(t.Context(), store.RangeRequest{Key: "a"})
	_, sessionErr := m.NewSession(t.Context(), time.Second)
	for _, err := range []error{txnErr, rangeErr, sessionErr} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	}
}

func TestMemoryEndedContext(t *testing.T) {
	m := store.NewMemory()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Txn(ctx, store.Txn{Then: []store.Op{put("a", "1")}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if got := dump(t, m, 0); got != "" {
		t.Errorf("contents %s", got)
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{
		"a/": "a0", "": "\x00", "a\xff": "b", "\xff\xff": "\x00",
	} {
		if got := store.PrefixEnd(prefix); got != want {
			t.Errorf("PrefixEnd(%q) = %q, want %q", prefix, got, want)
		}
	}
}
