package lease_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
)

// rolling is a window of a minute unless told otherwise.
func rolling(version, capacity int64, window time.Duration) lease.Rule {
	return lease.Rule{Kind: lease.RollingWindow, Version: version, Capacity: capacity, Window: window, MaxSharePercent: 100}
}

func fixed(version, capacity int64, period lease.Period, zone string) lease.Rule {
	return lease.Rule{Kind: lease.FixedWindow, Version: version, Capacity: capacity, Period: period, Zone: zone, MaxSharePercent: 100}
}

func slots(version, capacity int64) lease.Rule {
	return lease.Rule{Kind: lease.Concurrency, Version: version, Capacity: capacity, MaxSharePercent: 100}
}

const minute = time.Minute

func TestRollingWindow(t *testing.T) {
	runScripts(t, []script{
		{"what is settled counts for a window from then on", rolling(1, 10, minute), []step{
			{at: t0, do: open(1, eu, 6), free: 4, out: 6},
			{at: t9s, do: account(1, 4, 1), free: 5, out: 1},
			{at: t9s, do: account(1, 4, 1), free: 5, out: 1},
			{at: t9s + minute - 1, do: advance(), free: 5, out: 1},
			{at: t9s + minute, do: advance(), free: 9, out: 1},
			{at: t9s + minute, do: closeGrant(1, 4, 1), free: 10},
		}},
		{"what an end finds spent counts, the rest is free", rolling(1, 10, minute), []step{
			{at: t0, do: open(1, eu, 3), free: 7, out: 3},
			{at: t0, do: open(2, us, 3), free: 4, out: 6},
			{at: t0, do: open(3, ap, 3), free: 1, out: 9},
			{at: t1s, do: closeHeld(1, 1, 0, 1), free: 2, out: 6}, // what is held counts as spent
			{at: t1s, do: closeProven(2, 1), free: 4, out: 3},
			{at: t2s, do: attest(3, 3), free: 4},
			{at: t1s + minute, do: advance(), free: 7},
			{at: t2s + minute, do: advance(), free: 10},
		}},
		{"an account in the past counts from the ledger's time", rolling(1, 2, minute), []step{
			{at: t0, do: open(1, eu, 2), free: 0, out: 2},
			{at: t9s, do: advance(), free: 0, out: 2},
			{at: t1s, do: account(1, 2, 0), free: 0},
			{at: t1s + minute, do: advance(), free: 0},
			{at: t9s + minute, do: advance(), free: 2},
		}},
		{"a longer window counts for longer what has not left the shorter", rolling(1, 4, minute), []step{
			{at: t0, do: open(1, eu, 4), free: 0, out: 4},
			{at: t0, do: account(1, 1, 0), free: 0, out: 3},
			{at: t9s, do: account(1, 3, 0), free: 0, out: 1},
			{at: minute, do: install(rolling(2, 4, 2*minute)), free: 1, out: 1},
			{at: t9s + minute, do: advance(), free: 1, out: 1},
			{at: t9s + 2*minute, do: advance(), free: 3, out: 1},
		}},
		{"a shorter one lets go at once what has left it", rolling(1, 4, minute), []step{
			{at: t0, do: open(1, eu, 4), free: 0, out: 4},
			{at: t0, do: account(1, 1, 0), free: 0, out: 3},
			{at: t9s, do: account(1, 4, 0), free: 0},
			{at: t9s + t1s, do: install(rolling(2, 4, t9s)), free: 1},
			{at: t9s + t9s - 1, do: advance(), free: 1},
			{at: t9s + t9s, do: advance(), free: 4},
		}},
		{"a higher limit is there at once, a lower one waits", rolling(1, 4, minute), []step{
			{at: t0, do: open(1, eu, 4), free: 0, out: 4},
			{at: t0, do: account(1, 2, 0), free: 0, out: 2},
			{at: t1s, do: install(rolling(2, 7, minute)), free: 3, out: 2},
			{at: t1s, do: install(rolling(3, 1, minute)), free: 0, out: 2},
			{at: minute, do: topUp(1, 1), err: lease.ErrNoRoom, free: 0, out: 2},
			{at: minute, do: closeGrant(1, 2, 0), free: 1},
		}},
		{"another kind starts as if all that is not out was just spent", worked(), []step{
			{at: t0, do: open(1, eu, 5), free: 35, out: 5},
			{at: t1s, do: install(rolling(2, 20, minute)), free: 0, out: 5},
			{at: t1s + minute, do: closeGrant(1, 1, 0), free: 19},
			{at: t9s + minute, do: install(perSecond(3, 40, 20)), free: 0},
			{at: t9s + minute + t1s, do: advance(), free: 20},
			{at: t9s + minute + t2s, do: install(fixed(4, 8, lease.Day, "UTC")), free: 0},
			{at: 2 * minute, do: turn(1000, minute), free: 0},
			{at: 3 * minute, do: turn(2000, minute), free: 8},
			{at: 3 * minute, do: install(slots(5, 2)), free: 2},
		}},
		{"more is out than a bucket of another kind holds", rolling(1, 10, minute), []step{
			{at: t0, do: open(1, eu, 10), free: 0, out: 10},
			{at: t0, do: install(perSecond(2, 5, 1)), free: 0, out: 10},
			{at: t9s, do: closeGrant(1, 10, 0), free: 0},
			{at: t9s + t3s, do: advance(), free: 3},
			{at: t9s + 5*t1s, do: advance(), free: 5}, // full, but for the 5 that were spent beyond it
			{at: t9s + 5*t1s, do: install(perSecond(3, 10, 1)), free: 5},
		}},
	})
}

