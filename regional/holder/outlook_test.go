package holder

import (
	"math"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

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
		{lease.RollingWindow, 11, 0, 11 * time.Second}, // all that was out has left
		{lease.RollingWindow, 40, 0, 11 * time.Second},
		{lease.RollingWindow, 40, 1, 21 * time.Second}, // two windows
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

// A rolling window's word for later than the window stands.
func TestDenialLaterThanTheWindow(t *testing.T) {
	d := &Denial{Need: 1, At: time.Second, HasRetry: true, Until: 30 * time.Second, MaxUntil: 30 * time.Second}
	if at, ok := d.earliest(5, policyOf(lease.RollingWindow, 40).Rule); !ok || at != 30*time.Second {
		t.Errorf("%v, %v", at, ok)
	}
}

func TestDenialsDoNotOverflow(t *testing.T) {
	d := &Denial{Need: 1, At: math.MaxInt64 - 5, HasRetry: true, Until: math.MaxInt64 - 5, MaxUntil: math.MaxInt64}
	for _, kind := range []lease.Kind{lease.TokenBucket, lease.RollingWindow, lease.FixedWindow} {
		if at, ok := d.earliest(math.MaxInt64, policyOf(kind, 1).Rule); ok && at != math.MaxInt64 {
			t.Errorf("%s: %v", kind, at)
		}
	}
	quota := policyOf(lease.TokenBucket, 40)
	quota.Rule.Refill = lease.Rate{}
	if at, ok := d.earliest(2, quota.Rule); ok {
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
