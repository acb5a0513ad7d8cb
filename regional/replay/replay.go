package replay

import (
	"context"
	"sync"
	"time"
)

// Key says whose ID it is: accounts and operations do not share theirs.
type Key struct{ Account, Operation, ID string }

// Keep says what becomes of a value that was decided.
type Keep uint8

// What becomes of a value.
const (
	// Record: it is the answer to repetitions, for the horizon.
	Record Keep = iota
	// Share: it is the answer to those that wait for it now, and to no other.
	Share
	// Drop: it is the answer to nobody else; one of those that wait decides anew.
	Drop
)

// Outcome of [Table.Do].
type Outcome uint8

// The outcomes.
const (
	// Decided: by this call.
	Decided Outcome = iota
	// Repeated: the value of an earlier call.
	Repeated
	// Conflict: the ID stands for another payload. There is no value.
	Conflict
	// GaveUp: ctx ended while another call was deciding. There is no value.
	GaveUp
)

// Result of [Table.Do].
type Result[V any] struct {
	Outcome Outcome
	Value   V
	At      time.Duration // when it was decided
}

// Table is a bounded record of what was decided. P is what makes payloads equal.
type Table[P comparable, V any] struct {
	horizon time.Duration
	most    int
	now     func() time.Duration
	evicted func()

	mu             sync.Mutex
	entries        map[Key]*entry[P, V]
	oldest, newest *entry[P, V] // those that are recorded, in order
}

// entry is written by the call that decides it, before done is closed, and read by
// others after that.
type entry[P comparable, V any] struct {
	payload P
	done    chan struct{} // closed when it is decided
	keep    Keep
	value   V
	at      time.Duration

	key  Key
	next *entry[P, V] // in the list of those that are recorded
}

// New is an empty table of most entries (1 or more) at the most, which records for
// horizon. evicted is called, with the table locked, for each record that is
// forgotten early, and for each decision that finds no place.
func New[P comparable, V any](horizon time.Duration, most int, now func() time.Duration, evicted func()) *Table[P, V] {
	return &Table[P, V]{horizon: horizon, most: most, now: now, evicted: evicted, entries: make(map[Key]*entry[P, V])}
}

// Do returns what was decided under the key, or calls decide. It is
// called at most once, without a lock. What it returns is kept as it says, also if
// ctx has ended meanwhile: what was spent stays on record.
func (t *Table[P, V]) Do(ctx context.Context, key Key, payload P, decide func() (V, Keep)) Result[V] {
	for {
		e, mine := t.enter(key, payload)
		if mine {
			return t.decide(e, decide)
		}
		if e.payload != payload {
			return Result[V]{Outcome: Conflict}
		}
		select {
		case <-e.done:
			if e.keep != Drop {
				return Result[V]{Outcome: Repeated, Value: e.value, At: e.at}
			}
		case <-ctx.Done():
			return Result[V]{Outcome: GaveUp}
		}
	}
}

// Len is how many decisions are recorded or under way.
func (t *Table[P, V]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	return len(t.entries)
}

// enter finds the entry of the key, or makes one that the caller has to decide.
func (t *Table[P, V]) enter(key Key, payload P) (e *entry[P, V], mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	if e := t.entries[key]; e != nil {
		return e, false
	}
	e = &entry[P, V]{payload: payload, done: make(chan struct{}), keep: Drop, key: key}
	if len(t.entries) >= t.most {
		t.evicted()
		if t.oldest == nil {
			return e, true // all are under way: this one goes without a record
		}
		t.forgetOldest()
	}
	t.entries[key] = e
	return e, true
}

// decide decides the entry and ends it, also when decide panics: then it is
// dropped.
func (t *Table[P, V]) decide(e *entry[P, V], decide func() (V, Keep)) Result[V] {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.end(e)
		close(e.done)
	}()
	e.value, e.keep = decide()
	e.at = t.now()
	return Result[V]{Outcome: Decided, Value: e.value, At: e.at}
}

// end puts a decided entry on record, or removes it.
func (t *Table[P, V]) end(e *entry[P, V]) {
	switch {
	case t.entries[e.key] != e: // it had no place
	case e.keep != Record:
		delete(t.entries, e.key)
	case t.newest == nil:
		t.oldest, t.newest = e, e
	default:
		t.newest.next = e
		t.newest = e
	}
}

// expire forgets what is older than the horizon. A record is good while less than
// the horizon has passed since it was made.
func (t *Table[P, V]) expire() {
	now := t.now()
	for t.oldest != nil && now-t.oldest.at >= t.horizon {
		t.forgetOldest()
	}
}

func (t *Table[P, V]) forgetOldest() {
	delete(t.entries, t.oldest.key)
	t.oldest = t.oldest.next
	if t.oldest == nil {
		t.newest = nil
	}
}