func TestFixedWindow(t *testing.T) {
	runScripts(t, []script{
		{"what is out at a boundary counts against the next period", fixed(1, 10, lease.Minute, "UTC"), []step{
			{at: t0, do: turn(1000, minute), free: 10},
			{at: t0, do: open(1, eu, 6), free: 4, out: 6},
			{at: t1s, do: account(1, 2, 0), free: 4, out: 4},
			{at: minute, do: turn(2000, minute), free: 6, out: 4},
			{at: minute, do: account(1, 5, 0), free: 6, out: 1},
			{at: minute, do: topUp(1, 7), err: lease.ErrNoRoom, free: 6, out: 1},
			{at: minute, do: attest(1, 1), free: 6},
			{at: 2 * minute, do: turn(3000, minute), free: 10},
		}},
		{"a clock that is set back enters no period again", fixed(1, 4, lease.Minute, "UTC"), []step{
			{at: t0, do: turn(2000, minute), free: 4},
			{at: t0, do: open(1, eu, 4), free: 0, out: 4},
			{at: t0, do: closeGrant(1, 4, 0), free: 0},
			{at: t1s, do: turn(1000, minute), free: 0},
			{at: t2s, do: turn(2000, minute), free: 0},
			{at: t3s, do: turn(3000, minute), free: 4},
		}},
		{"one that was ahead lets its period last until that time has come", fixed(1, 4, lease.Minute, "UTC"), []step{
			{at: t0, do: turn(9000, minute), free: 4},
			{at: t0, do: open(1, eu, 4), free: 0, out: 4},
			{at: t0, do: closeGrant(1, 4, 0), free: 0},
			{at: minute, do: turn(1000, minute), free: 0},
			{at: 2 * minute, do: turn(9000, minute), free: 0},
			{at: 3 * minute, do: turn(9001, minute), free: 4},
		}},
		{"one that stands before 1970 has one period until it is right", fixed(1, 4, lease.Minute, "UTC"), []step{
			{at: t0, do: turn(-9000, minute), free: 4},
			{at: t0, do: open(1, eu, 4), free: 0, out: 4},
			{at: t0, do: closeGrant(1, 4, 0), free: 0},
			{at: t1s, do: turn(-1, minute), free: 0},
			{at: t1s, do: turn(0, minute), free: 0},
			{at: t2s, do: turn(2000, minute), free: 4},
		}},
		{"what was used before a period was known counts in it", fixed(1, 4, lease.Minute, "UTC"), []step{
			{at: t0, do: open(1, eu, 3), free: 1, out: 3},
			{at: t0, do: closeGrant(1, 3, 0), free: 1},
			{at: t1s, do: turn(1000, minute), free: 1},
			{at: t2s, do: turn(2000, minute), free: 4},
		}},
		{"another period takes over what is used", fixed(1, 4, lease.Minute, "UTC"), []step{
			{at: t0, do: turn(5000, minute), free: 4},
			{at: t0, do: open(1, eu, 3), free: 1, out: 3},
			{at: t0, do: account(1, 2, 0), free: 1, out: 1},
			{at: t1s, do: install(fixed(2, 5, lease.Day, "UTC")), free: 2, out: 1},
			{at: t1s, do: turn(4000, minute), free: 2, out: 1}, // began before
			{at: t1s, do: install(fixed(3, 5, lease.Day, "Europe/Berlin")), free: 2, out: 1},
			{at: t1s, do: turn(4500, minute), free: 2, out: 1},
			{at: t2s, do: install(fixed(4, 6, lease.Day, "Europe/Berlin")), free: 3, out: 1},
			{at: t3s, do: turn(4600, minute), free: 5, out: 1},
		}},
		{"other kinds have no periods", worked(), []step{
			{at: t1s, do: turn(1000, minute), free: 40},
		}},
	})
}

