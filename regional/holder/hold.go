package holder

import (
	"container/heap"
	"sync/atomic"
	"time"
)

// Settled is what became of a hold.
type Settled struct {
	// Known says that the hold was there. It is not when it was settled already, when
	// its time is over, or when the grant that it was of has ended: then what it held
	// is accounted for, and nothing has changed.
	Known bool
	// Refused says that the cost is negative, or above what is held without
	// postpaid. The hold goes on.
	Refused  bool
	Returned int64 // tokens that went back to the credit
	Debt     int64 // tokens that the budget owes from now on: see Budget.Debt
}

// holds is the part of a budget that is reserved by callers or used as slots: out
// of the credit, and neither spent nor free.
//
// # Why reported spending is never above the truth
//
// What was spent for good at an instant is bound - credit - held at that instant.
// It only grows: a spend lowers the credit; a hold moves tokens from the credit to
// held; a settlement takes them out of held and puts at most as many back into the
// credit; a return lowers bound and credit alike. But credit and held are two
// numbers. Read at different instants they may count a token twice, or not at all;
// and what the broker was told as spent comes back by its rule, so a token that is
// told as spent while it is only held, and then settled as unspent, would be
// admitted twice.
//
// So whatever changes held, and all that raises the credit, happens under the
// budget's lock. A reader under it sees held stand still, and the credit as of the
// instant at which it reads it. ([Budget.Spend] needs no lock: it changes the credit
// alone, in one step.)
//
// A budget that never had a hold is read without the lock: first the credit, then
// the flag used. It is set, for good, before the first hold takes anything out of
// the credit. So where it is not set yet, the credit was read before the first hold,
// when held was 0, and what is computed of it was true at that instant. (Operations
// of package atomic are in one order that everybody sees.)
//
// # Why each token of debt is paid once
//
// What a settlement leaves to owe is added to debt, once, since it ends its hold. It
// leaves debt in one of two ways, both under the lock. Before a report has told it,
// credit that comes pays it, and counts as spent: it goes from debt to spent. Or the
// manager discloses it: adds it to what the live grant owes in all, and marks it as
// told, in one step. From then on credit here pays no more of it, and that counter
// alone stands for it: cumulative, in every later report of the grant, in its close
// and in the final account, until the broker confirms one of them. The broker takes
// it by max, so it is charged once however often it is heard, and is heard at last if
// the process lives. It ends a grant only by its holder's account, which has the
// counter, or once the epoch is fenced or gone. There is always a grant to tell it
// under, since only holds of the live one are settled.
//
// So what was used is, at every moment, spent of the credit that was here, or owed by
// the ledger, or in debt and not told. The last is lost with the process: what was
// settled since the newest report. (Where the broker has ended a grant on its own, it
// is not known whether it has heard what was told of it. That is not told again.)
type holds struct {
	used atomic.Bool  // there was a hold; never unset
	held atomic.Int64 // tokens that are held; changed under the lock
	debt atomic.Int64 // tokens that are owed and not known to be recorded; changed under the lock
	// freed is all that has ever gone back to the credit; changed under the lock.
	freed atomic.Int64
	// ease is the level of held at which a settlement signals the manager; below 0:
	// none does.
	ease atomic.Int64

	// Under the lock.
	byID   map[uint64]*hold
	byTime timeline
	told   int64 // of debt, what the manager has told or is about to; changed by it alone
	peak   int64 // the most that was held since the manager measured
	moved  bool  // a hold was made or ended since then
	sealed bool  // nothing is held from now on, until credit is admitted
	slots  bool  // the policy in force is of slots
}

// hold is one reservation, or the slots of one piece of work.
type hold struct {
	id     uint64
	tokens int64
	until  time.Duration
	slots  bool
	at     int // in the timeline
}

