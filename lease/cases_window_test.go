package lease_test

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// More situations from the field by their numbers, under windows and slots.

// retryIn requires guidance for one token.
func retryIn(t *testing.T, l *lease.Ledger, at, want time.Duration) {
	t.Helper()
	if wait, ok := l.Retry(lease.Time(at), 1); wait != want || !ok {
		t.Errorf("at %v: retry in %v, %v; want %v", at, wait, ok, want)
	}
}

func TestCase16HolderDiesWithSlotsInUse(t *testing.T) {
	dies := func(rest ...step) []step {
		return append([]step{
			{at: t0, do: open(1, eu, 5), free: 1, out: 5},
			{at: t0, do: account(1, 0, 1), free: 2, out: 4},
			{at: t9s, do: advance(), free: 2, out: 4}, // it dies with three in use: silence proves nothing
			{at: 1000 * time.Hour, do: advance(), free: 2, out: 4},
		}, rest...)
	}
	at := 1000 * time.Hour
	runScripts(t, []script{
		{"its journal returns what was not drawn, an attestation the rest", slots(1, 6), dies(
			step{at: at, do: closeProven(1, 3), free: 3, out: 3},
			step{at: at, do: openEpoch(2, eu, 2, 4), err: lease.ErrNoRoom, free: 3, out: 3},
			step{at: at, do: openEpoch(2, eu, 2, 3), free: 0, out: 6},
			step{at: at + t9s, do: attest(1, 3), free: 3, out: 3},
		)},
		{"without a journal the attestation returns all", slots(1, 6), dies(
			step{at: at, do: attest(1, 4), free: 6},
			step{at: at, do: closeProven(1, 3), err: lease.ErrGone, free: 6},
		)},
		{"its own last account tells how many are in use", slots(1, 6), dies(
			step{at: at, do: closeHeld(1, 0, 1, 2), free: 4, out: 2},
			step{at: at, do: closeHeld(1, 0, 1, 0), free: 6},
		)},
	})
	l := newLedger(slots(1, 5))
	if err := runTransition(&l, t0, open(1, eu, 5)); err != nil {
		t.Fatal(err)
	}
	if wait, ok := l.Retry(lease.Time(t9s), 1); ok {
		t.Errorf("retry in %v, where nobody knows when the work ends", wait)
	}
}

func TestCase41ThreeInAMinute(t *testing.T) {
	l := newLedger(rolling(1, 3, minute))
	for i, at := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
		if !checkOnce(t, &l, at, uint64(1+i), 1) {
			t.Fatalf("denied at %v", at)
		}
	}
	if checkOnce(t, &l, 50*time.Second, 4, 1) {
		t.Error("admitted at 50 s")
	}
	retryIn(t, &l, 50*time.Second, 10*time.Second)
	retryIn(t, &l, 59*time.Second, time.Second)
	if checkOnce(t, &l, minute-1, 4, 1) {
		t.Error("admitted a nanosecond early")
	}
	retryIn(t, &l, minute-1, 1)
	retryIn(t, &l, minute, 0)
	if !checkOnce(t, &l, minute, 4, 1) {
		t.Error("denied at 60 s")
	}
	if checkOnce(t, &l, minute, 5, 1) {
		t.Error("two admitted at 60 s")
	}
	retryIn(t, &l, minute, 10*time.Second)
}

func TestCase42LoweredFromFiveToThree(t *testing.T) {
	l := newLedger(rolling(1, 5, minute))
	for i := range 5 {
		if !checkOnce(t, &l, time.Duration(i)*10*time.Second, uint64(1+i), 1) {
			t.Fatalf("check %d is denied", i+1)
		}
	}
	if err := runTransition(&l, 45*time.Second, install(rolling(2, 3, minute))); err != nil {
		t.Fatal(err)
	}
	retryIn(t, &l, 45*time.Second, 35*time.Second) // at 80 s, when those of 0, 10 and 20 s have left
	for _, at := range []time.Duration{60 * time.Second, 70 * time.Second, 80*time.Second - 1} {
		if checkOnce(t, &l, at, 6, 1) {
			t.Errorf("admitted at %v", at)
		}
	}
	if !checkOnce(t, &l, 80*time.Second, 6, 1) {
		t.Error("denied at 80 s")
	}
	retryIn(t, &l, 80*time.Second, 10*time.Second)
}

// Three at 58.8 s, three at 61.2 s: within their minutes, and six in 2.4 s.
func TestCase44SixAroundAMinuteBoundary(t *testing.T) {
	pass := func(l *lease.Ledger) (admitted int) {
		for i := range 6 {
			at := 58_800 * time.Millisecond
			if i >= 3 {
				at = 61_200 * time.Millisecond
			}
			l.Turn(lease.Time(at), 1+int64(at/minute), minute-at%minute)
			if checkOnce(t, l, at, uint64(1+i), 1) {
				admitted++
			}
		}
		return admitted
	}
	window, clock := newLedger(rolling(1, 3, minute)), newLedger(fixed(1, 3, lease.Minute, "UTC"))
	if n := pass(&window); n != 3 {
		t.Errorf("the rolling window admits %d", n)
	}
	retryIn(t, &window, 61_200*time.Millisecond, 57_600*time.Millisecond)
	if n := pass(&clock); n != 6 {
		t.Errorf("the minutes of the clock admit %d: this test shows nothing", n)
	}
	retryIn(t, &clock, 61_200*time.Millisecond, 58_800*time.Millisecond)
}
