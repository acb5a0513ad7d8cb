package lease_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// What is out of the sound ledgers below: 5 of 10.
func soundGrants() []lease.Grant {
	return []lease.Grant{
		{ID: grantID(1), Holder: eu, Epoch: 1, Issued: 9, Spent: 3, Returned: 2, Opened: lease.Time(t50ms)},
		{ID: grantID(2), Holder: us, Epoch: 1, Issued: 1, Opened: lease.Time(t1s)},
	}
}

// soundWindow counts 3 in a minute: 1 until 30 s from now, 2 until 40 s.
func soundWindow() lease.Ledger {
	l := newLedger(rolling(1, 10, minute))
	l.Updated, l.Available, l.Grants = lease.Time(t9s), 2, soundGrants()
	l.Recovering = []lease.Release{{At: lease.Time(t9s + 30*time.Second), Tokens: 1}, {At: lease.Time(t9s + 40*time.Second), Tokens: 2}}
	return l
}

// soundPeriod has used 3 in the period that began at 1000.
func soundPeriod() lease.Ledger {
	l := newLedger(fixed(1, 10, lease.Day, "UTC"))
	l.Updated, l.Available, l.Grants, l.Used, l.Began = lease.Time(t9s), 2, soundGrants(), 3, 1000
	return l
}

func soundSlots() lease.Ledger {
	l := newLedger(slots(1, 10))
	l.Updated, l.Available, l.Grants = lease.Time(t9s), 5, soundGrants()
	return l
}

// Each broken state of a window or of slots is reported, by name.
func TestCheckBitesOnEachKind(t *testing.T) {
	for _, tc := range []struct {
		name  string
		sound func() lease.Ledger
		spoil func(*lease.Ledger)
		want  string
	}{
		{"one too many is free", soundWindow, func(l *lease.Ledger) { l.Available++ }, "3 are available where 5 are out and 3 count"},
		{"one too few", soundWindow, func(l *lease.Ledger) { l.Available-- }, "1 are available"},
		{"a token that nobody counts", soundWindow, func(l *lease.Ledger) { l.Recovering[1].Tokens-- }, "are available"},
		{"a release that is due", soundWindow, func(l *lease.Ledger) { l.Recovering[0].At = l.Updated }, "a release of 1"},
		{"releases out of order", soundWindow, func(l *lease.Ledger) { l.Recovering[1].At = l.Recovering[0].At }, "a release of 2"},
		{"a release of nothing", soundWindow, func(l *lease.Ledger) { l.Recovering[0].Tokens = 0 }, "a release of 0"},
		{"a negative release", soundWindow, func(l *lease.Ledger) { l.Recovering[0].Tokens = -1 }, "a release of -1"},
		{"a release that is later than any may be", soundWindow, func(l *lease.Ledger) { l.Recovering[1].At = l.Updated.Add(minute + minute/32) }, "too late for a window of 1m0s"},
		{"more releases than there may be", soundWindow, func(l *lease.Ledger) {
			l.Recovering = make([]lease.Release, 65)
		}, "65 releases"},
		{"sums beyond all", soundWindow, func(l *lease.Ledger) {
			l.Recovering[0].Tokens, l.Recovering[1].Tokens, l.Available = math.MaxInt64, math.MaxInt64, 0
		}, "more than any capacity"},
		{"a window with a fraction", soundWindow, func(l *lease.Ledger) { l.Remainder = 1 }, "a rolling-window has a fraction"},
		{"a window with a cut", soundWindow, func(l *lease.Ledger) { l.Cut = 1 }, "a cut of 1"},
		{"a window that has used", soundWindow, func(l *lease.Ledger) { l.Used = 1 }, "a rolling-window has used 1"},
		{"a window with a period", soundWindow, func(l *lease.Ledger) { l.Began = 1 }, "since 1"},
		{"a window that no rule allows", soundWindow, func(l *lease.Ledger) { l.Rule.Window = 0 }, "window 0s"},
		{"used twice over", soundPeriod, func(l *lease.Ledger) { l.Available++ }, "3 are available"},
		{"negative use", soundPeriod, func(l *lease.Ledger) { l.Used = -1 }, "used -1"},
		{"a period before 1970", soundPeriod, func(l *lease.Ledger) { l.Began = -1 }, "since -1"},
		{"use beyond all", soundPeriod, func(l *lease.Ledger) { l.Used, l.Available = lease.MaxCapacity, 0 }, "more than any capacity"},
		{"a period with releases", soundPeriod, func(l *lease.Ledger) { l.Recovering = soundWindow().Recovering }, "a fixed-window has 2 releases"},
		{"a slot too many", soundSlots, func(l *lease.Ledger) { l.Available++ }, "exceed"},
		{"a slot too few", soundSlots, func(l *lease.Ledger) { l.Available-- }, "4 are available"},
		{"slots that have been used up", soundSlots, func(l *lease.Ledger) { l.Used = 1 }, "a concurrency has used 1"},
		{"a bucket with releases", sound, func(l *lease.Ledger) { l.Recovering = soundWindow().Recovering }, "a token-bucket has 2 releases"},
		{"a bucket with a period", sound, func(l *lease.Ledger) { l.Began = 1 }, "a token-bucket has used 0 since 1"},
	} {
		l := tc.sound()
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		tc.spoil(&l)
		checkWrong(t, tc.name, l.Check(), tc.want)
	}
}

