package etcdstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrNoStore means that a directory holds no store.
var ErrNoStore = errors.New("it holds no store")

// HoldsStore finds out whether a directory holds what a StartEmbedded wrote that
// has served, for those who must not start a new store there. It changes nothing
// and takes no lock. Errors: os.ErrNotExist when there is no such directory,
// ErrNoStore, and what reading it ends with.
func HoldsStore(dir string) error {
	switch info, err := os.Stat(dir); {
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("it is not a directory")
	}
	has := func(name string) (bool, error) {
		_, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	marker, err1 := has(markerName)
	data, err2 := has("member")
	starting, err3 := has(startingName)
	switch err := errors.Join(err1, err2, err3); {
	case err != nil:
		return err
	case data && !marker:
		return fmt.Errorf("%w of ours: there is etcd's data, but no file %s; copy the data directory as a whole", ErrNoStore, markerName)
	case !data:
		return ErrNoStore
	case starting:
		return fmt.Errorf("%w: its first start was cut off", ErrNoStore)
	}
	return nil
}
