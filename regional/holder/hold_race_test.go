package holder

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Holds that are settled as unspent are never told as spent, not for a moment: what
// is told as spent is refilled. Everything is held and comes back here, so spent is 0
// at every instant.
func TestHeldIsNeverToldAsSpent(t *testing.T) {
	_, k := stocked(t, 100, true)
	var group sync.WaitGroup
	var done atomic.Bool
	for worker := range uint64(3) {
		group.Go(func() {
			for i := range uint64(10_000) {
				id := worker<<32 | i
				if _, ok := k.budget.Hold(id, 30, far, true); ok {
					k.budget.Settle(id, 0, false)
				}
			}
			done.Store(true)
		})
	}
	for !done.Load() {
		if spent := k.spent(); spent != 0 {
			t.Errorf("%d told as spent", spent)
			break
		}
	}
	group.Wait()
	expect(t, k, 100, 0, 0, 0)
}

// The first hold of a budget is the one that makes readers take the lock.
func TestFirstHoldIsNotToldAsSpent(t *testing.T) {
	for range 500 {
		_, k := stocked(t, 1, false)
		var started, done atomic.Bool
		var group sync.WaitGroup
		group.Go(func() {
			for !started.Load() {
				runtime.Gosched()
			}
			k.budget.Hold(1, 1, far, false)
			done.Store(true)
		})
		started.Store(true)
		for !done.Load() {
			if spent := k.spent(); spent != 0 {
				t.Fatalf("%d told as spent", spent)
			}
		}
		group.Wait()
	}
}

// ledgerOf counts what a test's workers truly spend. Each adds to begun before it
// spends, and takes back what it was denied. So what is spent for good is at most
// begun, at every moment.
type ledgerOf struct {
	begun atomic.Int64
	final atomic.Int64 // what was spent, counted afterwards
}

// work spends, holds and settles as a limiter does until done.
func (l *ledgerOf) work(b *Budget, worker uint64, done *atomic.Bool) {
	rng := rand.New(rand.NewPCG(worker, 7))
	for i := uint64(1); !done.Load(); i++ {
		if rng.IntN(2) == 0 {
			l.begun.Add(1)
			if _, ok := b.Spend(1); ok {
				l.final.Add(1)
			} else {
				l.begun.Add(-1)
			}
			continue
		}
		id, cost := worker<<32|i, 1+rng.Int64N(90)
		if _, ok := b.Hold(id, cost, far, false); !ok {
			continue
		}
		used := rng.Int64N(3)
		if rng.IntN(8) == 0 {
			used = cost + rng.Int64N(20)
		}
		l.begun.Add(used)
		if b.Settle(id, used, true).Known {
			l.final.Add(used)
			continue
		}
		l.begun.Add(-used) // its grant has ended: all of it counts as spent
		l.final.Add(cost)
	}
}

// owing says that there is credit while something is owed and not told.
func owing(b *Budget) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.holds.untold() > 0 && b.credit.Load() > 0
}

// Workers spend, reserve and settle while a manager admits credit, takes it back and
// reads what was spent: it never reads more than the truth, and never less than
// before; nothing is in the credit while anything is owed and not told; and no token is
// lost or made up, nor one that is owed.
func TestReportedSpentIsNeverAboveTheTruth(t *testing.T) {
	m, k := stocked(t, 200, false)
	var l ledgerOf
	var done atomic.Bool
	var group sync.WaitGroup
	for worker := range uint64(4) {
		group.Go(func() { l.work(k.budget, worker+1, &done) })
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var last int64
	for range 30_000 {
		switch rng.IntN(12) {
		case 0:
			n := rng.Int64N(60)
			k.issued += n
			m.admit(k, n)
		case 1:
			m.giveBack(k, rng.Int64N(200))
		case 2:
			k.tellOwed()
		case 3:
			k.heardOwed()
		default:
			spent := k.spent()
			if begun := l.begun.Load(); spent > begun {
				t.Errorf("%d told as spent, %d are at the most", spent, begun)
			}
			if spent < last {
				t.Errorf("%d told as spent after %d", spent, last)
			}
			last = spent
			if owing(k.budget) {
				t.Error("there is credit while something is owed")
			}
		}
		if t.Failed() {
			break
		}
	}
	done.Store(true)
	group.Wait()
	credit, held := k.budget.balance()
	spent := k.spent()
	if held != 0 || spent != l.final.Load()-k.owed-k.budget.holds.untold() || k.issued != spent+k.returned+credit {
		t.Errorf("issued %d; credit %d, held %d, spent %d, returned %d; truly spent %d, of it owed %d",
			k.issued, credit, held, spent, k.returned, l.final.Load(), k.owed+k.budget.holds.untold())
	}
}

// Grants end, for good and at every moment, under workers that hold and settle. What
// their accounts tell is to the token what was spent of them, held credit included, and
// what was used beyond; nothing of an ended grant comes back.
func TestGrantsEndUnderHolds(t *testing.T) {
	m, k := stocked(t, 200, false)
	var l ledgerOf
	var done atomic.Bool
	var group sync.WaitGroup
	for worker := range uint64(4) {
		group.Go(func() { l.work(k.budget, worker+1, &done) })
	}
	var told int64
	end := func() {
		before := k.spent()
		c := m.finalCounters(k)
		if c.held != 0 || c.spent < before || c.spent+c.returned > k.issued {
			t.Errorf("the account of %d issued: spent %d, returned %d, held %d; %d were told before", k.issued, c.spent, c.returned, c.held, before)
		}
		told += c.spent + c.owed
		if credit, held := k.budget.balance(); credit != 0 || held != 0 {
			t.Errorf("credit %d and %d held after the end of the grant", credit, held)
		}
		m.forgetGrant(k)
	}
	for range 15_000 {
		end()
		k.grant, k.issued = "g1-000-00000001", 150
		m.admit(k, 150)
		m.giveBack(k, 120)
		k.spent()
	}
	end()
	done.Store(true)
	group.Wait()
	if spent := l.final.Load(); told != spent || k.budget.Debt() != 0 || k.budget.Credit() != 0 {
		t.Errorf("%d told as spent or owed, %d were used; credit %d, debt %d", told, spent, k.budget.Credit(), k.budget.Debt())
	}
}

// Slots are held and settled while their grants end: the account tells exactly those
// that are in use, and each comes back at most once.
func TestGrantsEndUnderSlots(t *testing.T) {
	m, k := stocked(t, 100, true)
	var lost atomic.Int64
	var done atomic.Bool
	var group sync.WaitGroup
	for worker := range uint64(4) {
		group.Go(func() {
			for i := uint64(0); !done.Load(); i++ {
				id := worker<<32 | i
				if _, ok := k.budget.Hold(id, 7, far, true); ok && !k.budget.Settle(id, 0, false).Known {
					lost.Add(7)
				}
			}
		})
	}
	var told int64
	for range 60_000 {
		c := m.finalCounters(k)
		if c.spent != 0 {
			t.Fatalf("%d slots are told as spent", c.spent)
		}
		told += c.held
		m.forgetGrant(k)
		k.grant, k.issued = "g1-000-00000001", 100
		m.admit(k, 100)
	}
	done.Store(true)
	group.Wait()
	if told != lost.Load() || k.budget.Credit() != 100 {
		t.Errorf("%d told as held, %d were in use; credit %d", told, lost.Load(), k.budget.Credit())
	}
}