// Each broken step of a window or of slots is reported, though both its ends are
// sound. The change is undone in what is available, as derive would.
func TestCheckStepBitesOnEachKind(t *testing.T) {
	newer := func(rule lease.Rule) func(*lease.Ledger) {
		rule.Version = 2
		return func(l *lease.Ledger) { l.Rule = rule }
	}
	for _, tc := range []struct {
		name  string
		sound func() lease.Ledger
		after func(*lease.Ledger)
		want  string
	}{
		{"a token that counts is forgotten", soundWindow, func(l *lease.Ledger) { l.Recovering[1].Tokens-- }, "were forgotten"},
		{"all that counts is", soundWindow, func(l *lease.Ledger) { l.Recovering = nil }, "3 of 3 tokens that count until 39000000000 were forgotten"},
		{"a token leaves a nanosecond early", soundWindow, func(l *lease.Ledger) { l.Recovering[0].At-- }, "were forgotten"},
		{"what is settled does not count", soundWindow, func(l *lease.Ledger) { l.Grants[0].Spent++ }, "were forgotten"},
		{"it counts for less than a window", soundWindow, func(l *lease.Ledger) {
			l.Grants[0].Spent++
			l.Recovering = append(l.Recovering, lease.Release{At: l.Updated.Add(minute - 1), Tokens: 1})
		}, "1 were settled, 0 of them count for a window"},
		{"nor does what is opened and settled", soundWindow, func(l *lease.Ledger) {
			l.Grants = append(l.Grants, lease.Grant{ID: grantID(3), Holder: ap, Epoch: 1, Issued: 1, Spent: 1})
		}, "were forgotten"},
		{"a grant of more than is there", soundWindow, func(l *lease.Ledger) { l.Grants[1].Issued += 3 }, "11 are out or count, beyond the capacity"},
		{"a longer window forgets", soundWindow, func(l *lease.Ledger) { newer(rolling(2, 10, 2*minute))(l) }, "were forgotten"},
		{"a shorter one forgets too much", soundWindow, func(l *lease.Ledger) {
			newer(rolling(2, 10, minute-time.Second))(l)
			l.Recovering[0].At -= lease.Time(time.Second + 1)
			l.Recovering[1].At -= lease.Time(time.Second)
		}, "were forgotten"},
		{"what is used is forgotten", soundPeriod, func(l *lease.Ledger) { l.Used-- }, "3 used and 0 settled became 2 used"},
		{"what is settled is not used", soundPeriod, func(l *lease.Ledger) { l.Grants[0].Spent++ }, "3 used and 1 settled became 3 used"},
		{"nor in the next period", soundPeriod, func(l *lease.Ledger) { l.Grants[0].Spent++; l.Began, l.Used = 2000, 0 }, "1 settled became 0 used"},
		{"a period is entered again", soundPeriod, func(l *lease.Ledger) { l.Began = 999 }, "went back to 999"},
		{"it is forgotten which it was", soundPeriod, func(l *lease.Ledger) { l.Began = 0 }, "went back to 0"},
		{"another period has used too little", soundPeriod, func(l *lease.Ledger) {
			newer(fixed(2, 10, lease.Day, "UTC"))(l)
			l.Rule.Capacity, l.Used = 12, 2
		}, "became 2 used"},
		{"a period grants more than is there", soundPeriod, func(l *lease.Ledger) { l.Grants[1].Issued += 3 }, "beyond the capacity"},
		{"a slot more than there are", soundSlots, func(l *lease.Ledger) { l.Grants[1].Issued += 6 }, "11 are out or count, beyond the capacity, where 5 were"},
		{"a window starts with something", sound, func(l *lease.Ledger) {
			newer(rolling(2, 40, minute))(l)
			l.Recovering = []lease.Release{{At: l.Updated.Add(minute), Tokens: 18}}
		}, "starts with 1 available where 0 have come back"},
		{"its start counts for less than a window", sound, func(l *lease.Ledger) {
			newer(rolling(2, 40, minute))(l)
			l.Recovering = []lease.Release{{At: l.Updated.Add(minute - 1), Tokens: 19}}
		}, "starts with 0 of 19 that count for a window"},
		{"a period starts with something", soundWindow, func(l *lease.Ledger) {
			newer(fixed(2, 10, lease.Day, "UTC"))(l)
			l.Recovering, l.Used = nil, 4
		}, "starts with 1 available"},
		{"a bucket starts with something", soundPeriod, func(l *lease.Ledger) {
			newer(perSecond(2, 40, 1))(l)
			l.Used, l.Began, l.Available = 0, 0, 1
		}, "starts with 1 available"},
		{"a bucket starts with more than has come back", soundPeriod, func(l *lease.Ledger) {
			newer(perSecond(2, 40, 1))(l)
			l.Grants = l.Grants[:1]
			l.Used, l.Began, l.Available = 0, 0, 2
		}, "starts with 2 available where 1 have come back"},
		{"a bucket starts with what was settled", soundPeriod, func(l *lease.Ledger) {
			newer(perSecond(2, 40, 1))(l)
			l.Grants[0].Spent += 4
			l.Used, l.Began, l.Available = 0, 0, 1
		}, "starts with 1 available where 0 have come back"},
		{"another kind grants more than is there", sound, func(l *lease.Ledger) {
			newer(slots(2, 25))(l)
			l.Grants[0].Issued += 20
		}, "41 are out or count, beyond the capacity"},
	} {
		before, after := tc.sound(), tc.sound()
		tc.after(&after)
		if after.Rule.Kind != lease.TokenBucket {
			after.Remainder = 0
			after.Available = max(0, after.Rule.Capacity-after.Reserved()-after.Counted())
		} else {
			after.Remainder = 0
		}
		if err := after.Check(); err != nil {
			t.Errorf("%s: the end is unsound by itself: %v", tc.name, err)
		}
		err := lease.CheckStep(&before, &after)
		checkWrong(t, tc.name, err, tc.want)
		if err != nil && strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// What transitions may do at one time of the ledger, as in one commit, is not
// reported.
func TestCheckStepAllowsACommit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		sound func() lease.Ledger
		at    time.Duration
		do    []act
	}{
		{"nothing", soundWindow, t9s, nil},
		{"a grant, its account and its end", soundWindow, t9s + t1s, []act{open(3, ap, 2), account(3, 1, 0), closeGrant(3, 2, 0)}},
		{"an account and a grant when the window has ended", soundWindow, t9s + minute, []act{account(1, 5, 2), topUp(2, 3), account(2, 2, 0)}},
		{"an account before a longer window, which has left the shorter", soundWindow, t9s + 40*time.Second, []act{account(1, 5, 2), install(rolling(2, 10, 2*minute))}},
		{"a shorter window and an account", soundWindow, t9s + t1s, []act{install(rolling(2, 10, t9s)), account(1, 5, 2), open(3, ap, 1)}},
		{"a boundary, an account and a grant", soundPeriod, t9s + t1s, []act{turn(2000, minute), account(1, 5, 2), open(3, ap, 4)}},
		{"a boundary before another period", soundPeriod, t9s, []act{turn(2000, minute), account(1, 4, 2), install(fixed(2, 10, lease.Hour, "UTC")), open(3, ap, 4), turn(500, minute)}},
		{"another kind, and what comes back then", soundPeriod, t9s, []act{install(rolling(2, 10, minute)), closeGrant(1, 5, 2), attest(2, 1), open(3, ap, 2)}},
		{"a grant, another kind, and what comes back then", sound, t3s, []act{open(4, ap, 10), install(fixed(2, 40, lease.Day, "UTC")), account(4, 2, 5), turn(1000, minute)}},
		{"slots come", sound, t3s, []act{install(slots(2, 40)), open(4, ap, 10), closeHeld(2, 0, 0, 3), closeProven(1, 16)}},
	} {
		before := tc.sound()
		after := before.Clone()
		for i, do := range tc.do {
			if err := do(&after, lease.Time(tc.at)); err != nil {
				t.Fatalf("%s: %d: %v", tc.name, i+1, err)
			}
		}
		checkWrong(t, tc.name, lease.CheckStep(&before, &after), "")
	}
}
