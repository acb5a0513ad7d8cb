package lease_test

import (
	"fmt"
	"testing"

	"github.com/tokenlease/tokenlease/lease"
)

// busy is a budget with three grants that never runs out of counters.
func busy(b *testing.B) lease.Ledger {
	b.Helper()
	l := newLedger(perSecond(1, lease.MaxCapacity, 1_000_000_000))
	for i, h := range []lease.Holder{eu, us, ap} {
		if err := l.Open(0, grantID(uint64(1+i)), h, 1, lease.MaxCapacity/4); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

func BenchmarkAdvance(b *testing.B) {
	l := busy(b)
	l.Available = 0
	b.ReportAllocs()
	for now := lease.Time(1); b.Loop(); now++ {
		l.Advance(now)
	}
}

func BenchmarkAccount(b *testing.B) {
	l := busy(b)
	b.ReportAllocs()
	for now := lease.Time(1); b.Loop(); now++ {
		if err := l.Account(now, grantID(2), int64(now), 0, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTopUp(b *testing.B) {
	l := busy(b)
	b.ReportAllocs()
	for now := lease.Time(1); b.Loop(); now++ {
		if err := l.TopUp(now, grantID(2), 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkShare3(b *testing.B) {
	demands := []lease.Demand{
		{Want: 15, Need: 5, Limit: 40, Weight: 1}, {Want: 40, Need: 5, Limit: 40, Weight: 1}, {Want: 30, Need: 5, Limit: 40, Weight: 1},
	}
	b.ReportAllocs()
	for b.Loop() {
		lease.Share(40, demands)
	}
}

// The worst cases: too little for the needs of a thousand holders.
func BenchmarkShare1000(b *testing.B) {
	for _, bc := range []struct{ pool, need, weights int64 }{
		{1000, 0, 1}, {1000, 5, 1}, {300, 1, 1}, {3000, 5, 7}, {300, 1, 7},
	} {
		demands := make([]lease.Demand, 1000)
		for i := range demands {
			demands[i] = lease.Demand{Want: 40 + int64(i)%11, Need: bc.need, Limit: 1000, Weight: 1 + int64(i)%bc.weights}
		}
		b.Run(fmt.Sprintf("pool=%d/need=%d/weights=%d", bc.pool, bc.need, bc.weights), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lease.Share(bc.pool, demands)
			}
		})
	}
}

func BenchmarkParseGrantID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := lease.ParseGrantID("g1-003-0000002a"); err != nil {
			b.Fatal(err)
		}
	}
}
