package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

func TestRetry(t *testing.T) {
	half := worked()
	half.MaxSharePercent = 50
	spend := func(tokens int64) []act { return []act{open(1, eu, tokens), account(1, tokens, 0)} }
	for _, tc := range []struct {
		name   string
		rule   lease.Rule
		before []act // at 0
		at     time.Duration
		tokens int64
		wait   time.Duration
		ok     bool
	}{
		{name: "available now", rule: worked(), tokens: 40, ok: true},
		{name: "nothing is asked for", rule: perSecond(1, 0, 0), tokens: 0, ok: true},
		{name: "less than nothing", rule: worked(), before: spend(40), tokens: math.MinInt64, ok: true},
		{name: "five of an empty budget", rule: worked(), before: spend(40), tokens: 5, wait: 250 * time.Millisecond, ok: true},
		{name: "refill until now counts", rule: worked(), before: spend(40), at: 249 * time.Millisecond, tokens: 5, wait: time.Millisecond, ok: true},
		{name: "and is enough", rule: worked(), before: spend(40), at: 250 * time.Millisecond, tokens: 5, ok: true},
		{name: "what is out may be spent at once", rule: worked(), before: []act{open(1, eu, 40)}, tokens: 5, wait: 250 * time.Millisecond, ok: true},
		{name: "all", rule: worked(), before: spend(40), tokens: 40, wait: t2s, ok: true},
		{name: "never fits", rule: worked(), before: spend(40), tokens: 41},
		{name: "never fits, though it is there", rule: half, tokens: 21},
		{name: "fits the share", rule: half, before: []act{open(1, eu, 20), open(2, us, 20)}, tokens: 20, wait: t1s, ok: true},
		{name: "no refill", rule: perSecond(1, 40, 0), before: spend(40), tokens: 1},
		{name: "rounded up to a nanosecond", rule: perSecond(1, 40, 3), before: spend(40), tokens: 1, wait: 333_333_334, ok: true},
		{name: "beyond a duration", rule: rated(1, 1_000_000_000, lease.Rate{Tokens: 1, Interval: lease.MaxInterval}), before: spend(1_000_000_000), tokens: 1_000_000_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLedger(tc.rule)
			for _, do := range tc.before {
				if err := do(&l, 0); err != nil {
					t.Fatal(err)
				}
			}
			wait, ok := l.Retry(lease.Time(tc.at), tc.tokens)
			if wait != tc.wait || ok != tc.ok {
				t.Errorf("retry in %v, %v; want %v, %v", wait, ok, tc.wait, tc.ok)
			}
		})
	}
}

// Guidance counts from the caller's now, even one before the ledger's.
func TestRetryIsNotEarlyWhenTimeStepsBack(t *testing.T) {
	l := newLedger(worked())
	l.Available = 0
	l.Advance(lease.Time(t2s + t50ms))
	if err := l.Open(lease.Time(t2s+t50ms), grantID(1), eu, 1, 40); err != nil {
		t.Fatal(err)
	}
	if wait, ok := l.Retry(lease.Time(t50ms), 1); wait != t2s+t50ms || !ok {
		t.Errorf("retry in %v, %v; want 2.05s", wait, ok)
	}
	if wait, ok := l.Retry(lease.Time(t50ms), 0); wait != 0 || !ok {
		t.Errorf("retry of nothing in %v, %v; want 0", wait, ok)
	}
	late := newLedger(worked())
	late.Available, late.Updated = 0, math.MaxInt64
	if wait, ok := late.Retry(0, 1); ok {
		t.Errorf("retry in %v, beyond the last duration", wait)
	}
}

// What Retry promises comes true, and not a nanosecond earlier.
func TestRetryIsExact(t *testing.T) {
	for tokens := int64(1); tokens <= 40; tokens++ {
		l := newLedger(perSecond(1, 40, 7))
		l.Available = 0
		wait, ok := l.Retry(0, tokens)
		if !ok {
			t.Fatalf("no guidance for %d", tokens)
		}
		if got := l.Headroom(lease.Time(wait-1), eu); got >= tokens {
			t.Errorf("%d are there before %v", tokens, wait)
		}
		if got := l.Headroom(lease.Time(wait), eu); got != tokens {
			t.Errorf("after %v there are %d, want %d", wait, got, tokens)
		}
	}
}
