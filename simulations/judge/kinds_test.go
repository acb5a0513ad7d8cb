package judge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/judge"
)

func rolling(version, limit int64, window time.Duration) lease.Rule {
	return lease.Rule{Kind: lease.RollingWindow, Version: version, Capacity: limit, Window: window, MaxSharePercent: 100}
}

func fixed(version, limit int64, period lease.Period) lease.Rule {
	return lease.Rule{Kind: lease.FixedWindow, Version: version, Capacity: limit, Period: period, Zone: "UTC", MaxSharePercent: 100}
}

func slots(version, n int64) lease.Rule {
	return lease.Rule{Kind: lease.Concurrency, Version: version, Capacity: n, MaxSharePercent: 100}
}

// told is a judge that is told things, and what it should say.
type told struct {
	*judge.Judge
	t *testing.T
}

func (j told) admit(at time.Duration, tokens int64, ok bool) {
	j.t.Helper()
	if err := j.Admit(at, tokens); (err == nil) != ok {
		j.t.Errorf("%d at %v: %v", tokens, at, err)
	}
}

// installed shows a ledger that has the rule, with so much out, and in a period.
func (j told) installed(at time.Duration, rule lease.Rule, reserved, began int64) {
	l := lease.Ledger{Rule: rule, Began: began, Grants: []lease.Grant{{Issued: reserved}}}
	j.Ledger(at, &l)
}

// CASE 41: three at 0, 10 and 20 s, and another at 60 s exactly, not before. CASE 44:
// six around the boundary of a minute are three too many.
func TestCase41RollingWindow(t *testing.T) {
	j := told{judge.New(rolling(1, 3, time.Minute)), t}
	for _, at := range []time.Duration{0, 10 * second, 20 * second} {
		j.admit(at, 1, true)
	}
	j.admit(time.Minute, 1, true)
	j.admit(70*second-1, 1, false)
	if excess, at := j.Excess(); excess != 1 || at != 70*second-1 {
		t.Errorf("excess %d at %v", excess, at)
	}
	j = told{judge.New(rolling(1, 3, time.Minute)), t}
	for i := range 3 {
		j.admit(59*second+time.Duration(i)*100*ms, 1, true)
	}
	j.admit(time.Minute+400*ms, 3, false)
	if excess, _ := j.Excess(); excess != 3 {
		t.Errorf("excess %d, want 3", excess)
	}
}

// CASE 42: a limit lowered from five to three with five retained: until the new one
// binds five are the guarantee, and for windows that reach back as well.
func TestCase42LoweredWindow(t *testing.T) {
	j := told{judge.New(rolling(1, 5, time.Minute)), t}
	j.admit(0, 2, true)
	j.admit(10*second, 3, true)
	lower := rolling(2, 3, time.Minute)
	j.Written(20*second, lower)
	j.installed(20*second, lower, 0, 0)
	if j.Capacity() != 3 {
		t.Errorf("capacity %d", j.Capacity())
	}
	j.admit(60*second, 2, true) // two have left: five in the window that began before the change
	j.admit(69*second, 1, false)
	j.admit(81*second, 0, true)
	j.admit(110*second, 0, true)
	j.admit(120*second, 2, true)
	j.admit(121*second, 1, false)
}

// A longer window holds for windows that begin after it binds; the shorter one for
// the others.
func TestLongerWindow(t *testing.T) {
	j := told{judge.New(rolling(1, 3, 2*second)), t}
	j.admit(0, 3, true)
	longer := rolling(2, 3, 10*second)
	j.Written(second, longer)
	j.installed(second, longer, 0, 0)
	j.admit(2*second-1, 1, false)
	j = told{judge.New(rolling(1, 3, 2*second)), t}
	j.admit(0, 3, true)
	j.Written(second, longer)
	j.installed(second, longer, 0, 0)
	j.admit(2*second, 3, true) // those of before are forgiven
	j.admit(12*second-1, 1, false)
}

// A period lasts until the ledger has turned, and is entered once.
func TestFixedWindow(t *testing.T) {
	rule := fixed(1, 4, lease.Minute)
	j := told{judge.New(rule), t}
	j.installed(0, rule, 0, 0)
	j.admit(0, 1, true)
	j.installed(0, rule, 3, 60_000) // what was admitted before is of the first period that is known
	j.admit(second, 3, true)
	j.admit(90*second, 1, false) // whatever the clock says
	j.installed(90*second, rule, 3, 120_000)
	j.admit(90*second, 4, true)
	j.installed(91*second, rule, 3, 60_000)
	j.admit(91*second, 1, false) // that period has been
	hour := fixed(2, 4, lease.Hour)
	j.Written(92*second, hour)
	j.installed(92*second, rule, 9, 180_000)
	j.admit(92*second, 3, true)
	j.installed(93*second, hour, 9, 3_600_000)
	j.admit(94*second, 1, true)
	j.admit(94*second, 1, false) // the hour takes over what the minute has admitted
}

