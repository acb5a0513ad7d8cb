package lease_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// The tests of this file are situations from the field, by the numbers of our
// list of them.

// checkOnce is a regional check at ledger level: it takes the cost out and
// settles it at once, and says whether it was admitted.
func checkOnce(t *testing.T, l *lease.Ledger, at time.Duration, id uint64, cost int64) bool {
	t.Helper()
	if err := runTransition(l, at, open(id, eu, cost)); err != nil {
		return false
	}
	if err := runTransition(l, at, closeGrant(id, cost, 0)); err != nil {
		t.Fatal(err)
	}
	return true
}

func runTransition(l *lease.Ledger, at time.Duration, do act) error {
	before := l.Clone()
	if err := do(l, lease.Time(at)); err != nil {
		return err
	}
	return lease.CheckStep(&before, l)
}

// emptied is a budget under the rule from which all was spent at 0.
func emptied(rule lease.Rule) lease.Ledger {
	l := newLedger(rule)
	l.Available = 0
	return l
}

func TestCase03NoRefill(t *testing.T) {
	l := newLedger(perSecond(1, 1, 0))
	if !checkOnce(t, &l, t0, 1, 1) {
		t.Error("the one token is denied")
	}
	for i, at := range []time.Duration{t0, t1s, 150 * 365 * 24 * time.Hour} {
		if checkOnce(t, &l, at, uint64(2+i), 1) {
			t.Errorf("admitted again at %v", at)
		}
		if wait, ok := l.Retry(lease.Time(at), 1); ok {
			t.Errorf("retry guidance of %v where waiting cannot help", wait)
		}
	}
}

func TestCase04CheckEach100ms(t *testing.T) {
	l, admitted := newLedger(perSecond(1, 3, 3)), 0
	for i := range 101 {
		if checkOnce(t, &l, time.Duration(i)*100*time.Millisecond, uint64(1+i), 1) {
			admitted++
		}
	}
	if admitted != 33 {
		t.Errorf("%d admitted in 10s, want 3 and 3/s for 10s", admitted)
	}
}

func TestCase05ClockStepsBack(t *testing.T) {
	runScripts(t, []script{{"by two seconds while a grant is out", worked(), []step{
		{at: t9s, do: open(1, eu, 30), free: 10, out: 30},
		{at: t9s, do: account(1, 20, 0), free: 10, out: 10},
		{at: t9s - t2s, do: advance(), free: 10, out: 10},
		{at: t9s - t2s, do: account(1, 22, 2), free: 12, out: 6},
		{at: t9s - t2s, do: topUp(1, 4), free: 8, out: 10},
		{at: t9s, do: advance(), free: 8, out: 10},
		{at: t9s + t1s, do: advance(), free: 28, out: 10},
	}}})
	l := emptied(worked())
	l.Advance(lease.Time(t1s))
	l.Advance(lease.Time(t1s - t2s))
	if l.Full() || l.Available != 20 || l.Updated != lease.Time(t1s) {
		t.Errorf("a step back would drop or change %v", &l)
	}
}

func TestCase15RepeatedGrantRequest(t *testing.T) {
	runScripts(t, []script{{"debited once", worked(), []step{
		{at: t0, do: open(1, eu, 15), free: 25, out: 15},
		{at: t0, do: open(1, eu, 15), err: lease.ErrExists, free: 25, out: 15},
		{at: t1s, do: open(2, eu, 15), err: lease.ErrExists, free: 25, out: 15},
	}}})
}

func TestCase23ManySingleChecks(t *testing.T) {
	const rate = 65_535
	l, truth := emptied(perSecond(1, rate, rate)), new(big.Rat)
	at, step := t0, 100*time.Microsecond // 6.5535 tokens
	for i := range 20 {
		at += step
		truth.Add(truth, big.NewRat(rate*int64(step), int64(time.Second)))
		if !checkOnce(t, &l, at, uint64(1+i), 1) {
			t.Fatalf("check %d is denied", i+1)
		}
		truth.Sub(truth, big.NewRat(1, 1))
		if l.Available != floor(truth) {
			t.Errorf("check %d: %d remain, the truth is %v", i+1, l.Available, truth.FloatString(4))
		}
	}
}

func TestCase24LargestRateIdleForAYear(t *testing.T) {
	for _, capacity := range []int64{0, 1, 40, lease.MaxCapacity} {
		for _, interval := range []time.Duration{1, time.Second, lease.MaxInterval} {
			l := emptied(rated(1, capacity, lease.Rate{Tokens: math.MaxInt64, Interval: interval}))
			l.Advance(lease.Time(365 * 24 * time.Hour))
			if err := l.Check(); err != nil || l.Available != capacity || l.Remainder != 0 {
				t.Errorf("capacity %d, interval %v: %v, %v", capacity, interval, &l, err)
			}
		}
	}
}

