package workload

import (
	"math"
	"math/rand/v2"
	"slices"
)

// table draws an index by weight.
type table struct {
	upTo []uint64 // the weights up to and with this index; nil: all alike
	n    int
	only int // with n = 1: the one index that has a weight
}

// newTable needs a weight above 0, and their sum below 2^64.
func newTable(weights []uint64) table {
	t := table{upTo: make([]uint64, len(weights))}
	var sum uint64
	for i, w := range weights {
		if w > 0 {
			t.n, t.only = t.n+1, i
		}
		sum += w
		t.upTo[i] = sum
	}
	return t
}

// zipfTable weighs index i by (i+1)^-exponent. Weights are whole, so that the
// draw is exact; the smallest is 1.
func zipfTable(n int, exponent float64) table {
	if exponent == 0 || n == 1 {
		return table{n: n}
	}
	const scale = 1 << 40
	weights := make([]uint64, n)
	for i := range weights {
		weights[i] = max(1, uint64(scale*math.Pow(float64(i+1), -exponent)))
	}
	return newTable(weights)
}

// draw takes from rng only if there is a choice.
func (t *table) draw(rng *rand.Rand) int {
	switch {
	case t.n == 1:
		return t.only
	case t.upTo == nil:
		return rng.IntN(t.n)
	}
	drawn := rng.Uint64N(t.upTo[len(t.upTo)-1])
	at, found := slices.BinarySearch(t.upTo, drawn)
	for found && t.upTo[at] == drawn {
		at++ // index i has what is below upTo[i]; weights of 0 share their bound
		found = at < len(t.upTo)
	}
	return at
}