// Slots are held by work that has not ended, and a lower number binds once no more
// are out.
func TestSlots(t *testing.T) {
	j := told{judge.New(slots(1, 3)), t}
	hold := func(n int64, ok bool) {
		t.Helper()
		if err := j.Hold(second, n); (err == nil) != ok {
			t.Errorf("%d more: %v", n, err)
		}
	}
	hold(2, true)
	hold(1, true)
	hold(1, false)
	if excess, _ := j.Excess(); excess != 1 {
		t.Errorf("excess %d", excess)
	}
	j.Release(2)
	lower := slots(2, 1)
	j.Written(second, lower)
	j.installed(second, lower, 3, 0)
	hold(1, true) // three is the guarantee yet
	j.installed(second, lower, 1, 0)
	err := j.Check(second)
	if err == nil || !strings.Contains(err.Error(), "3 slots are held where there are 1") {
		t.Errorf("after the lower number binds: %v", err)
	}
	j.Release(3)
	if j.Check(second) != nil || j.Held() != 0 || !j.Full(second) {
		t.Error("slots that were released are held")
	}
}

// Another kind starts with what the one before would still have admitted, and no
// more, until it has earned some.
func TestAnotherKind(t *testing.T) {
	for _, tc := range []struct {
		name      string
		was, is   lease.Rule
		spent     int64 // before
		most      int64 // at once, right after
		later     time.Duration
		then      int64 // that can be admitted after that time
		lastsFrom int64 // of the new kind's period
	}{
		{"a bucket becomes a window", rule(1, 5, 0, 0), rolling(2, 4, 10*second), 3, 2, 10 * second, 4, 0},
		{"an empty bucket becomes a window", rule(1, 5, 0, 0), rolling(2, 4, 10*second), 5, 0, 10 * second, 4, 0},
		{"a window becomes a bucket", rolling(1, 5, 10*second), rule(2, 8, 1, second), 4, 1, 3 * second, 3, 0},
		{"a bucket becomes a period", rule(1, 5, 0, 0), fixed(2, 6, lease.Minute), 3, 2, second, 0, 60_000},
		{"slots become a bucket: those that are out may be spent", slots(1, 3), rule(2, 8, 0, 0), 0, 3, second, 0, 0},
	} {
		j := told{judge.New(tc.was), t}
		j.installed(0, tc.was, 0, 0)
		if tc.spent > 0 {
			j.admit(second, tc.spent, true)
		}
		j.Written(2*second, tc.is)
		j.installed(2*second, tc.is, 0, tc.lastsFrom)
		j.admit(2*second, tc.most, true)
		if j.Admit(2*second, 0) != nil {
			t.Errorf("%s: nothing more is too much", tc.name)
		}
		j.admit(2*second+tc.later, tc.then, true)
		j.admit(2*second+tc.later, 1, false)
	}
}

// A budget without a record starts full under whatever kind is in force by then.
func TestDroppedAndOfAnotherKind(t *testing.T) {
	j := told{judge.New(rule(1, 5, 0, 0)), t}
	window := rolling(2, 4, second)
	j.Written(0, window)
	j.installed(0, window, 0, 0)
	j.admit(0, 4, true)
	if j.Full(second - 1) {
		t.Error("full with four in the window")
	}
	if !j.Full(second) {
		t.Error("not full when they have left")
	}
	j.Dropped()
	bucket := rule(3, 6, 1, second)
	j.Written(second, bucket)
	j.installed(2*second, bucket, 0, 0)
	j.admit(2*second, 6, true)
	j.admit(2*second, 1, false)
}

// What was decided on earlier earns from then on.
func TestDecidedEarlier(t *testing.T) {
	for _, decided := range []time.Duration{8 * second, 10 * second} {
		j := told{judge.New(rolling(1, 5, time.Minute)), t}
		j.installed(0, rolling(1, 5, time.Minute), 0, 0)
		j.admit(0, 5, true)
		is := rule(2, 8, 1, second)
		j.Written(0, is)
		j.LedgerOf(10*second, decided, &lease.Ledger{Rule: is, Grants: []lease.Grant{{Issued: 9}}})
		j.admit(10*second, 2, decided == 8*second)
	}
}
