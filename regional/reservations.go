package regional

import (
	"container/heap"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/regional/holder"
)

// reservations finds reservations by their IDs. Those that are open are bounded in
// number; each leaves when its time is over. Those that are settled are remembered
// for the horizon of replay, so that a settlement may be repeated, and are forgotten
// early where they are as many as may be open.
type reservations struct {
	most    int
	horizon time.Duration

	mu      sync.Mutex
	byID    map[string]*reservation
	open    expiry
	pending int // places that are taken for reservations on their way
	ended   []endedReservation
	tokens  int64 // of those that are open and hold something
}

type endedReservation struct {
	r  *reservation
	at time.Duration
}

func newReservations(most int, horizon time.Duration) *reservations {
	return &reservations{most: most, horizon: horizon, byID: make(map[string]*reservation)}
}

// enter takes a place for a reservation, which add or leave ends.
func (t *reservations) enter(now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	if len(t.open)+t.pending >= t.most {
		return false
	}
	t.pending++
	return true
}

func (t *reservations) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending--
}

func (t *reservations) add(r *reservation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending--
	t.byID[r.id] = r
	heap.Push(&t.open, r)
	if r.held != 0 {
		t.tokens += r.tokens
	}
}

// settled notes that r has ended.
func (t *reservations) settled(r *reservation, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[r.id] == r {
		t.close(r)
		t.ended = append(t.ended, endedReservation{r, now})
	}
	t.sweep(now)
}

func (t *reservations) find(id string, now time.Duration) *reservation {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	return t.byID[id]
}

// held is what open reservations hold, in tokens or slots.
func (t *reservations) held(now time.Duration) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	return t.tokens
}

// sweep forgets those whose time is over.
func (t *reservations) sweep(now time.Duration) {
	for len(t.open) > 0 && now >= t.open[0].until {
		r := t.open[0]
		t.close(r)
		delete(t.byID, r.id)
	}
	n := 0
	for ; n < len(t.ended) && (now-t.ended[n].at >= t.horizon || len(t.ended)-n > t.most); n++ {
		delete(t.byID, t.ended[n].r.id)
		t.ended[n].r = nil
	}
	t.ended = t.ended[n:]
}

func (t *reservations) close(r *reservation) {
	heap.Remove(&t.open, r.at)
	if r.held != 0 {
		t.tokens -= r.tokens
	}
}

// expiry is reservations with the one that ends first in front.
type expiry []*reservation

func (e expiry) Len() int           { return len(e) }
func (e expiry) Less(i, j int) bool { return e[i].until < e[j].until }

func (e expiry) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].at, e[j].at = i, j
}

// Push is for package heap.
func (e *expiry) Push(one any) {
	r := one.(*reservation) //nolint:errcheck // nothing else is pushed
	r.at = len(*e)
	*e = append(*e, r)
}

// Pop is for package heap.
func (e *expiry) Pop() any {
	last := len(*e) - 1
	r := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return r
}

// debtors are the budgets that may owe something.
type debtors struct {
	mu      sync.Mutex
	budgets map[*holder.Budget]bool
}

// note remembers a budget that owes.
func (d *debtors) note(b *holder.Budget) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.budgets == nil {
		d.budgets = make(map[*holder.Budget]bool)
	}
	d.budgets[b] = true
}

// owed is what all of them owe, in tokens. Those that owe nothing more are
// forgotten.
func (d *debtors) owed() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var sum float64
	for b := range d.budgets {
		debt := b.Debt()
		if debt == 0 || b.Stopped() {
			delete(d.budgets, b)
			continue
		}
		sum += float64(debt)
	}
	return sum
}
