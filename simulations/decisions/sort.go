package decisions

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"slices"
)

// inMemory is how many events are sorted at a time.
const inMemory = 200_000

// what an event is, in the order in which those of one moment count: what frees
// something first.
type what uint8

const (
	expire what = iota
	settle
	reserve
	admit
)

// event is something that happened to a budget.
type event struct {
	at          int64 // when it counts, in nanoseconds since 1970
	what        what
	log         int
	order       uint64
	key         int
	tokens      int64
	returned    int64
	reservation string
}

// stored is an event as it is written to a temporary file.
type stored struct {
	At               int64
	What             uint8
	Log              int
	Order            uint64
	Key              int
	Tokens, Returned int64
	Reservation      string
}

func (e *event) compare(o *event) int {
	return cmp.Or(cmp.Compare(e.at, o.at), cmp.Compare(e.what, o.what), cmp.Compare(e.log, o.log), cmp.Compare(e.order, o.order),
		cmp.Compare(e.key, o.key), cmp.Compare(e.tokens, o.tokens), cmp.Compare(e.returned, o.returned), cmp.Compare(e.reservation, o.reservation))
}

// sorter brings events in order of time, in memory or beyond that in files.
type sorter struct {
	dir   string
	most  int
	held  []event
	files []*os.File
}

func (s *sorter) add(e event) error {
	s.held = append(s.held, e)
	if len(s.held) < s.most {
		return nil
	}
	return s.spill()
}

// spill writes what is held to a file, in order.
func (s *sorter) spill() error {
	slices.SortFunc(s.held, func(a, b event) int { return a.compare(&b) })
	file, err := os.CreateTemp(s.dir, "tokenlease-decisions-")
	if err != nil {
		return err
	}
	s.files = append(s.files, file)
	buffered := bufio.NewWriterSize(file, 1<<16)
	encoder := gob.NewEncoder(buffered)
	for _, e := range s.held {
		err := encoder.Encode(stored{e.at, uint8(e.what), e.log, e.order, e.key, e.tokens, e.returned, e.reservation})
		if err != nil {
			return err
		}
	}
	s.held = s.held[:0]
	return buffered.Flush()
}

// each calls take for every event in order.
func (s *sorter) each(take func(e *event)) error {
	slices.SortFunc(s.held, func(a, b event) int { return a.compare(&b) })
	var fronts merge
	sources := []func() (event, error){fromMemory(s.held)}
	for _, file := range s.files {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		sources = append(sources, fromFile(file))
	}
	for _, next := range sources {
		if err := fronts.pushNext(next); err != nil {
			return err
		}
	}
	for len(fronts) > 0 {
		f := heap.Pop(&fronts).(front) //nolint:errcheck // nothing else is pushed
		take(&f.event)
		if err := fronts.pushNext(f.next); err != nil {
			return err
		}
	}
	return nil
}

func (s *sorter) close() error {
	var errs []error
	for _, file := range s.files {
		errs = append(errs, file.Close(), os.Remove(file.Name()))
	}
	s.files = nil
	return errors.Join(errs...)
}

func fromMemory(events []event) func() (event, error) {
	return func() (event, error) {
		if len(events) == 0 {
			return event{}, io.EOF
		}
		e := events[0]
		events = events[1:]
		return e, nil
	}
}

func fromFile(file *os.File) func() (event, error) {
	decoder := gob.NewDecoder(bufio.NewReaderSize(file, 1<<16))
	return func() (event, error) {
		var e stored
		err := decoder.Decode(&e)
		return event{e.At, what(e.What), e.Log, e.Order, e.Key, e.Tokens, e.Returned, e.Reservation}, err
	}
}

// front is the first event of a source that is left.
type front struct {
	event event
	next  func() (event, error)
}

// merge is the fronts, the earliest first.
type merge []front

func (m *merge) pushNext(next func() (event, error)) error {
	e, err := next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		heap.Push(m, front{e, next})
	}
	return err
}

func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return m[i].event.compare(&m[j].event) < 0 }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }

// Push is for package heap.
func (m *merge) Push(one any) { *m = append(*m, one.(front)) } //nolint:errcheck // nothing else is pushed

// Pop is for package heap.
func (m *merge) Pop() any {
	last := len(*m) - 1
	f := (*m)[last]
	*m = (*m)[:last]
	return f
}
