package holder

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/tally"
)

// Budget is the credit of one key in this process: what the hot path touches.
type Budget struct {
	// The hot path. Nothing else is read or written while credit is enough and
	// above low.
	credit atomic.Int64          // tokens that may be spent here and now, never below 0
	low    atomic.Int64          // below this a spend signals the manager
	most   atomic.Int64          // the highest cost that the policy allows; 0: none is known
	beyond atomic.Int64          // tokens that the region holds and the hot path may not spend yet
	until  atomic.Pointer[until] // when spending ends unless the broker answers; nil: it does not

	signaled atomic.Bool
	next     *Budget // in the list of signals; owned by whoever pushed it
	signals  *Signals

	// Key of the budget.
	Key     lease.Key
	outlook atomic.Pointer[Outlook]
	// Tally is where those who decide by the budget count; nil until they set it. The
	// manager leaves it alone.
	Tally   atomic.Pointer[tally.Tally]
	asked   atomic.Int64 // cost of a check that did not wait; 0: none since the newest request
	denied  atomic.Bool  // a check was denied since the manager last looked
	shortAt atomic.Int64 // monotonic time of the newest answer that gave less than was wanted; 0: none

	mu      sync.Mutex
	waiting waiting
	news    chan struct{} // closed at the next news
	retired bool

	pinned atomic.Bool // a handle refers to it: it is not retired
	state  *keyState   // the manager's

	holds    holds
	answered atomic.Int64 // monotonic time of the newest answer; 0: none
}

// NewBudget is a budget without credit. Its signals go to signals.
func NewBudget(key lease.Key, signals *Signals) *Budget {
	b := &Budget{Key: key, signals: signals, news: make(chan struct{})}
	b.low.Store(math.MaxInt64)
	b.holds.ease.Store(-1)
	return b
}

// Spend takes cost tokens (1 or more), or nothing. left is what remains here
// after it. It may be called concurrently; it does not block or allocate, and reads
// clocks only under a policy that bounds staleness.
//
// It cannot over-admit: the swap succeeds only from the very balance that was
// seen to cover the cost, so each token leaves the balance once, and a denial
// changes nothing. Where staleness is bounded, the swap follows a look at the clocks:
// what passes in between is a pause, for which such a policy declares a margin.
func (b *Budget) Spend(cost int64) (left int64, ok bool) {
	if b.Stale() {
		return 0, false
	}
	for {
		credit := b.credit.Load()
		if credit < cost {
			return credit, false
		}
		left = credit - cost
		if b.credit.CompareAndSwap(credit, left) {
			if left < b.low.Load() {
				b.Signal()
			}
			return left, true
		}
	}
}

// SpendAllowed is Spend for a cost that the caller has not held against the
// policy: it takes nothing where the policy is not known or does not allow the
// cost. All that it reads lies beside the credit, since a look at the policy
// itself would cost two more cache misses.
func (b *Budget) SpendAllowed(cost int64) bool {
	if cost <= 0 || cost > b.most.Load() {
		return false
	}
	_, ok := b.Spend(cost)
	return ok
}

// Credit is what could be spent now. It may be called concurrently.
func (b *Budget) Credit() int64 {
	if b.Stale() {
		return 0
	}
	return b.credit.Load()
}

// Beyond is what the region holds besides the credit: a write of its journal makes
// it credit, without asking anybody. It may be called concurrently; read it after
// the credit, since tokens that pass from here to there leave here first.
func (b *Budget) Beyond() int64 { return b.beyond.Load() }

// Remaining is what the region could spend now without asking anybody: the credit
// and what is beyond. It may be called concurrently.
func (b *Budget) Remaining() int64 {
	if b.Stale() {
		return 0
	}
	credit := b.credit.Load()
	return credit + b.Beyond()
}

// Signal asks the manager to look at the budget. It may be called concurrently
// and does not block.
func (b *Budget) Signal() {
	if !b.signaled.Load() && b.signaled.CompareAndSwap(false, true) {
		b.signals.push(b)
	}
}

// Denied notes that a check was denied, so that the manager goes on asking. It
// may be called concurrently.
func (b *Budget) Denied() {
	if !b.denied.Load() && b.denied.CompareAndSwap(false, true) {
		b.Signal()
	}
}

// Refused notes a check of the given cost that found too little credit and does
// not wait, so that the manager asks for it. It may be called concurrently.
func (b *Budget) Refused(cost int64) {
	if b.asked.Load() == 0 {
		b.asked.Store(cost)
	}
	b.Denied()
}

// Pin keeps the budget from being retired. It may be called concurrently, and
// says false when the budget is retired already: look the key up again.
func (b *Budget) Pin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retired {
		return false
	}
	b.pinned.Store(true)
	return true
}

// Outlook is what is known beyond the credit; nil before the first answer. It
// may be called concurrently. The value is never changed.
func (b *Budget) Outlook() *Outlook { return b.outlook.Load() }

// Wait registers a check of the given cost that waits for credit (0: of the
// policy's default cost, which is not known yet), and returns the channel that is closed at the next news. ok is false when the budget has
// been retired: look the key up again. It may be called concurrently.
func (b *Budget) Wait(cost int64) (news <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retired {
		return nil, false
	}
	b.waiting.add(cost)
	return b.news, true
}