// Hold takes cost tokens (1 or more) out of the credit, or nothing, and keeps them
// for the caller until they are settled, or until a monotonic time at which tokens
// count as spent and slots go back. id is the caller's, and unique in the process.
// left is the credit that remains.
//
// ok is false where there is too little credit, where the id is in use, and where
// slots is not what the policy in force is of: then look at the outlook again.
//
// It takes by the same swap as [Budget.Spend], so each token leaves the credit once.
// It may be called concurrently with everything.
func (b *Budget) Hold(id uint64, cost int64, until time.Duration, slots bool) (left int64, ok bool) {
	left, ok = b.hold(id, cost, until, slots)
	// The mark is read after the hold is noted: so either the manager, which sets it
	// before it looks for holds, finds this one, or it is signaled.
	if ok && left < b.low.Load() {
		b.Signal()
	}
	return left, ok
}

func (b *Budget) hold(id uint64, cost int64, until time.Duration, slots bool) (left int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &b.holds
	if cost <= 0 || h.sealed || h.slots != slots || h.byID[id] != nil {
		return b.credit.Load(), false
	}
	if b.Stale() {
		return 0, false
	}
	h.used.Store(true) // before anything is taken: see holds
	for {
		credit := b.credit.Load()
		if credit < cost {
			return credit, false
		}
		left = credit - cost
		if b.credit.CompareAndSwap(credit, left) {
			break
		}
	}
	h.add(&hold{id: id, tokens: cost, until: until, slots: slots})
	return left, true
}

// Settle ends a hold. Of its tokens cost are spent, and the rest goes back to the
// credit, once what the budget owes and has not told is paid. A cost above what is held
// is refused, unless postpaid: then the excess is taken from the credit, and what that
// does not cover becomes debt. Of slots all goes back, whatever the cost.
//
// It may be called concurrently with everything.
func (b *Budget) Settle(id uint64, cost int64, postpaid bool) Settled {
	s, signal := b.settle(id, cost, postpaid)
	if s.Returned > 0 {
		b.tell()
	}
	if signal {
		b.Signal()
	}
	return s
}

// settle says too whether the manager should look: at new debt, or at how much is
// held no more.
func (b *Budget) settle(id uint64, cost int64, postpaid bool) (s Settled, signal bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.holds.byID[id]
	if h == nil {
		return Settled{Debt: b.holds.debt.Load()}, false
	}
	s.Known = true
	if h.slots {
		cost = 0
	}
	switch {
	case cost < 0, cost > h.tokens && !postpaid:
		s.Refused = true
	case cost <= h.tokens:
		b.holds.drop(h)
		s.Returned = b.free(h.tokens - cost)
	default:
		b.holds.drop(h)
		excess := cost - h.tokens
		excess -= b.take(excess) // which leaves no credit where it does not cover it
		b.holds.debt.Store(saturate(b.holds.debt.Load(), excess))
		signal = excess > 0
	}
	s.Debt = b.holds.debt.Load()
	return s, signal || !s.Refused && b.holds.held.Load() <= b.holds.ease.Load()
}

// refill puts n tokens into the credit, under the lock: debt that is not told yet is
// paid first, and what pays it is spent. So there is no credit while there is any. It
// says what the credit got.
func (b *Budget) refill(n int64) int64 {
	if paid := min(n, b.holds.untold()); paid > 0 {
		b.holds.debt.Add(-paid)
		n -= paid
	}
	if n > 0 {
		b.credit.Add(n)
	}
	return n
}

// free gives back n tokens that were held, under the lock, as refill does.
func (b *Budget) free(n int64) int64 {
	b.holds.freed.Add(n)
	return b.refill(n)
}

// admit lets the hot path spend n more tokens, which are the manager's to give.
func (b *Budget) admit(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holds.sealed = false
	b.refill(n)
}

// Expire ends the holds whose time is over at a monotonic time: one is good while
// now < until. Tokens count as spent from then on, slots go back to the credit. The
// manager does it within ReportWithin; call it before a check is denied for want of
// credit. It may be called concurrently, and costs one load for a budget that never
// had a hold.
func (b *Budget) Expire(now time.Duration) {
	if b.holds.used.Load() && b.expire(now) > 0 {
		b.tell()
	}
}

