package storetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/store"
)

// patience is how long a subtest waits for what a store does in its own time
// (watches, sessions) before it fails. It is no part of what is tested.
const patience = 30 * time.Second

// Options say how the suite uses the stores it is given.
type Options struct {
	// Prefix of all keys that the suite uses, such as "suite/network/".
	Prefix string
	// Compact forgets the history before revision rev. nil skips the tests of
	// compaction.
	Compact func(ctx context.Context, s store.Store, rev int64) error
}

// Run runs the suite. open is called once for every subtest, and may return the
// same store each time; it closes what it opened by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) store.Store, opts Options) {
	tests := []struct {
		name string
		run  func(*suite)
	}{
		{"CompareCreateRevision", testCompareCreateRevision},
		{"CompareModRevision", testCompareModRevision},
		{"CompareMissingKeyIsZero", testCompareMissingKey},
		{"RefusedTxnAppliesNothing", testRefusedTxnAppliesNothing},
		{"OneRevisionPerTxn", testOneRevisionPerTxn},
		{"ReadsRaiseNoRevision", testReadsRaiseNoRevision},
		{"RecreatedKeyStartsNewLife", testRecreatedKey},
		{"ReadsInsideTxnSeeItsWrites", testReadsInsideTxn},
		{"GuardOnlyTxnIsGuardedRead", testGuardOnlyTxn},
		{"InvalidTxns", testInvalidTxns},
		{"TooManyOps", testTooManyOps},
		{"TooManyBytes", testTooManyBytes},
		{"ChainedHeadRefusesRepetition", testChainedHead},
		{"DeposedOwnerIsRefused", testDeposedOwner},
		{"ConcurrentCounterLosesNothing", testConcurrentCounter},
		{"RangePages", testRangePages},
		{"RangeBounds", testRangeBounds},
		{"RangeAtOlderRevision", testRangeAtOlderRevision},
		{"WatchOrderAndResume", testWatch},
		{"WatchFromNow", testWatchFromNow},
		{"WatchEndsWithContext", testWatchEndsWithContext},
		{"SessionCloseDeletesItsKeys", testSessionClose},
		{"SessionKeyTakenOverByPlainPut", testSessionTakeover},
		{"PutUnderEndedSession", testPutUnderEndedSession},
		{"Compaction", testCompaction},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s := &suite{T: t, ctx: ctx, store: open(t), prefix: opts.Prefix + tc.name + "/", compact: opts.Compact}
			s.clean()
			tc.run(s)
		})
	}
}

// suite is one subtest: the store and a folder of its own.
type suite struct {
	*testing.T
	ctx     context.Context //nolint:containedctx // of one test
	store   store.Store
	prefix  string
	compact func(ctx context.Context, s store.Store, rev int64) error
}

// key is a name in the subtest's folder.
func (s *suite) key(name string) string { return s.prefix + name }

func (s *suite) put(name, value string) store.Op {
	return store.Op{Kind: store.OpPut, Key: s.key(name), Value: []byte(value)}
}

func (s *suite) del(name string) store.Op {
	return store.Op{Kind: store.OpDelete, Key: s.key(name)}
}

func (s *suite) get(name string) store.Op {
	return store.Op{Kind: store.OpGet, Key: s.key(name)}
}

func (s *suite) modIs(name string, rev int64) store.Compare {
	return store.Compare{Key: s.key(name), Target: store.ModRevision, Revision: rev}
}

func (s *suite) createIs(name string, rev int64) store.Compare {
	return store.Compare{Key: s.key(name), Target: store.CreateRevision, Revision: rev}
}

// guarded is a list of compares, to read well in calls.
func guarded(by ...store.Compare) []store.Compare { return by }

// txn runs a transaction that must not fail.
func (s *suite) txn(guards []store.Compare, ops ...store.Op) store.TxnResult {
	s.Helper()
	res, err := s.store.Txn(s.ctx, store.Txn{If: guards, Then: ops})
	if err != nil {
		s.Fatalf("transaction: %v", err)
	}
	return res
}

// apply runs a transaction whose guards must hold, and returns its revision.
func (s *suite) apply(guards []store.Compare, ops ...store.Op) int64 {
	s.Helper()
	res := s.txn(guards, ops...)
	if !res.Succeeded {
		s.Fatal("a transaction whose guards hold was refused")
	}
	return res.Revision
}

// refuse runs a transaction whose guards must not hold.
func (s *suite) refuse(guards []store.Compare, ops ...store.Op) {
	s.Helper()
	if res := s.txn(guards, ops...); res.Succeeded {
		s.Fatal("a transaction whose guards do not hold was applied")
	} else if len(res.Results) != 0 {
		s.Fatalf("a refused transaction returned %d results", len(res.Results))
	}
}

// read is the key as it stands now, and whether it exists.
func (s *suite) read(name string) (store.KeyValue, bool) {
	s.Helper()
	res := s.rangeOf(store.RangeRequest{Key: s.key(name)})
	if len(res.KVs) == 0 {
		return store.KeyValue{}, false
	}
	return res.KVs[0], true
}

func (s *suite) rangeOf(req store.RangeRequest) store.RangeResult {
	s.Helper()
	res, err := s.store.Range(s.ctx, req)
	if err != nil {
		s.Fatalf("range of %q: %v", req.Key, err)
	}
	return res
}

// wantKV checks a key's value and revisions.
func (s *suite) wantKV(name, value string, created, modified int64) {
	s.Helper()
	kv, ok := s.read(name)
	if !ok {
		s.Fatalf("%s is missing", name)
	}
	if string(kv.Value) != value || kv.CreateRevision != created || kv.ModRevision != modified {
		s.Fatalf("%s = %q created %d modified %d, want %q created %d modified %d",
			name, kv.Value, kv.CreateRevision, kv.ModRevision, value, created, modified)
	}
}

func (s *suite) wantMissing(name string) {
	s.Helper()
	if kv, ok := s.read(name); ok {
		s.Fatalf("%s exists with value %q, want it missing", name, kv.Value)
	}
}

// names are the keys without the subtest's prefix, joined by spaces.
func (s *suite) names(kvs []store.KeyValue) string {
	names := make([]string, len(kvs))
	for i, kv := range kvs {
		names[i] = strings.TrimPrefix(kv.Key, s.prefix)
	}
	return strings.Join(names, " ")
}

// clean removes what an earlier run left in the subtest's folder.
func (s *suite) clean() {
	s.Helper()
	for {
		res := s.rangeOf(store.RangeRequest{
			Key: s.prefix, End: store.PrefixEnd(s.prefix), Limit: int64(s.store.MaxTxnOps()), KeysOnly: true,
		})
		if len(res.KVs) == 0 {
			return
		}
		var ops []store.Op
		for _, kv := range res.KVs {
			ops = append(ops, store.Op{Kind: store.OpDelete, Key: kv.Key})
		}
		s.apply(nil, ops...)
	}
}
