package etcdstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// markerName is the file that makes a directory ours. It is locked while a process
// uses the directory.
const (
	markerName = "tokenlease-store"
	markerText = "tokenlease embedded etcd, format 1\n"
	// startingName stands while a member that has no data yet starts for the first
	// time: from before it writes anything until it serves.
	startingName = "tokenlease-starting"
)

// Errors of StartEmbedded that callers may branch on.
var (
	// ErrDirInUse means that another process uses the data directory.
	ErrDirInUse = errors.New("the data directory is in use by another process")
	// ErrDirForeign means that the data directory holds something else.
	ErrDirForeign = errors.New("the data directory is not one of ours")
	// ErrDirCorrupt means that the data cannot be read.
	ErrDirCorrupt = errors.New("the data is corrupt")
)

// claimDir makes the directory ours, or finds that it is, and locks it until the
// returned file is closed. It also checks the data, see checkData.
func claimDir(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data directory: %w", err)
	}
	if err := checkOwner(dir); err != nil {
		return nil, err
	}
	lock, err := fileutil.TryLockFile(filepath.Join(dir, markerName), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("%w: stop that process, or choose another directory", ErrDirInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	if err := checkContents(dir, lock.File); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

func checkContents(dir string, marker *os.File) error {
	if err := checkMarker(marker); err != nil {
		return err
	}
	member := filepath.Join(dir, "member")
	if err := prepareFirstStart(dir, member); err != nil {
		return err
	}
	return checkData(member)
}

// prepareFirstStart notes durably that a directory without data is about to be
// started for the first time, and clears what an earlier such start has left: cut
// off in its first moments, it can leave a member without voters, which would wait
// for an election for ever. Only the note proves that nothing was acknowledged;
// data without it is never touched.
func prepareFirstStart(dir, member string) error {
	note := filepath.Join(dir, startingName)
	_, err := os.Stat(note)
	if err == nil {
		if err := os.RemoveAll(member); err != nil {
			return fmt.Errorf("removing what a first start left that never served: %w", err)
		}
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(member); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(note, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close(), syncDir(dir))
}

// markServed notes durably that the member has served, before anybody gets the
// store.
func markServed(dir string) error {
	err := os.Remove(filepath.Join(dir, startingName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, syncDir(dir))
}

func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// checkOwner refuses a directory with contents but without our marker.
func checkOwner(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the data directory: %w", err)
	}
	foreign := ""
	for _, e := range entries {
		switch e.Name() {
		case markerName:
			return nil
		case "lost+found": // in the root of a fresh volume
		default:
			foreign = e.Name()
		}
	}
	if foreign != "" {
		return fmt.Errorf("%w: it holds %q but no file %s; choose an empty directory", ErrDirForeign, foreign, markerName)
	}
	return nil
}

// checkMarker writes the marker's text if it is new, and compares it otherwise.
func checkMarker(file *os.File) error {
	text, err := io.ReadAll(io.LimitReader(file, int64(len(markerText))+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", markerName, err)
	}
	switch string(text) {
	case markerText:
		return nil
	case "":
		_, err := file.WriteAt([]byte(markerText), 0)
		return errors.Join(err, file.Sync())
	default:
		return fmt.Errorf("%w: its file %s says %q; was it written by another version?", ErrDirForeign, markerName, text)
	}
}
