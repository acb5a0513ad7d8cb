package lease_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// Slots that may be in use have no deadline: one that there was ends when they are kept,
// and none is given to them afterwards.
func TestKeptSlotsDoNotLapse(t *testing.T) {
	l := newLedger(slots(1, 10))
	if err := open(1, eu, 10)(&l, 0); err != nil {
		t.Fatal(err)
	}
	l.Extend(0, grantID(1), time.Second)
	if err := closeHeld(1, 0, 0, 4)(&l, 0); err != nil {
		t.Fatal(err)
	}
	for name, give := range map[string]func(){
		"closed":    func() {},
		"extended":  func() { l.Extend(0, grantID(1), time.Second) },
		"prolonged": func() { l.Prolong(0, grantID(1), time.Second) },
	} {
		give()
		if at, ok := l.NextLapse(); ok {
			t.Errorf("%s: lapses at %d", name, at)
		}
	}
	if _, err := l.Lapse(lease.Time(time.Hour), grantID(1)); !errors.Is(err, lease.ErrNotLapsed) || l.Reserved() != 4 {
		t.Errorf("error %v, %d reserved", err, l.Reserved())
	}
}
