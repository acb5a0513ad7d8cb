package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Memory is a Store in memory with the semantics of etcd: revisions, lives of
// keys, compares, history, watches and sessions. It is for tests and for
// simulations in one thread: Apply, Txn, Range, Events and ExpireSession start
// no goroutine, read no clock, and give the same results for the same calls in
// the same order. Only Watch starts a goroutine.
//
// A session of Memory never expires by itself; ExpireSession ends it. History
// is kept until Compact, so a long simulation compacts now and then.
//
// All methods may be called concurrently. New keys are inserted into a sorted
// slice, which is quick up to some 100,000 keys.
type Memory struct {
	mu        sync.Mutex
	maxOps    int
	revision  int64     // of the newest transaction
	compacted int64     // the oldest revision that can still be read
	records   []*record // ascending by key, deleted keys with history included
	changes   []change  // ascending by revision, from compacted on

	sessions    map[SessionID]*memorySession // handles, also of ended sessions
	live        map[SessionID]bool
	lastSession SessionID

	restores int           // ends the watches that began before a Restore
	changed  chan struct{} // closed at the next change; nil: nobody waits
	closed   bool
}

// record is the history of one key.
type record struct {
	key      string
	versions []version // ascending by ModRevision, never empty
}

// version is a key from its ModRevision until the next version. Versions never
// change once written, so snapshots share them.
type version struct {
	KeyValue
	session SessionID
	deleted bool
}

// NewMemory returns an empty store at revision 1, which takes up to
// DefaultMaxTxnOps operations a transaction.
func NewMemory() *Memory {
	return &Memory{
		maxOps:   DefaultMaxTxnOps,
		revision: 1,
		sessions: make(map[SessionID]*memorySession),
		live:     make(map[SessionID]bool),
	}
}

// SetMaxTxnOps changes the number of operations, and of compares, that one
// transaction may hold. It must be at least 1.
func (m *Memory) SetMaxTxnOps(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.maxOps = n
}

// MaxTxnOps is the largest number of compares or operations of a transaction.
func (m *Memory) MaxTxnOps() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.maxOps
}

// Txn applies the transaction, unless ctx has already ended.
func (m *Memory) Txn(ctx context.Context, txn Txn) (TxnResult, error) {
	if err := ctx.Err(); err != nil {
		return TxnResult{}, err
	}
	return m.Apply(txn)
}

// Apply applies the transaction before it returns. Errors are ErrTooLarge,
// ErrInvalid, ErrClosed, or that a put names a session which has ended; nothing
// was applied then. (Callers that know only Store must not rely on that.)
func (m *Memory) Apply(txn Txn) (TxnResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return TxnResult{}, ErrClosed
	}
	if err := txn.Validate(m.maxOps); err != nil {
		return TxnResult{}, err
	}
	for _, c := range txn.If {
		if m.compareValue(c) != c.Revision {
			return TxnResult{Revision: m.revision}, nil
		}
	}
	if err := m.checkSessions(txn.Then); err != nil {
		return TxnResult{}, err
	}
	results := m.run(txn.Then)
	return TxnResult{Succeeded: true, Revision: m.revision, Results: results}, nil
}

// compareValue is the revision that a compare looks at; 0 for a missing key.
func (m *Memory) compareValue(c Compare) int64 {
	v, ok := m.latest(c.Key)
	switch {
	case !ok:
		return 0
	case c.Target == CreateRevision:
		return v.CreateRevision
	default:
		return v.ModRevision
	}
}

// checkSessions refuses puts under sessions that do not exist, as etcd does.
func (m *Memory) checkSessions(ops []Op) error {
	for _, op := range ops {
		if op.Kind == OpPut && op.Session != 0 && !m.live[op.Session] {
			return fmt.Errorf("store: key %q: session %d does not exist or has ended", op.Key, op.Session)
		}
	}
	return nil
}

