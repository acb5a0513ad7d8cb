package lease

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// The extremes that every test of the arithmetic goes through, besides random
// numbers.
var (
	someTokens    = []int64{1, 2, 3, 7, 20, 65_535, MaxCapacity - 1, MaxCapacity, MaxCounter, math.MaxInt64}
	someIntervals = []time.Duration{1, 2, 3, 999, time.Second, time.Hour, MaxInterval - 1, MaxInterval}
	someTimes     = []time.Duration{0, 1, 2, time.Millisecond, time.Second - 1, time.Second, 365 * 24 * time.Hour, math.MaxInt64 - 1, math.MaxInt64}
)

func TestAccrue(t *testing.T) {
	for _, tokens := range someTokens {
		for _, interval := range someIntervals {
			for _, elapsed := range someTimes {
				for _, remainder := range []int64{0, int64(interval) / 2, int64(interval) - 1} {
					checkAccrue(t, Rate{tokens, interval}, elapsed, remainder)
				}
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		rate := randomRate(rng)
		checkAccrue(t, rate, time.Duration(randomInt64(rng)), rng.Int64N(int64(rate.Interval)))
	}
}

func FuzzAccrue(f *testing.F) {
	f.Add(int64(20), int64(time.Second), int64(50*time.Millisecond), int64(0))
	f.Add(int64(math.MaxInt64), int64(1), int64(math.MaxInt64), int64(0))
	f.Add(int64(1), int64(MaxInterval), int64(1), int64(MaxInterval)-1)
	f.Fuzz(func(t *testing.T, tokens, interval, elapsed, remainder int64) {
		rate := Rate{max(1, tokens), time.Duration(between(interval, 1, int64(MaxInterval)))}
		checkAccrue(t, rate, time.Duration(max(0, elapsed)), between(remainder, 0, int64(rate.Interval)-1))
	})
}

// checkAccrue compares with the sum in big integers.
func checkAccrue(t *testing.T, r Rate, elapsed time.Duration, remainder int64) {
	t.Helper()
	tokens, rest := r.accrue(elapsed, remainder)
	sum := new(big.Int).Mul(big.NewInt(int64(elapsed)), big.NewInt(r.Tokens))
	sum.Add(sum, big.NewInt(remainder))
	wantTokens, wantRest := new(big.Int).QuoRem(sum, big.NewInt(int64(r.Interval)), new(big.Int))
	if !wantTokens.IsInt64() {
		wantTokens, wantRest = big.NewInt(math.MaxInt64), new(big.Int)
	}
	if tokens != wantTokens.Int64() || rest != wantRest.Int64() {
		t.Errorf("%v accrues %d+%d in %d on top of %d, want %v+%v", r, tokens, rest, elapsed, remainder, wantTokens, wantRest)
	}
}

func TestAccrueOfNothing(t *testing.T) {
	for _, tc := range []struct {
		rate    Rate
		elapsed time.Duration
	}{
		{Rate{}, time.Hour}, {Rate{0, time.Second}, time.Hour}, {Rate{20, time.Second}, 0}, {Rate{20, time.Second}, -1},
		{Rate{20, time.Second}, math.MinInt64},
	} {
		if tokens, rest := tc.rate.accrue(tc.elapsed, 7); tokens != 0 || rest != 7 {
			t.Errorf("%v accrues %d+%d in %v", tc.rate, tokens, rest, tc.elapsed)
		}
	}
}

// Time may be cut in any way: the sum is the same to the fraction.
func TestAccrueAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		rate := Rate{1 + rng.Int64N(MaxCapacity), time.Duration(1 + rng.Int64N(int64(MaxInterval)))}
		one, two := time.Duration(rng.Int64N(int64(time.Minute))), time.Duration(rng.Int64N(int64(time.Minute)))
		all, rest := rate.accrue(one+two, 0)
		if all > math.MaxInt64/2 {
			continue
		}
		first, between := rate.accrue(one, 0)
		second, end := rate.accrue(two, between)
		if first+second != all || end != rest {
			t.Fatalf("%v accrues %d+%d in %v and then %v, and %d+%d at once", rate, first+second, end, one, two, all, rest)
		}
	}
}

