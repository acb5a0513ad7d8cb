package journal

import (
	"errors"
	"fmt"
)

// Errors that callers branch on, with [errors.Is]. The errors returned wrap them in a message that says
// which file it is and what to do.
var (
	// ErrLocked says that the file is held open by another process, or by this one.
	ErrLocked = errors.New("journal: locked")
	// ErrCorrupt says that the file is damaged or is not a journal. It has not been changed.
	ErrCorrupt = errors.New("journal: corrupt")
	// ErrVersion says that the file has a format which this program does not know. It has not been changed.
	ErrVersion = errors.New("journal: unknown format version")
	// ErrForeign says that the file belongs to another holder or to another cluster.
	ErrForeign = errors.New("journal: foreign")
	// ErrBackwards says that a drawn figure would shrink or that an epoch is not above the last one.
	ErrBackwards = errors.New("journal: backwards")
	// ErrEpoch says that the epoch was not begun here, is finished, or may no longer be drawn on.
	ErrEpoch = errors.New("journal: epoch not open")
	// ErrUnbound says that no cluster has been recorded yet: call [Journal.BindCluster] first.
	ErrUnbound = errors.New("journal: cluster not known")
	// ErrInvalid says that an argument is out of range. Nothing was written.
	ErrInvalid = errors.New("journal: invalid argument")
	// ErrFailed says that an earlier or this write ended with an unknown outcome, or that the file turned
	// out damaged while open. It is final for this [Journal] value; see the package documentation.
	ErrFailed = errors.New("journal: failed")
	// ErrClosed says that the journal was closed.
	ErrClosed = errors.New("journal: closed")
)

// corruptf returns an error that wraps [ErrCorrupt] and tells what is damaged.
func corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}

// invalidf returns an error that wraps [ErrInvalid].
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// advise adds to an error about the file as a whole which file it is and what an operator can do.
func advise(cfg Config, err error) error {
	switch {
	case errors.Is(err, ErrLocked):
		return fmt.Errorf("%w: %s is held open, so another limiter named %s/%s is running: stop that one "+
			"first, or start this one with another instance name and a journal directory of its own",
			err, cfg.Path, cfg.Region, cfg.Instance)
	case errors.Is(err, ErrCorrupt):
		return fmt.Errorf("%w (file %s): keep this file as evidence and start with another journal "+
			"directory; the credit that it would have proved unspent stays reserved until an operator "+
			"resolves it (tokenlease grants resolve)", err, cfg.Path)
	case errors.Is(err, ErrVersion):
		return fmt.Errorf("%w (file %s): start the program version that wrote it, or a newer one", err, cfg.Path)
	default:
		return err
	}
}
