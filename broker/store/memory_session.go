package store

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// memorySession is the handle of one session of a Memory.
type memorySession struct {
	store *Memory
	id    SessionID
	done  chan struct{}
	once  sync.Once
}

// NewSession starts a session that lives until it is closed or expired by
// ExpireSession: the time to live must be positive and is otherwise ignored.
func (m *Memory) NewSession(ctx context.Context, ttl time.Duration) (Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if ttl <= 0 {
		return nil, fmt.Errorf("%w: a session's time to live of %v is not positive", ErrInvalid, ttl)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	m.lastSession++
	s := &memorySession{store: m, id: m.lastSession, done: make(chan struct{})}
	m.sessions[s.id] = s
	m.live[s.id] = true
	return s, nil
}

// ExpireSession ends a session and deletes its keys, in one revision and in the
// order of the keys. With notify its Done is closed; without, its holder does
// not know yet, as after a pause or behind a cut network. A later call with
// notify tells it. It is not an error if the session has ended already.
func (m *Memory) ExpireSession(id SessionID, notify bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endSession(id)
	if s := m.sessions[id]; s != nil && notify {
		delete(m.sessions, id)
		s.finish()
	}
}

// endSession deletes the session's keys. The caller holds the lock.
func (m *Memory) endSession(id SessionID) {
	if m.closed || !m.live[id] {
		return
	}
	delete(m.live, id)
	rev := m.revision + 1
	changed := false
	for _, r := range m.records {
		if v := r.versions[len(r.versions)-1]; !v.deleted && v.session == id {
			m.remove(r.key, rev)
			changed = true
		}
	}
	if changed {
		m.advance(rev)
	}
}

func (s *memorySession) ID() SessionID { return s.id }

func (s *memorySession) Done() <-chan struct{} { return s.done }

// Close ends the session and deletes its keys. It fails only if ctx has ended.
func (s *memorySession) Close(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.store.ExpireSession(s.id, true)
	return nil
}

func (s *memorySession) finish() { s.once.Do(func() { close(s.done) }) }

// Close ends the watches and closes Done of the sessions, whose keys stay. Later
// calls return ErrClosed.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	for _, s := range m.sessions {
		s.finish()
	}
	m.wake()
	return nil
}
