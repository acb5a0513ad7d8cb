package journal

import (
	"fmt"
)

// Drawn is an upper bound on what may have been spent of one grant.
type Drawn struct {
	GrantID string // 1 to 1024 bytes
	Tokens  int64  // cumulative, whole tokens, 0 or more
}

// Epoch is what the journal has of one start of the holder.
type Epoch struct {
	Number  uint64
	Nonce   string  // of the start, as given to [Journal.Begin]
	Counter uint64  // write counter, 1 or more
	Drawn   []Drawn // ordered by GrantID; grants that it does not name have drawn nothing
}

// Begin records durably that the holder has started epoch, before the first draw of it. The nonce (1 to
// 1024 bytes) is the start's own. The epoch's write counter is then 1. An epoch that was current before
// becomes an earlier one.
//
// The errors wrap [ErrInvalid], [ErrUnbound], [ErrBackwards] when epoch is not above
// [Journal.LastEpoch], [ErrFailed] or [ErrClosed].
func (j *Journal) Begin(epoch uint64, nonce string) error {
	if err := validName("start nonce", nonce); err != nil {
		return err
	}
	return j.update(func(t *txn) error {
		if t.head.cluster == "" {
			return fmt.Errorf("%w: epoch %d has no meaning without it", ErrUnbound, epoch)
		}
		if epoch <= t.head.last {
			return fmt.Errorf("%w: epoch %d is not above %d, the last one begun in %s",
				ErrBackwards, epoch, t.head.last, j.cfg.Path)
		}
		t.head.last = epoch
		if _, err := t.drawn.CreateBucket(epochKey(epoch)); err != nil {
			return err
		}
		return t.putStart(epoch, &start{nonce: nonce}, 0)
	})
}

// Draw raises the drawn figures of grants of the current epoch in one durable transaction, and returns
// the epoch's write counter. Only when it has returned nil may the tokens be spent. A grant may be named
// more than once and its figure may stay as it is. Without draws it writes nothing.
//
// The errors wrap [ErrInvalid], [ErrBackwards] when a figure would shrink, [ErrEpoch] when epoch is not
// the one begun last through this Journal, or is finished (nothing is written then), [ErrClosed], or
// [ErrFailed]: the outcome is unknown, and the tokens must be treated as drawn and not be spent.
func (j *Journal) Draw(epoch uint64, draws []Drawn) (counter uint64, err error) {
	for _, d := range draws {
		if err := validName("grant ID", d.GrantID); err != nil {
			return 0, err
		}
		if d.Tokens < 0 {
			return 0, invalidf("grant %q cannot have drawn %d tokens", d.GrantID, d.Tokens)
		}
	}
	err = j.update(func(t *txn) error {
		s, sum, err := t.start(epoch)
		if err != nil {
			return err
		}
		if epoch != j.current {
			return fmt.Errorf("%w: %d is of an earlier start and can only be accounted for", ErrEpoch, epoch)
		}
		if counter = s.counter; len(draws) == 0 {
			return errUnchanged
		}
		b, err := t.grants(epoch)
		if err != nil {
			return err
		}
		for _, d := range draws {
			if err := s.draw(b, epoch, d); err != nil {
				return err
			}
		}
		err = t.putStart(epoch, &s, sum)
		counter = s.counter
		return err
	})
	if err != nil {
		return 0, err
	}
	return counter, nil
}

// Forget drops the drawn figures of grants of an unfinished epoch whose close the broker has confirmed,
// and raises the epoch's write counter. IDs that are not there are skipped; when none is there it writes
// nothing. The caller must not draw on these grants again: their figures would start at 0.
//
// The errors wrap [ErrEpoch], [ErrFailed] or [ErrClosed].
func (j *Journal) Forget(epoch uint64, grantIDs []string) error {
	return j.update(func(t *txn) error {
		s, sum, err := t.start(epoch)
		if err != nil {
			return err
		}
		b, err := t.grants(epoch)
		if err != nil {
			return err
		}
		changed := false
		for _, id := range grantIDs {
			found, err := s.forget(b, epoch, id)
			if err != nil {
				return err
			}
			changed = changed || found
		}
		if !changed {
			return errUnchanged
		}
		return t.putStart(epoch, &s, sum)
	})
}

// Finish drops an epoch whose final account every shard has confirmed. Finishing it again does nothing.
//
// The errors wrap [ErrEpoch] when epoch is above [Journal.LastEpoch], [ErrFailed] or [ErrClosed].
func (j *Journal) Finish(epoch uint64) error {
	return j.update(func(t *txn) error {
		if t.epochs.Get(epochKey(epoch)) == nil && epoch <= t.head.last {
			return errUnchanged
		}
		_, sum, err := t.start(epoch)
		if err != nil {
			return err
		}
		t.head.digest -= sum
		if err := t.drawn.DeleteBucket(epochKey(epoch)); err != nil {
			return err
		}
		return t.epochs.Delete(epochKey(epoch))
	})
}

// Counter returns the write counter of an unfinished epoch. The errors wrap [ErrEpoch], [ErrFailed] or
// [ErrClosed].
func (j *Journal) Counter(epoch uint64) (counter uint64, err error) {
	err = j.view(func(t *txn) error {
		s, _, err := t.start(epoch)
		counter = s.counter
		return err
	})
	return counter, err
}

// Epochs returns, in ascending order, the earlier epochs that were begun here and are not finished: all
// but the one that may still be drawn on, whose figures prove nothing while its process runs. The caller
// owns the result.
//
// The errors wrap [ErrFailed] (with [ErrCorrupt] when the file turns out damaged) or [ErrClosed].
func (j *Journal) Epochs() ([]Epoch, error) {
	var epochs []Epoch
	err := j.view(func(t *txn) error {
		return t.eachEpoch(func(number uint64, s start) error {
			if number == j.current {
				return nil
			}
			e := Epoch{Number: number, Nonce: s.nonce, Counter: s.counter, Drawn: make([]Drawn, 0, s.grants)}
			err := t.eachDrawn(number, s, func(d Drawn) { e.Drawn = append(e.Drawn, d) })
			epochs = append(epochs, e)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return epochs, nil
}
