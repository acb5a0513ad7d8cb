package lease

import (
	"fmt"
	"math"
)

// Check says which invariant of the ledger is broken, if any. Tests, simulations
// and `tokenlease verify` share it. It may be given any values: nothing in it
// overflows.
func (l *Ledger) Check() error {
	if err := l.Rule.Validate(); err != nil {
		return fmt.Errorf("%v: %w", l, err)
	}
	if err := l.checkGrants(); err != nil {
		return fmt.Errorf("%v: %w", l, err)
	}
	var reserved int64
	for _, g := range l.Grants {
		reserved = plus(reserved, g.Outstanding())
	}
	switch {
	case l.Updated < 0:
		return fmt.Errorf("%v: negative time", l)
	case l.Available < 0:
		return fmt.Errorf("%v: available is negative", l)
	case reserved > MaxCapacity:
		return fmt.Errorf("%v: more is reserved than any capacity allows", l)
	case l.Available > 0 && (l.Available > l.Rule.Capacity || reserved > l.Rule.Capacity-l.Available):
		return fmt.Errorf("%v: available and reserved exceed the capacity", l)
	case l.Past < 0 || l.PastFor < 0:
		return fmt.Errorf("%v: remembers others until %d, for %v", l, int64(l.Past), l.PastFor)
	case l.Used < 0 || l.Began < 0:
		return fmt.Errorf("%v: used %d since %d", l, l.Used, l.Began)
	}
	if err := l.checkDebt(); err != nil {
		return fmt.Errorf("%v: %w", l, err)
	}
	if err := l.checkCounted(reserved); err != nil {
		return fmt.Errorf("%v: %w", l, err)
	}
	switch {
	case l.Remainder < 0 || l.Remainder > 0 && l.Remainder >= int64(l.Rule.Refill.Interval):
		return fmt.Errorf("%v: the fraction is not below one token", l)
	case l.Cut < 0 || l.CutFor < 0 || l.Cut == 0 && l.CutFor > 0:
		return fmt.Errorf("%v: cut of %d for %v", l, l.Cut, l.CutFor)
	case l.Remainder > 0 && l.room() == 0:
		return fmt.Errorf("%v: a fraction is banked without room for it", l)
	}
	return nil
}

// checkDebt checks that nothing is available while anything is owed.
func (l *Ledger) checkDebt() error {
	switch {
	case l.Debt < 0 || l.Debt > MaxCapacity:
		return fmt.Errorf("a debt of %d is out of range", l.Debt)
	case l.Debt > 0 && l.Available > 0:
		return fmt.Errorf("%d are available while %d are owed", l.Available, l.Debt)
	case l.Debt > 0 && l.Rule.Kind == Concurrency:
		return fmt.Errorf("%d slots are owed", l.Debt)
	}
	return nil
}

// checkCounted checks what a window remembers, and that what is available follows
// from it.
func (l *Ledger) checkCounted(reserved int64) error {
	switch {
	case l.Rule.Kind != RollingWindow && len(l.Recovering) > 0:
		return fmt.Errorf("a %s has %d releases", l.Rule.Kind, len(l.Recovering))
	case l.Rule.Kind != FixedWindow && (l.Used > 0 || l.Began > 0):
		return fmt.Errorf("a %s has used %d since %d", l.Rule.Kind, l.Used, l.Began)
	case len(l.Recovering) > maxReleases:
		return fmt.Errorf("%d releases are too many", len(l.Recovering))
	case l.Rule.Kind == TokenBucket:
		return nil
	case l.Remainder != 0 || l.Cut != 0:
		return fmt.Errorf("a %s has a fraction of %d and a cut of %d", l.Rule.Kind, l.Remainder, l.Cut)
	}
	if err := l.checkReleases(); err != nil {
		return err
	}
	counted := l.Counted()
	switch sum := plus(reserved, counted); {
	case sum > MaxCapacity: // no grant and no change of kind can have led there
		return fmt.Errorf("%d are out and %d count, more than any capacity allows", reserved, counted)
	case l.Available != max(0, l.Rule.Capacity-sum):
		return fmt.Errorf("%d are available where %d are out and %d count", l.Available, reserved, counted)
	}
	return nil
}

// checkReleases checks that what counts in a rolling window stops to do so in order,
// and not later than a spend of now could ask for.
func (l *Ledger) checkReleases() error {
	last := l.Updated
	for _, r := range l.Recovering {
		switch {
		case r.At <= last || r.Tokens < 1:
			return fmt.Errorf("a release of %d at %d follows one at %d", r.Tokens, int64(r.At), int64(last))
		case r.At.Sub(l.Updated) >= l.Rule.Window+l.Rule.releaseStep():
			return fmt.Errorf("a release of %d at %d is too late for a window of %v", r.Tokens, int64(r.At), l.Rule.Window)
		}
		last = r.At
	}
	return nil
}

