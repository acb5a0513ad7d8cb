package decisions

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// What is sorted through files comes out as in memory, and the files are gone at the
// end.
func TestSortingInFiles(t *testing.T) {
	dir := t.TempDir()
	files, memory := &sorter{dir: dir, most: 10}, &sorter{most: inMemory}
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 1003 {
		e := event{at: random.Int64N(100), what: what(random.IntN(4)), log: random.IntN(2), order: uint64(i), key: 1, tokens: 2, returned: 3, reservation: "r"}
		for _, s := range []*sorter{files, memory} {
			if err := s.add(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := func(s *sorter) (events []event) {
		if err := s.each(func(e *event) { events = append(events, *e) }); err != nil {
			t.Fatal(err)
		}
		return events
	}
	want, got := all(memory), all(files)
	if len(want) != 1003 || len(got) != len(want) {
		t.Fatalf("%d and %d events", len(want), len(got))
	}
	for i := range want {
		if got[i] != want[i] || i > 0 && got[i-1].compare(&got[i]) > 0 {
			t.Fatalf("event %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 100 {
		t.Errorf("%d files", len(left))
	}
	if err := files.close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files are left", len(left))
	}
}

func TestNumbers(t *testing.T) {
	var s numbers
	for _, n := range []uint64{5, 1, 3, 2, 9, 4, 8} {
		if s.add(n) {
			t.Errorf("%d was not there", n)
		}
	}
	for _, n := range []uint64{1, 2, 3, 4, 5, 8, 9} {
		if !s.add(n) {
			t.Errorf("%d was there", n)
		}
	}
	if len(s.runs) != 2 || s.runs[0] != (interval{1, 5}) || s.runs[1] != (interval{8, 9}) {
		t.Errorf("%+v", s.runs)
	}
}
