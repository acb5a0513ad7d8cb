package journal

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

const (
	// DefaultFile is the name of the file when [Config].Path is a directory.
	DefaultFile = "journal.db"
	// DefaultLockTimeout is how long [Open] waits for the lock when [Config].LockTimeout is 0. It covers a
	// predecessor that is just exiting.
	DefaultLockTimeout = time.Second

	// maxName bounds names, nonces and grant IDs, in bytes.
	maxName = 1024
)

// Config says where a journal is and whose it is.
type Config struct {
	// Path is the file, or an existing directory in which the file is [DefaultFile]. A missing parent
	// directory is made, with mode 0700.
	Path string
	// Region and Instance name the holder, each 1 to 1024 bytes. A file belongs to one holder for good.
	Region, Instance string
	// LockTimeout bounds each wait for the file's lock; there are at most two. 0 means
	// [DefaultLockTimeout], and less than 50 ms means one attempt without a wait.
	LockTimeout time.Duration
	// NoSync leaves out every fsync, so that a power failure loses or damages the file. For tests only.
	NoSync bool
	// Logger gets a line when the journal opens and one when it fails. nil discards them.
	Logger *slog.Logger
}

// Validate checks the fields. Its errors wrap [ErrInvalid].
func (c Config) Validate() error {
	if c.Path == "" {
		return invalidf("the journal needs a path")
	}
	if err := validName("region", c.Region); err != nil {
		return err
	}
	if err := validName("instance", c.Instance); err != nil {
		return err
	}
	if c.LockTimeout < 0 {
		return invalidf("lock timeout %v is negative", c.LockTimeout)
	}
	return nil
}

// withDefaults returns c with its defaults filled in and Path naming a file.
func (c Config) withDefaults() Config {
	if info, err := os.Stat(c.Path); err == nil && info.IsDir() {
		c.Path = filepath.Join(c.Path, DefaultFile)
	}
	if c.LockTimeout == 0 {
		c.LockTimeout = DefaultLockTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// makeDirectory makes the file's directory when it is missing.
func (c Config) makeDirectory() error {
	dir := filepath.Dir(c.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("journal: cannot make directory %s, choose one that this user may write to: %w", dir, err)
	}
	return nil
}

// syncDirectory makes a new file's name durable. Without it a power failure could take away the whole
// file after its content was synced. Windows has no such call.
func (c Config) syncDirectory() error {
	if c.NoSync || runtime.GOOS == "windows" {
		return nil
	}
	dir := filepath.Dir(c.Path)
	for _, name := range []string{dir, filepath.Dir(dir)} {
		if err := syncPath(name); err != nil {
			return fmt.Errorf("journal: cannot sync directory %s: %w", name, err)
		}
	}
	return nil
}

// syncPath calls fsync on a directory. One that may not be opened for reading is left alone: its entry
// for a directory of ours was not made by us.
func syncPath(name string) error {
	f, err := os.Open(name)
	if os.IsPermission(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// validName checks a name, nonce or grant ID.
func validName(what, s string) error {
	if s == "" || len(s) > maxName {
		return invalidf("%s has %d bytes, want 1 to %d", what, len(s), maxName)
	}
	return nil
}
