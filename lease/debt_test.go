package lease_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
)

// owing requires the debt that there is.
func owing(want int64, do act) act {
	return func(l *lease.Ledger, now lease.Time) error {
		err := do(l, now)
		if err == nil && l.Debt != want {
			return fmt.Errorf("%d are owed, want %d", l.Debt, want)
		}
		return err
	}
}

func TestDebt(t *testing.T) {
	runScripts(t, []script{
		{"a bucket pays by refill, and then fills", worked(), []step{
			{at: t0, do: open(1, eu, 40), out: 40},
			{at: t0, do: owing(30, accountOwed(1, 40, 0, 30))},
			{at: t0, do: open(2, us, 1), err: lease.ErrNoRoom},
			{at: t1s, do: owing(10, advance())},
			{at: t1s, do: owing(10, accountOwed(1, 40, 0, 30))}, // again
			{at: t1s, do: owing(10, accountOwed(1, 0, 0, 7))},   // late
			{at: t1s + 500*time.Millisecond, do: owing(0, advance())},
			{at: t2s, do: owing(0, advance()), free: 10},
			{at: t2s, do: open(2, us, 10), out: 10},
		}},
		{"to the nanosecond", worked(), []step{
			{at: t0, do: open(1, eu, 40), out: 40},
			{at: t0, do: owing(1, accountOwed(1, 40, 0, 1))},
			{at: t50ms - 1, do: owing(1, advance())},
			{at: t50ms, do: owing(0, advance())},
			{at: 2*t50ms - 1, do: owing(0, advance())},
			{at: 2 * t50ms, do: owing(0, advance()), free: 1},
		}},
		{"a long time pays all and fills, and no more", worked(), []step{
			{at: t0, do: open(1, eu, 40), out: 40},
			{at: t0, do: owing(100, accountOwed(1, 40, 0, 100))},
			{at: 3600 * t1s, do: owing(0, advance()), free: 40},
		}},
		{"time without room pays nothing", worked(), []step{
			{at: t0, do: open(1, eu, 40), out: 40},
			{at: t0, do: owing(5, accountOwed(1, 0, 0, 5)), out: 40},
			{at: t9s, do: owing(5, advance()), out: 40},
			{at: t9s, do: owing(5, accountOwed(1, 1, 0, 5)), out: 39},
			{at: t9s + t50ms, do: owing(4, advance()), out: 39},
		}},
		{"what is available pays at once, and so does what comes back", worked(), []step{
			{at: t0, do: open(1, eu, 30), free: 10, out: 30},
			{at: t0, do: owing(2, accountOwed(1, 0, 0, 12)), out: 30},
			{at: t0, do: owing(0, accountOwed(1, 0, 5, 12)), free: 3, out: 25},
			{at: t0, do: owing(0, closeGrant(1, 20, 5)), free: 8},
		}},
		{"a close tells what is owed", worked(), []step{
			{at: t0, do: open(1, eu, 40), out: 40},
			{at: t0, do: owing(7, func(l *lease.Ledger, now lease.Time) error { return l.Close(now, grantID(1), 38, 0, 9) })},
			{at: t0, do: accountOwed(1, 38, 0, 20), err: lease.ErrGone}, // what has ended owes no more
		}},
		{"an account that is refused owes nothing", worked(), []step{
			{at: t0, do: open(1, eu, 40), out: 40},
			{at: t0, do: accountOwed(1, 41, 0, 9), err: errAbove, out: 40},
			{at: t0, do: owing(0, accountOwed(1, 40, 0, -9))},
		}},
		{"the end of its holder leaves the debt", worked(), []step{
			{at: t0, do: open(1, eu, 20), free: 20, out: 20},
			{at: t0, do: open(2, us, 20), out: 40},
			{at: t0, do: owing(6, accountOwed(1, 20, 0, 6)), out: 20},
			{at: t0, do: owing(6, accountOwed(2, 3, 0, 0)), out: 17},
			{at: t0, do: owing(0, closeProven(2, 11)), free: 3}, // 9 that were never drawn
			{at: t0, do: owing(0, attest(1, 0)), free: 3},
		}},
		{"a rolling window pays with what leaves it, at its time", rolling(1, 10, minute), []step{
			{at: t0, do: open(1, eu, 10), out: 10},
			{at: t0, do: owing(0, account(1, 6, 0)), out: 4},
			{at: t1s, do: owing(13, accountOwed(1, 10, 0, 13))},
			{at: minute, do: owing(7, advance())},
			{at: minute + t1s, do: owing(3, advance())},
			{at: 2 * minute, do: owing(0, advance()), free: 3},
			{at: 2*minute + t1s, do: owing(0, advance()), free: 7},
			{at: 3 * minute, do: owing(0, advance()), free: 10},
		}},
		{"and so it does when nobody has looked", rolling(1, 10, minute), []step{
			{at: t0, do: open(1, eu, 10), out: 10},
			{at: t0, do: owing(0, account(1, 6, 0)), out: 4},
			{at: t1s, do: owing(13, accountOwed(1, 10, 0, 13))},
			{at: 2*minute + t1s, do: owing(0, advance()), free: 7},
			{at: 3 * minute, do: owing(0, advance()), free: 10},
		}},
		{"a fixed window pays with what a period has", fixed(1, 10, lease.Day, "UTC"), []step{
			{at: t0, do: turn(day(1), time.Hour), free: 10},
			{at: t0, do: open(1, eu, 8), free: 2, out: 8},
			{at: t0, do: owing(23, accountOwed(1, 4, 0, 25)), out: 4},
			{at: t1s, do: owing(17, turn(day(2), time.Hour)), out: 4},
			{at: t1s, do: owing(15, account(1, 4, 2)), out: 2},
			{at: t2s, do: owing(7, turn(day(3), time.Hour)), out: 2},
			{at: t3s, do: owing(0, turn(day(4), time.Hour)), free: 1, out: 2},
			{at: t9s, do: owing(0, turn(day(5), time.Hour)), free: 8, out: 2},
		}},
		{"and with periods in which nobody has looked", fixed(1, 10, lease.Day, "UTC"), []step{
			{at: t0, do: turn(day(1), time.Hour), free: 10},
			{at: t0, do: open(1, eu, 10), out: 10},
			{at: t0, do: owing(45, accountOwed(1, 8, 0, 45)), out: 2},
			{at: t1s, do: owing(21, turn(day(4), time.Hour)), out: 2},
			{at: t2s, do: owing(0, turn(day(99), time.Hour)), free: 8, out: 2},
		}},
		{"a capacity of nothing pays nothing", fixed(1, 0, lease.Day, "UTC"), []step{
			{at: t0, do: turn(day(1), time.Hour)},
			{at: t0, do: open(1, eu, 0)},
			{at: t0, do: owing(4, accountOwed(1, 0, 0, 4))},
			{at: t1s, do: owing(4, turn(day(9), time.Hour))},
		}},
		{"slots are not owed, and a change to them drops the debt", worked(), []step{
			{at: t0, do: open(1, eu, 40), out: 40},
			{at: t0, do: owing(30, accountOwed(1, 40, 0, 30))},
			{at: t0, do: owing(0, install(slots(2, 40))), free: 40},
			{at: t0, do: owing(0, accountOwed(1, 40, 0, 50)), free: 40},
			{at: t0, do: owing(0, install(rolling(3, 40, minute)))},
			{at: t0, do: owing(2, accountOwed(1, 40, 0, 52))}, // what is new since then
		}},
		{"another kind keeps the debt", worked(), []step{
			{at: t0, do: open(1, eu, 40), out: 40},
			{at: t0, do: owing(30, accountOwed(1, 40, 0, 30))},
			{at: t0, do: owing(30, install(rolling(2, 20, minute)))},
			{at: minute, do: owing(10, advance())},
			{at: minute, do: owing(10, install(perSecond(3, 40, 20)))},
			{at: minute + t1s, do: owing(0, advance()), free: 10},
		}},
		{"a lower capacity keeps it, and its bucket is full later", worked(), []step{
			{at: t0, do: open(1, eu, 40), out: 40},
			{at: t0, do: owing(10, accountOwed(1, 40, 0, 10))},
			{at: t0, do: owing(10, install(perSecond(2, 5, 20)))},
			{at: t1s, do: owing(0, advance()), free: 5},
			{at: t1s, do: owing(0, install(perSecond(3, 40, 20))), free: 5}, // raising mints nothing
		}},
		{"a debt ends at the largest capacity", worked(), []step{
			{at: t0, do: open(1, eu, 40), out: 40},
			{at: t0, do: owing(lease.MaxCapacity, accountOwed(1, 40, 0, math.MaxInt64))},
			{at: t0, do: owing(lease.MaxCapacity, closeGrant(1, 40, 0))},
		}},
	})
}