// run applies the operations at the next revision, and moves to that revision if
// one of them changed something.
func (m *Memory) run(ops []Op) []OpResult {
	rev := m.revision + 1
	changed := false
	results := make([]OpResult, len(ops))
	for i, op := range ops {
		switch op.Kind {
		case OpPut:
			m.put(op, rev)
			changed = true
		case OpDelete:
			changed = m.remove(op.Key, rev) || changed
		case OpGet:
			results[i].KVs, _ = m.scan(RangeRequest{Key: op.Key}, rev)
		case OpRange:
			results[i].KVs, results[i].More = m.scan(RangeRequest{Key: op.Key, End: op.End, Limit: op.Limit}, rev)
		}
	}
	if changed {
		m.advance(rev)
	}
	return results
}

func (m *Memory) put(op Op, rev int64) {
	created := rev
	if v, ok := m.latest(op.Key); ok {
		created = v.CreateRevision
	}
	m.write(version{
		KeyValue: KeyValue{Key: op.Key, Value: slices.Clone(op.Value), CreateRevision: created, ModRevision: rev},
		session:  op.Session,
	})
}

// remove deletes a key, and reports whether it existed.
func (m *Memory) remove(key string, rev int64) bool {
	if _, ok := m.latest(key); !ok {
		return false
	}
	m.write(version{KeyValue: KeyValue{Key: key, ModRevision: rev}, deleted: true})
	return true
}

// write adds a version to the history of its key and to the list of changes.
func (m *Memory) write(v version) {
	i, found := m.find(v.Key)
	if !found {
		m.records = slices.Insert(m.records, i, &record{key: v.Key})
	}
	m.records[i].versions = append(m.records[i].versions, v)
	m.changes = append(m.changes, change{v.ModRevision, Event{Deleted: v.deleted, KV: v.KeyValue}})
}

// advance makes rev the newest revision and wakes the watches.
func (m *Memory) advance(rev int64) {
	m.revision = rev
	m.wake()
}

// find is the index of key's record, or of where it would be.
func (m *Memory) find(key string) (int, bool) {
	return slices.BinarySearchFunc(m.records, key, func(r *record, key string) int {
		return strings.Compare(r.key, key)
	})
}

// latest is the newest version of a key that exists.
func (m *Memory) latest(key string) (version, bool) {
	i, found := m.find(key)
	if !found {
		return version{}, false
	}
	v := m.records[i].versions[len(m.records[i].versions)-1]
	return v, !v.deleted
}

// Range reads keys. It returns ErrCompacted for a revision before the last
// Compact, and an error for one that is still to come.
func (m *Memory) Range(ctx context.Context, req RangeRequest) (RangeResult, error) {
	if err := errors.Join(ctx.Err(), req.Validate()); err != nil {
		return RangeResult{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rev := req.Revision
	if rev == 0 {
		rev = m.revision
	}
	switch {
	case m.closed:
		return RangeResult{}, ErrClosed
	case rev < m.compacted:
		return RangeResult{}, ErrCompacted
	case rev > m.revision:
		return RangeResult{}, fmt.Errorf("store: revision %d is still to come, the newest is %d", rev, m.revision)
	}
	kvs, more := m.scan(req, rev)
	return RangeResult{KVs: kvs, More: more, Revision: rev}, nil
}

// scan reads the requested keys as they stand at revision rev.
func (m *Memory) scan(req RangeRequest, rev int64) (kvs []KeyValue, more bool) {
	for i, _ := m.find(req.Key); i < len(m.records) && inRange(m.records[i].key, req.Key, req.End); i++ {
		v, ok := m.records[i].at(rev)
		if !ok {
			continue
		}
		if req.Limit > 0 && int64(len(kvs)) == req.Limit {
			return kvs, true
		}
		kv := v.KeyValue
		if req.KeysOnly {
			kv.Value = nil
		}
		kvs = append(kvs, kv)
	}
	return kvs, false
}

// at is the version of a key that was current at revision rev, if it existed.
func (r *record) at(rev int64) (version, bool) {
	for _, v := range slices.Backward(r.versions) {
		if v.ModRevision <= rev {
			return v, !v.deleted
		}
	}
	return version{}, false
}

// inRange reports whether key is in [from, end), or is from itself when end is
// empty; an end of one byte 0 is no bound.
func inRange(key, from, end string) bool {
	switch end {
	case "":
		return key == from
	case "\x00":
		return key >= from
	default:
		return key >= from && key < end
	}
}
