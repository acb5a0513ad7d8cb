package etcdstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// lockPatience is how long a database that another process holds is waited for.
const lockPatience = 200 * time.Millisecond

// checkData reads a member's database and log before etcd does, because etcd would
// wait for ever for a database that is locked, end the process at one that is
// corrupt, and silently start without acknowledged transactions when the database
// is missing or when the log was cut off before what the database holds.
//
// Damage inside a database, and damage of the log after the last entry in the
// database, which looks like a write that a crash interrupted, are not found.
func checkData(member string) error {
	database := filepath.Join(member, "snap", "db")
	applied, hasDatabase, err := appliedIndex(database)
	if err != nil {
		return err
	}
	log := filepath.Join(member, "wal")
	if !wal.Exist(log) {
		if applied > 0 {
			return corrupt(log, errors.New("the log is missing, but there is a database"))
		}
		return nil
	}
	if !hasDatabase {
		return corrupt(database, errors.New("the database is missing, but there is a log"))
	}
	first, last, err := logBounds(log)
	if err != nil {
		return corrupt(log, err)
	}
	if applied < first || applied > last {
		return corrupt(member, fmt.Errorf("the database stands at entry %d, outside of the log, which goes from %d to %d",
			applied, first, last))
	}
	return nil
}

// appliedIndex is the newest entry of the log that the database holds, 0 if none,
// and whether there is a database.
func appliedIndex(path string) (index uint64, exists bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("looking at the database: %w", err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockPatience})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return 0, false, fmt.Errorf("%w (its database %s is locked): stop that process, or choose another directory", ErrDirInUse, path)
	case errors.Is(err, os.ErrPermission):
		return 0, false, fmt.Errorf("opening the database: %w: check the owner of the data directory", err)
	case err != nil:
		return 0, false, corrupt(path, err)
	}
	err = db.View(func(tx *bolt.Tx) error {
		if meta := tx.Bucket(schema.Meta.Name()); meta != nil {
			if value := meta.Get(schema.MetaConsistentIndexKeyName); len(value) == 8 {
				index = binary.BigEndian.Uint64(value)
			}
		}
		return nil
	})
	return index, true, errors.Join(err, db.Close())
}

// logBounds are the entries that a start can continue from: that of the newest
// snapshot, and the last one.
func logBounds(path string) (first, last uint64, err error) {
	defer func() { // etcd panics at records that it cannot decode
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), path)
	if err != nil {
		return 0, 0, err
	}
	if len(snapshots) == 0 {
		return 0, 0, wal.ErrSnapshotNotFound
	}
	snapshot := snapshots[len(snapshots)-1]
	log, err := wal.OpenForRead(zap.NewNop(), path, snapshot)
	if err != nil {
		return 0, 0, err
	}
	_, _, entries, err := log.ReadAll() // also closes what was opened for reading
	if err != nil {
		return 0, 0, err
	}
	first = snapshot.GetIndex()
	return first, first + uint64(len(entries)), nil
}

func corrupt(path string, err error) error {
	return fmt.Errorf("%w: %s: %w; keep a copy, then restore the directory from a backup and declare the restore, "+
		"or start with an empty one", ErrDirCorrupt, path, err)
}
