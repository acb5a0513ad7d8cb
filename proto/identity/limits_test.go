package identity

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

func newLimits(cfg LimitsConfig) *limits {
	l := &limits{cfg: cfg, callers: map[string]*rate.Limiter{}}
	l.others = newAllowance(cfg)
	return l
}

func TestLimitsAreOfEachCaller(t *testing.T) {
	l := newLimits(LimitsConfig{PerSecond: 2, Burst: 3, MaxCallers: 10})
	t0 := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		caller string
		at     time.Duration
		want   bool
	}{
		{"a", 0, true}, {"a", 0, true}, {"a", 0, true}, {"a", 0, false},
		{"b", 0, true},
		{"a", 499 * time.Millisecond, false}, {"a", 500 * time.Millisecond, true}, {"a", 500 * time.Millisecond, false},
	} {
		if got := l.allow(step.caller, t0.Add(step.at)); got != step.want {
			t.Errorf("%s at %v: %v, want %v", step.caller, step.at, got, step.want)
		}
	}
}

// However many names there are, the table has a bound; those without a place share
// one allowance, and places come free as callers rest.
func TestLimitsTableIsBounded(t *testing.T) {
	l := newLimits(LimitsConfig{PerSecond: 1, Burst: 2, MaxCallers: 3})
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	let := 0
	for i := range 100 {
		if l.allow(fmt.Sprint("caller ", i), now) {
			let++
		}
	}
	if len(l.callers) != 3 || let != 3+2 {
		t.Errorf("100 callers have %d places and %d calls, want 3 and 5", len(l.callers), let)
	}
	now = now.Add(time.Second)
	if !l.allow("late", now) || len(l.callers) != 1 {
		t.Errorf("after a second of rest there are %d places taken, want that of the new caller alone", len(l.callers))
	}
}