func TestSlots(t *testing.T) {
	runScripts(t, []script{
		{"a slot that is given back is free at once", slots(1, 4), []step{
			{at: t0, do: open(1, eu, 3), free: 1, out: 3},
			{at: t0, do: account(1, 0, 2), free: 3, out: 1},
			{at: t0, do: topUp(1, 3), free: 0, out: 4},
			{at: t0, do: closeGrant(1, 0, 2), free: 4},
		}},
		{"those that work goes on in stay out, however often that is told", slots(1, 4), []step{
			{at: t0, do: open(1, eu, 4), free: 0, out: 4},
			{at: t1s, do: closeHeld(1, 0, 0, 3), free: 1, out: 3},
			{at: t1s, do: closeHeld(1, 0, 0, 4), free: 1, out: 3},
			{at: t1s, do: closeHeld(1, 0, 0, 1), free: 3, out: 1},
			{at: t1s, do: closeHeld(1, 0, 0, 3), free: 3, out: 1},
			{at: t2s, do: closeHeld(1, 0, 0, -1), free: 4},
			{at: t2s, do: closeHeld(1, 0, 0, 3), err: lease.ErrGone, free: 4},
		}},
		{"a journal returns what was not drawn, beside what was given back", slots(1, 9), []step{
			{at: t0, do: open(1, eu, 9), free: 0, out: 9},
			{at: t0, do: account(1, 0, 2), free: 2, out: 7},
			{at: t1s, do: closeProven(1, 9), free: 2, out: 7},
			{at: t1s, do: closeProven(1, 5), free: 4, out: 5},
			{at: t1s, do: closeProven(1, 5), free: 4, out: 5},
			{at: t1s, do: account(1, 0, 2), free: 4, out: 5}, // late
			{at: t1s, do: closeProven(1, math.MinInt64), free: 9},
		}},
		{"fewer slots than are in use", slots(1, 4), []step{
			{at: t0, do: open(1, eu, 4), free: 0, out: 4},
			{at: t0, do: install(slots(2, 2)), free: 0, out: 4},
			{at: t0, do: account(1, 0, 1), free: 0, out: 3},
			{at: t0, do: topUp(1, 1), err: lease.ErrNoRoom, free: 0, out: 3},
			{at: t0, do: account(1, 0, 3), free: 1, out: 1},
			{at: t0, do: install(slots(3, 5)), free: 4, out: 1},
		}},
		{"tokens of another kind that are spent free their slot", perSecond(1, 4, 0), []step{
			{at: t0, do: open(1, eu, 4), free: 0, out: 4},
			{at: t0, do: install(slots(2, 4)), free: 0, out: 4},
			{at: t0, do: account(1, 3, 0), free: 3, out: 1},
			{at: t0, do: closeProven(1, math.MinInt64), free: 4},
		}},
		{"slots in use count as spent where a bucket has come", slots(1, 4), []step{
			{at: t0, do: open(1, eu, 4), free: 0, out: 4},
			{at: t0, do: install(perSecond(2, 4, 0)), free: 0, out: 4},
			{at: t0, do: closeHeld(1, 0, 1, 2), free: 2}, // one of them was given back, one was free
		}},
	})
}

