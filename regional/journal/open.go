package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	// maxCheck bounds the files that bbolt's own check is run on, in bytes in use: it holds a map entry for
	// each page.
	maxCheck = 64 << 20

	// initialMap is the address space mapped at first, in bytes. The file is grown to it, sparsely, by its
	// first transaction, so that a young journal is spared the growth in small steps, each with an fsync and a
	// new mapping.
	initialMap = 1 << 20
)

// Open opens the holder's journal under an exclusive lock, or makes a new one.
//
// It reads the whole file, since all of it is checked. The errors wrap [ErrInvalid] for cfg, [ErrLocked],
// [ErrCorrupt], [ErrVersion], [ErrForeign] when the file is another holder's, or an error of the file
// system.
func Open(cfg Config) (*Journal, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	j, err := open(cfg)
	if err != nil {
		return nil, advise(cfg, err)
	}
	cfg.Logger.Info("journal opened", slog.String("path", cfg.Path), slog.Uint64("last_epoch", j.last),
		slog.String("cluster", j.cluster))
	return j, nil
}

// open is Open on a complete cfg and without advice in the errors.
func open(cfg Config) (*Journal, error) {
	if err := cfg.makeDirectory(); err != nil {
		return nil, err
	}
	if err := inspect(cfg); err != nil {
		return nil, err
	}
	j := &Journal{cfg: cfg}
	var err error
	if j.db, err = openBolt(cfg, false, nil); err != nil {
		return nil, err
	}
	err = j.load()
	if err == nil {
		err = cfg.syncDirectory()
	}
	if err != nil {
		_ = j.Close() // its error would only repeat what is wrong
		return nil, err
	}
	return j, nil
}

// inspect checks the pages of a file that exists, under a shared lock, before anything follows them
// through a mapping. Between this lock and the exclusive one another limiter of this name may have had
// the file; it has then checked it itself.
func inspect(cfg Config) error {
	info, err := os.Stat(cfg.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil // new, or a crash came before its first write
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if !info.Mode().IsRegular() {
		return corruptf("%s is not a regular file", cfg.Path)
	}
	var file *os.File
	db, err := openBolt(cfg, true, &file)
	if err != nil {
		return err
	}
	if info, err = file.Stat(); err == nil {
		err = checkPages(file, info.Size())
	}
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	return err
}

// openBolt opens the file, read-only under a shared lock or for writing under an exclusive one. It
// stores the open file in file, unless that is nil.
func openBolt(cfg Config, readOnly bool, file **os.File) (db *bbolt.DB, err error) {
	options := &bbolt.Options{
		Timeout:         cfg.LockTimeout,
		ReadOnly:        readOnly,
		NoSync:          cfg.NoSync,
		NoGrowSync:      cfg.NoSync,
		NoFreelistSync:  false, // why: see doc.go, Storage
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: initialMap,
		NoStatistics:    true,
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, perm)
			if file != nil {
				*file = f
			}
			return f, err
		},
	}
	err = guard(func() (err error) {
		db, err = bbolt.Open(cfg.Path, 0o600, options)
		return err
	})
	var path *fs.PathError
	var system syscall.Errno
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrLocked
	case errors.Is(err, ErrCorrupt):
		return nil, err
	case errors.As(err, &path), errors.As(err, &system):
		return nil, fmt.Errorf("journal: cannot open %s: %w", cfg.Path, err)
	default: // what is left are bbolt's complaints about the content
		return nil, corruptf("the file is not a readable journal: %w", err)
	}
}

// load checks an opened file and reads its head, or lays out a new one.
func (j *Journal) load() error {
	var fresh bool
	err := j.transact(false, func(tx *bbolt.Tx) error {
		key, _ := tx.Cursor().First()
		// bbolt starts a file with the transactions 0 and 1. One that has had others was not always empty.
		if fresh = key == nil && tx.ID() <= 1; fresh {
			return nil
		}
		return j.check(tx)
	})
	if err != nil || !fresh {
		return err
	}
	h := head{region: j.cfg.Region, instance: j.cfg.Instance}
	return j.transact(true, func(tx *bbolt.Tx) error { return layOut(tx, h) })
}

// check reads everything in the file, and fails unless it is whole and this holder's.
func (j *Journal) check(tx *bbolt.Tx) error {
	if err := boltCheck(tx); err != nil {
		return err
	}
	t, err := newTxn(tx)
	if err != nil {
		return err
	}
	n := 0
	err = t.eachEpoch(func(epoch uint64, s start) error {
		n++
		return t.eachDrawn(epoch, s, func(Drawn) {})
	})
	if err != nil {
		return err
	}
	// Each epoch has its bucket, so none is left over when there are as many.
	buckets := 0
	err = t.drawn.ForEach(func(_, _ []byte) error { buckets++; return nil })
	if err != nil || buckets != n {
		return errors.Join(err, corruptf("there are drawn records of %d epochs, and %d epochs", buckets, n))
	}
	if t.head.region != j.cfg.Region || t.head.instance != j.cfg.Instance {
		return fmt.Errorf("%w: %s belongs to limiter %s/%s, and this is %s/%s: give each limiter a journal "+
			"directory of its own", ErrForeign, j.cfg.Path, t.head.region, t.head.instance,
			j.cfg.Region, j.cfg.Instance)
	}
	j.last, j.cluster = t.head.last, t.head.cluster
	return nil
}

// boltCheck runs bbolt's consistency check, unless the file is large, and returns its first finding.
func boltCheck(tx *bbolt.Tx) (err error) {
	if tx.Size() > maxCheck {
		return nil
	}
	for finding := range tx.Check() { // to the end: the check blocks until each is taken
		if err == nil {
			err = corruptf("%w", finding)
		}
	}
	return err
}
