package store

import (
	"context"
	"errors"
)

// errRestored ends the watches of a Memory that goes back to a snapshot.
var errRestored = errors.New("store: the watch ended because the store was restored")

// Events returns the changes of keys in [key, end) after revision after, oldest
// first, without waiting: what a Watch from there has to deliver so far. It
// returns ErrCompacted if some are no longer kept.
func (m *Memory) Events(key, end string, after int64) ([]Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	return m.events(key, end, after)
}

func (m *Memory) events(key, end string, after int64) ([]Event, error) {
	if after+1 < m.compacted {
		return nil, ErrCompacted
	}
	var events []Event
	for _, c := range m.changes[firstAfter(m.changes, after):] {
		if inRange(c.event.KV.Key, key, end) {
			events = append(events, c.event)
		}
	}
	return events, nil
}

// Watch delivers changes as Store says. Its goroutine ends with ctx, with the
// store, or with the first error.
func (m *Memory) Watch(ctx context.Context, key, end string, after int64) <-chan WatchBatch {
	m.mu.Lock()
	w := &memoryWatch{store: m, key: key, end: end, after: after, restores: m.restores}
	if after == 0 {
		w.after = m.revision
	}
	m.mu.Unlock()
	out := make(chan WatchBatch)
	go w.run(ctx, out)
	return out
}

// memoryWatch is the position of one watch in the list of changes. It belongs to
// the goroutine of run.
type memoryWatch struct {
	store    *Memory
	key, end string
	after    int64 // everything up to this revision was delivered
	restores int
}

func (w *memoryWatch) run(ctx context.Context, out chan<- WatchBatch) {
	defer close(out)
	for {
		batch, wait := w.next()
		if wait != nil {
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return
			}
		}
		if errors.Is(batch.Err, ErrClosed) {
			return
		}
		select {
		case out <- batch:
		case <-ctx.Done():
			return
		}
		if batch.Err != nil {
			return
		}
	}
}

// next is the batch to deliver now, or a channel that is closed once there may
// be one.
func (w *memoryWatch) next() (WatchBatch, <-chan struct{}) {
	m := w.store
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return WatchBatch{Err: ErrClosed}, nil
	}
	if m.restores != w.restores {
		return WatchBatch{Err: errRestored}, nil
	}
	events, err := m.events(w.key, w.end, w.after)
	if err != nil {
		return WatchBatch{Err: err}, nil
	}
	w.after = max(w.after, m.revision)
	if len(events) > 0 {
		return WatchBatch{Events: events}, nil
	}
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return WatchBatch{}, m.changed
}

// wake tells the waiting watches to look again. The caller holds the lock.
func (m *Memory) wake() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}