// A record that hides what was spent is not full: without one, a policy that is
// raised again would find all of it free.
func TestHiddenSpendsAreNotFull(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule lease.Rule
		then lease.Rule
		at   time.Duration // the end of what is hidden
	}{
		{"more was out than the bucket of another kind holds", rolling(1, 10, minute), perSecond(2, 5, 1), t9s + 10*time.Second},
		{"a window of nothing", rolling(1, 10, minute), rolling(2, 0, minute), t9s + minute},
	} {
		l := newLedger(tc.rule)
		for i, s := range []step{
			{at: t0, do: open(1, eu, 10)}, {at: t0, do: install(tc.then)}, {at: t9s, do: closeGrant(1, 10, 0)}, {at: t9s + 5*t1s, do: advance()}, {at: tc.at - 1, do: advance()},
		} {
			if err := runTransition(&l, s.at, s.do); err != nil {
				t.Fatalf("%s: step %d: %v", tc.name, i+1, err)
			}
		}
		if l.Available != tc.then.Capacity || l.Full() {
			t.Errorf("%s: %d free, full is %v", tc.name, l.Available, l.Full())
		}
		if l.Advance(lease.Time(tc.at)); !fullAtLast(&l) {
			t.Errorf("%s: not full in the end: %v, cut %d", tc.name, &l, l.Cut)
		}
	}
}

// Counters that are older than any, or beyond all, take nothing of what is held.
func TestCloseHeldOfAnyNumbers(t *testing.T) {
	runScripts(t, []script{
		{"older than any", rolling(1, 5, minute), []step{
			{at: t0, do: open(1, eu, 4), free: 1, out: 4},
			{at: t0, do: closeHeld(1, math.MinInt64, 0, 3), free: 2},
		}},
		{"held is negative", rolling(1, 5, minute), []step{
			{at: t0, do: open(1, eu, 4), free: 1, out: 4},
			{at: t0, do: closeHeld(1, 3, 0, math.MinInt64), free: 2},
		}},
		{"the sum is beyond all", rolling(1, 5, minute), []step{
			{at: t0, do: open(1, eu, 4), free: 1, out: 4},
			{at: t0, do: closeHeld(1, math.MaxInt64, 0, math.MaxInt64), err: errAbove, free: 1, out: 4},
		}},
	})
}

// The largest numbers: nothing overflows.
func TestWindowOfTheLargestNumbers(t *testing.T) {
	l := newLedger(rolling(1, lease.MaxCapacity, lease.MaxWindow))
	const most = lease.MaxCapacity
	for i, do := range []act{
		open(1, eu, most), account(1, most, 0), install(fixed(2, most, lease.Month, "UTC")), install(slots(3, most)),
		open(2, us, most), install(rolling(4, 0, lease.MinWindow)), closeHeld(2, 0, 0, most), install(rolling(5, most, lease.MaxWindow)),
	} {
		if err := runTransition(&l, 200*365*24*time.Hour, do); err != nil {
			t.Fatalf("step %d: %v", i+1, err)
		}
	}
	if l.Counted() != most || l.Available != 0 {
		t.Errorf("%d count, %d are free", l.Counted(), l.Available)
	}
	if wait, ok := l.Retry(lease.Time(200*365*24*time.Hour), most); wait != lease.MaxWindow || !ok {
		t.Errorf("wait %v, %v", wait, ok)
	}
}