func TestWait(t *testing.T) {
	for _, tokens := range someTokens {
		for _, interval := range someIntervals {
			for _, wanted := range someTokens {
				for _, remainder := range []int64{0, int64(interval) / 2, int64(interval) - 1} {
					checkWait(t, Rate{tokens, interval}, wanted, remainder)
				}
			}
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		rate := randomRate(rng)
		checkWait(t, rate, 1+randomInt64(rng)%MaxCapacity, rng.Int64N(int64(rate.Interval)))
	}
}

func FuzzWait(f *testing.F) {
	f.Add(int64(2), int64(time.Second), int64(1), int64(200*time.Millisecond))
	f.Add(int64(1), int64(MaxInterval), int64(math.MaxInt64), int64(0))
	f.Add(int64(math.MaxInt64), int64(1), int64(1), int64(0))
	f.Fuzz(func(t *testing.T, tokens, interval, wanted, remainder int64) {
		rate := Rate{max(1, tokens), time.Duration(between(interval, 1, int64(MaxInterval)))}
		checkWait(t, rate, max(1, wanted), between(remainder, 0, int64(rate.Interval)-1))
	})
}

// checkWait requires the shortest wait: enough has accrued after it, and not a
// nanosecond before. No answer is right only beyond the longest duration.
func checkWait(t *testing.T, r Rate, tokens, remainder int64) {
	t.Helper()
	d, ok := r.wait(tokens, remainder)
	if !ok {
		if got, _ := r.accrue(math.MaxInt64, remainder); got >= tokens && got != math.MaxInt64 {
			t.Errorf("%v: no wait for %d on top of %d, though %d accrue", r, tokens, remainder, got)
		}
		return
	}
	if got, _ := r.accrue(d, remainder); got < tokens {
		t.Errorf("%v: a wait of %d for %d on top of %d is too short by %d", r, d, tokens, remainder, tokens-got)
	}
	if got, _ := r.accrue(d-1, remainder); got >= tokens {
		t.Errorf("%v: a wait of %d for %d on top of %d is too long", r, d, tokens, remainder)
	}
}

func TestWaitEdges(t *testing.T) {
	for _, tc := range []struct {
		name   string
		rate   Rate
		tokens int64
		wait   time.Duration
		ok     bool
	}{
		{"nothing", Rate{20, time.Second}, 0, 0, true},
		{"less than nothing", Rate{}, -1, 0, true},
		{"never", Rate{}, 1, 0, false},
		{"one of the worked example", Rate{20, time.Second}, 1, 50 * time.Millisecond, true},
		{"all of it", Rate{20, time.Second}, 40, 2 * time.Second, true},
		{"rounded up", Rate{3, time.Second}, 1, 333_333_334, true},
		{"the fastest rate", Rate{math.MaxInt64, 1}, math.MaxInt64, 1, true},
		{"the longest duration", Rate{1, 1}, math.MaxInt64, math.MaxInt64, true},
		{"longer", Rate{1, 2}, math.MaxInt64, 0, false},
		{"much longer", Rate{1, MaxInterval}, MaxCapacity, 0, false},
	} {
		if wait, ok := tc.rate.Wait(tc.tokens); wait != tc.wait || ok != tc.ok {
			t.Errorf("%s: %v, %v; want %v, %v", tc.name, wait, ok, tc.wait, tc.ok)
		}
	}
}

func TestRescale(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	check := func(from, to time.Duration, remainder int64) {
		want := new(big.Int).Mul(big.NewInt(remainder), big.NewInt(int64(to)))
		want.Quo(want, big.NewInt(int64(from)))
		if got := (Rate{1, from}).rescale(remainder, to); got != want.Int64() || got >= int64(to) {
			t.Errorf("%d of %d is %d of %d, want %v", remainder, from, got, to, want)
		}
	}
	for _, from := range someIntervals {
		for _, to := range someIntervals {
			check(from, to, int64(from)-1)
			check(from, to, rng.Int64N(int64(from)))
		}
	}
	for _, none := range []int64{
		(Rate{1, 0}).rescale(5, time.Second), (Rate{1, time.Second}).rescale(5, 0), (Rate{1, time.Second}).rescale(0, time.Minute),
	} {
		if none != 0 {
			t.Errorf("a fraction of %d out of nothing", none)
		}
	}
}

func TestProportion(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 20_000 {
		whole, total := randomInt64(rng), 1+randomInt64(rng)%MaxCapacity
		part := rng.Int64N(total + 1)
		want := new(big.Int).Mul(big.NewInt(whole), big.NewInt(part))
		want.Quo(want, big.NewInt(total))
		if got := proportion(whole, part, total); got != want.Int64() {
			t.Fatalf("%d*%d/%d is %d, want %v", whole, part, total, got, want)
		}
	}
	if got := proportion(math.MaxInt64, math.MaxInt64, math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("all of the largest is %d", got)
	}
}

func TestTime(t *testing.T) {
	for _, tc := range []struct {
		from Time
		by   time.Duration
		want Time
	}{
		{0, time.Second, Time(time.Second)},
		{Time(time.Second), -time.Second, 0},
		{math.MaxInt64 - 1, 1, math.MaxInt64},
		{math.MaxInt64 - 1, 2, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
	} {
		if got := tc.from.Add(tc.by); got != tc.want {
			t.Errorf("%d + %d is %d, want %d", tc.from, tc.by, got, tc.want)
		}
	}
	if got := Time(7).Sub(9); got != -2 {
		t.Errorf("7 - 9 is %d", got)
	}
}

// randomInt64 is 0 or more, of any magnitude.
func randomInt64(rng *rand.Rand) int64 { return rng.Int64() >> rng.IntN(63) }

func randomRate(rng *rand.Rand) Rate {
	return Rate{max(1, randomInt64(rng)), time.Duration(1 + randomInt64(rng)%int64(MaxInterval))}
}

// between folds any number into a range.
func between(n, low, high int64) int64 {
	if n >= low && n <= high {
		return n
	}
	return low + int64(uint64(n)%uint64(high-low+1))
}
