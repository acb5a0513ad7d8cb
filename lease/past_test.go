package lease_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// fullAtLast says that the ledger is full once nothing is remembered for the rules of
// other kinds that there were before.
func fullAtLast(l *lease.Ledger) bool {
	c := l.Clone()
	c.Past = 0
	if l.Past < math.MaxInt64 {
		c = l.Clone()
		c.Advance(max(l.Updated, l.Past))
	}
	return c.Full()
}

// A rule in between that remembers less must not let a record go which the rule of
// before needs: what was spent would be there again when that comes back.
func TestRecordOutlivesRulesInBetween(t *testing.T) {
	hour := 3600 * t1s
	bucket := func(version int64) lease.Rule {
		return lease.Rule{Kind: lease.TokenBucket, Version: version, Capacity: 10, MaxSharePercent: 100, Refill: lease.Rate{Tokens: 10, Interval: time.Hour}}
	}
	quota := bucket(1)
	quota.Refill = lease.Rate{}
	slots := lease.Rule{Kind: lease.Concurrency, Version: 2, Capacity: 10, MaxSharePercent: 100}
	short := lease.Rule{Kind: lease.RollingWindow, Version: 2, Capacity: 10, Window: time.Second, MaxSharePercent: 100}
	month := lease.Rule{Kind: lease.FixedWindow, Version: 1, Capacity: 10, Period: lease.Month, Zone: "UTC", MaxSharePercent: 100}
	for _, tc := range []struct {
		name      string
		from, via lease.Rule
		kept      time.Duration // how long the record stays after the last settlement; below 0: for ever
	}{
		{"a bucket, by slots", bucket(1), slots, hour},
		{"a bucket, by a short window", bucket(1), short, hour},
		{"a quota, by slots", quota, slots, -1},
		{"a month, by slots", month, slots, 33 * 24 * hour},
	} {
		l := newLedger(tc.from)
		for i, s := range []step{
			{at: t0, do: open(1, eu, 10)}, {at: t0, do: account(1, 4, 0)}, {at: t1s, do: install(tc.via)},
			{at: 60 * t1s, do: closeGrant(1, 10, 0)}, // six that were out are spent under the rule in between
		} {
			if err := runTransition(&l, s.at, s.do); err != nil {
				t.Fatalf("%s: step %d: %v", tc.name, i+1, err)
			}
		}
		if tc.kept < 0 {
			l.Advance(math.MaxInt64 - 1)
			if l.Full() {
				t.Errorf("%s: the record goes", tc.name)
			}
			continue
		}
		if l.Advance(lease.Time(60*t1s + tc.kept - 1)); l.Full() {
			t.Errorf("%s: the record goes early", tc.name)
		}
		if l.Advance(lease.Time(60*t1s + tc.kept)); !l.Full() {
			t.Errorf("%s: the record stays: %v until %d", tc.name, &l, l.Past)
		}
	}
}

// A grant of slots that its holder has ended is kept beside a new one of the same
// epoch, and not topped up.
func TestKeptGrantIsNotLive(t *testing.T) {
	l := newLedger(lease.Rule{Kind: lease.Concurrency, Version: 1, Capacity: 10, MaxSharePercent: 100})
	for i, s := range []step{{at: t0, do: open(1, eu, 5)}} {
		if err := runTransition(&l, s.at, s.do); err != nil {
			t.Fatalf("step %d: %v", i+1, err)
		}
	}
	if err := l.CloseHeld(1, grantID(1), 0, 0, 0, 3); err != nil {
		t.Fatal(err)
	}
	if l.Live(eu, 1) != nil || l.Available != 7 {
		t.Errorf("kept: %v", &l)
	}
	if err := l.Open(2, grantID(2), eu, 1, 7); err != nil || l.Check() != nil {
		t.Errorf("another beside it: %v, %v", err, l.Check())
	}
	if l.Live(eu, 1).ID != grantID(2) {
		t.Error("the one that was ended is live")
	}
	before := l.Clone()
	after := l.Clone()
	after.Grants[0].Kept = false
	after.Grants[1].Kept = true
	if err := lease.CheckStep(&before, &after); err == nil {
		t.Error("a grant is kept no more, unseen")
	}
}

// Checkers see what is remembered for rules of before.
func TestCheckOfPast(t *testing.T) {
	l := newLedger(lease.Rule{Kind: lease.Concurrency, Version: 1, Capacity: 10, MaxSharePercent: 100})
	l.Past, l.PastFor = 9, 9
	after := l.Clone()
	after.Past = 8
	if err := lease.CheckStep(&l, &after); err == nil || !strings.Contains(err.Error(), "forgets other kinds") {
		t.Errorf("forgotten: %v", err)
	}
	l.Past = -1
	if err := l.Check(); err == nil || !strings.Contains(err.Error(), "remembers others") {
		t.Errorf("negative: %v", err)
	}
}
