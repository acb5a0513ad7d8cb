package lease_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// sound is a ledger in the middle of its life: 12 and a half tokens free, 21 out,
// 6.5 to refill.
func sound() lease.Ledger {
	l := newLedger(worked())
	l.Updated, l.Available, l.Remainder = lease.Time(t2s), 12, int64(time.Second)/2
	l.Grants = []lease.Grant{
		{ID: grantID(1), Holder: eu, Epoch: 1, Issued: 30, Spent: 15, Returned: 5, Sequence: 4, Opened: lease.Time(t50ms)},
		{ID: grantID(2), Holder: us, Epoch: 1, Issued: 10, Sequence: 2, Opened: lease.Time(t1s)},
		{ID: grantID(3), Holder: eu, Epoch: 2, Issued: 5, Spent: 4, Sequence: 1, Opened: lease.Time(t1s)},
	}
	return l
}

// Each broken state is reported, by name.
func TestCheckBites(t *testing.T) {
	if l := sound(); l.Check() != nil {
		t.Fatal(l.Check())
	}
	for _, tc := range []struct {
		name  string
		spoil func(*lease.Ledger)
		want  string
	}{
		{"one above the capacity", func(l *lease.Ledger) { l.Available, l.Remainder = 20, 0 }, "exceed the capacity"},
		{"free above the capacity, nothing out", func(l *lease.Ledger) { l.Available, l.Grants = 41, nil }, "exceed the capacity"},
		{"free while too much is out", func(l *lease.Ledger) { l.Available, l.Remainder, l.Rule.Capacity = 1, 0, 10 }, "exceed the capacity"},
		{"a huge available", func(l *lease.Ledger) { l.Available = math.MaxInt64 }, "exceed the capacity"},
		{"negative available", func(l *lease.Ledger) { l.Available = -1 }, "available is negative"},
		{"negative time", func(l *lease.Ledger) { l.Updated = -1 }, "negative time"},
		{"negative fraction", func(l *lease.Ledger) { l.Remainder = -1 }, "fraction"},
		{"a fraction of a whole token", func(l *lease.Ledger) { l.Remainder = int64(time.Second) }, "fraction"},
		{"a fraction without an interval", func(l *lease.Ledger) { l.Rule.Refill = lease.Rate{} }, "fraction"},
		{"a fraction banked at the capacity", func(l *lease.Ledger) { l.Available = 19 }, "banked"},
		{"a fraction banked above the capacity", func(l *lease.Ledger) { l.Available, l.Rule.Capacity = 0, 10 }, "banked"},
		{"a negative cut", func(l *lease.Ledger) { l.Cut = -1 }, "cut of -1"},
		{"a cut made up for in negative time", func(l *lease.Ledger) { l.Cut, l.CutFor = 1, -1 }, "cut of 1"},
		{"no cut is made up for", func(l *lease.Ledger) { l.CutFor = 1 }, "cut of 0"},
		{"an invalid rule", func(l *lease.Ledger) { l.Rule.MaxSharePercent = 0 }, "max share"},
		{"out of order", func(l *lease.Ledger) { l.Grants[0], l.Grants[1] = l.Grants[1], l.Grants[0] }, "out of order"},
		{"one ID twice", func(l *lease.Ledger) { l.Grants[1].ID = grantID(1) }, "out of order"},
		{"two grants of one holder epoch", func(l *lease.Ledger) { l.Grants[2].Epoch = 1 }, "are both of eu/a epoch 1"},
		{"no ID", func(l *lease.Ledger) { l.Grants[0].ID = lease.GrantID{} }, "without an ID"},
		{"no epoch", func(l *lease.Ledger) { l.Grants[0].Epoch = 0 }, "epoch 0"},
		{"negative issued", func(l *lease.Ledger) { l.Grants[1].Issued = -1 }, "out of range"},
		{"issued above the highest", func(l *lease.Ledger) { l.Grants[1].Issued, l.Grants[1].Spent = math.MaxInt64, math.MaxInt64 }, "out of range"},
		{"negative spent", func(l *lease.Ledger) { l.Grants[0].Spent = -1 }, "negative counters"},
		{"negative returned", func(l *lease.Ledger) { l.Grants[0].Returned = -1 }, "negative counters"},
		{"spent above issued", func(l *lease.Ledger) { l.Grants[0].Spent = 26 }, "exceed issued"},
		{"returned above issued", func(l *lease.Ledger) { l.Grants[0].Returned = 31 }, "exceed issued"},
		{"sums that overflow", func(l *lease.Ledger) { l.Grants[0].Spent, l.Grants[0].Returned = math.MaxInt64, math.MaxInt64 }, "exceed issued"},
		{"more out than any capacity", func(l *lease.Ledger) {
			l.Available, l.Remainder, l.Grants[1].Issued = 0, 0, lease.MaxCapacity+1
		}, "more is reserved"},
		{"reserved overflows to nothing", func(l *lease.Ledger) {
			l.Grants[1].Issued, l.Grants[2] = lease.MaxCounter, lease.Grant{ID: grantID(3), Holder: eu, Epoch: 2, Issued: lease.MaxCounter}
		}, "more is reserved"},
	} {
		l := sound()
		tc.spoil(&l)
		checkWrong(t, tc.name, l.Check(), tc.want)
	}
}

