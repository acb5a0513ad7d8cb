package lease_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tokenlease/tokenlease/lease"
)

func TestShare(t *testing.T) {
	want := func(tokens ...int64) (demands []lease.Demand) {
		for _, n := range tokens {
			demands = append(demands, lease.Demand{Want: n, Limit: math.MaxInt64, Weight: 1})
		}
		return demands
	}
	need := func(want, need int64) lease.Demand {
		return lease.Demand{Want: want, Need: need, Limit: math.MaxInt64, Weight: 1}
	}
	weighted := func(want, weight int64) lease.Demand {
		return lease.Demand{Want: want, Limit: math.MaxInt64, Weight: weight}
	}
	for _, tc := range []struct {
		name    string
		pool    int64
		demands []lease.Demand
		levels  []int64
	}{
		{"nobody", 40, nil, []int64{}},
		{"enough for all", 40, want(15, 15, 10), []int64{15, 15, 10}},
		{"equal parts", 40, want(40, 40), []int64{20, 20}},
		{"the modest are served whole", 40, want(3, 100, 100), []int64{3, 19, 18}},
		{"and in turn", 40, want(3, 100, 10, 100), []int64{3, 14, 10, 13}},
		{"leftovers go to the first", 5, want(9, 9, 9), []int64{2, 2, 1}},
		{"fewer than demands", 2, want(9, 9, 9), []int64{1, 1, 0}},
		{"nothing to share", 0, want(9, 9), []int64{0, 0}},
		{"a negative pool", -5, want(9, 9), []int64{0, 0}},
		{"negative wants", 10, want(-9, 9), []int64{0, 9}},
		{"limits", 40, []lease.Demand{{Want: 40, Limit: 10}, {Want: 40, Limit: 40}, {Want: 40, Limit: -1}}, []int64{10, 30, 0}},
		{"weights", 40, []lease.Demand{weighted(40, 3), weighted(40, 1)}, []int64{30, 10}},
		{"weights below 1", 40, []lease.Demand{weighted(40, 0), weighted(40, -7)}, []int64{20, 20}},
		{"weights beyond the highest", 40, []lease.Demand{weighted(40, math.MaxInt64), weighted(40, 1_000_000)}, []int64{20, 20}},
		{"the heavy are served whole", 40, []lease.Demand{weighted(10, 9), weighted(40, 1), weighted(40, 2)}, []int64{10, 10, 20}},
		{"a need that is met", 20, []lease.Demand{need(40, 5), need(40, 5)}, []int64{10, 10}},
		{"the last gives way", 9, []lease.Demand{need(40, 5), need(40, 5)}, []int64{9, 0}},
		{"one by one", 11, []lease.Demand{need(40, 5), need(40, 5), need(40, 5)}, []int64{6, 5, 0}},
		{"a leftover token meets a need", 3, []lease.Demand{need(9, 2), need(9, 1)}, []int64{2, 1}},
		{"only as far as leftovers go", 3, []lease.Demand{need(9, 1), need(9, 2)}, []int64{3, 0}},
		{"a need above the pool is no reason to drop others", 8, []lease.Demand{need(40, 10), need(5, 5)}, []int64{0, 5}},
		{"nor one above its limit", 8, []lease.Demand{{Want: 40, Need: 10, Limit: 5}, need(5, 5)}, []int64{0, 5}},
		{"nor one above its want", 8, []lease.Demand{need(5, 6), need(5, 5)}, []int64{0, 5}},
		{"what is dropped helps those before", 12, []lease.Demand{need(40, 6), need(3, 0), need(40, 5)}, []int64{9, 3, 0}},
		{"the longest starved with the larger need gives way to many small ones", 12,
			[]lease.Demand{need(40, 8), need(40, 1), need(40, 1)}, []int64{0, 6, 6}},
		{"rounding takes a token from one that was passed", 9, []lease.Demand{
			{Want: 3, Need: 2, Limit: 40, Weight: 5}, {Want: 2, Need: 2, Limit: 40, Weight: 2}, {Want: 5, Need: 3, Limit: 40, Weight: 6},
			{Want: 3, Need: 1, Limit: 40, Weight: 6}, {Want: 6, Need: 1, Limit: 40, Weight: 5},
		}, []int64{3, 0, 0, 3, 3}},
		{"the largest numbers", math.MaxInt64, want(math.MaxInt64, math.MaxInt64), []int64{math.MaxInt64/2 + 1, math.MaxInt64 / 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			given := slices.Clone(tc.demands)
			if got := lease.Share(tc.pool, tc.demands); !slices.Equal(got, tc.levels) {
				t.Errorf("levels %v, want %v", got, tc.levels)
			}
			if !slices.Equal(given, tc.demands) {
				t.Error("the demands were changed")
			}
		})
	}
}

// Without needs and with equal weights the levels are as even as whole tokens
// can be: of all the ways to hand out what can be handed out, none has a better
// least level, then a better second, and so on.
func TestShareIsMaxMinFair(t *testing.T) {
	const most = 4
	for pool := range int64(14) {
		for _, wants := range allWants(3, most) {
			demands := make([]lease.Demand, len(wants))
			for i, n := range wants {
				demands[i] = lease.Demand{Want: n, Limit: most, Weight: 1}
			}
			got := slices.Sorted(slices.Values(lease.Share(pool, demands)))
			if best := fairest(pool, wants); !slices.Equal(got, best) {
				t.Fatalf("pool %d of %v: %v, and %v is fairer", pool, wants, got, best)
			}
		}
	}
}

// allWants lists all sequences of n numbers from 0 to most.
func allWants(n int, most int64) [][]int64 {
	if n == 0 {
		return [][]int64{nil}
	}
	var all [][]int64
	for _, rest := range allWants(n-1, most) {
		for first := range most + 1 {
			all = append(all, append([]int64{first}, rest...))
		}
	}
	return all
}

// fairest tries every allocation and keeps the one whose sorted levels are
// highest, the least first.
func fairest(pool int64, wants []int64) (best []int64) {
	levels := make([]int64, len(wants))
	var try func(i int, left int64)
	try = func(i int, left int64) {
		if i == len(wants) {
			if sorted := slices.Sorted(slices.Values(levels)); slices.Compare(sorted, best) > 0 {
				best = sorted
			}
			return
		}
		for n := int64(0); n <= min(left, wants[i]); n++ {
			levels[i] = n
			try(i+1, left-n)
		}
	}
	try(0, pool)
	return best
}