// checkGrants checks each grant, their order, and that a holder epoch has one
// at the most.
func (l *Ledger) checkGrants() error {
	seen := make(map[GrantHolder]GrantID, len(l.Grants))
	for i, g := range l.Grants {
		if err := g.check(); err != nil {
			return err
		}
		if i > 0 && l.Grants[i-1].ID.Compare(g.ID) >= 0 {
			return fmt.Errorf("grants %v and %v are out of order", l.Grants[i-1].ID, g.ID)
		}
		if g.Kept {
			continue // one that its holder has ended, beside which it may have another
		}
		if other, twice := seen[g.Of()]; twice {
			return fmt.Errorf("grants %v and %v are both of %v epoch %d", other, g.ID, g.Holder, g.Epoch)
		}
		seen[g.Of()] = g.ID
	}
	return nil
}

// CheckStep says which rule a transition from before, which has passed Check, to
// after has broken: counters and time only grow, a policy version does not go
// back or change its terms, a bucket's credit rises by refill alone, what counts in a
// window goes on to do so, and a debt falls by what pays it alone. A step may be of several transitions at one time of
// the ledger, as in one commit.
func CheckStep(before, after *Ledger) error {
	if err := after.Check(); err != nil {
		return err
	}
	switch {
	case after.Key != before.Key:
		return fmt.Errorf("%v: was another budget, %v", after, before)
	case after.Past < before.Past || after.PastFor < before.PastFor:
		return fmt.Errorf("%v: forgets other kinds at %d, not %d", after, int64(after.Past), int64(before.Past))
	case after.Updated < before.Updated || after.Rule.Version < before.Rule.Version:
		return fmt.Errorf("%v: time or version went back from %v", after, before)
	case after.Rule.Version == before.Rule.Version && after.Rule != before.Rule:
		return fmt.Errorf("%v: version %d changed from %+v to %+v", after, after.Rule.Version, before.Rule, after.Rule)
	}
	for _, was := range before.Grants {
		is := after.Grant(was.ID)
		if is == nil {
			continue
		}
		if is.Holder != was.Holder || is.Epoch != was.Epoch || is.Opened != was.Opened ||
			is.Issued < was.Issued || is.Spent < was.Spent || is.Returned < was.Returned || is.Owed < was.Owed || is.Sequence < was.Sequence || was.Kept && !is.Kept {
			return fmt.Errorf("%v: grant %v went back from %+v to %+v", after, was.ID, was, *is)
		}
	}
	if err := checkShares(before, after); err != nil {
		return err
	}
	return checkCredit(before, after)
}

// checkShares checks that no holder was granted anything beyond its share.
func checkShares(before, after *Ledger) error {
	if before.Rule.Version != after.Rule.Version {
		return nil // granted under the one or the other
	}
	for _, g := range after.Grants {
		was := before.Grant(g.ID)
		if was == nil && g.Issued == 0 || was != nil && g.Issued == was.Issued {
			continue
		}
		var held int64
		for _, other := range after.Grants {
			if other.Holder == g.Holder {
				held += other.Outstanding()
			}
		}
		if held > after.Rule.ShareCap() {
			return fmt.Errorf("%v: %v has %d out, beyond its share, and was granted more", after, g.Holder, held)
		}
	}
	return nil
}

// checkCredit checks that what is available and out, with what the grants of
// after have settled since before and what was paid, has risen by no more than what
// refill earned, to the fraction of a token. (Without the settled part, credit minted
// along with a settlement would not show.)
func checkCredit(before, after *Ledger) error {
	if before.Rule.Kind != after.Rule.Kind || after.Rule.Kind != TokenBucket {
		return checkStillCounted(before, after)
	}
	had, has := plus(before.Available, before.Reserved()), after.Available
	for _, is := range after.Grants {
		settled := is.Spent
		if was := before.Grant(is.ID); was != nil {
			settled -= was.Spent
		}
		has = plus(has, is.Outstanding()+settled)
	}
	has = plus(has, paidSince(before, after))
	earned, fraction := before.Rule.Refill.accrue(after.Updated.Sub(before.Updated), before.Remainder)
	switch room := before.room(); {
	case room == 0:
		earned, fraction = 0, 0
	case earned >= plus(room, before.Debt):
		earned, fraction = room+before.Debt, 0
	}
	if before.Rule.Refill.Interval != after.Rule.Refill.Interval {
		fraction = before.Rule.Refill.rescale(fraction, after.Rule.Refill.Interval)
	}
	if most := plus(had, earned); has > most || has == most && after.Remainder > fraction {
		return fmt.Errorf("%v: credit rose by %d+%d where refill earned %d+%d, from %v",
			after, has-had, after.Remainder, earned, fraction, before)
	}
	return nil
}

// paidSince is by how much the debt has fallen since before, with what the grants of after
// have come to owe; less where grants that have ended came to owe something.
func paidSince(before, after *Ledger) int64 {
	debt := before.Debt
	for _, is := range after.Grants {
		owed := is.Owed
		if was := before.Grant(is.ID); was != nil {
			owed -= was.Owed
		}
		debt = plus(debt, owed)
	}
	return max(0, min(debt, MaxCapacity)-after.Debt)
}

