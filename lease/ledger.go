package lease

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Errors of transitions. With any of them the transition changed nothing.
var (
	// ErrGone means that the grant has ended, or never was: a late message.
	ErrGone = errors.New("lease: the grant is gone")
	// ErrNoRoom means that the credit asked for is not available.
	ErrNoRoom = errors.New("lease: not available")
	// ErrExists means that the holder epoch has a live grant already.
	ErrExists = errors.New("lease: the holder epoch has a grant of this budget")
	// ErrOlderRule means that the ledger runs under a newer policy version.
	ErrOlderRule = errors.New("lease: older policy version")
)

// Ledger is the state of one budget: its rule, what is available, and the
// grants that are out. The package comment has its invariant and why it holds.
type Ledger struct {
	Key       Key
	Rule      Rule
	Updated   Time  // the ledger time that Available stands at
	Available int64 // tokens that may be handed out; see derive for rules other than a bucket
	Remainder int64 // a fraction of a token: numerator over Rule.Refill.Interval
	// Debt is what was used beyond reservations and is not paid yet, in tokens, from 0
	// to MaxCapacity. While there is any, nothing is available: see pay.
	Debt   int64
	Grants []Grant
	// Cut is what a full bucket lacks beyond the room that a lower capacity has
	// left, in tokens, and CutFor the time for which refill has made up for it.
	Cut    int64
	CutFor time.Duration
	// Recovering are the spent tokens of a rolling window that still count.
	Recovering []Release
	// Used is what was spent in the period of a fixed window that Turn told last;
	// Began is when that began, in milliseconds since 1970; 0: not known yet.
	Used  int64
	Began int64
	ends  Time // when that period is expected to end; 0: not known
	// Past is until when rules of other kinds that there were before would remember
	// what was spent, and PastFor for how long they do: see convert.
	Past    Time
	PastFor time.Duration
}

// NewLedger is a full budget with nothing out. That is also what a budget
// without a record means.
func NewLedger(key Key, rule Rule, now Time) Ledger {
	return Ledger{Key: key, Rule: rule, Updated: now, Available: rule.Capacity}
}

// Clone shares nothing with l.
func (l Ledger) Clone() Ledger {
	l.Grants = slices.Clone(l.Grants)
	l.Recovering = slices.Clone(l.Recovering)
	return l
}

// Reserved is the outstanding credit of all grants, in tokens.
func (l *Ledger) Reserved() int64 {
	var sum int64
	for i := range l.Grants {
		sum += l.Grants[i].Outstanding()
	}
	return sum
}

// HeldBy is the outstanding credit of the holder over all its epochs.
func (l *Ledger) HeldBy(holder Holder) int64 {
	var sum int64
	for i := range l.Grants {
		if l.Grants[i].Holder == holder {
			sum += l.Grants[i].Outstanding()
		}
	}
	return sum
}

// room is how much more refill could make available; 0 when more than the capacity
// is out.
func (l *Ledger) room() int64 {
	return max(0, l.Rule.Capacity-l.Reserved()-l.Available)
}

// Full says that the budget is as if it had never been used: only then may its
// record be dropped. A fixed window's record also says which period it is in: who
// drops that has to tell periods by the latest wall clock that was ever read, or one
// that is set back leads into a period that was entered before (see Turn).
func (l *Ledger) Full() bool {
	return len(l.Grants) == 0 && l.Available == l.Rule.Capacity && l.Remainder == 0 && l.Cut == 0 && l.Counted() == 0 &&
		l.Debt == 0 && l.Updated >= l.Past
}

// Advance brings the ledger to now: refill pays what is owed and fills the room that
// there was since the last transition, and what a rolling window has left behind
// counts no more. Time without room is not banked, and a now before the last one
// changes nothing. To advance in steps is the same as to do it at once.
func (l *Ledger) Advance(now Time) {
	if now <= l.Updated {
		return
	}
	elapsed := now.Sub(l.Updated)
	l.Updated = now
	if l.Rule.Kind != TokenBucket {
		l.release()
		return
	}
	l.makeUp(elapsed)
	room := l.room()
	if room == 0 {
		return // and there is no fraction
	}
	tokens, remainder := l.Rule.Refill.accrue(elapsed, l.Remainder)
	paid := min(l.Debt, tokens) // which takes no room
	l.Debt -= paid
	if tokens -= paid; tokens >= room {
		tokens, remainder = room, 0
	}
	l.Available += tokens
	l.Remainder = remainder
}

