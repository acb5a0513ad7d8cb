package regional_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
	"golang.org/x/time/rate"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// plenty is a budget that a benchmark cannot use up.
var plenty = policy{operation: "op", capacity: lease.MaxCapacity, cost: 1}

// BenchmarkHandle compares one check of a handle with x/time/rate's on one key,
// side by side. Credit never runs out, so both admit each time.
func BenchmarkHandle(b *testing.B) {
	l, _ := start(b, newFakeBroker(plenty), nil)
	handle := l.Budget("acme", "op")
	for !handle.AllowN(lease.MaxCapacity / 8) {
		elapse(time.Millisecond) // until the broker has answered
	}
	for handle.Remaining() < lease.MaxCapacity/8 {
		handle.AllowN(lease.MaxCapacity / 8)
		elapse(time.Millisecond)
	}
	limiter := rate.NewLimiter(1e18, 1<<60)
	run := func(name string, check func() bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !check() {
					b.Fatal("denied")
				}
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					check()
				}
			})
		})
	}
	run("tokenlease/AllowN", func() bool { return handle.AllowN(1) })
	run("tokenlease/CheckN", func() bool { return handle.CheckN(b.Context(), 1).Allowed })
	run("rate/Allow", limiter.Allow)
	bounded := bound(b)
	run("bounded/AllowN", func() bool { return bounded.AllowN(1) })
}

// bound is a handle whose policy bounds staleness, so that each check reads clocks.
func bound(b *testing.B) *regional.Budget {
	b.Helper()
	p := plenty
	p.terms = func(out *lease.Policy) { out.MaxStaleness = lease.MaxHold }
	l, _ := start(b, newFakeBroker(p), nil)
	handle := l.Budget("acme", "op")
	for handle.Remaining() < lease.MaxCapacity/8 {
		handle.AllowN(lease.MaxCapacity / 8)
		elapse(time.Millisecond)
	}
	return handle
}

// BenchmarkDecide is a decision as gateways ask for it, with and without an ID, and
// over three budgets.
func BenchmarkDecide(b *testing.B) {
	l, _ := start(b, newFakeBroker(plenty), nil)
	part := func(account string) decision.Part {
		p := decision.Part{Key: lease.Key{Account: account, Operation: "op"}, Cost: decision.Tokens(1)}
		for l.Budget(account, "op").Remaining() < lease.MaxCapacity/8 {
			l.AllowN(account, "op", lease.MaxCapacity/8)
			elapse(time.Millisecond)
		}
		return p
	}
	one, also := decision.Request{Part: part("acme")}, []decision.Part{part("globex"), part("all")}
	run := func(name string, request func(int) decision.Request) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if d := l.Decide(b.Context(), request(i)); !d.Allowed {
					b.Fatalf("got %+v", d)
				}
			}
		})
	}
	run("plain", func(int) decision.Request { return one })
	run("id", func(i int) decision.Request { r := one; r.ID = strconv.Itoa(i); return r })
	run("several", func(int) decision.Request { r := one; r.Also = also; return r })
}

// BenchmarkKeyed compares checks over a million keys in random order, both in
// the same kind of concurrent map.
func BenchmarkKeyed(b *testing.B) {
	const keys = 1_000_000
	l, _ := start(b, newFakeBroker(plenty), func(c *regional.Config) { c.IdleAfter = time.Hour })
	limiters := xsync.NewMap[lease.Key, *rate.Limiter]()
	names := make([]string, keys)
	for i := range names {
		names[i] = "account-" + strconv.Itoa(i)
		l.AllowN(names[i], "op", 1<<50) // has the broker asked for that much
		limiters.Store(lease.Key{Account: names[i], Operation: "op"}, rate.NewLimiter(1e18, 1<<60))
	}
	for i := 0; i < keys; {
		if l.AllowN(names[i], "op", 1) {
			i++
			continue
		}
		elapse(10 * time.Millisecond) // until the broker has answered
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(keys)
	b.ResetTimer()
	b.Run("tokenlease/AllowN", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if !l.AllowN(names[order[i%keys]], "op", 1) {
				b.Fatal("denied")
			}
		}
	})
	b.Run("rate/Allow", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			limiter, _ := limiters.Load(lease.Key{Account: names[order[i%keys]], Operation: "op"})
			if !limiter.Allow() {
				b.Fatal("denied")
			}
		}
	})
}
