package strategies

import (
	"math"
	"time"
)

// never is the time of what does not happen.
const never = time.Duration(math.MaxInt64)

// events is a heap of what is to happen, in order of time and then of when it was
// planned.
type events struct {
	heap    []event
	planned uint64
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// next is when the first event happens.
func (e *events) next() time.Duration {
	if len(e.heap) == 0 {
		return never
	}
	return e.heap[0].at
}

func (e *events) push(at time.Duration, do func()) {
	e.planned++
	e.heap = append(e.heap, event{at, e.planned, do})
	h := e.heap
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// pop removes the first event.
func (e *events) pop() func() {
	h := e.heap
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	e.heap = h
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first.do
		}
		if child+1 < last && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(h[i]) {
			return first.do
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
