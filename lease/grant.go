package lease

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Grant is one lease: credit of one budget held by one epoch of one holder. Its
// counters only ever grow.
type Grant struct {
	ID       GrantID
	Holder   Holder
	Epoch    uint64 // the holder's fencing token
	Issued   int64  // tokens handed out under this grant, ever
	Spent    int64  // of these, known to be spent
	Returned int64  // of these, given back
	Owed     int64  // used beyond reservations of these, and not of them
	Sequence uint64 // the newest request of the holder that was applied to it
	// Kept says that its holder has ended it, and that what is outstanding are slots
	// which work may still hold. Nothing is granted under it any more.
	Kept   bool
	Opened Time
	// Lasts is how long after the newest request of its holder, in its epoch and about
	// its budget, that was answered it lapses; 0: never.
	Lasts time.Duration
	// Lapses is the ledger time from which on it has lapsed, where Lasts is not 0. It
	// is not stored: whoever reads the grant anew waits for all of Lasts from then on.
	Lapses Time
}

// GrantHolder is who a grant is of: one epoch of one holder.
type GrantHolder struct {
	Holder Holder
	Epoch  uint64
}

// Of is who the grant is of.
func (g Grant) Of() GrantHolder { return GrantHolder{g.Holder, g.Epoch} }

// Outstanding is what the holder may still spend, in tokens.
func (g Grant) Outstanding() int64 { return g.Issued - g.Spent - g.Returned }

// merge takes over counters that are higher than the known ones. Counters
// above what was issued are refused whole: they tell of a store or a disk that
// was set back, or of a clone. What is owed is not of what was issued.
func (g *Grant) merge(spent, returned, owed int64) error {
	highSpent, highReturned := max(spent, g.Spent), max(returned, g.Returned)
	if highReturned > g.Issued || highSpent > g.Issued-highReturned {
		return &AboveIssuedError{Grant: *g, Spent: spent, Returned: returned}
	}
	g.Spent, g.Returned = highSpent, highReturned
	g.Owed = max(g.Owed, min(owed, MaxCounter))
	return nil
}

// check says which rule of a single grant is broken.
func (g Grant) check() error {
	switch {
	case g.ID.IsZero():
		return errors.New("grant without an ID")
	case g.Issued < 0 || g.Issued > MaxCounter:
		return fmt.Errorf("grant %v: issued %d is out of range", g.ID, g.Issued)
	case g.Owed < 0 || g.Owed > MaxCounter:
		return fmt.Errorf("grant %v: owed %d is out of range", g.ID, g.Owed)
	case g.Spent < 0 || g.Returned < 0:
		return fmt.Errorf("grant %v: negative counters, spent %d, returned %d", g.ID, g.Spent, g.Returned)
	case g.Returned > g.Issued || g.Spent > g.Issued-g.Returned:
		return fmt.Errorf("grant %v: spent %d and returned %d exceed issued %d", g.ID, g.Spent, g.Returned, g.Issued)
	case g.Lasts < 0 || g.Lasts > 2*MaxHold:
		return fmt.Errorf("grant %v: lasts %v, which is out of range", g.ID, g.Lasts)
	case g.Epoch == 0:
		return fmt.Errorf("grant %v: epoch 0", g.ID)
	}
	return nil
}

// AboveIssuedError is evidence that a holder's counters and the ledger come
// from different histories.
type AboveIssuedError struct {
	Grant           Grant // as the ledger knows it
	Spent, Returned int64 // as reported
}

// Error tells the figures and what they mean.
func (e *AboveIssuedError) Error() string {
	return fmt.Sprintf("grant %v of %v: an account of spent %d and returned %d, with spent %d and returned %d known, is above the %d issued; the store, the holder's disk or the holder itself was copied or set back",
		e.Grant.ID, e.Grant.Holder, e.Spent, e.Returned, e.Grant.Spent, e.Grant.Returned, e.Grant.Issued)
}

// SortGrants puts grants in order of ID, as ledgers hold them.
func SortGrants(grants []Grant) {
	slices.SortFunc(grants, func(a, b Grant) int { return a.ID.Compare(b.ID) })
}
