package holder

import (
	"math"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// late is by how much a release of a window of 10 s may be late.
const late = 10 * time.Second / 32

// The broker said at 1 s that 10 can be covered at 4 s. What dearer checks are told
// depends on the rule; it is never early.
func TestDenialsOfDearerChecks(t *testing.T) {
	const never = time.Duration(-1)
	capacity := int64(40)
	for _, c := range []struct {
		kind       lease.Kind
		cost, debt int64
		at         time.Duration // of the guidance
	}{
		{lease.TokenBucket, 10, 0, 4 * time.Second},
		{lease.TokenBucket, 15, 0, 9 * time.Second}, // 1 token a second
		{lease.TokenBucket, 10, 5, 9 * time.Second},
		{lease.TokenBucket, 40, 40, 74 * time.Second},
		{lease.RollingWindow, 10, 0, 4 * time.Second},
		{lease.RollingWindow, 11, 0, 11*time.Second + late}, // all that was out has left
		{lease.RollingWindow, 40, 0, 11*time.Second + late},
		{lease.RollingWindow, 40, 1, 21*time.Second + 2*late}, // two windows
		{lease.RollingWindow, 6, 4, 4 * time.Second},
		{lease.FixedWindow, 10, 0, 4 * time.Second},
		{lease.FixedWindow, 40, 0, 4 * time.Second},
		{lease.FixedWindow, 40, 1, 70 * time.Second}, // another period, however long
		{lease.Concurrency, 10, 0, never},
		{lease.Concurrency, 40, 0, never},
	} {
		denial := &Denial{Need: 10, At: time.Second, HasRetry: true, Until: 4 * time.Second, MaxUntil: 4 * time.Second}
		b := NewBudget(rigKey, NewSignals())
		b.outlook.Store(&Outlook{Policy: policyOf(c.kind, capacity), Denial: denial})
		b.holds.debt.Store(c.debt)
		now := 2 * time.Second
		v := b.Judge(c.cost, now)
		want := Verdict{Reason: pb.Reason_REASON_EXHAUSTED, HasRetry: c.at != never}
		if want.HasRetry {
			want.RetryIn = c.at - now
		}
		if v != want {
			t.Errorf("%s, cost %d and debt %d: %+v, want %+v", c.kind, c.cost, c.debt, v, want)
		}
		if c.debt == 0 {
			if v := b.Outlook().Judge(c.cost, now); v != want {
				t.Errorf("%s, cost %d: the outlook says %+v, want %+v", c.kind, c.cost, v, want)
			}
		}
		if v := b.Judge(c.cost, 4*time.Second); v != (Verdict{}) {
			t.Errorf("%s: relied on after its time: %+v", c.kind, v)
		}
		if v := b.Judge(9-c.debt, now); c.debt < 9 && v != (Verdict{}) {
			t.Errorf("%s: a cheaper check is denied: %+v", c.kind, v)
		}
	}
}

// Where the broker may have a debt to collect until the time that it told, a dearer
// check waits for what was collected then to have left the window, or for one period
// more.
func TestDenialsOfDearerChecksUnderPostpaid(t *testing.T) {
	for _, c := range []struct {
		kind lease.Kind
		cost int64
		at   time.Duration
	}{
		{lease.TokenBucket, 10, 40 * time.Second},
		{lease.TokenBucket, 15, 45 * time.Second},
		{lease.RollingWindow, 10, 40 * time.Second},
		{lease.RollingWindow, 11, 50*time.Second + late},
		{lease.RollingWindow, 41, 60*time.Second + 2*late}, // with 1 of debt that is not told
		{lease.FixedWindow, 10, 40 * time.Second},
		{lease.FixedWindow, 11, 106 * time.Second},
		{lease.FixedWindow, 41, 172 * time.Second},
	} {
		d := &Denial{Need: 10, At: time.Second, HasRetry: true, Until: 40 * time.Second}
		policy := policyOf(c.kind, 40)
		policy.Postpaid = true
		if at, ok := d.earliest(c.cost, policy); !ok || at != c.at {
			t.Errorf("%s, cost %d: %v, %v, want %v", c.kind, c.cost, at, ok, c.at)
		}
	}
}

// A window that keeps many releases lets some go late. A dearer check than the one that
// the broker has told of is not told to come before they have gone.
func TestDenialsOfABusyWindow(t *testing.T) {
	policy := policyOf(lease.RollingWindow, 40)
	l := lease.NewLedger(rigKey, policy.Rule, 0)
	id := lease.GrantID{Generation: 1, Sequence: 1}
	if err := l.Open(0, id, lease.Holder{Region: "eu", Instance: "a"}, 1, 40); err != nil {
		t.Fatal(err)
	}
	at := lease.Time(0)
	for spent := range int64(40) {
		at = at.Add(17 * time.Millisecond)
		if err := l.Account(at, id, spent+1, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	heard := time.Duration(at)
	wait, ok := l.Retry(at, 10)
	if !ok {
		t.Fatal("no guidance")
	}
	d := &Denial{Need: 10, At: heard, HasRetry: true, Until: heard + wait, MaxUntil: heard + wait}
	for cost := int64(10); cost <= 40; cost++ {
		told, ok := d.earliest(cost, policy)
		after := l.Clone()
		after.Advance(lease.Time(told))
		if !ok || after.Available < cost {
			t.Errorf("a check of %d is told to come at %v, when %d are available", cost, told, after.Available)
		}
	}
}

// A rolling window's word for later than the window stands.
func TestDenialLaterThanTheWindow(t *testing.T) {
	d := &Denial{Need: 1, At: time.Second, HasRetry: true, Until: 30 * time.Second, MaxUntil: 30 * time.Second}
	if at, ok := d.earliest(5, policyOf(lease.RollingWindow, 40)); !ok || at != 30*time.Second {
		t.Errorf("%v, %v", at, ok)
	}
}

func TestDenialsDoNotOverflow(t *testing.T) {
	d := &Denial{Need: 1, At: math.MaxInt64 - 5, HasRetry: true, Until: math.MaxInt64 - 5, MaxUntil: math.MaxInt64}
	for _, kind := range []lease.Kind{lease.TokenBucket, lease.RollingWindow, lease.FixedWindow} {
		if at, ok := d.earliest(math.MaxInt64, policyOf(kind, 1)); ok && at != math.MaxInt64 {
			t.Errorf("%s: %v", kind, at)
		}
	}
	quota := policyOf(lease.TokenBucket, 40)
	quota.Rule.Refill = lease.Rate{}
	if at, ok := d.earliest(2, quota); ok {
		t.Errorf("a quota comes back at %v", at)
	}
}

// What may be spent without a look at the policy: nothing of slots, nothing of what
// is disabled.
func TestMostCost(t *testing.T) {
	slots, disabled, limited := policyOf(lease.Concurrency, 5), policyOf(lease.TokenBucket, 5), policyOf(lease.RollingWindow, 5)
	slots.MaxCost, disabled.Disabled, limited.MaxCost = 3, true, 3
	for _, c := range []struct {
		policy *lease.Policy
		most   int64
	}{
		{nil, 0},
		{slots, 0},
		{disabled, 0},
		{limited, 3},
		{policyOf(lease.FixedWindow, 5), lease.MaxCapacity},
	} {
		if most := (&Outlook{Policy: c.policy}).mostCost(); most != c.most {
			t.Errorf("%+v: %d, want %d", c.policy, most, c.most)
		}
	}
}