// Install puts another version of the policy's rule in force, on the balances
// that exist. A lower capacity cuts what is available. A higher one mints nothing
// in a bucket; of the other kinds it makes room beside what still counts, which is
// kept. Another kind starts as if all of it had just been spent (see convert). What is
// owed stays owed, unless the rule becomes one of slots. The current version again
// changes nothing; an older one gets ErrOlderRule.
func (l *Ledger) Install(now Time, rule Rule) error {
	if rule.Version < l.Rule.Version {
		return ErrOlderRule
	}
	if rule.Version == l.Rule.Version {
		return nil
	}
	l.Advance(now)
	switch {
	case rule.Kind != l.Rule.Kind:
		l.convert(rule)
		return nil
	case rule.Kind != TokenBucket:
		l.adjust(rule)
		return nil
	}
	earned, _ := l.Rule.Refill.accrue(l.CutFor, 0)
	lacked := l.lack() + max(0, l.Cut-earned)
	l.CutFor = 0
	l.Remainder = l.Rule.Refill.rescale(l.Remainder, rule.Refill.Interval)
	l.Rule = rule
	l.clamp()
	l.recut(lacked)
	return nil
}

// clamp restores the invariant after the capacity, the reserved credit or the debt has
// changed: what is owed is paid of what is available, which at most fills the
// capacity, and a fraction needs room.
func (l *Ledger) clamp() {
	if l.Rule.Kind != TokenBucket {
		l.derive()
		return
	}
	l.pay()
	had := l.Available
	l.Available = max(0, min(l.Available, l.Rule.Capacity-l.Reserved()))
	if l.Cut > 0 { // what comes back beyond the capacity was not spent
		l.recut(l.lack() + l.Cut - (had - l.Available))
	}
	if l.room() == 0 || l.Rule.Refill.Tokens == 0 {
		l.Remainder = 0
	}
}

// Headroom is the most that the holder could be granted at now, in tokens: what
// is available, within the holder's share.
func (l *Ledger) Headroom(now Time, holder Holder) int64 {
	l.Advance(now)
	return max(0, min(l.Available, l.Rule.ShareCap()-l.HeldBy(holder)))
}

// Open hands out tokens (0 or more) under a new grant. The caller guarantees
// that the ID was never used. It cannot over-admit: the credit moves from
// available to reserved, and the sum stays.
func (l *Ledger) Open(now Time, id GrantID, holder Holder, epoch uint64, tokens int64) error {
	if tokens < 0 || tokens > l.Headroom(now, holder) {
		return ErrNoRoom
	}
	if l.Live(holder, epoch) != nil {
		return ErrExists
	}
	l.Available -= tokens
	at, _ := l.find(id)
	l.Grants = slices.Insert(l.Grants, at, Grant{
		ID: id, Holder: holder, Epoch: epoch, Issued: tokens, Opened: l.Updated,
	})
	return nil
}

// TopUp hands out more tokens under a grant. Like Open it moves credit from
// available to reserved.
func (l *Ledger) TopUp(now Time, id GrantID, tokens int64) error {
	g := l.Grant(id)
	if g == nil {
		return ErrGone
	}
	if tokens < 0 || tokens > l.Headroom(now, g.Holder) || tokens > MaxCounter-g.Issued {
		return ErrNoRoom
	}
	l.Available -= tokens
	g.Issued += tokens
	return nil
}

// Account takes over a holder's cumulative counters: what it spent is settled, what
// it owes becomes debt, and what it returned becomes available as far as it pays no
// debt and there is room. It is safe in any order and any number of times, since
// counters merge by max and the holder stopped spending what it returned before it
// said so. Slots are never owed.
//
// Errors: ErrGone, or an *AboveIssuedError.
func (l *Ledger) Account(now Time, id GrantID, spent, returned, owed int64) error {
	g := l.Grant(id)
	if g == nil {
		return ErrGone
	}
	l.Advance(now)
	before := *g
	if err := g.merge(spent, returned, owed); err != nil {
		return err
	}
	l.settle(g.Spent - before.Spent)
	l.owe(g.Owed - before.Owed)
	l.Available += g.Returned - before.Returned
	l.clamp()
	return nil
}

// Close ends a grant by its holder's final counters. The holder has stopped
// spending, so what is neither spent nor returned was never used, received or
// not, and becomes available.
//
// Errors: ErrGone, or an *AboveIssuedError with which the grant stays.
func (l *Ledger) Close(now Time, id GrantID, spent, returned, owed int64) error {
	return l.CloseHeld(now, id, spent, returned, owed, 0)
}