// More out than the capacity allows is sound after a policy was lowered.
func TestCheckAllowsMoreOutThanALoweredCapacity(t *testing.T) {
	l := sound()
	l.Available, l.Remainder, l.Rule.Capacity = 0, 0, 10
	if err := l.Check(); err != nil {
		t.Error(err)
	}
}

// Each broken step is reported, though both its ends are sound.
func TestCheckStepBites(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after func(*lease.Ledger)
		want  string
	}{
		{"an unsound end", func(l *lease.Ledger) { l.Available = -1 }, "negative"},
		{"another budget", func(l *lease.Ledger) { l.Key.Account = "other" }, "another budget"},
		{"time goes back", func(l *lease.Ledger) { l.Updated-- }, "went back"},
		{"version goes back", func(l *lease.Ledger) { l.Rule.Version = 0 }, "went back"},
		{"other terms under one version", func(l *lease.Ledger) { l.Rule.MaxSharePercent = 50 }, "version 1 changed"},
		{"issued goes back", func(l *lease.Ledger) { l.Grants[1].Issued-- }, "went back"},
		{"spent goes back", func(l *lease.Ledger) { l.Grants[0].Spent-- }, "went back"},
		{"returned goes back", func(l *lease.Ledger) { l.Grants[0].Returned-- }, "went back"},
		{"sequence goes back", func(l *lease.Ledger) { l.Grants[0].Sequence-- }, "went back"},
		{"a grant changes hands", func(l *lease.Ledger) { l.Grants[0].Holder = ap }, "went back"},
		{"a grant changes its epoch", func(l *lease.Ledger) { l.Grants[0].Epoch = 9 }, "went back"},
		{"a grant opens again", func(l *lease.Ledger) { l.Grants[0].Opened++ }, "went back"},
		{"a token out of nothing", func(l *lease.Ledger) { l.Available++ }, "credit rose"},
		{"a fraction out of nothing", func(l *lease.Ledger) { l.Remainder++ }, "credit rose"},
		{"a token too early", func(l *lease.Ledger) {
			l.Updated, l.Available, l.Remainder = l.Updated.Add(25*time.Millisecond-1), l.Available+1, 0
		}, "credit rose"},
		{"a fraction too early", func(l *lease.Ledger) { l.Updated++; l.Remainder += 21 }, "credit rose"},
		{"credit out of nothing", func(l *lease.Ledger) { l.Grants[1].Issued++ }, "credit rose"},
		{"a grant out of nothing", func(l *lease.Ledger) {
			l.Grants = append(l.Grants, lease.Grant{ID: grantID(4), Holder: ap, Epoch: 1, Issued: 1})
		}, "credit rose"},
		{"a spent grant out of nothing", func(l *lease.Ledger) {
			l.Grants = append(l.Grants, lease.Grant{ID: grantID(4), Holder: ap, Epoch: 1, Issued: 9, Spent: 9})
		}, "credit rose"},
		{"what is settled is free again", func(l *lease.Ledger) { l.Grants[1].Spent++; l.Available++ }, "credit rose"},
		{"returned twice over", func(l *lease.Ledger) { l.Grants[1].Returned++; l.Available += 2 }, "credit rose"},
		{"a fraction with a settlement", func(l *lease.Ledger) { l.Grants[1].Spent++; l.Remainder++ }, "credit rose"},
		{"spent credit of a grant that ends", func(l *lease.Ledger) { l.Grants = l.Grants[:2]; l.Available += 2 }, "credit rose"},
		{"raising mints", func(l *lease.Ledger) { l.Rule.Version, l.Rule.Capacity, l.Available = 2, 50, 22 }, "credit rose"},
		{"the fraction grows with the interval", func(l *lease.Ledger) {
			l.Rule.Version, l.Rule.Refill.Interval, l.Remainder = 2, 2*time.Second, int64(time.Second)+1
		}, "credit rose"},
		{"counters that overflow", func(l *lease.Ledger) {
			l.Grants[0].Issued, l.Grants[0].Spent, l.Grants[0].Returned = lease.MaxCounter, lease.MaxCounter-15, 5
			l.Grants[1].Issued, l.Grants[1].Spent = lease.MaxCounter, lease.MaxCounter-10
		}, "credit rose"},
	} {
		before, after := sound(), sound()
		tc.after(&after)
		if !strings.Contains(tc.want, "negative") && after.Check() != nil {
			t.Errorf("%s: the end is unsound by itself: %v", tc.name, after.Check())
		}
		checkWrong(t, tc.name, lease.CheckStep(&before, &after), tc.want)
	}
}

