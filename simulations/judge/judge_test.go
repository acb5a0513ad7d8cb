package judge_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/judge"
)

const ms, second = time.Millisecond, time.Second

func rule(version, capacity, refill int64, interval time.Duration) lease.Rule {
	return lease.Rule{
		Kind: lease.TokenBucket, Version: version, Capacity: capacity, MaxSharePercent: 100,
		Refill: lease.Rate{Tokens: refill, Interval: interval},
	}
}

// admission is one, and by how much the worst interval that it ends is above the
// cap, in whole tokens rounded up.
type admission struct {
	at     time.Duration
	tokens int64
	over   int64
}

func TestAdmissions(t *testing.T) {
	year := 365 * 24 * time.Hour
	for _, tc := range []struct {
		name string
		rule lease.Rule
		all  []admission
	}{
		{"the worked example", rule(1, 40, 20, second), []admission{
			{0, 40, 0}, {50 * ms, 1, 0}, {50 * ms, 1, 1},
		}},
		{"full again two seconds after empty, and no fuller", rule(1, 40, 20, second), []admission{
			{0, 40, 0}, {2 * second, 40, 0}, {9 * second, 41, 1},
		}},
		{"what is above stays above until it is refilled", rule(1, 40, 20, second), []admission{
			{0, 120, 80}, {second, 5, 65}, {4250 * ms, 1, 1}, {4300 * ms, 1, 1}, {4400 * ms, 1, 0},
		}},
		{"a nanosecond early", rule(1, 1, 3, second), []admission{
			{0, 1, 0}, {333_333_333, 1, 1}, {666_666_667, 1, 0}, {1_000_000_000, 1, 1},
		}},
		{"a nanosecond later", rule(1, 1, 3, second), []admission{
			{0, 1, 0}, {333_333_334, 1, 0}, {666_666_668, 1, 0}, {1_000_000_002, 1, 0},
		}},
		{"no refill", rule(1, 4, 0, 0), []admission{{0, 4, 0}, {year, 1, 1}}},
		{"no capacity", rule(1, 0, 0, 0), []admission{{0, 0, 0}, {0, 1, 1}}},
		{"the largest", rule(1, lease.MaxCapacity, 1, lease.MaxInterval), []admission{
			{0, lease.MaxCapacity, 0}, {lease.MaxInterval - 1, 1, 1}, {2 * lease.MaxInterval, 1, 0},
		}},
		{"the fastest", rule(1, 9, math.MaxInt64, 1), []admission{{0, 9, 0}, {1, 9, 0}, {1, 1, 1}, {year, 9, 0}}},
	} {
		j := judge.New(tc.rule)
		var worst int64
		var when time.Duration
		for i, a := range tc.all {
			err := j.Admit(a.at, a.tokens)
			if (err != nil) != (a.over > 0) {
				t.Errorf("%s: admission %d: %v, want %d above", tc.name, i+1, err, a.over)
			}
			if a.over > worst {
				worst, when = a.over, a.at
			}
			if excess, at := j.Excess(); excess != worst || at != when {
				t.Errorf("%s: admission %d: excess %d at %v, want %d at %v", tc.name, i+1, excess, at, worst, when)
			}
		}
	}
}

func TestComplaint(t *testing.T) {
	err := judge.New(rule(1, 40, 3, second)).Admit(0, 42)
	if want := "over-admission: 2.000 tokens above capacity 40 and refill 3/1s"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	j := judge.New(rule(1, 40, 3, second))
	if j.Admit(0, 40) != nil {
		t.Fatal("refused what fits")
	}
	if err := j.Admit(250*ms, 1); err == nil || !strings.HasPrefix(err.Error(), "over-admission: 0.250 tokens") {
		t.Error(err)
	}
}

// Admissions that come at an earlier time than the one before do not make up
// time twice.
func TestEarlierAdmission(t *testing.T) {
	j := judge.New(rule(1, 10, 10, second))
	for _, a := range []admission{{0, 10, 0}, {second, 10, 0}, {500 * ms, 0, 0}} {
		if err := j.Admit(a.at, a.tokens); err != nil {
			t.Fatal(err)
		}
	}
	if j.Admit(second, 1) == nil {
		t.Error("half a second was counted twice")
	}
}

// A higher capacity is allowed from when it is written, a lower one binds later.
func TestVersions(t *testing.T) {
	j := judge.New(rule(1, 40, 20, second))
	admit := func(at time.Duration, tokens int64, ok bool) {
		t.Helper()
		if err := j.Admit(at, tokens); (err == nil) != ok {
			t.Errorf("%d at %v: %v", tokens, at, err)
		}
	}
	admit(0, 40, true)
	j.Written(0, rule(2, 60, 20, second))
	admit(0, 20, true) // the ledger would not; but 60 are in force
	admit(0, 1, false)
	j.Written(4*second, rule(3, 10, 5, second))
	if j.Capacity() != 60 {
		t.Errorf("capacity %d before the lower one binds", j.Capacity())
	}
	admit(4*second, 60, true)
	j.Bind(4 * second)
	if j.Capacity() != 10 {
		t.Errorf("capacity %d when the lower one binds", j.Capacity())
	}
	admit(4*second, 0, true)
	// By the intervals that begin before version 3 binds, refill is 20 a second and
	// 20 are there; by those that begin later, 10 and 5 a second.
	admit(5*second, 10, true)
	admit(5*second, 1, false)
	j.Bind(6 * second) // again changes nothing
	admit(6*second, 5, false)
}

// A ledger binds its version once no more than its capacity is out.
func TestLedgerBinds(t *testing.T) {
	lower := rule(2, 10, 0, 0)
	for _, tc := range []struct {
		name      string
		version   int64
		available int64
		reserved  int64
		want      int64
	}{
		{"more is out", 2, 0, 11, 40},
		{"no more is out", 2, 3, 7, 10},
		{"another version", 1, 0, 0, 40},
	} {
		j := judge.New(rule(1, 40, 0, 0))
		j.Written(0, lower)
		l := &lease.Ledger{Rule: lower, Available: tc.available}
		l.Rule.Version = tc.version
		if tc.reserved > 0 {
			l.Grants = []lease.Grant{{Issued: tc.reserved}}
		}
		if j.Ledger(second, l); j.Capacity() != tc.want {
			t.Errorf("%s: capacity %d, want %d", tc.name, j.Capacity(), tc.want)
		}
	}
}

// A version that was written before an older one binds is in force all the same.
func TestWrittenBeforeAnotherBinds(t *testing.T) {
	j := judge.New(rule(1, 40, 1, second))
	j.Written(0, rule(2, 10, 1, second))
	j.Written(0, rule(3, 90, 2, 2*second))
	l := lease.NewLedger(lease.Key{}, rule(2, 10, 1, second), 0)
	if j.Ledger(0, &l); j.Capacity() != 90 {
		t.Errorf("capacity %d, want that of version 3", j.Capacity())
	}
}

func BenchmarkAdmit(b *testing.B) {
	j := judge.New(rule(1, 40, 1000, second))
	for i := 0; b.Loop(); i++ {
		if j.Admit(time.Duration(i)*ms, 1) != nil {
			b.Fatal("one too many")
		}
	}
}