// CloseHeld is Close for a grant of which held tokens were given to work that may
// still go on. Slots stay reserved under the grant until it is attested that their
// work has ended; otherwise they count as spent.
//
// Errors: as of Close.
func (l *Ledger) CloseHeld(now Time, id GrantID, spent, returned, owed, held int64) error {
	slots := l.Rule.Kind == Concurrency
	if !slots {
		spent, held = plus(max(0, spent), max(0, held)), 0
	}
	if err := l.Account(now, id, spent, returned, owed); err != nil {
		return err
	}
	if !slots || !l.keep(id, held) {
		l.end(id, true)
	}
	return nil
}

// CloseProven ends a grant of a dead epoch by its journal. What was never drawn
// was never spent; what was drawn counts as spent, unless a return of it was
// recorded before the crash. Slots that were drawn stay reserved: their work may
// still go on. A journal does not know what is owed beyond what was reported.
//
// Errors: ErrGone.
func (l *Ledger) CloseProven(now Time, id GrantID, drawn int64) error {
	g := l.Grant(id)
	if g == nil {
		return ErrGone
	}
	l.Advance(now)
	used := min(max(g.Spent, drawn), g.Issued-g.Returned)
	if l.Rule.Kind == Concurrency {
		if !l.keep(id, used-g.Spent) {
			l.end(id, true)
		}
		return nil
	}
	before := g.Spent
	g.Spent = used
	l.settle(used - before)
	l.end(id, true)
	return nil
}

// Attest ends a grant by an operator's word that no process of its epoch runs
// or can ever resume. What is outstanding counts as spent at this moment, so it
// comes back through refill alone, or as its window ends. Slots come back: their
// work has ended. It returns that amount in tokens.
//
// Errors: ErrGone.
func (l *Ledger) Attest(now Time, id GrantID) (counted int64, err error) {
	g := l.Grant(id)
	if g == nil {
		return 0, ErrGone
	}
	l.Advance(now)
	counted = g.Outstanding()
	l.settle(counted)
	l.end(id, false)
	return counted, nil
}

// end removes a grant; what is outstanding becomes available if it is known to
// be unspent.
func (l *Ledger) end(id GrantID, unspent bool) {
	at, _ := l.find(id)
	if unspent {
		l.Available += l.Grants[at].Outstanding()
	}
	l.Grants = slices.Delete(l.Grants, at, at+1)
	l.clamp()
}

// Retry is the earliest time from now at which refill, or the end of a window,
// could make tokens available, once the debt is paid, if nobody else takes any and
// what is out is spent at once. ok is false when waiting cannot help or nobody knows how long: there is
// no refill, the tokens could never fit, or slots are held by work of unknown
// length. A now before the last one waits for the ledger's time to come, too.
func (l *Ledger) Retry(now Time, tokens int64) (wait time.Duration, ok bool) {
	l.Advance(now)
	if tokens > l.Rule.ShareCap() {
		return 0, false
	}
	if tokens <= l.Available {
		return 0, true
	}
	behind := l.Updated.Sub(now)
	switch l.Rule.Kind {
	case TokenBucket:
		wait, ok = l.Rule.Refill.wait(plus(l.Debt, tokens-l.Available), l.Remainder)
	case RollingWindow:
		wait, ok = l.afterReleases(tokens)
	case FixedWindow:
		wait, ok = l.afterPeriods(tokens)
	case Concurrency:
	}
	if !ok || wait > math.MaxInt64-behind {
		return 0, false
	}
	return wait + behind, true
}

// Grant is the grant with this ID, or nil. It is valid until the next
// transition.
func (l *Ledger) Grant(id GrantID) *Grant {
	if at, found := l.find(id); found {
		return &l.Grants[at]
	}
	return nil
}

// Live is the grant of the holder epoch that it has not ended, or nil. It is valid
// until the next transition.
func (l *Ledger) Live(holder Holder, epoch uint64) *Grant {
	for i := range l.Grants {
		if g := &l.Grants[i]; g.Holder == holder && g.Epoch == epoch && !g.Kept {
			return g
		}
	}
	return nil
}

// find is the place of the ID among the grants, which are in order of ID.
func (l *Ledger) find(id GrantID) (at int, found bool) {
	return slices.BinarySearchFunc(l.Grants, id, func(g Grant, id GrantID) int { return g.ID.Compare(id) })
}

// String is for messages of tests and checkers.
func (l *Ledger) String() string {
	owed := ""
	if l.Debt != 0 {
		owed = fmt.Sprintf("debt %d, ", l.Debt)
	}
	return fmt.Sprintf("%s/%s v%d: available %d+%d/%d, reserved %d, %scapacity %d, %d grants, at %d",
		l.Key.Account, l.Key.Operation, l.Rule.Version, l.Available, l.Remainder,
		int64(l.Rule.Refill.Interval), l.Reserved(), owed, l.Rule.Capacity, len(l.Grants), int64(l.Updated))
}
