package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Journal is an open journal file, held under its exclusive lock until [Journal.Close]. Make one with
// [Open]. All methods may be called concurrently; they run one at a time.
type Journal struct {
	cfg Config

	mu sync.Mutex
	db *bbolt.DB
	// last and cluster are those of the last transaction known to be committed.
	last    uint64
	cluster string
	current uint64 // epoch begun last through this value, 0 when none was
	failed  error  // first failure, final
	closed  bool
	wedged  bool // bbolt panicked and did not let go of its own locks
}

// Path returns the file's path.
func (j *Journal) Path() string { return j.cfg.Path }

// LastEpoch returns the highest epoch that was ever begun here, also when it is finished, or 0 when none
// was. It goes on answering after a failure and after Close; it then leaves out a Begin that failed.
func (j *Journal) LastEpoch() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// Cluster returns the cluster's ID, or "" when it is not known yet.
func (j *Journal) Cluster() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cluster
}

// BindCluster records the ID (1 to 1024 bytes) of the cluster that numbers this holder's epochs, and
// returns [ErrForeign] when the file is bound to another. Repeating it with the same ID writes nothing.
func (j *Journal) BindCluster(id string) error {
	if err := validName("cluster ID", id); err != nil {
		return err
	}
	return j.update(func(t *txn) error {
		switch t.head.cluster {
		case id:
			return errUnchanged
		case "":
			t.head.cluster = id
			return nil
		default:
			return fmt.Errorf("%w: %s belongs to cluster %s, and the broker's is %s: point the limiter at its "+
				"own cluster, or give it a journal directory for this one",
				ErrForeign, j.cfg.Path, t.head.cluster, id)
		}
	})
}

// Close releases the file and its lock, after the call in progress has ended. Only its first call does
// anything; the later ones return nil. When bbolt broke off in the middle of its work on a damaged file,
// the lock stays until the process ends, and the error says so.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	if j.wedged {
		return fmt.Errorf("%w: the lock on %s stays until this process ends", ErrFailed, j.cfg.Path)
	}
	if err := guard(j.db.Close); err != nil {
		return fmt.Errorf("journal: cannot close %s: %w", j.cfg.Path, err)
	}
	return nil
}

// errUnchanged ends an update that turned out to have nothing to write.
var errUnchanged = errors.New("journal: unchanged")

// update runs fn in a transaction and commits it with the head, once, durably. An error of fn leaves
// everything as it was. An error after fn leaves the outcome unknown and fails the journal.
func (j *Journal) update(fn func(*txn) error) error {
	err := j.run(true, func(t *txn) error {
		if err := fn(t); err != nil {
			return err
		}
		return t.putHead()
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// view runs fn in a transaction that only reads.
func (j *Journal) view(fn func(*txn) error) error { return j.run(false, fn) }

// run is the one way to the file of an open journal.
func (j *Journal) run(write bool, fn func(*txn) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return fmt.Errorf("%w: %s", ErrClosed, j.cfg.Path)
	}
	if j.failed != nil {
		return j.failed
	}
	var h head
	err := j.transact(write, func(tx *bbolt.Tx) error {
		t, err := newTxn(tx)
		if err != nil {
			return err
		}
		err = fn(t)
		h = t.head
		return err
	})
	if errors.Is(err, ErrFailed) || errors.Is(err, ErrCorrupt) {
		return j.fail(err)
	}
	if err == nil && write {
		if h.last > j.last {
			j.current = h.last
		}
		j.last, j.cluster = h.last, h.cluster
	}
	return err
}

// fail makes err the journal's final state.
func (j *Journal) fail(err error) error {
	if !errors.Is(err, ErrFailed) {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	j.failed = advise(j.cfg, err)
	j.cfg.Logger.Error("journal failed, nothing more is drawn", slog.String("path", j.cfg.Path),
		slog.Any("error", err))
	return j.failed
}

// transact runs fn in one bbolt transaction and commits it if it may write. An error of the commit
// wraps [ErrFailed]; a panic or memory fault comes back as [ErrCorrupt].
func (j *Journal) transact(write bool, fn func(*bbolt.Tx) error) error {
	var tx *bbolt.Tx
	err := guard(func() (err error) {
		tx, err = j.db.Begin(write)
		return err
	})
	if err != nil {
		j.wedged = errors.Is(err, ErrCorrupt) // it panicked, with its locks held
		return fmt.Errorf("journal: cannot begin a transaction: %w", err)
	}
	err = guard(func() error {
		if err := fn(tx); err != nil || !write {
			return err
		}
		return j.commit(tx)
	})
	if guard(func() error { return rollback(tx) }) != nil {
		j.wedged = true
	}
	return err
}

// commit makes a transaction durable.
func (j *Journal) commit(tx *bbolt.Tx) error {
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: the outcome of writing %s is unknown: treat what was to be drawn as drawn, do "+
			"not spend it, and start the limiter anew: %w", ErrFailed, j.cfg.Path, err)
	}
	return nil
}

// rollback ends a transaction that a commit or its failure has not ended already.
func rollback(tx *bbolt.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, bolterrors.ErrTxClosed) {
		return err
	}
	return nil
}

// guard runs fn and turns a panic into [ErrCorrupt]. bbolt panics on pages that make no sense, and
// touches memory that has no file behind it when the file is cut short while open; the runtime makes a
// panic of the latter only when it is asked to, for the goroutine.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = corruptf("the file cannot be followed: %v", r)
		}
	}()
	return fn()
}
