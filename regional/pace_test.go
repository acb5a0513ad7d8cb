package regional_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// steady refills ten tokens a second.
var steady = policy{operation: "report.create", capacity: 10, refill: lease.Rate{Tokens: 10, Interval: time.Second}, cost: 1}

func withWait(d time.Duration) func(*decision.Request) {
	return func(r *decision.Request) { r.MaxWait = d }
}

// drain spends all that there is.
func drain(t *testing.T, l *regional.Limiter) {
	t.Helper()
	for range 1000 {
		if !l.Check(t.Context(), "acme", "report.create").Allowed {
			return
		}
	}
	t.Fatal("a budget without end")
}

func TestWaitIsServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(steady), nil)
		drain(t, l)
		began := time.Now()
		var mu sync.Mutex
		var served []int
		var group sync.WaitGroup
		for i := range 30 {
			group.Go(func() {
				if d := l.Wait(t.Context(), "acme", "report.create", 1); !d.Allowed {
					t.Errorf("%d: got %+v", i, d)
				}
				mu.Lock()
				defer mu.Unlock()
				served = append(served, i)
			})
			synctest.Wait() // it stands in line
		}
		group.Wait()
		for i, place := range served {
			if i != place {
				t.Fatalf("served in the order %v", served)
			}
		}
		if took := time.Since(began); took < 2*time.Second || took > 6*time.Second {
			t.Errorf("30 tokens at 10/s took %v", took)
		}
	})
}

func TestCase21PrioritiesAtFullLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(steady), func(c *regional.Config) { c.MaxQueue = 10_000 })
		drain(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		var counts [2]atomic.Int64
		var group sync.WaitGroup
		for i := range 40 { // 20 of each priority ask again and again
			group.Go(func() {
				for ctx.Err() == nil {
					d := l.Decide(ctx, ask(withWait(time.Minute), func(r *decision.Request) {
						r.Priority = pb.Priority_PRIORITY_NORMAL + pb.Priority(i%2)
					}))
					if d.Allowed {
						counts[i%2].Add(1)
					}
				}
			})
		}
		elapse(60 * time.Second)
		cancel()
		group.Wait()
		normal, high := counts[0].Load(), counts[1].Load()
		if total := normal + high; total < 300 || normal < total/8-1 || normal > total/8+2 {
			t.Errorf("%d of normal and %d of high priority were served, want one turn in eight for normal", normal, high)
		}
	})
}

func TestCase20TwoHundredCallersThatWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(policy{operation: "report.create", capacity: 1000, cost: 5})
		f.delay = 20 * time.Millisecond
		l, _ := start(t, f, nil)
		var allowed atomic.Int64
		var group sync.WaitGroup
		for range 200 {
			group.Go(func() {
				if l.Decide(t.Context(), ask(withWait(10*time.Second))).Allowed {
					allowed.Add(1)
				}
			})
		}
		group.Wait()
		if allowed.Load() != 200 {
			t.Errorf("%d of 200 allowed while credit remained", allowed.Load())
		}
		if d := decide(t, l, ask(withWait(time.Minute)), pb.Reason_REASON_EXHAUSTED); d.HasRetry {
			t.Errorf("a quota that is used up is waited for: %+v", d)
		}
	})
}

func TestCase17WaitingCallersOfASlowBrokerAreNotDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(policy{operation: "report.create", capacity: 1000, refill: lease.Rate{Tokens: 200, Interval: time.Second}, cost: 1})
		f.delay = 600 * time.Millisecond
		l, _ := start(t, f, nil)
		for i := range 3000 { // 30 s at half the refill
			if d := l.Decide(t.Context(), ask(withWait(5*time.Second))); !d.Allowed {
				t.Fatalf("check %d: %+v", i, d)
			}
			elapse(10 * time.Millisecond)
		}
	})
}

// One that gives up leaves its place to those behind it at once.
func TestOneThatGivesUpHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(steady), nil)
		drain(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan decision.Answer, 1)
		go func() { first <- l.Decide(ctx, ask(withWait(time.Minute), withCost(10))) }()
		synctest.Wait()
		second := make(chan decision.Answer, 1)
		go func() { second <- l.Decide(t.Context(), ask(withWait(time.Minute))) }()
		synctest.Wait()
		elapse(300 * time.Millisecond) // enough for the second, which is not first
		select {
		case d := <-second:
			t.Fatalf("served out of turn: %+v", d)
		default:
		}
		cancel()
		began := time.Now()
		if d := <-first; d.Allowed || d.Reason == pb.Reason_REASON_ALLOWED {
			t.Errorf("got %+v", d)
		}
		if d := <-second; !d.Allowed || time.Since(began) > 200*time.Millisecond {
			t.Errorf("%v after the first has left: %+v", time.Since(began), d)
		}
	})
}

func TestWaitBeyondTheBoundIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(steady), nil)
		drain(t, l)
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for name, d := range map[string]func() decision.Answer{
			"by the request": func() decision.Answer {
				return l.Decide(t.Context(), ask(withWait(500*time.Millisecond), withCost(10)))
			},
			"by the caller": func() decision.Answer { return l.Decide(short, ask(withWait(time.Minute), withCost(10))) },
			"by Wait":       func() decision.Answer { return l.Wait(short, "acme", "report.create", 10) },
			"by a handle":   func() decision.Answer { return l.Budget("acme", "report.create").Wait(short, 10) },
		} {
			began := time.Now()
			d := d()
			if took := time.Since(began); took > 0 || d.Reason != pb.Reason_REASON_EXHAUSTED || !d.HasRetry || d.RetryIn < 800*time.Millisecond {
				t.Errorf("%s: after %v got %+v", name, took, d)
			}
		}
	})
}

