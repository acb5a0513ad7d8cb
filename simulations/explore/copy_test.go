package explore

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// knot refers to itself in every way that a copy must follow.
type knot struct {
	self  *knot
	all   map[string]*knot
	list  []*knot
	boxed atomic.Pointer[knot]
	count atomic.Int64
	wake  chan struct{}
	name  string
}

func newKnot() *knot {
	other := &knot{name: "other"}
	k := &knot{name: "one", all: map[string]*knot{}, list: []*knot{other, nil}, wake: make(chan struct{}, 1)}
	k.self, k.all["self"], k.all["other"] = k, k, other
	k.boxed.Store(other)
	k.count.Store(7)
	return k
}

func TestCopyKeepsItsShapeAndSharesNothing(t *testing.T) {
	k := newKnot()
	c := deepCopy(k)
	switch {
	case c == k || c.self != c || c.all["self"] != c:
		t.Fatal("a pointer to itself leads elsewhere")
	case c.list[0] == k.list[0] || c.list[0] != c.all["other"] || c.boxed.Load() != c.list[0]:
		t.Fatal("what was one thing is two, or shared")
	case c.count.Load() != 7 || cap(c.wake) != 1 || c.wake == k.wake:
		t.Fatal("a counter or a channel is not right")
	case digestOf(c) != digestOf(k):
		t.Fatal("the copy is not equal")
	}
	before := digestOf(k)
	c.list[0].name, c.all["new"] = "changed", &knot{}
	c.list[1] = c
	c.boxed.Store(nil)
	c.count.Add(1)
	if digestOf(k) != before {
		t.Error("a change of the copy reaches the original")
	}
	if digestOf(c) == before {
		t.Error("a change does not show in the fingerprint")
	}
}

// Each part of a random walk is left as it was by what its copies did, equal
// parts are one, and the same input leads to the same part.
func TestPartsDoNotChange(t *testing.T) {
	for seed := range uint64(20) {
		x := newExplorer(mixed)
		rng := rand.New(rand.NewPCG(seed, 1))
		s, err := x.initial()
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			var events []event
			x.events(s, func(e event) { events = append(events, e) })
			if len(events) == 0 {
				break
			}
			before := *s
			next, ok, fail := x.happen(s, events[rng.IntN(len(events))])
			if fail != "" {
				t.Fatalf("seed %d: %s", seed, fail)
			}
			if *s != before {
				t.Fatal("an event changes the state that it starts from")
			}
			if ok {
				s = &next
			}
		}
		checkParts(t, x)
	}
}

func checkParts(t *testing.T, x *explorer) {
	t.Helper()
	for p, part := range x.procs.held {
		if digestOf(part.proc) != p || digestOf(deepCopy(part.proc)) != p {
			t.Fatal("a process has changed since it was made, or its copy differs")
		}
	}
	for p, part := range x.owners.held {
		if digestOf(part.sh) != p || digestOf(deepCopy(part.sh)) != p {
			t.Fatal("an owner has changed since it was made, or its copy differs")
		}
	}
	for p, part := range x.stores.held {
		if digestOf(part.kept) != p || digestOf(deepCopy(part.kept)) != p {
			t.Fatal("a store has changed since it was made, or its copy differs")
		}
	}
}

// Two worlds that were driven alike have the same fingerprints, whatever the
// addresses and the order of maps; driven otherwise they differ.
func TestFingerprintsTellStatesApart(t *testing.T) {
	walk := func(choices uint64) (digests []digest) {
		x := newExplorer(mixed)
		s, err := x.initial()
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(choices, 2))
		for range 40 {
			var events []event
			x.events(s, func(e event) { events = append(events, e) })
			if next, ok, _ := x.happen(s, events[rng.IntN(len(events))]); ok {
				s = &next
			}
			digests = append(digests, s.digest())
		}
		return digests
	}
	for seed := range uint64(10) {
		one, other := walk(seed), walk(seed)
		for i := range one {
			if one[i] != other[i] {
				t.Fatalf("seed %d: the fingerprints differ after event %d", seed, i+1)
			}
		}
		if different := walk(seed + 100); different[len(different)-1] == one[len(one)-1] {
			t.Errorf("seeds %d and %d end in the same state", seed, seed+100)
		}
	}
}