func TestCase26CostAboveCapacity(t *testing.T) {
	l := newLedger(perSecond(1, 5, 1))
	if checkOnce(t, &l, t9s, 1, 10) {
		t.Error("10 of 5 are admitted")
	}
	if wait, ok := l.Retry(lease.Time(t9s), 10); ok {
		t.Errorf("retry guidance of %v for what never fits", wait)
	}
	if l.Available != 5 {
		t.Errorf("the denial took %d", 5-l.Available)
	}
}

func TestCase28CapacityZero(t *testing.T) {
	rule := perSecond(1, 0, 20)
	if err := rule.Validate(); err != nil {
		t.Fatal(err)
	}
	l := newLedger(rule)
	for _, at := range []time.Duration{t0, t9s} {
		if checkOnce(t, &l, at, 1, 1) {
			t.Errorf("admitted at %v", at)
		}
		if wait, ok := l.Retry(lease.Time(at), 1); ok {
			t.Errorf("retry guidance of %v", wait)
		}
	}
}

func TestCase30SamePolicyAppliedAgain(t *testing.T) {
	l := emptied(worked())
	for i := range 100 {
		at := time.Duration(i) * time.Millisecond
		if err := runTransition(&l, at, install(worked())); err != nil {
			t.Fatal(err)
		}
	}
	// Not even versions that say the same move anything.
	for i := range 100 {
		if err := runTransition(&l, t1s-1, install(perSecond(int64(2+i), 40, 20))); err != nil {
			t.Fatal(err)
		}
	}
	if l.Advance(lease.Time(t1s)); l.Available != 20 {
		t.Errorf("%d after a second, want 20", l.Available)
	}
}

func TestCase31LoweredWhileLeased(t *testing.T) {
	runScripts(t, []script{{"from 100 to 10 with 60 out", perSecond(1, 100, 20), []step{
		{at: t0, do: open(1, eu, 60), free: 40, out: 60},
		{at: t0, do: install(perSecond(2, 10, 20)), out: 60},
		{at: t9s, do: open(2, us, 1), err: lease.ErrNoRoom, out: 60},
		{at: t9s, do: account(1, 50, 0), out: 10},
		{at: t9s + t9s, do: open(2, us, 1), err: lease.ErrNoRoom, out: 10},
		{at: t9s + t9s, do: account(1, 51, 0), out: 9},
		{at: t9s + t9s + t50ms, do: open(2, us, 1), out: 10},
	}}})
}

func TestCase36FullAtOnceThenRefill(t *testing.T) {
	l := newLedger(worked())
	for i := range 8 {
		if !checkOnce(t, &l, t9s, uint64(1+i), 5) {
			t.Fatalf("check %d of a full budget is denied", i+1)
		}
	}
	if checkOnce(t, &l, t9s, 9, 5) {
		t.Error("a ninth is admitted")
	}
	if l.Advance(lease.Time(t9s + t2s - 1)); l.Full() {
		t.Error("full before 2s")
	}
	if l.Advance(lease.Time(t9s + t2s)); !l.Full() {
		t.Errorf("not full after 2s: %v", &l)
	}
}

func TestCase37FiveChecksLeaveTwo(t *testing.T) {
	l := newLedger(perSecond(1, 10, 2))
	l.Available = 1
	if l.Advance(lease.Time(t3s)); l.Available != 7 {
		t.Errorf("%d after 3s, want 7", l.Available)
	}
	for i := range 5 {
		if !checkOnce(t, &l, t3s, uint64(1+i), 1) {
			t.Errorf("check %d is denied", i+1)
		}
	}
	if l.Available != 2 {
		t.Errorf("%d left, want 2", l.Available)
	}
}

func TestCase38WaitForTheRestOfAToken(t *testing.T) {
	l := emptied(perSecond(1, 10, 2))
	const at = 100 * time.Millisecond // 0.2 tokens
	if wait, ok := l.Retry(lease.Time(at), 1); wait != 400*time.Millisecond || !ok {
		t.Errorf("wait %v, %v; want 0.4s", wait, ok)
	}
}

func TestCase39ReportCostsFive(t *testing.T) {
	l := newLedger(worked())
	if !checkOnce(t, &l, t0, 1, 5) || l.Available != 35 {
		t.Errorf("%d remain, want 35", l.Available)
	}
}

func TestCase40GrantsOfOneBudget(t *testing.T) {
	runScripts(t, []script{
		{"15, 15 and 10 fit, a fourth of 1 does not", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: open(2, us, 15), free: 10, out: 30},
			{at: t0, do: open(3, ap, 10), free: 0, out: 40},
			{at: t0, do: openEpoch(4, ap, 2, 1), err: lease.ErrNoRoom, free: 0, out: 40},
			{at: t9s, do: openEpoch(4, ap, 2, 1), err: lease.ErrNoRoom, free: 0, out: 40},
		}},
		{"three of 40 never do", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t0, do: open(2, us, 40), err: lease.ErrNoRoom, free: 0, out: 40},
			{at: t0, do: open(3, ap, 40), err: lease.ErrNoRoom, free: 0, out: 40},
			{at: t9s, do: open(2, us, 40), err: lease.ErrNoRoom, free: 0, out: 40},
		}},
	})
}