// The end of its time tells what is known: that the budget is used up, since others
// were served meanwhile.
func TestTimeInLineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(steady), nil)
		drain(t, l)
		for range 50 {
			go l.Decide(t.Context(), ask(withWait(time.Minute)))
		}
		synctest.Wait()
		began := time.Now()
		d := l.Decide(t.Context(), ask(withWait(2*time.Second)))
		if took := time.Since(began); took != 2*time.Second || d.Reason != pb.Reason_REASON_EXHAUSTED || d.Allowed {
			t.Errorf("after %v got %+v", took, d)
		}
		elapse(time.Minute)
	})
}

func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newRegistry()
		l, _ := start(t, newFakeBroker(steady), func(c *regional.Config) { c.MaxQueue, c.Registerer = 3, reg })
		drain(t, l)
		for range 3 {
			go l.Decide(t.Context(), ask(withWait(time.Minute), withCost(10)))
		}
		synctest.Wait()
		if n := reg.value(t, "tokenlease_limiter_queue_length"); n != 3 {
			t.Errorf("%v wait, want 3", n)
		}
		began := time.Now()
		d := l.Decide(t.Context(), ask(withWait(time.Minute)))
		if d.Reason != pb.Reason_REASON_EXHAUSTED || time.Since(began) > time.Second {
			t.Errorf("a fourth got %+v after %v", d, time.Since(began))
		}
		if n := reg.value(t, "tokenlease_limiter_queue_refusals_total"); n != 1 {
			t.Errorf("%v found no place, want 1", n)
		}
		elapse(time.Minute)
		if n := reg.value(t, "tokenlease_limiter_queue_length"); n != 0 {
			t.Errorf("%v still wait", n)
		}
		if n := reg.value(t, "tokenlease_limiter_wait_seconds"); n < 3 {
			t.Errorf("%v waits are measured", n)
		}
	})
}

// Lines of one account do not hold up another.
func TestLinesAreByBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(steady), nil)
		drain(t, l)
		for range 20 {
			go l.Decide(t.Context(), ask(withWait(time.Minute), withCost(10)))
		}
		synctest.Wait()
		for i := range 5 {
			began := time.Now()
			d := l.Decide(t.Context(), ask(withWait(time.Minute), func(r *decision.Request) { r.Key.Account = strconv.Itoa(i) }))
			if !d.Allowed || time.Since(began) > 0 {
				t.Errorf("after %v got %+v", time.Since(began), d)
			}
		}
		elapse(time.Minute)
	})
}

func TestUnreachableBrokerEndsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(steady)
		l, _ := start(t, f, nil)
		drain(t, l)
		for range 10 {
			go l.Decide(t.Context(), ask(withWait(20*time.Second)))
		}
		synctest.Wait()
		f.fail(errDown)
		began := time.Now()
		d := l.Decide(t.Context(), ask(withWait(20*time.Second)))
		if d.Reason != pb.Reason_REASON_UNAVAILABLE || time.Since(began) > 10*time.Second {
			t.Errorf("after %v got %+v", time.Since(began), d)
		}
		elapse(time.Minute)
	})
}

// While no broker has registered the limiter, nobody waits longer than a first grant
// may take.
func TestNobodyWaitsForALimiterThatIsNotRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(steady)
		f.fail(errDown)
		l, _ := start(t, f, nil)
		began := time.Now()
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if d := l.Decide(t.Context(), ask(withWait(10*time.Minute))); d.Reason != pb.Reason_REASON_UNAVAILABLE {
					t.Errorf("got %+v", d)
				}
			})
		}
		group.Wait()
		if took := time.Since(began); took != regional.DefaultFirstGrantWait {
			t.Errorf("waited %v for a first grant", took)
		}
	})
}

// One that may wait does not pass those that wait, not even for credit that is here
// and too little for the first of them.
func TestNobodyPassesTheFirstInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := steady
		slow.refill.Interval = 10 * time.Second
		l, _ := start(t, newFakeBroker(slow), nil)
		handle := l.Budget("acme", "report.create")
		if d := handle.Check(t.Context()); !d.Allowed || handle.Remaining() < 1 {
			t.Fatalf("%d remain: %+v", handle.Remaining(), d)
		}
		first := make(chan time.Time, 1)
		go func() {
			if d := l.Decide(t.Context(), ask(withWait(time.Minute), withCost(10))); !d.Allowed {
				t.Errorf("got %+v", d)
			}
			first <- time.Now()
		}()
		synctest.Wait()
		if handle.Remaining() < 1 {
			t.Fatal("nothing is here, too little for the test")
		}
		if d := l.Decide(t.Context(), ask(withWait(time.Minute))); !d.Allowed {
			t.Errorf("got %+v", d)
		}
		second := time.Now()
		if before := (<-first).Sub(second); before > 0 {
			t.Errorf("the second was served %v before the first", before)
		}
	})
}
