package explore

import (
	"crypto/sha256"
	"slices"
	"sync"

	"github.com/tokenlease/tokenlease/simulations/judge"
)

// A state is made of parts, and most of what happens changes one or two of them.
// Parts with the same content are one part (as in the collapse compression of
// SPIN), and what a part does on some input is remembered. So the real code runs
// once for each pair of part and input, not once in each state.

// memory is what one part did, by input. The result must depend on the part and
// the input alone.
type memory[I comparable, R any] struct {
	mu  sync.Mutex
	did map[I]*R
}

// on is what the part does on the input.
func (m *memory[I, R]) on(input I, run func() *R) *R {
	m.mu.Lock()
	r, ok := m.did[input]
	m.mu.Unlock()
	if ok {
		return r
	}
	r = run()
	m.mu.Lock()
	defer m.mu.Unlock()
	if first, ok := m.did[input]; ok {
		return first
	}
	if m.did == nil {
		m.did = map[I]*R{}
	}
	m.did[input] = r
	return r
}

// table holds the parts of one kind, one for each content.
type table[T any] struct {
	mu   sync.Mutex
	held map[digest]*T
}

// one is the part with this fingerprint; fresh if there is none yet.
func (t *table[T]) one(p digest, fresh *T) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.held[p]; ok {
		return known
	}
	if t.held == nil {
		t.held = map[digest]*T{}
	}
	t.held[p] = fresh
	return fresh
}

// set is a set of things with fingerprints, in their order: it does not tell in
// which order they came.
type set[T digested] struct {
	memory[change[T], set[T]]

	digest digest
	all    []T
}

// change is what comes into a set, or goes out of it.
type change[T digested] struct {
	what T
	out  bool
}

type digested interface {
	comparable

	fingerprint() digest
}

// with is the set with one more in it.
func (s *set[T]) with(t *table[set[T]], what T) *set[T] { return s.changed(t, change[T]{what, false}) }

// without is the set with one less in it.
func (s *set[T]) without(t *table[set[T]], what T) *set[T] {
	return s.changed(t, change[T]{what, true})
}

func (s *set[T]) changed(t *table[set[T]], c change[T]) *set[T] {
	return s.on(c, func() *set[T] {
		at, found := slices.BinarySearchFunc(s.all, c.what, func(a, b T) int { return a.fingerprint().compare(b.fingerprint()) })
		switch {
		case found != c.out:
			return s
		case c.out:
			return setOf(t, slices.Delete(slices.Clone(s.all), at, at+1))
		}
		return setOf(t, slices.Insert(slices.Clone(s.all), at, c.what))
	})
}

// setOf is the set of all, which are in order.
func setOf[T digested](t *table[set[T]], all []T) *set[T] {
	h := sha256.New()
	for _, what := range all {
		p := what.fingerprint()
		_, _ = h.Write(p[:])
	}
	p := digest(h.Sum(nil)[:16])
	return t.one(p, &set[T]{digest: p, all: all})
}

// diskPart is a disk.
type diskPart struct {
	digest digest
	disk   *disk
}

// judgePart is the judge with all that it has seen.
type judgePart struct {
	memory[judgeInput, judgeResult]

	digest digest
	judge  *judge.Judge
}

type judgeInput struct {
	now      uint8
	admitted int64
	asked    bool       // would it be admitted?
	version  int        // of a policy that was written
	ledger   *storePart // that is shown to it
}

type judgeResult struct {
	next *judgePart
	fail string
}

func (x *explorer) diskPart(d *disk) *diskPart {
	p := digestOf(d)
	return x.disks.one(p, &diskPart{digest: p, disk: d})
}

func (x *explorer) judgePart(j *judge.Judge) *judgePart {
	p := digestOf(j)
	return x.judges.one(p, &judgePart{digest: p, judge: j})
}

// judged is the judge after some event.
func (x *explorer) judged(j *judgePart, in judgeInput) *judgeResult {
	return j.on(in, func() *judgeResult {
		next := deepCopy(j.judge)
		r := &judgeResult{}
		switch {
		case in.admitted > 0:
			if err := next.Admit(at(in.now), in.admitted); err != nil {
				r.fail = err.Error()
			}
			if in.asked {
				return r
			}
		case in.version > 0:
			next.Written(at(in.now), x.scope.rule(in.version))
		default:
			next.Ledger(at(in.now), in.ledger.kept.ledger)
		}
		r.next = x.judgePart(next)
		return r
	})
}