// However many spends a window has, their list is short, none comes back before it
// has left the window, and none later than by a 32nd of it.
func TestReleasesAreBoundedAndNeverEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.SampledFrom([]time.Duration{lease.MinWindow, lease.MinWindow + 31, minute, 61 * time.Second, lease.MaxWindow}).Draw(t, "window")
		many := rapid.IntRange(1, 200).Draw(t, "spends in a window")
		l, now, exact := newLedger(rolling(1, 1_000_000, window)), lease.Time(0), []lease.Release{}
		for i := range uint64(rapid.SampledFrom([]int{40, 150}).Draw(t, "spends")) {
			now = now.Add(time.Duration(rapid.Int64Range(0, 2*int64(window)/int64(many)).Draw(t, "pause")))
			if err := runTransition(&l, time.Duration(now), open(i+1, eu, 1)); err != nil {
				t.Fatal(err)
			}
			if err := runTransition(&l, time.Duration(now), closeGrant(i+1, 1, 0)); err != nil {
				t.Fatal(err)
			}
			exact = append(exact, lease.Release{At: now.Add(window), Tokens: 1})
			if len(l.Recovering) > 64 {
				t.Fatalf("%d releases", len(l.Recovering))
			}
			checkCountedAlong(t, &l, exact, window/32)
		}
	})
}

// checkCountedAlong checks what counts at the ledger's time and at each later one at
// which that changes.
func checkCountedAlong(t *rapid.T, l *lease.Ledger, exact []lease.Release, late time.Duration) {
	tokens := func(all []lease.Release, after lease.Time) (sum int64) {
		for _, r := range all {
			if r.At > after {
				sum += r.Tokens
			}
		}
		return sum
	}
	for _, r := range slices.Concat(l.Recovering, exact[max(0, len(exact)-5):]) {
		for _, at := range []lease.Time{max(l.Updated, r.At-1), max(l.Updated, r.At)} {
			counted, least, most := tokens(l.Recovering, at), tokens(exact, at), tokens(exact, at-lease.Time(late))
			if counted < least || counted > most {
				t.Fatalf("%d count at %d, where %d to %d do", counted, at, least, most)
			}
		}
	}
}

// A part of a long window by which a token was put off does not hold up a short one.
func TestShorterWindowIsNotHeldUp(t *testing.T) {
	l := newLedger(rolling(1, 100, lease.MaxWindow))
	at := func(i int) time.Duration { return time.Duration(i) * minute }
	for i := range 40 { // more than are kept exactly: the last ten are put on one of the 32nd parts
		if !checkOnce(t, &l, at(i), uint64(1+i), 1) {
			t.Fatalf("spend %d is denied", i+1)
		}
	}
	if last := l.Recovering[len(l.Recovering)-1]; last.Tokens != 10 || last.At <= lease.Time(at(39)+lease.MaxWindow) {
		t.Fatalf("the last release is %+v", last)
	}
	if err := runTransition(&l, at(40), install(rolling(2, 100, minute))); err != nil {
		t.Fatal(err)
	}
	if !checkOnce(t, &l, at(40), 41, 1) {
		t.Fatal("denied")
	}
	if err := runTransition(&l, at(41), advance()); err != nil || !l.Full() {
		t.Errorf("after the short window: %v, %v, %v", &l, l.Recovering, err)
	}
}

func TestRetryOfWindows(t *testing.T) {
	for _, tc := range []struct {
		name   string
		rule   lease.Rule
		before []act // at 0
		at     time.Duration
		tokens int64
		wait   time.Duration
		ok     bool
	}{
		{"there now", rolling(1, 5, minute), nil, t1s, 5, 0, true},
		{"when it has left the window", rolling(1, 5, minute), []act{open(1, eu, 5), account(1, 2, 3)}, t1s, 4, minute - t1s, true},
		{"what is out is spent now at the latest", rolling(1, 5, minute), []act{open(1, eu, 5), account(1, 2, 0)}, t1s, 3, minute, true},
		{"never fits", rolling(1, 5, minute), []act{open(1, eu, 5), account(1, 5, 0)}, t1s, 6, 0, false},
		{"at the end of the period", fixed(1, 5, lease.Minute, "UTC"), []act{turn(1000, minute), open(1, eu, 5)}, t1s, 1, minute - t1s, true},
		{"which is not told yet", fixed(1, 5, lease.Minute, "UTC"), []act{open(1, eu, 5)}, t1s, 1, 0, false},
		{"which ought to have ended", fixed(1, 5, lease.Minute, "UTC"), []act{turn(1000, minute), open(1, eu, 5)}, minute, 1, 0, false},
		{"which has less than a nanosecond to go", fixed(1, 5, lease.Minute, "UTC"), []act{turn(1000, 0), open(1, eu, 5)}, t0, 1, 1, true},
		{"told again", fixed(1, 5, lease.Minute, "UTC"), []act{turn(1000, minute), turn(1000, t9s), open(1, eu, 5)}, t1s, 1, t9s - t1s, true},
		{"after a clock was set back nobody knows", fixed(1, 5, lease.Minute, "UTC"), []act{turn(2000, minute), turn(1000, minute), open(1, eu, 5)}, t1s, 1, 0, false},
		{"when work ends, nobody knows", slots(1, 5), []act{open(1, eu, 5)}, t1s, 1, 0, false},
		{"a slot is there", slots(1, 5), []act{open(1, eu, 4)}, t1s, 1, 0, true},
	} {
		l := newLedger(tc.rule)
		for _, do := range tc.before {
			if err := runTransition(&l, 0, do); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
		}
		if wait, ok := l.Retry(lease.Time(tc.at), tc.tokens); wait != tc.wait || ok != tc.ok {
			t.Errorf("%s: retry in %v, %v; want %v, %v", tc.name, wait, ok, tc.wait, tc.ok)
		}
	}
}

