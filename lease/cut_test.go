package lease_test

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// A record that may be dropped comes back as a full bucket under whatever policy
// is in force then. So a bucket that only a lower capacity has filled is not
// full until refill has made up for what was spent.
func TestFullRemembersWhatALowerCapacityHides(t *testing.T) {
	type line struct {
		at   time.Duration
		do   act
		free int64
		full bool
	}
	lowered := func(steps ...line) []line {
		return append([]line{
			{t0, open(1, eu, 5), 5, false},
			{t0, closeGrant(1, 5, 0), 5, false},
			{t0, install(perSecond(2, 5, 1)), 5, false},
		}, steps...)
	}
	for _, tc := range []struct {
		name  string
		lines []line
	}{
		{"made up for by time at the rate", lowered(
			line{t3s, advance(), 5, false},
			line{5*time.Second - 1, advance(), 5, false},
			line{5 * time.Second, advance(), 5, true},
		)},
		{"raised again: what was spent is still spent", lowered(
			line{t0, install(perSecond(3, 10, 1)), 5, false},
			line{5*time.Second - 1, advance(), 9, false},
			line{5 * time.Second, advance(), 10, true},
		)},
		{"raised beyond", lowered(
			line{t0, install(perSecond(3, 100, 1)), 5, false},
			line{95 * time.Second, advance(), 100, true},
		)},
		{"lowered twice", lowered(
			line{t0, install(perSecond(3, 2, 1)), 2, false},
			line{t3s, advance(), 2, false},
			line{5 * time.Second, advance(), 2, true},
		)},
		{"time before a further change counts", lowered(
			line{t3s, install(perSecond(3, 4, 1)), 4, false},
			line{5*time.Second - 1, advance(), 4, false},
			line{5 * time.Second, advance(), 4, true},
		)},
		{"without refill it is never made up for", lowered(
			line{t0, install(perSecond(3, 5, 0)), 5, false},
			line{1000 * time.Hour, advance(), 5, false},
			line{1000 * time.Hour, install(perSecond(4, 10, 0)), 5, false},
		)},
		{"what was out and comes back unspent was never spent", []line{
			{t0, open(1, eu, 10), 0, false},
			{t0, install(perSecond(2, 4, 1)), 0, false},
			{t0, closeGrant(1, 0, 0), 4, true},
		}},
		{"what was out and is spent is to be made up for", []line{
			{t0, open(1, eu, 10), 0, false},
			{t0, install(perSecond(2, 4, 1)), 0, false},
			{t0, closeGrant(1, 10, 0), 0, false},
			{4 * time.Second, advance(), 4, false},
			{10*time.Second - 1, advance(), 4, false},
			{10 * time.Second, advance(), 4, true},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLedger(perSecond(1, 10, 1))
			for i, line := range tc.lines {
				if err := runTransition(&l, line.at, line.do); err != nil {
					t.Fatalf("step %d: %v", i+1, err)
				}
				if l.Available != line.free || l.Full() != line.full {
					t.Fatalf("step %d: %v free, full is %v, cut %d for %v; want %d, %v",
						i+1, l.Available, l.Full(), l.Cut, l.CutFor, line.free, line.full)
				}
			}
		})
	}
}

// The longest time does not overflow what a cut has been made up for.
func TestCutOutlastsAllTime(t *testing.T) {
	l := newLedger(rated(1, 1000, lease.Rate{Tokens: 1, Interval: lease.MaxInterval}))
	l.Available, l.Rule.Capacity, l.Cut, l.CutFor = 500, 500, 500, 1<<62
	for _, now := range []lease.Time{1, 1 << 62, 1<<63 - 1} {
		if l.Advance(now); l.Full() || l.Check() != nil {
			t.Errorf("at %d: full is %v, %v", now, l.Full(), l.Check())
		}
	}
}
