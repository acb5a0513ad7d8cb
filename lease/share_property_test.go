package lease_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
)

// What holds for any demands at all.
func TestShareProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool, demands := drawDemands(t, 3)
		levels := lease.Share(pool, demands)
		if again := lease.Share(pool, slices.Clone(demands)); !slices.Equal(levels, again) {
			t.Fatalf("%v, and again %v", levels, again)
		}
		left := max(0, pool)
		meetable, met, hungry := false, false, false
		for i, d := range demands {
			level := levels[i]
			left -= level
			switch {
			case left < 0:
				t.Fatalf("levels %v are more than the pool", levels)
			case level < 0 || level > max(0, min(d.Want, d.Limit)):
				t.Fatalf("level %d of %+v is out of its range", level, d)
			case level > 0 && level < d.Need:
				t.Fatalf("level %d of %+v is of no use", level, d)
			}
			if d.Need > 0 && d.Need <= min(d.Want, d.Limit, pool) {
				meetable = true
			}
			met = met || level > 0
			hungry = hungry || level > 0 && level < min(d.Want, d.Limit)
		}
		if meetable && !met {
			t.Fatalf("a need could be met and none is: %v", levels)
		}
		if hungry && left > 0 {
			t.Fatalf("%d are left while some get less than they could use: %v", left, levels)
		}
	})
}

// With equal weights, Share is what its comment says, read literally.
func TestShareAgreesWithItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool, demands := drawDemands(t, 1)
		if got, want := lease.Share(pool, demands), shareByDefinition(pool, demands); !slices.Equal(got, want) {
			t.Fatalf("levels %v, want %v", got, want)
		}
	})
}

// With any weights and no needs, no level is more than a token away from the
// exact fair share, and nothing is left over that somebody could use.
func TestShareIsWithinATokenOfExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool, demands := drawDemands(t, rapid.SampledFrom([]int64{1, 3, 1_000_000}).Draw(t, "weights"))
		for i := range demands {
			demands[i].Need = 0
		}
		levels, exact := lease.Share(pool, demands), exactShares(pool, demands)
		for i, level := range levels {
			off := new(big.Rat).Sub(whole(level), exact[i])
			if off.Cmp(whole(-1)) <= 0 || off.Cmp(whole(1)) > 0 {
				t.Fatalf("level %d of %+v, exactly %v", level, demands[i], exact[i].FloatString(3))
			}
		}
		sum, exactSum := new(big.Rat), new(big.Rat)
		for i := range levels {
			sum.Add(sum, whole(levels[i]))
			exactSum.Add(exactSum, exact[i])
		}
		if sum.Cmp(exactSum) != 0 {
			t.Fatalf("%v are handed out, and %v could be", sum, exactSum)
		}
	})
}

// Whoever has starved longest is put first and has some need that can be met. As
// the fed go to the end, everybody's turn comes.
func TestShareStarvesNobodyOfEqualNeed(t *testing.T) {
	const n, pool = 7, 12
	type waiting struct{ name, fed int }
	order := make([]waiting, n)
	for i := range order {
		order[i].name = i
	}
	for range n {
		demands := make([]lease.Demand, n)
		for i := range demands {
			demands[i] = lease.Demand{Want: 40, Need: 5, Limit: 40, Weight: 1}
		}
		levels := lease.Share(pool, demands)
		var fed, hungry []waiting
		for i, w := range order {
			if levels[i] >= 5 {
				w.fed++
				fed = append(fed, w)
			} else {
				hungry = append(hungry, w)
			}
		}
		order = slices.Concat(hungry, fed)
	}
	for _, w := range order {
		if w.fed != 2 { // two are fed in each of n rounds
			t.Errorf("%d was fed %d times, want 2", w.name, w.fed)
		}
	}
}

func drawDemands(t *rapid.T, weights int64) (pool int64, demands []lease.Demand) {
	small := rapid.Int64Range(-1, 12)
	mixed := rapid.OneOf(small, small, small, rapid.SampledFrom([]int64{lease.MaxCapacity, math.MaxInt64}))
	for range rapid.IntRange(0, 9).Draw(t, "demands") {
		demands = append(demands, lease.Demand{
			Want: mixed.Draw(t, "want"), Need: max(0, small.Draw(t, "need")), Limit: mixed.Draw(t, "limit"),
			Weight: rapid.Int64Range(1, weights).Draw(t, "weight"),
		})
	}
	return rapid.OneOf(rapid.Int64Range(-1, 60), mixed).Draw(t, "pool"), demands
}

// shareByDefinition starts again from nothing each time that it has dropped the
// last demand that gets less than it needs.
func shareByDefinition(pool int64, demands []lease.Demand) []int64 {
	in := make([]bool, len(demands))
	for i, d := range demands {
		in[i] = d.Need <= min(d.Want, d.Limit, pool)
	}
	for {
		levels, last := levelByDefinition(pool, demands, in), -1
		for i, d := range demands {
			if in[i] && levels[i] < d.Need {
				last = i
			}
		}
		if last < 0 {
			return levels
		}
		in[last] = false
	}
}

// levelByDefinition rounds exact shares down and gives what is left over to the
// first that can use it, one each.
func levelByDefinition(pool int64, demands []lease.Demand, in []bool) []int64 {
	kept := slices.Clone(demands)
	for i := range kept {
		if kept[i].Weight = 1; !in[i] {
			kept[i].Want = 0
		}
	}
	levels, left := make([]int64, len(kept)), max(0, pool)
	for i, exact := range exactShares(pool, kept) {
		levels[i] = floor(exact)
		left -= levels[i]
	}
	for i, d := range kept {
		if left > 0 && levels[i] < min(d.Want, d.Limit) {
			levels[i]++
			left--
		}
	}
	return levels
}

// exactShares is weighted max-min fairness in fractions: fill all at the pace of
// their weights; whoever has enough stops.
func exactShares(pool int64, demands []lease.Demand) []*big.Rat {
	shares := make([]*big.Rat, len(demands))
	left := whole(max(0, pool))
	for i := range shares {
		shares[i] = new(big.Rat)
	}
	for {
		var total int64
		var pace *big.Rat // tokens per weight until the next has enough
		for i, d := range demands {
			if lack := lacks(d, shares[i]); lack.Sign() > 0 {
				total += d.Weight
				if lack.Quo(lack, whole(d.Weight)); pace == nil || lack.Cmp(pace) < 0 {
					pace = lack
				}
			}
		}
		if pace == nil || left.Sign() == 0 {
			return shares
		}
		if all := new(big.Rat).Quo(left, whole(total)); all.Cmp(pace) < 0 {
			pace = all
		}
		for i, d := range demands {
			if lacks(d, shares[i]).Sign() > 0 {
				part := new(big.Rat).Mul(pace, whole(d.Weight))
				shares[i].Add(shares[i], part)
				left.Sub(left, part)
			}
		}
	}
}

func lacks(d lease.Demand, has *big.Rat) *big.Rat {
	return new(big.Rat).Sub(whole(max(0, min(d.Want, d.Limit))), has)
}