// Guidance that was given holds, however many spends come after it, and what is out
// is not promised before the part of the window on which it is put.
func TestRetryOfAWindowIsNotEarly(t *testing.T) {
	l := newLedger(rolling(1, 1000, 32*minute))
	for i := range 29 {
		checkOnce(t, &l, time.Duration(i)*t1s, uint64(1+i), 10)
	}
	wait, ok := l.Retry(lease.Time(30*t1s), 1000-270)
	if want := 32*minute + t1s - 30*t1s; wait != want || !ok {
		t.Fatalf("retry in %v, want %v", wait, want)
	}
	for i := range 60 {
		checkOnce(t, &l, 30*t1s+time.Duration(i)*t1s/2, uint64(100+i), 1)
	}
	if err := runTransition(&l, 61*t1s, open(200, eu, 1)); err != nil {
		t.Fatal(err)
	}
	all, ok := l.Retry(lease.Time(61*t1s), 1000)
	if want := 34*minute - 61*t1s; all != want || !ok {
		t.Errorf("retry for all in %v, want %v: on a whole minute", all, want)
	}
	if _, err := l.Attest(lease.Time(61*t1s), grantID(200)); err != nil {
		t.Fatal(err)
	}
	if got := l.Headroom(lease.Time(30*t1s+wait), eu); got != 1000-270-61 {
		t.Errorf("%d when the guidance has come true", got)
	}
	if l.Advance(lease.Time(61*t1s + all - 1)); l.Full() {
		t.Error("full before")
	}
	if l.Advance(lease.Time(61*t1s + all)); !l.Full() {
		t.Errorf("not full: %v", l.Recovering)
	}
}

// A budget whose earlier life is unknown, and then attested, under each kind.
func TestUnknownAndSpent(t *testing.T) {
	for _, rule := range []lease.Rule{worked(), rolling(1, 40, minute), fixed(1, 40, lease.Day, "UTC"), slots(1, 40)} {
		unknown := lease.NewUnknown(budgetKey(), rule, lease.Time(t9s), 2, 1)
		spent := lease.NewSpent(budgetKey(), rule, lease.Time(t9s))
		var free int64
		if rule.Kind == lease.Concurrency { // its work has ended
			free = 40
		}
		if err := unknown.Check(); err != nil || unknown.Available != 0 || unknown.Reserved() != 40 {
			t.Errorf("%s: unknown %v, %v", rule.Kind, &unknown, err)
		}
		if err := spent.Check(); err != nil || spent.Available != free || spent.Reserved() != 0 {
			t.Errorf("%s: spent %v, %v", rule.Kind, &spent, err)
		}
		for began := int64(1); began < 3; began++ {
			spent.Turn(lease.Time(t9s+2*minute), began, minute)
		}
		if spent.Advance(lease.Time(t9s + 2*minute)); !spent.Full() {
			t.Errorf("%s: not full in the end: %v", rule.Kind, &spent)
		}
	}
}
