package regional_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional"
)

func TestChecksAboveTheRateAreShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newRegistry()
		l, _ := start(t, newFakeBroker(plenty2), func(c *regional.Config) { c.MaxChecksPerSecond, c.Registerer = 100, reg })
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		elapse(time.Second)
		in, shed := 0, 0
		for range 2000 { // 10 s at twice the rate
			switch d := l.Decide(t.Context(), ask()); d.Reason {
			case pb.Reason_REASON_ALLOWED:
				in++
			case pb.Reason_REASON_OVERLOADED:
				shed++
				if d.Allowed || d.Detail == "" || d.HasRetry {
					t.Fatalf("got %+v", d)
				}
			default:
				t.Fatalf("got %+v", d)
			}
			elapse(5 * time.Millisecond)
		}
		if in < 1000 || in > 1010 {
			t.Errorf("%d were let in within 10 s, want 1000 and at most 10 more", in)
		}
		if n := reg.value(t, "tokenlease_limiter_shed_total"); n != float64(shed) {
			t.Errorf("%v of %d are counted", n, shed)
		}
		// What is shed has touched nothing: its ID is free.
		for l.Decide(t.Context(), ask(withID("x"))).Reason != pb.Reason_REASON_OVERLOADED {
		}
		elapse(time.Second)
		handle := l.Budget("acme", "report.create")
		for range 1000 {
			if !handle.CheckN(t.Context(), 1).Allowed {
				t.Fatal("a handle is held to the bounds of requests")
			}
		}
	})
}

// plenty2 has enough for every check of a test.
var plenty2 = policy{operation: "report.create", capacity: 1e9, cost: 1}

func TestBurstsAreOfATenthOfASecond(t *testing.T) {
	for rate, burst := range map[int]int{1: 1, 10: 1, 19: 1, 20: 2, 100: 10, 1000: 100} {
		synctest.Test(t, func(t *testing.T) {
			l, _ := start(t, newFakeBroker(plenty2), func(c *regional.Config) { c.MaxChecksPerSecond = rate })
			elapse(time.Hour) // earns nothing beyond the burst
			in := 0
			for range 2 * burst {
				if l.Decide(t.Context(), ask()).Reason != pb.Reason_REASON_OVERLOADED {
					in++
				}
			}
			if in != burst {
				t.Errorf("%d of a burst are let in at %d/s, want %d", in, rate, burst)
			}
		})
	}
}

func TestChecksAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(plenty2)
		f.delay = 100 * time.Millisecond
		l, _ := start(t, f, func(c *regional.Config) { c.MaxConcurrentChecks = 5 })
		var in, shed atomic.Int64
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if l.Decide(t.Context(), ask()).Reason == pb.Reason_REASON_OVERLOADED {
					shed.Add(1)
				} else {
					in.Add(1)
				}
			})
		}
		group.Wait()
		if in.Load() != 5 || shed.Load() != 15 {
			t.Errorf("%d in and %d shed, want 5 and 15", in.Load(), shed.Load())
		}
		for range 20 { // places are given back, also of what is invalid
			l.Decide(t.Context(), ask(withCost(0)))
			decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		}
		if r, d := l.Reserve(t.Context(), ask()); r == nil {
			t.Errorf("got %+v", d)
		}
	})
}

// What one bound sheds takes no place of the other.
func TestBoundsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(plenty2), func(c *regional.Config) { c.MaxConcurrentChecks, c.MaxChecksPerSecond = 1, 1 })
		for range 3 {
			decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
			for range 5 {
				decide(t, l, ask(), pb.Reason_REASON_OVERLOADED)
			}
			elapse(time.Second)
		}
	})
}

func TestSheddingAllocatesNothing(t *testing.T) {
	l, err := regional.New(regional.Config{Region: "eu", Instance: "a", Clients: []client{newFakeBroker()}, JournalMode: "off", MaxChecksPerSecond: 1})
	if err != nil {
		t.Fatal(err)
	}
	req := ask(withID("x"))
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { l.Decide(ctx, req) }); n > 0 {
		t.Errorf("%v allocations to shed a check", n)
	}
}

func TestConfigBoundsTheRate(t *testing.T) {
	_, err := regional.New(regional.Config{Region: "eu", Instance: "a", Clients: []client{newFakeBroker()}, JournalMode: "off", MaxChecksPerSecond: 10_000_001})
	if err == nil || !strings.Contains(err.Error(), "max checks per second of 10000001 is above 10000000") {
		t.Errorf("got %v", err)
	}
	_, err = regional.New(regional.Config{Region: "eu", Instance: "a", Clients: []client{newFakeBroker()}, JournalMode: "off", SyncInterval: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "a sync interval of 1m0s is above 1s") {
		t.Errorf("got %v", err)
	}
	for _, change := range []func(*regional.Config){
		func(c *regional.Config) { c.ReplayFor = -1 }, func(c *regional.Config) { c.MaxReplays = -1 },
		func(c *regional.Config) { c.MaxQueue = -1 }, func(c *regional.Config) { c.MaxQueueTotal = -1 },
		func(c *regional.Config) { c.MaxReservations = -1 }, func(c *regional.Config) { c.MaxConcurrentChecks = -1 },
		func(c *regional.Config) { c.MaxChecksPerSecond = -1 },
	} {
		cfg := regional.Config{Region: "eu", Instance: "a", Clients: []client{newFakeBroker()}, JournalMode: "off"}
		change(&cfg)
		if _, err := regional.New(cfg); err == nil || !strings.Contains(err.Error(), "durations and bounds must not be negative") {
			t.Errorf("got %v", err)
		}
	}
}
