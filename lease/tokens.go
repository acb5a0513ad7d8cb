package lease

import (
	"math"
	"math/bits"
	"time"
)

const (
	// MaxCapacity is the largest capacity of a budget, in tokens.
	MaxCapacity int64 = 1_000_000_000_000_000_000
	// MaxCounter bounds the counters of a grant. A grant that has been issued
	// this much gets no more; its holder closes it and opens another.
	MaxCounter int64 = math.MaxInt64 - 1
	// MaxInterval is the longest refill interval.
	MaxInterval = 366 * 24 * time.Hour
)

// Time is ledger time: nanoseconds since the cluster was created, by the owning
// broker's monotonic clock. It never steps back.
type Time int64

// Add is the time d later, or the last representable time.
func (t Time) Add(d time.Duration) Time {
	if d > 0 && int64(t) > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return t + Time(d)
}

// Sub is the time from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Rate is tokens per interval, arriving continuously. The zero Rate never
// refills.
type Rate struct {
	Tokens   int64         `json:"tokens"`
	Interval time.Duration `json:"interval_ns"`
}

// accrue is what the rate earns in elapsed, on top of a fraction of
// remainder/Interval tokens: whole tokens and the new numerator. Whole tokens
// beyond the largest int64 are cut off there.
func (r Rate) accrue(elapsed time.Duration, remainder int64) (tokens, newRemainder int64) {
	if r.Tokens <= 0 || elapsed <= 0 {
		return 0, remainder
	}
	hi, lo := bits.Mul64(uint64(elapsed), uint64(r.Tokens))
	lo, carry := bits.Add64(lo, uint64(remainder), 0)
	hi += carry
	interval := uint64(r.Interval)
	if hi >= interval {
		return math.MaxInt64, 0
	}
	quotient, rest := bits.Div64(hi, lo, interval)
	if quotient > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(quotient), int64(rest)
}

// wait is the shortest time after which the rate has earned tokens on top of
// remainder/Interval, rounded up to a nanosecond. ok is false when it never
// does, or not within the range of a duration.
func (r Rate) wait(tokens, remainder int64) (d time.Duration, ok bool) {
	if tokens <= 0 {
		return 0, true
	}
	if r.Tokens <= 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(tokens), uint64(r.Interval))
	lo, borrow := bits.Sub64(lo, uint64(remainder), 0)
	hi -= borrow
	per := uint64(r.Tokens)
	lo, carry := bits.Add64(lo, per-1, 0) // round up
	hi += carry
	if hi >= per {
		return 0, false
	}
	quotient, _ := bits.Div64(hi, lo, per)
	if quotient > math.MaxInt64 {
		return 0, false
	}
	return time.Duration(quotient), true
}

// rescale turns remainder/r.Interval into a numerator over interval, rounded
// down.
func (r Rate) rescale(remainder int64, interval time.Duration) int64 {
	if remainder <= 0 || r.Interval <= 0 || interval <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(remainder), uint64(interval))
	quotient, _ := bits.Div64(hi, lo, uint64(r.Interval)) // remainder < r.Interval
	return int64(quotient)
}

// proportion is whole*part/total rounded down, for part <= total and total > 0.
func proportion(whole, part, total int64) int64 {
	hi, lo := bits.Mul64(uint64(whole), uint64(part))
	quotient, _ := bits.Div64(hi, lo, uint64(total))
	return int64(quotient)
}

// Wait is the shortest time in which the rate earns tokens, rounded up to a
// nanosecond; ok is false when it never does.
func (r Rate) Wait(tokens int64) (d time.Duration, ok bool) { return r.wait(tokens, 0) }
