package store

import (
	"fmt"
	"slices"
)

// change is one entry of the list that watches read.
type change struct {
	revision int64
	event    Event
}

// Revision is the store's newest revision.
func (m *Memory) Revision() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision
}

// Compact forgets what only reads and watches before revision rev need. It
// returns ErrCompacted if that was done already, and an error if rev is still to
// come.
func (m *Memory) Compact(rev int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return ErrClosed
	case rev <= m.compacted:
		return ErrCompacted
	case rev > m.revision:
		return fmt.Errorf("store: revision %d is still to come, the newest is %d", rev, m.revision)
	}
	m.compacted = rev
	// New slices: snapshots share the old ones.
	m.changes = slices.Clone(m.changes[firstAfter(m.changes, rev-1):])
	kept := make([]*record, 0, len(m.records))
	for _, r := range m.records {
		if versions := r.since(rev); len(versions) > 0 {
			kept = append(kept, &record{key: r.key, versions: versions})
		}
	}
	m.records = kept
	m.wake()
	return nil
}

// since is the history of a key as reads from revision rev on need it: the
// version current at rev, unless it is a deletion, and all later ones.
func (r *record) since(rev int64) []version {
	first := 0
	for first+1 < len(r.versions) && r.versions[first+1].ModRevision <= rev {
		first++
	}
	if v := r.versions[first]; v.deleted && v.ModRevision <= rev {
		first++
	}
	return slices.Clone(r.versions[first:])
}

// firstAfter is the index of the first change after revision rev.
func firstAfter(changes []change, rev int64) int {
	i, _ := slices.BinarySearchFunc(changes, rev+1, func(c change, rev int64) int {
		return int(min(max(c.revision-rev, -1), 1))
	})
	return i
}

// Snapshot is a copy of a Memory's contents: keys, history, revision and living
// sessions. It never changes, and may be restored any number of times, also into
// another Memory.
type Snapshot struct {
	revision  int64
	compacted int64
	records   []record
	changes   []change
	live      []SessionID
}

// Revision is the newest revision in the snapshot.
func (s *Snapshot) Revision() int64 { return s.revision }

// Snapshot copies the contents of the store.
func (m *Memory) Snapshot() *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &Snapshot{
		revision:  m.revision,
		compacted: m.compacted,
		records:   make([]record, len(m.records)),
		changes:   slices.Clip(m.changes),
		live:      make([]SessionID, 0, len(m.live)),
	}
	for i, r := range m.records {
		s.records[i] = record{key: r.key, versions: slices.Clip(r.versions)}
	}
	for id := range m.live {
		s.live = append(s.live, id)
	}
	slices.Sort(s.live)
	return s
}

// Restore replaces the contents by those of the snapshot, as restoring an etcd
// cluster from a backup does: the revision goes back, what was written since is
// gone, and revisions are given out again. Watches end with an error. Sessions
// that began since are gone, and sessions that ended since live again; their
// holders are not told. Session IDs are not given out again.
func (m *Memory) Restore(s *Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision, m.compacted, m.changes = s.revision, s.compacted, s.changes
	m.records = make([]*record, len(s.records))
	for i, r := range s.records {
		m.records[i] = &record{key: r.key, versions: r.versions}
	}
	clear(m.live)
	for _, id := range s.live {
		m.live[id] = true
		m.lastSession = max(m.lastSession, id)
	}
	m.restores++
	m.wake()
}
