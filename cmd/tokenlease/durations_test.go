package main

import (
	"math"
	"testing"
	"time"
)

// A wait is never told as shorter than it is, and a time that is left never as
// longer.
func TestDurationsInWords(t *testing.T) {
	for _, tc := range []struct {
		d          time.Duration
		wait, left string
	}{
		{0, "0s", "0s"},
		{1, "1ms", "0s"},
		{time.Millisecond, "1ms", "1ms"},
		{time.Millisecond + 1, "2ms", "1ms"},
		{250 * time.Millisecond, "250ms", "250ms"},
		{9*time.Second + 999_000_001, "10s", "9.999s"},
		{10 * time.Second, "10s", "10s"},
		{10*time.Second + 1, "11s", "10s"},
		{59*time.Second + 999_872_058, "1m0s", "59s"},
		{time.Hour, "1h0m0s", "1h0m0s"},
		{math.MaxInt64, "2562047h47m16.854775807s", "2562047h47m16s"},
	} {
		if got := waitInWords(tc.d); got != tc.wait {
			t.Errorf("a wait of %d ns: %q, want %q", tc.d, got, tc.wait)
		}
		if got := timeLeftInWords(tc.d); got != tc.left {
			t.Errorf("%d ns left: %q, want %q", tc.d, got, tc.left)
		}
	}
}