func (b *Budget) expire(now time.Duration) (returned int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := &b.holds.byTime; len(*line) > 0 && now >= (*line)[0].until; {
		h := (*line)[0]
		b.holds.drop(h)
		if h.slots {
			returned += b.free(h.tokens)
		}
	}
	return returned
}

// Debt is what was used here beyond reservations and is not paid, in tokens, as far as
// the broker is not known to have recorded it: until its answer to a report that tells
// it. What it has recorded it collects, and its word on the budget reckons with that.
// It may be called concurrently.
func (b *Budget) Debt() int64 { return b.holds.debt.Load() }

// untold is the debt that no report has told, under the lock or by the manager.
func (h *holds) untold() int64 { return h.debt.Load() - h.told }

// disclose marks all debt as told, and says how much was not.
func (b *Budget) disclose() (untold int64) {
	if b.holds.debt.Load() == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	untold = b.holds.untold()
	b.holds.told += untold
	return untold
}

// recorded forgets debt that was told, up to so much: others know of it.
func (b *Budget) recorded(most int64) {
	if b.holds.told == 0 || most <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	known := min(most, b.holds.told)
	b.holds.told -= known
	b.holds.debt.Add(-known)
}

// balance is the credit, and what is held beside it at the same instant: see holds.
func (b *Budget) balance() (credit, held int64) {
	credit = b.credit.Load()
	if !b.holds.used.Load() {
		return credit, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.credit.Load(), b.holds.held.Load()
}

// seal keeps anything from being held until credit is admitted again, unless
// something is held.
func (b *Budget) seal() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holds.held.Load() > 0 {
		return false
	}
	b.holds.sealed = true
	return true
}

// endHolds takes their claim from all holds, and says how many slots they are.
// Nothing is held and nothing comes back until credit is admitted again.
func (b *Budget) endHolds() (slots int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holds.sealed = true
	for _, h := range b.holds.byTime {
		if h.slots {
			slots += h.tokens
		}
	}
	b.holds.held.Store(0)
	b.holds.byID, b.holds.byTime = nil, nil
	return slots
}

// setKind says whether the policy in force is of slots. They are never postpaid, so
// what was owed under another kind is owed no more.
func (b *Budget) setKind(slots bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holds.slots == slots {
		return
	}
	b.holds.slots = slots
	if slots {
		b.holds.debt.Store(0)
		b.holds.told = 0
	}
}

// usedHolds is the most that was held at once since the last call, and whether a hold
// was made or ended since then.
func (b *Budget) usedHolds() (peak int64, moved bool) {
	if !b.holds.used.Load() {
		return 0, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	peak, moved = b.holds.peak, b.holds.moved
	b.holds.peak, b.holds.moved = b.holds.held.Load(), false
	return peak, moved
}

// add notes a hold, under the lock.
func (h *holds) add(one *hold) {
	if h.byID == nil {
		h.byID = make(map[uint64]*hold)
	}
	h.byID[one.id] = one
	heap.Push(&h.byTime, one)
	h.held.Add(one.tokens)
	h.peak, h.moved = max(h.peak, h.held.Load()), true
}

// drop forgets a hold, under the lock. What becomes of its tokens is the caller's.
func (h *holds) drop(one *hold) {
	delete(h.byID, one.id)
	heap.Remove(&h.byTime, one.at)
	h.held.Add(-one.tokens)
	h.moved = true
}

// timeline is holds with the one that ends first in front.
type timeline []*hold

func (t timeline) Len() int           { return len(t) }
func (t timeline) Less(i, j int) bool { return t[i].until < t[j].until }

func (t timeline) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].at, t[j].at = i, j
}

// Push is for package heap.
func (t *timeline) Push(one any) {
	h := one.(*hold) //nolint:errcheck // nothing else is pushed
	h.at = len(*t)
	*t = append(*t, h)
}

// Pop is for package heap.
func (t *timeline) Pop() any {
	last := len(*t) - 1
	h := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return h
}