// Unanswered is what a check that has waited since a monotonic time is told when
// its wait is over: that the budget is used up, if the broker has answered
// meanwhile with less than was wanted; else that no authority was reached. (Where
// more is asked for than there is, each answer serves some of those that wait.
// The others must not be told that nobody answers: contract C7.) It may be called
// concurrently.
func (b *Budget) Unanswered(since time.Duration) pb.Reason {
	o := b.Outlook()
	if at := b.shortAt.Load(); o != nil && !o.Stopped && (o.Recalling && !b.Stale() || at > 0 && at >= int64(since)) {
		return pb.Reason_REASON_EXHAUSTED
	}
	return pb.Reason_REASON_UNAVAILABLE
}

// Answered is the monotonic time of the newest word of the ledger on this budget
// that was applied; false before the first. It may be called concurrently.
func (b *Budget) Answered() (at time.Duration, ok bool) {
	nanos := b.answered.Load()
	return time.Duration(nanos), nanos > 0
}

// Stopped says that this epoch spends nothing any more. It may be called
// concurrently.
func (b *Budget) Stopped() bool {
	o := b.Outlook()
	return o != nil && o.Stopped
}

// Judge says what a check of cost tokens that finds no credit is told at now. A denial
// that is known is of before the Debt, which is paid before the check. It may be called
// concurrently.
func (b *Budget) Judge(cost int64, now time.Duration) Verdict {
	return b.Outlook().judge(cost, b.Debt(), b.holds.freed.Load(), b.holds.held.Load(), now)
}

// News is the channel that is closed at the next news. It may be called
// concurrently.
func (b *Budget) News() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.news
}

// Leave ends a Wait. It may be called concurrently.
func (b *Budget) Leave(cost int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.remove(cost)
}

// tell wakes everyone who waits, to look again.
func (b *Budget) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.news)
	b.news = make(chan struct{})
}

// retire takes a budget without a grant out of use, unless somebody has an interest in
// it, and says what it owed: nobody collects that any more.
func (b *Budget) retire() (owed int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting.count > 0 || b.pinned.Load() || b.holds.held.Load() > 0 {
		return 0, false
	}
	b.retired = true
	owed = b.holds.debt.Swap(0)
	b.holds.told = 0
	return owed, true
}

// take moves up to most tokens out of the hot path, and says how many.
func (b *Budget) take(most int64) int64 {
	for {
		credit := b.credit.Load()
		taken := min(credit, most)
		if taken <= 0 {
			return 0
		}
		if b.credit.CompareAndSwap(credit, credit-taken) {
			return taken
		}
	}
}

// defaults is how many wait for a default cost that is not known.
func (b *Budget) defaults() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting.costs[0]
}

// demand is what waits now: how many checks, their costs in all, and the
// cheapest. A default cost that is not known counts as 0.
func (b *Budget) demand() (count, sum, cheapest int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	count, sum, cheapest = b.waiting.count, b.waiting.sum, b.waiting.cheapest()
	if asked := b.asked.Load(); asked > 0 {
		count, sum = count+1, saturate(sum, asked)
		if cheapest == 0 || asked < cheapest {
			cheapest = asked
		}
	}
	return count, sum, cheapest
}

// waiting counts the checks that wait, by cost.
type waiting struct {
	count, sum int64
	costs      map[int64]int64
}

func (w *waiting) add(cost int64) {
	if w.costs == nil {
		w.costs = make(map[int64]int64)
	}
	w.costs[cost]++
	w.count++
	w.sum = saturate(w.sum, cost)
}

func (w *waiting) remove(cost int64) {
	w.costs[cost]--
	if w.costs[cost] <= 0 {
		delete(w.costs, cost)
	}
	w.count--
	w.sum = max(0, w.sum-cost)
	if w.count == 0 {
		w.sum = 0 // a saturated sum cannot be subtracted from
	}
}

func (w *waiting) cheapest() int64 {
	var least int64
	for cost := range w.costs {
		if cost > 0 && (least == 0 || cost < least) {
			least = cost
		}
	}
	return least
}

// saturate is a+b for non-negative numbers, at most the largest.
func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Signals is the list of budgets that the manager should look at: lock-free for
// those that push, emptied at once by the one that takes.
type Signals struct {
	head atomic.Pointer[Budget]
	wake chan struct{}
}

// NewSignals is an empty list.
func NewSignals() *Signals { return &Signals{wake: make(chan struct{}, 1)} }

// Wake receives after a push.
func (s *Signals) Wake() <-chan struct{} { return s.wake }

// push adds b, which is not in the list: its signaled flag was just won.
func (s *Signals) push(b *Budget) {
	for {
		head := s.head.Load()
		b.next = head
		if s.head.CompareAndSwap(head, b) {
			break
		}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// takeAll empties the list, oldest first.
func (s *Signals) takeAll() []*Budget {
	var taken []*Budget
	for b := s.head.Swap(nil); b != nil; {
		next := b.next
		b.next = nil
		taken = append(taken, b)
		b = next
	}
	for i, j := 0, len(taken)-1; i < j; i, j = i+1, j-1 {
		taken[i], taken[j] = taken[j], taken[i]
	}
	return taken
}