// day is when the n-th day of 1970 begins, in milliseconds.
func day(n int64) int64 { return n * 86_400_000 }

// A budget that owes is not full, however much is refilled.
func TestDebtKeepsTheRecord(t *testing.T) {
	l := newLedger(perSecond(1, 0, 20))
	if !l.Full() {
		t.Fatalf("not full: %v", &l)
	}
	for _, do := range []act{open(1, eu, 0), accountOwed(1, 0, 0, 3), closeGrant(1, 0, 0)} {
		if err := do(&l, 0); err != nil {
			t.Fatal(err)
		}
	}
	if l.Advance(lease.Time(t9s)); l.Full() || l.Debt != 3 {
		t.Errorf("full with %d owed", l.Debt)
	}
}

// A ledger that is brought to a time in steps is as if it were brought there at once,
// however many releases it keeps and however long it takes to pay.
func TestDebtIsPaidTheSameInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rolling(1, rapid.Int64Range(1, 100).Draw(t, "capacity"), time.Duration(rapid.Int64Range(1000, 5000).Draw(t, "window"))*time.Millisecond)
		if rapid.Bool().Draw(t, "bucket") {
			rule = rated(1, rule.Capacity, lease.Rate{Tokens: rapid.Int64Range(0, 9).Draw(t, "refill"), Interval: 700})
		}
		l := newLedger(rule)
		if err := l.Open(0, grantID(1), eu, 1, rule.Capacity); err != nil {
			t.Fatal(err)
		}
		now, spent, owed := lease.Time(0), int64(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "reports") {
			now += lease.Time(rapid.Int64Range(0, 60_000_000).Draw(t, "later"))
			spent = rapid.Int64Range(spent, rule.Capacity).Draw(t, "spent")
			owed += rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, 1000), rapid.Just[int64](1_000_000_000)).Draw(t, "owed")
			if err := l.Account(now, grantID(1), spent, 0, owed); err != nil {
				t.Fatal(err)
			}
		}
		end := now + lease.Time(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "wait"))
		once, steps := l.Clone(), l.Clone()
		once.Advance(end)
		for steps.Updated < end {
			before := steps.Clone()
			steps.Advance(min(end, steps.Updated+lease.Time(rapid.Int64Range(1, int64(10*time.Minute)).Draw(t, "step"))))
			if err := lease.CheckStep(&before, &steps); err != nil {
				t.Fatal(err)
			}
		}
		if !same(once, steps) {
			t.Fatalf("at once %v, %v\nin steps %v, %v", &once, once.Recovering, &steps, steps.Recovering)
		}
	})
}

