package turns

import (
	"container/list"
	"sync"
)

// Floor is in how many turns a normal one has one at least, while high ones wait.
const Floor = 8

// Lines are the lines of all keys.
type Lines[K comparable] struct {
	perKey, total int

	mu      sync.Mutex
	byKey   map[K]*line[K]
	waiting int
}

// line is those that wait for one key, the first included.
type line[K comparable] struct {
	first  *Turn[K]
	lists  [2]list.List // those behind the first: normal, high
	count  int
	streak int  // high ones served since a normal one was
	floor  bool // the first has its place by the floor: high does not take it
}

// Turn is a place in a line.
type Turn[K comparable] struct {
	lines   *Lines[K]
	line    *line[K]
	key     K
	high    int           // index of its list
	place   *list.Element // nil: it is the first, or has left
	left    bool
	changed chan struct{}
}

// New has lines of at most perKey each and total altogether, both 1 or more.
func New[K comparable](perKey, total int) *Lines[K] {
	return &Lines[K]{perKey: perKey, total: total, byKey: make(map[K]*line[K])}
}

// Join takes the last place of the priority in the key's line. ok is false when
// there is none left.
func (l *Lines[K]) Join(key K, high bool) (t *Turn[K], ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.byKey[key]
	if l.waiting >= l.total || q != nil && q.count >= l.perKey {
		return nil, false
	}
	if q == nil {
		q = &line[K]{}
		l.byKey[key] = q
	}
	t = &Turn[K]{lines: l, line: q, key: key, changed: make(chan struct{}, 1)}
	if high {
		t.high = 1
	}
	l.waiting++
	q.count++
	q.add(t)
	return t, true
}

// Waiting is how many stand in all lines.
func (l *Lines[K]) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// Any says that somebody stands in the key's line.
func (l *Lines[K]) Any(key K) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byKey[key] != nil
}

// First says that it is this one's turn.
func (t *Turn[K]) First() bool {
	t.lines.mu.Lock()
	defer t.lines.mu.Unlock()
	return t.line.first == t
}

// Changed receives after First may have changed.
func (t *Turn[K]) Changed() <-chan struct{} { return t.changed }

// Leave gives the place up; served says that the turn was used. Calls after the
// first do nothing.
func (t *Turn[K]) Leave(served bool) {
	l, q := t.lines, t.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.left {
		return
	}
	t.left = true
	l.waiting--
	q.count--
	if q.count == 0 {
		delete(l.byKey, t.key)
	}
	if served && t.high == 1 {
		q.streak++
	} else if served {
		q.streak = 0
	}
	if q.first == t {
		q.next()
	} else {
		q.lists[t.high].Remove(t.place)
	}
}

func (t *Turn[K]) tell() {
	select {
	case t.changed <- struct{}{}:
	default: // it has not looked yet
	}
}

func (q *line[K]) add(t *Turn[K]) {
	switch {
	case q.first == nil:
		q.lead(t)
	case t.high > q.first.high && !q.floor && q.streak < Floor-1:
		before := q.first
		before.place = q.lists[before.high].PushFront(before)
		before.tell()
		q.lead(t)
	default:
		t.place = q.lists[t.high].PushBack(t)
	}
}

func (q *line[K]) lead(t *Turn[K]) {
	q.first, t.place = t, nil
	t.tell()
}

// next gives the first place to whose turn it is.
func (q *line[K]) next() {
	normal, high := q.lists[0].Front(), q.lists[1].Front()
	q.first = nil
	q.floor = normal != nil && high != nil && q.streak >= Floor-1
	from, at := &q.lists[1], high
	if high == nil || q.floor {
		from, at = &q.lists[0], normal
	}
	if at == nil {
		return
	}
	t, _ := at.Value.(*Turn[K])
	from.Remove(at)
	q.lead(t)
}
