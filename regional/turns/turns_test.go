package turns_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/regional/turns"
)

type (
	lines = turns.Lines[string]
	turn  = turns.Turn[string]
)

func join(t *testing.T, l *lines, key string, high bool) *turn {
	t.Helper()
	one, ok := l.Join(key, high)
	if !ok {
		t.Fatal("no place in line")
	}
	return one
}

// first is the one of them whose turn it is; -1 for none.
func first(all []*turn) int {
	found := -1
	for i, one := range all {
		if one == nil || !one.First() {
			continue
		}
		if found >= 0 {
			panic(fmt.Sprintf("both %d and %d are first", found, i))
		}
		found = i
	}
	return found
}

// serve serves everyone of a line and tells in which order: n for normal, H for
// high.
func serve(all []*turn, high func(int) bool) (order string, places []int) {
	var b strings.Builder
	for i := first(all); i >= 0; i = first(all) {
		if high(i) {
			b.WriteByte('H')
		} else {
			b.WriteByte('n')
		}
		places = append(places, i)
		all[i].Leave(true)
		all[i] = nil
	}
	return b.String(), places
}

func TestFirstComeFirstServed(t *testing.T) {
	l := turns.New[string](100, 100)
	var all []*turn
	for range 20 {
		all = append(all, join(t, l, "key", false))
	}
	_, places := serve(all, func(int) bool { return false })
	for i, place := range places {
		if i != place {
			t.Fatalf("served in the order %v", places)
		}
	}
	if l.Waiting() != 0 || l.Any("key") {
		t.Errorf("%d still wait", l.Waiting())
	}
}

func TestCase21HighGoesFirstAndNormalKeepsItsFloor(t *testing.T) {
	l := turns.New[string](100, 100)
	var all []*turn
	high := func(i int) bool { return i%2 == 1 }
	for i := range 40 {
		all = append(all, join(t, l, "key", high(i)))
	}
	order, places := serve(all, high)
	if want := "HHHHHHHnHHHHHHHnHHHHHHn" + strings.Repeat("n", 17); order != want {
		t.Errorf("served as %s, want %s", order, want)
	}
	last := [2]int{-1, -1}
	for _, place := range places {
		if place < last[place%2] {
			t.Fatalf("one priority is served out of order: %v", places)
		}
		last[place%2] = place
	}
}

// A high one takes the first place from a normal one, which is the next of its
// priority then, and is told of both.
func TestHighTakesTheFirstPlace(t *testing.T) {
	l := turns.New[string](100, 100)
	early, late := join(t, l, "key", false), join(t, l, "key", false)
	<-early.Changed()
	urgent := join(t, l, "key", true)
	<-early.Changed()
	if !urgent.First() || early.First() {
		t.Fatal("the high one is not first")
	}
	<-urgent.Changed()
	urgent.Leave(true)
	<-early.Changed()
	if !early.First() || late.First() {
		t.Fatal("the normal one that was first before is not first again")
	}
}

// The turn that is a normal one's by the floor is not taken from it, nor lost when
// it gives up: the next of its priority has it.
func TestFloorIsKeptUntilANormalOneWasServed(t *testing.T) {
	l := turns.New[string](100, 100)
	a, b := join(t, l, "key", false), join(t, l, "key", false)
	for range turns.Floor - 1 {
		high := join(t, l, "key", true)
		if !high.First() {
			t.Fatal("high does not go first")
		}
		high.Leave(true)
	}
	high := join(t, l, "key", true)
	if !a.First() {
		t.Fatal("the floor is not kept")
	}
	a.Leave(false)
	if !b.First() {
		t.Fatal("the floor is lost with one that gave up")
	}
	b.Leave(true)
	if !high.First() {
		t.Fatal("nobody is next")
	}
}

func TestHighOnesThatGaveUpDoNotCount(t *testing.T) {
	l := turns.New[string](100, 100)
	normal := join(t, l, "key", false)
	for range 50 {
		high := join(t, l, "key", true)
		if !high.First() {
			t.Fatal("high does not go first")
		}
		high.Leave(false)
	}
	if !normal.First() {
		t.Fatal("nobody is next")
	}
}

func TestLeavingTwiceIsLeavingOnce(t *testing.T) {
	l := turns.New[string](100, 100)
	a, b, c := join(t, l, "key", false), join(t, l, "key", false), join(t, l, "key", false)
	a.Leave(true)
	a.Leave(false)
	if !b.First() || l.Waiting() != 2 {
		t.Fatalf("%d wait", l.Waiting())
	}
	c.Leave(false)
	c.Leave(false)
	b.Leave(true)
	if l.Waiting() != 0 {
		t.Errorf("%d wait", l.Waiting())
	}
}

func TestLinesAreBounded(t *testing.T) {
	l := turns.New[string](2, 3)
	join(t, l, "a", false)
	second := join(t, l, "a", false)
	if _, ok := l.Join("a", true); ok {
		t.Error("a third in a line of two")
	}
	join(t, l, "b", false)
	if _, ok := l.Join("c", false); ok {
		t.Error("a fourth where three may wait")
	}
	second.Leave(false)
	join(t, l, "c", false)
}

// Whatever comes and goes, somebody is first as long as anybody waits, and those of
// one priority are served in the order in which they came.
func TestSomebodyIsAlwaysFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	l := turns.New[string](10, 30)
	type one struct {
		*turn
		key  string
		high bool
		born int
	}
	var all []one
	for step := range 20_000 {
		if key := string(rune('a' + r.IntN(4))); r.IntN(2) == 0 {
			high := r.IntN(2) == 0
			if turn, ok := l.Join(key, high); ok {
				all = append(all, one{turn, key, high, step})
			}
			continue
		}
		if len(all) == 0 {
			continue
		}
		i := r.IntN(len(all))
		leaving := all[i]
		served := leaving.First() && r.IntN(4) > 0
		for _, other := range all {
			if served && other.key == leaving.key && other.high == leaving.high && other.born < leaving.born {
				t.Fatalf("step %d: served before one that came earlier", step)
			}
		}
		leaving.Leave(served)
		all = append(all[:i], all[i+1:]...)
		firsts := map[string]int{}
		waits := map[string]bool{}
		for _, o := range all {
			waits[o.key] = true
			if o.First() {
				firsts[o.key]++
			}
		}
		for key := range waits {
			if firsts[key] != 1 {
				t.Fatalf("step %d: %d are first of %s", step, firsts[key], key)
			}
		}
		if l.Waiting() != len(all) {
			t.Fatalf("step %d: %d wait, want %d", step, l.Waiting(), len(all))
		}
	}
}
