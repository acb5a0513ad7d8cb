package store

import (
	"context"
	"errors"
	"time"
)

// Errors that callers branch on.
//
// ErrTooLarge and ErrInvalid are found before anything is sent. Any other error
// of Txn means that its outcome is unknown: the transaction may have been
// applied, may be applied later, or never (contract C6).
var (
	// ErrCompacted means that the revision asked for is no longer kept.
	ErrCompacted = errors.New("store: the requested revision has been compacted")
	// ErrClosed means that the store or session was closed by this process.
	ErrClosed = errors.New("store: closed")
	// ErrTooLarge means that the transaction exceeds the store's limits and was
	// not sent.
	ErrTooLarge = errors.New("store: transaction exceeds the store's limits")
	// ErrInvalid means that the request is not one that a store accepts (an empty
	// key, a key put twice) and was not sent. It is a fault of the caller.
	ErrInvalid = errors.New("store: invalid request")
)

// KeyValue is one key as it stood at the revision of the answer. Value may be
// shared with the store and with other readers: read it, never write to it.
type KeyValue struct {
	Key            string
	Value          []byte
	CreateRevision int64 // revision that created this life of the key
	ModRevision    int64 // revision of its last change
}

// CompareTarget says which revision of a key a Compare looks at.
type CompareTarget int

const (
	// CreateRevision compares the revision that created the key; 0 for a key
	// that does not exist.
	CreateRevision CompareTarget = iota
	// ModRevision compares the revision of the last change; 0 for a key that
	// does not exist.
	ModRevision
)

// Compare is one equality that must hold for a transaction to apply.
type Compare struct {
	Key      string
	Target   CompareTarget
	Revision int64
}

// OpKind is the kind of one operation in a transaction.
type OpKind int

const (
	// OpPut writes Value at Key, bound to Session if that is not 0.
	OpPut OpKind = iota
	// OpDelete removes Key; a key that does not exist is not an error.
	OpDelete
	// OpGet reads Key.
	OpGet
	// OpRange reads the keys in [Key, End) in byte order, at most Limit of them
	// (0: all). It sees the puts and deletes before it in the same transaction,
	// as OpGet does.
	OpRange
)

// Op is one operation of a transaction. The same key must not be put twice, nor
// both put and deleted, in one transaction.
type Op struct {
	Kind    OpKind
	Key     string
	End     string    // OpRange: exclusive upper bound, see RangeRequest
	Limit   int64     // OpRange: most keys returned, 0 for all
	Value   []byte    // OpPut
	Session SessionID // OpPut: 0 for a plain key
}

// Txn is a guarded transaction: if every compare holds, all operations apply in
// one step; otherwise nothing does.
type Txn struct {
	If   []Compare
	Then []Op
}

// OpResult is what one operation of an applied transaction read. It is empty
// for puts and deletes.
type OpResult struct {
	KVs  []KeyValue
	More bool // OpRange: keys beyond Limit exist
}

// TxnResult is the known outcome of a transaction.
type TxnResult struct {
	Succeeded bool       // false: a compare did not hold and nothing was applied
	Revision  int64      // the store's revision after the transaction
	Results   []OpResult // one for each operation, in order; none if not Succeeded
}

// RangeRequest reads keys outside a transaction, for lists and displays.
type RangeRequest struct {
	Key      string // first key, inclusive
	End      string // exclusive upper bound; "": only Key, "\x00": no bound
	Limit    int64  // 0 for all
	Revision int64  // 0 for the newest; the pages of one list name the first's
	KeysOnly bool   // leave Value empty
}

// RangeResult is the answer to a RangeRequest.
type RangeResult struct {
	KVs      []KeyValue
	More     bool
	Revision int64 // the revision that was read
}

// Event is one change of a watched key.
type Event struct {
	Deleted bool
	KV      KeyValue // for a deletion only Key and ModRevision are set
}

// WatchBatch is a group of events, in order of revision. When Err is set the
// watch has ended, and the caller reads afresh and watches again.
type WatchBatch struct {
	Events []Event
	Err    error
}

// SessionID names a session; keys put under it vanish with it. 0 is no session.
type SessionID int64

// Session is a liveness claim that keeps itself alive until it is closed or its
// time to live has passed without contact.
//
// A session elects; it never protects. Done may fire seconds after the keys of
// the session are gone, so every write of an owner compares its ownership key.
type Session interface {
	ID() SessionID
	// Done is closed when the session is known to be over.
	Done() <-chan struct{}
	// Close ends the session and deletes its keys.
	Close(ctx context.Context) error
}

// Store is an ordered, transactional key space.
//
// All methods may be called concurrently.
type Store interface {
	// Txn runs one guarded transaction, once. It is linearizable, also when it
	// only reads or only compares: it takes effect between call and return. An
	// error other than ErrTooLarge and ErrInvalid leaves the outcome unknown.
	Txn(ctx context.Context, txn Txn) (TxnResult, error)
	// Range reads keys. Reads at revision 0 are linearizable. It returns
	// ErrCompacted for a revision that is no longer kept.
	Range(ctx context.Context, req RangeRequest) (RangeResult, error)
	// Watch delivers the changes of keys in [key, end) after revision after
	// (0: from now on, which may ask the store before Watch returns) until ctx
	// ends, the store is closed, or a batch carries an error; then the channel is
	// closed. Changes of one revision are never split over batches. Watches are
	// hints: late, never a ground for a decision.
	Watch(ctx context.Context, key, end string, after int64) <-chan WatchBatch
	// NewSession starts a session with the given time to live, rounded up to
	// whole seconds and to what the store supports (2 s on etcd).
	NewSession(ctx context.Context, ttl time.Duration) (Session, error)
	// MaxTxnOps is the largest number of compares or of operations that one
	// transaction may hold.
	MaxTxnOps() int
	// Close ends the calls in flight, the watches and the keep-alives of the
	// sessions. The keys of a session that was not closed go when its time to
	// live has passed. Closing twice is not an error.
	Close() error
}

// PrefixEnd is the smallest key above every key that starts with prefix: the End
// of a range over the prefix. For an empty prefix, or one of only 0xff bytes,
// it is "\x00", which ranges read as "to the last key".
func PrefixEnd(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return "\x00"
}