// What transitions may do is not reported.
func TestCheckStepAllows(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after func(*lease.Ledger)
	}{
		{"nothing", func(*lease.Ledger) {}},
		{"refill", func(l *lease.Ledger) { l.Advance(lease.Time(t3s)) }},
		{"exact refill", func(l *lease.Ledger) { l.Updated++; l.Remainder += 20 }},
		{"less than refill", func(l *lease.Ledger) { l.Updated = l.Updated.Add(t50ms) }},
		{"a grant of all", func(l *lease.Ledger) { l.Grants[1].Issued += 12; l.Available = 0 }},
		{"a settlement", func(l *lease.Ledger) { l.Grants[1].Spent = 10 }},
		{"a return", func(l *lease.Ledger) { l.Grants[1].Returned = 7; l.Available += 7 }},
		{"a return that is lost", func(l *lease.Ledger) { l.Grants[1].Returned = 7 }},
		{"the end of a grant, unspent", func(l *lease.Ledger) { l.Grants = l.Grants[:2]; l.Available++ }},
		{"the end of a grant, spent", func(l *lease.Ledger) { l.Grants = l.Grants[:2] }},
		{"a fraction that is dropped", func(l *lease.Ledger) { l.Remainder = 0 }},
		{"a newer rule", func(l *lease.Ledger) {
			l.Rule.Version, l.Rule.Refill.Interval, l.Remainder = 2, 2*time.Second, int64(time.Second)
		}},
	} {
		before, after := sound(), sound()
		tc.after(&after)
		checkWrong(t, tc.name, lease.CheckStep(&before, &after), "")
	}
}

// Nothing is granted beyond a holder's share, over all its epochs; what is out
// beyond it since the share was smaller, or since earlier epochs have it, stays.
func TestCheckStepHoldsShares(t *testing.T) {
	half := func(l *lease.Ledger) { l.Rule.MaxSharePercent = 50 }
	for _, tc := range []struct {
		name   string
		before func(*lease.Ledger)
		after  func(*lease.Ledger)
		want   string
	}{
		{"up to the share", half, func(l *lease.Ledger) {
			more := 20 - l.HeldBy(l.Grants[1].Holder)
			l.Available -= more
			l.Grants[1].Issued += more
		}, ""},
		{"beyond the share", half, func(l *lease.Ledger) {
			more := 21 - l.HeldBy(l.Grants[1].Holder)
			l.Available -= more
			l.Grants[1].Issued += more
		}, "beyond its share"},
		{"a settlement beyond the share", func(l *lease.Ledger) { l.Rule.MaxSharePercent = 1 }, func(l *lease.Ledger) { l.Grants[1].Spent++ }, ""},
		{"an empty grant beyond the share", func(l *lease.Ledger) { l.Rule.MaxSharePercent = 1 }, func(l *lease.Ledger) {
			l.Grants = append(l.Grants, lease.Grant{ID: grantID(4), Holder: l.Grants[1].Holder, Epoch: 9})
		}, ""},
	} {
		before, after := sound(), sound()
		tc.before(&before)
		tc.before(&after)
		tc.after(&after)
		checkWrong(t, tc.name, lease.CheckStep(&before, &after), tc.want)
	}
	lowered := sound()
	lowered.Rule.Version, lowered.Rule.MaxSharePercent = 2, 1
	lowered.Grants[1].Issued++
	lowered.Available--
	before := sound()
	checkWrong(t, "granted under the version before", lease.CheckStep(&before, &lowered), "")
}

// Refill earns no more than there was room for.
func TestCheckStepBoundsRefillByRoom(t *testing.T) {
	before := sound()
	room := before.Rule.Capacity - before.Available - before.Reserved()
	after := before.Clone()
	after.Updated = after.Updated.Add(time.Hour)
	after.Grants[1].Returned, after.Available, after.Remainder = 7, before.Available+7+room, 0
	checkWrong(t, "a return, and refill of the room before it", lease.CheckStep(&before, &after), "")
	after = before.Clone()
	after.Updated = after.Updated.Add(time.Hour)
	after.Grants[1].Spent, after.Available, after.Remainder = before.Grants[1].Spent+1, before.Available+room+1, 0
	checkWrong(t, "time without room earns credit", lease.CheckStep(&before, &after), "credit rose")
}
