package lease_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
)

// Epochs of different generations never meet, and are in the order of their
// generations.
func TestEpochsOfGenerations(t *testing.T) {
	for _, tc := range []struct {
		generation     uint32
		floor, ceiling uint64
	}{
		{1, 0, 1<<32 - 1},
		{2, 1 << 32, 1<<33 - 1},
		{math.MaxUint32, math.MaxUint64 - (1<<33 - 1), math.MaxUint64 - (1 << 32)},
	} {
		if floor, ceiling := lease.EpochFloor(tc.generation), lease.EpochCeiling(tc.generation); floor != tc.floor || ceiling != tc.ceiling {
			t.Errorf("generation %d: %d to %d, want %d to %d", tc.generation, floor, ceiling, tc.floor, tc.ceiling)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.Uint32Range(1, math.MaxUint32-1).Draw(t, "generation")
		epoch := lease.EpochFloor(g) + 1 + rapid.Uint64Range(0, math.MaxUint32-1).Draw(t, "start")
		if lease.GenerationOf(epoch) != g || epoch > lease.EpochCeiling(g) || epoch >= lease.EpochFloor(g+1) {
			t.Fatalf("epoch %d of generation %d is of %d", epoch, g, lease.GenerationOf(epoch))
		}
	})
}

// What is unknown gives nothing, however long it lasts; attested, it is what a
// budget counted as spent has: refill from that moment on.
func TestUnknownBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := lease.Rule{
			Kind: lease.TokenBucket, Version: 2, Capacity: rapid.Int64Range(0, 1000).Draw(t, "capacity"), MaxSharePercent: 100,
			Refill: lease.Rate{Tokens: rapid.Int64Range(0, 50).Draw(t, "refill"), Interval: time.Second},
		}
		at := lease.Time(rapid.Int64Range(0, 1e12).Draw(t, "at"))
		later := at.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "attested after")))
		now := later.Add(time.Duration(rapid.Int64Range(0, 1e11).Draw(t, "and seen after")))
		key, eu := lease.Key{Account: "acme", Operation: "report.create"}, lease.Holder{Region: "eu", Instance: "limiter-0"}
		l := lease.NewUnknown(key, rule, at, 7, 3)
		id := lease.GrantID{Generation: 7, Shard: 3}
		if room := l.Headroom(later, eu); room != 0 || l.Reserved() != rule.Capacity || l.Check() != nil {
			t.Fatalf("headroom %d of %v: %v", room, &l, l.Check())
		}
		if counted, err := l.Attest(later, id); err != nil || counted != rule.Capacity {
			t.Fatalf("attested %d, %v", counted, err)
		}
		spent := lease.NewSpent(key, rule, later)
		l.Advance(now)
		spent.Advance(now)
		if l.String() != spent.String() || spent.Check() != nil {
			t.Fatalf("%v, want %v", &l, &spent)
		}
	})
}