// Guidance is of the time after the debt, and true to the nanosecond where time is
// all that it takes.
func TestRetryAddsTheDebt(t *testing.T) {
	full := func(rule lease.Rule, owed int64) lease.Ledger {
		l := newLedger(rule)
		for _, do := range []act{turn(day(1), time.Hour), open(1, eu, rule.Capacity), accountOwed(1, rule.Capacity, 0, owed)} {
			if err := do(&l, 0); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	years := perSecond(1, 10, 1)
	years.Refill.Interval = lease.MaxInterval
	for _, tc := range []struct {
		name   string
		rule   lease.Rule
		owed   int64
		tokens int64
		wait   time.Duration
		ok     bool
	}{
		{"a bucket", worked(), 30, 5, 1750 * time.Millisecond, true},
		{"all of a bucket", worked(), 30, 40, 3500 * time.Millisecond, true},
		{"nothing at all", worked(), 30, 0, 0, true},
		{"a bucket that takes longer than all time", years, lease.MaxCapacity, 1, 0, false},
		{"a rolling window", rolling(1, 10, minute), 5, 5, minute, true},
		{"beyond it", rolling(1, 10, minute), 5, 6, 2 * minute, true},
		{"many windows", rolling(1, 10, t1s), 10_000_000_003, 8, 1_000_000_002 * t1s, true},
		{"more windows than there are", rolling(1, 10, minute), lease.MaxCapacity, 1, 0, false},
		{"a period", fixed(1, 10, lease.Day, "UTC"), 4, 6, time.Hour, true},
		{"beyond it", fixed(1, 10, lease.Day, "UTC"), 4, 7, time.Hour + lease.Day.Longest(), true},
		{"many periods", fixed(1, 10, lease.Day, "UTC"), 100, 1, time.Hour + 10*lease.Day.Longest(), true},
		{"more periods than there are", fixed(1, 10, lease.Day, "UTC"), lease.MaxCapacity, 1, 0, false},
	} {
		l := full(tc.rule, tc.owed)
		wait, ok := l.Retry(0, tc.tokens)
		if wait != tc.wait || ok != tc.ok {
			t.Errorf("%s: retry in %v, %v; want %v, %v", tc.name, wait, ok, tc.wait, tc.ok)
		}
		if !ok || wait == 0 || tc.rule.Kind == lease.FixedWindow {
			continue
		}
		if l.Advance(lease.Time(wait - 1)); l.Available >= tc.tokens {
			t.Errorf("%s: %d are there before %v", tc.name, l.Available, wait)
		}
		if l.Advance(lease.Time(wait)); l.Available < tc.tokens {
			t.Errorf("%s: after %v there are %d", tc.name, wait, l.Available)
		}
	}
}

// Guidance for a calendar's months, which are not of one length, comes true in each,
// however seldom the ledger is told of them.
func TestRetryOfMonthsThatPay(t *testing.T) {
	for months := range int64(40) {
		for start := range 12 {
			at := time.Date(2023, time.Month(1+start), 31, 23, 0, 0, 0, time.UTC).Add(-72 * time.Hour)
			began, ends := lease.Month.Bounds(at)
			l := newLedger(fixed(1, 10, lease.Month, "UTC"))
			l.Turn(0, began.UnixMilli(), ends.Sub(at))
			for _, do := range []act{open(1, eu, 10), accountOwed(1, 10, 0, 10*months+3)} {
				if err := do(&l, 0); err != nil {
					t.Fatal(err)
				}
			}
			wait, ok := l.Retry(0, 7)
			if !ok {
				t.Fatal("no guidance")
			}
			due := at.Add(wait)
			if start%2 == 0 { // told once in between
				half, _ := lease.Month.Bounds(at.Add(wait / 2))
				l.Turn(lease.Time(wait/2), half.UnixMilli(), time.Hour)
			}
			began, _ = lease.Month.Bounds(due)
			if l.Turn(lease.Time(wait), began.UnixMilli(), time.Hour); l.Available < 7 {
				t.Errorf("%d months from %v on: %v is too early: %v", months, at, wait, &l)
			}
			if latest := at.AddDate(0, int(months)+2, 0).Add(time.Duration(months) * 96 * time.Hour); due.After(latest) {
				t.Errorf("%d months from %v on: due %v is after %v", months, at, due, latest)
			}
		}
	}
}

// Each broken state of a debt is reported, and so is each broken step.
func TestCheckBitesOnDebt(t *testing.T) {
	for name, tc := range map[string]struct {
		l    lease.Ledger
		debt int64
		want string
	}{
		"negative":           {sound(), -1, "a debt of -1 is out of range"},
		"beyond all":         {sound(), lease.MaxCapacity + 1, "is out of range"},
		"something is there": {sound(), 1, "12 are available while 1 are owed"},
		"of slots":           {fullSlots(), 1, "1 slots are owed"},
	} {
		tc.l.Debt = tc.debt
		checkWrong(t, name, tc.l.Check(), tc.want)
	}
	for _, owed := range []int64{-1, math.MaxInt64} {
		l := sound()
		l.Grants[0].Owed = owed
		checkWrong(t, "owed", l.Check(), "out of range")
	}
	bucket, window, period := owes(sound()), owes(soundWindow()), owes(soundPeriod())
	for name, tc := range map[string]struct {
		before lease.Ledger
		after  func(*lease.Ledger)
		want   string
	}{
		"nothing":                          {bucket, func(*lease.Ledger) {}, ""},
		"refill pays":                      {bucket, func(l *lease.Ledger) { l.Advance(l.Updated.Add(t1s)) }, ""},
		"refill pays more than it earned":  {bucket, func(l *lease.Ledger) { l.Updated = l.Updated.Add(t1s); l.Debt -= 21; l.Remainder = 0 }, "credit rose"},
		"a bucket forgets what it owes":    {bucket, func(l *lease.Ledger) { l.Debt = 0 }, "credit rose"},
		"what is owed goes back":           {bucket, func(l *lease.Ledger) { l.Grants[0].Owed-- }, "went back"},
		"what is owed is not charged":      {bucket, func(l *lease.Ledger) { l.Grants[0].Owed++ }, "credit rose"},
		"it is charged":                    {bucket, func(l *lease.Ledger) { l.Grants[0].Owed++; l.Debt++ }, ""},
		"what ended has owed":              {bucket, func(l *lease.Ledger) { l.Grants = l.Grants[1:]; l.Debt++ }, ""},
		"a window forgets what it owes":    {window, func(l *lease.Ledger) { l.Debt -= 2 }, "2 were paid and 0 settled, 5 count where 5 did"},
		"a window pays too often":          {window, func(l *lease.Ledger) { l.Updated += 9; l.Debt -= 11 }, "11 were paid"},
		"a window pays":                    {window, func(l *lease.Ledger) { l.Advance(l.Updated.Add(minute)) }, ""},
		"a period forgets what it owes":    {period, func(l *lease.Ledger) { l.Debt-- }, "used and 0 settled"},
		"a period pays":                    {period, func(l *lease.Ledger) { l.Grants[1].Returned++; l.Debt--; l.Used++ }, ""},
		"a capacity of nothing never pays": {nothing(window), func(l *lease.Ledger) { l.Updated++; l.Debt-- }, "1 were paid"},
	} {
		after := tc.before.Clone()
		tc.after(&after)
		if err := after.Check(); err != nil {
			t.Errorf("%s: the end is unsound by itself: %v", name, err)
		}
		checkWrong(t, name, lease.CheckStep(&tc.before, &after), tc.want)
	}
}

// owes is the ledger with all that was free spent, and 50 owed on top.
func owes(l lease.Ledger) lease.Ledger {
	switch free := l.Available; l.Rule.Kind {
	case lease.RollingWindow:
		l.Recovering[1].Tokens += free
	case lease.FixedWindow:
		l.Used += free
	case lease.TokenBucket, lease.Concurrency:
	}
	l.Available, l.Debt = 0, 50
	l.Grants = slices.Clone(l.Grants)
	l.Grants[0].Owed = 60
	return l
}

// nothing is the ledger with a capacity of 0, of which more is out.
func nothing(l lease.Ledger) lease.Ledger {
	l.Rule.Capacity = 0
	return l
}

func fullSlots() lease.Ledger {
	l := soundSlots()
	l.Rule.Capacity, l.Available = 5, 0
	return l
}
