package holder

import "time"

// Clocks is one reading of a host's clocks, each since an origin of its own. The
// monotonic clock may stand still while the machine sleeps, the boot clock goes on then,
// and the wall clock says anything.
type Clocks struct{ Mono, Boot, Wall time.Duration }

// until is when a budget's credit may not be spent any more, unless the broker answers
// before (contract C4.4): as soon as any of the clocks reads so. So it is never later than
// by the one of them that has moved furthest since the reading that it was counted from.
// Values are never changed.
type until struct {
	Clocks

	read func() Clocks
}

// untilAfter is bound after a reading of the clocks.
func untilAfter(from Clocks, bound time.Duration, read func() Clocks) *until {
	return &until{Clocks{Mono: later(from.Mono, bound, 1), Boot: later(from.Boot, bound, 1), Wall: later(from.Wall, bound, 1)}, read}
}

func (u *until) passed() bool {
	now := u.read()
	return now.Mono >= u.Mono || now.Boot >= u.Boot || now.Wall >= u.Wall
}

// Stale says that the broker's newest answer on the budget is older than the policy
// lets credit be spent by it. It may be called concurrently, and reads clocks only under
// a policy that bounds staleness.
func (b *Budget) Stale() bool {
	u := b.until.Load()
	return u != nil && u.passed()
}

// renewParts of the policy's bound on staleness is how old the newest answer gets,
// of a budget that has a grant, before the broker is asked again.
const renewParts = 3

// bind has the budget stop by the policy of an answer, counted from the reading of the
// clocks before its request was sent. It comes before any credit of the answer is there
// to be spent. An answer without a policy changes nothing.
func (m *Manager) bind(k *keyState, bound time.Duration) {
	k.bounded = bound
	if bound == 0 {
		k.budget.until.Store(nil)
		return
	}
	k.budget.until.Store(untilAfter(k.sentClocks, bound, m.cfg.Clocks))
}

// boundNs is what a report tells of how long the holder spends what it has, in
// nanoseconds (see BudgetReport.bound_ns). Where slots are held, the work that holds
// them goes on for as long as it likes.
func (k *keyState) boundNs() int64 {
	switch {
	case k.grant == "":
		return 1
	case k.ofSlots():
		return 0
	}
	return int64(k.bounded)
}

// renewDue says that the broker should be asked again, so that what is here can go on
// being spent, or at least does not lapse. It is not asked for more often by that when it
// answers without a policy, or that it cannot use its record.
func (k *keyState) renewDue(now time.Duration) bool {
	return k.bounded > 0 && k.grant != "" && now-k.renewed >= k.bounded/renewParts
}