// checkStillCounted checks, where a kind other than a bucket is before or after,
// that what is out and what counts has risen by no more than there was room for, and
// that what counted before does so after, for as long, and so does what was settled.
func checkStillCounted(before, after *Ledger) error {
	had, has := plus(before.Reserved(), before.Counted()), plus(after.Reserved(), after.Counted())
	if has > max(had, before.Rule.Capacity, after.Rule.Capacity) {
		return fmt.Errorf("%v: %d are out or count, beyond the capacity, where %d were, from %v", after, has, had, before)
	}
	issued, settled := since(before, after)
	switch {
	case before.Rule.Kind != after.Rule.Kind:
		return checkConverted(before, after, issued, settled)
	case after.Rule.Kind == RollingWindow:
		return checkRolling(before, after, settled)
	case after.Rule.Kind == FixedWindow:
		return checkPeriod(before, after, settled)
	}
	return nil
}

// since is what the grants of after have been issued, and have settled, since before.
func since(before, after *Ledger) (issued, settled int64) {
	for _, is := range after.Grants {
		var was Grant
		if known := before.Grant(is.ID); known != nil {
			was = *known
		}
		issued, settled = plus(issued, is.Issued-was.Issued), plus(settled, is.Spent-was.Spent)
	}
	return issued, settled
}

// checkConverted checks that a rule of another kind has started with nothing but what
// has come back in the same step: what was out or issued, and is neither out nor settled.
func checkConverted(before, after *Ledger, issued, settled int64) error {
	if after.Rule.Kind == Concurrency {
		return nil // slots start free
	}
	if back := plus(before.Reserved(), issued) - settled - after.Reserved(); after.Available > back {
		return fmt.Errorf("%v: another kind starts with %d available where %d have come back, from %v", after, after.Available, back, before)
	}
	if whole := after.countedFrom(after.Updated.Add(after.Rule.Window)); after.Rule.Kind == RollingWindow && whole < after.Counted() {
		return fmt.Errorf("%v: another kind starts with %d of %d that count for a window, from %v", after, whole, after.Counted(), before)
	}
	return nil
}

// checkRolling checks a rolling window. Under another version, what still counted does
// so for as much longer as the window is, but for no more than a whole one.
func checkRolling(before, after *Ledger, settled int64) error {
	if err := checkPaid(before, after, settled); err != nil {
		return err
	}
	longer, latest := after.Rule.Window-before.Rule.Window, after.Updated.Add(after.Rule.Window)
	for _, r := range before.Recovering {
		until := r.At
		if before.Rule.Version != after.Rule.Version {
			until = min(r.At.Add(longer), latest)
		}
		if min(r.At, until) <= after.Updated {
			continue // it has left the window, or would have left the one before
		}
		had, has := before.countedFrom(r.At), after.countedFrom(until)
		if until <= latest {
			had = plus(had, settled)
		}
		if has < had {
			return fmt.Errorf("%v: %d of %d tokens that count until %d were forgotten, from %v", after, had-has, had, int64(until), before)
		}
	}
	if has := after.countedFrom(latest); has < settled {
		return fmt.Errorf("%v: %d were settled, %d of them count for a window, from %v", after, settled, has, before)
	}
	return nil
}

// checkPaid checks that a rolling window has paid with no more than it had: what was
// paid counts as spent, and any window has its capacity once.
func checkPaid(before, after *Ledger, settled int64) error {
	paid, elapsed := paidSince(before, after), after.Updated.Sub(before.Updated)
	windows := int64(elapsed/min(before.Rule.Window, after.Rule.Window)) + 1
	switch capacity := max(before.Rule.Capacity, after.Rule.Capacity); {
	case paid == 0:
	case elapsed == 0 && before.Rule.Version == after.Rule.Version && after.Counted() < plus(before.Counted(), plus(settled, paid)),
		capacity == 0, (paid-1)/capacity >= windows:
		return fmt.Errorf("%v: %d were paid and %d settled, %d count where %d did, from %v", after, paid, settled, after.Counted(), before.Counted(), before)
	}
	return nil
}

// checkPeriod checks a fixed window. What is settled or paid counts in the period that
// after is in, since a window is told of its period before anything else. Another period,
// or other bounds of it, may have begun within the step, before they were installed.
func checkPeriod(before, after *Ledger, settled int64) error {
	used := plus(before.Used, plus(settled, paidSince(before, after)))
	if after.Began != before.Began || after.Rule.Period != before.Rule.Period || after.Rule.Zone != before.Rule.Zone {
		used = settled
	}
	switch {
	case after.Used < used:
		return fmt.Errorf("%v: %d used and %d settled became %d used, from %v", after, before.Used, settled, after.Used, before)
	case after.Began < before.Began && after.Rule.Version == before.Rule.Version:
		return fmt.Errorf("%v: a period that began at %d went back to %d", after, before.Began, after.Began)
	}
	return nil
}

// countedFrom is the tokens of a rolling window that stop to count at t or later.
func (l *Ledger) countedFrom(t Time) (tokens int64) {
	for _, r := range l.Recovering {
		if r.At >= t {
			tokens = plus(tokens, r.Tokens)
		}
	}
	return tokens
}

// plus is a+b for a and b of 0 or more, or the largest int64.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
