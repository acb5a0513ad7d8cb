package judge

import (
	"math"
	"math/bits"
)

// wide is an unsigned number of 128 bits: the largest capacity times the longest
// interval fits a thousand times over.
type wide struct{ hi, lo uint64 }

// product of two numbers that are not negative.
func product(a, b int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return wide{hi, lo}
}

// plus is w + v, at most the largest: a sum that is too small only lets off.
func (w wide) plus(v wide) wide {
	lo, carry := bits.Add64(w.lo, v.lo, 0)
	hi, carry := bits.Add64(w.hi, v.hi, carry)
	if carry != 0 {
		return wide{math.MaxUint64, math.MaxUint64}
	}
	return wide{hi, lo}
}

// minus is w - v, and 0 where v is more.
func (w wide) minus(v wide) wide {
	lo, borrow := bits.Sub64(w.lo, v.lo, 0)
	hi, borrow := bits.Sub64(w.hi, v.hi, borrow)
	if borrow != 0 {
		return wide{}
	}
	return wide{hi, lo}
}

// plus is a + b for b that is not negative, at most the largest.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (w wide) isZero() bool { return w.hi == 0 && w.lo == 0 }

// divide is w / by, rounded down, and the rest. A quotient beyond the largest
// int64 is cut off there.
func (w wide) divide(by int64) (quotient, rest int64) {
	if w.hi >= uint64(by) {
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(w.hi, w.lo, uint64(by))
	if q > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(q), int64(r)
}
