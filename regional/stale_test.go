package regional_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// staleAfter bounds the staleness of a policy's credit to 5 s.
func staleAfter(p policy) policy {
	terms := p.terms
	p.terms = func(out *lease.Policy) {
		if terms != nil {
			terms(out)
		}
		out.MaxStaleness = 5 * time.Second
	}
	return p
}

// With the broker silent, what is held is spent until the bound has passed, and not
// after it; once the broker answers it is spent again.
func TestStaleLimiterStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(staleAfter(policy{operation: "report.create", capacity: 1000, cost: 5}))
		l, _ := start(t, f, nil)
		handle := l.Budget("acme", "report.create")
		for range 20 {
			decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		}
		elapse(time.Second) // reported
		f.fail(errDown)
		elapse(3 * time.Second)
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		held := handle.Remaining()
		elapse(2 * time.Second)
		if handle.AllowN(1) || handle.Allow() || handle.Remaining() != 0 {
			t.Errorf("spends on after the bound, %d of %d remain", handle.Remaining(), held)
		}
		if d := decide(t, l, ask(), pb.Reason_REASON_UNAVAILABLE); d.Allowed || d.HasRetry && d.RetryIn <= 0 || !strings.Contains(d.Detail, "max-staleness") {
			t.Errorf("got %+v", d)
		}
		f.fail(nil)
		elapse(5 * time.Second)
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		if handle.Remaining() == 0 {
			t.Error("nothing remains though the broker answers")
		}
	})
}

// Past the bound the local allowance of the policy is there, and says so.
func TestStaleLimiterFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(staleAfter(local(policy{operation: "report.create", capacity: 1000, cost: 5})))
		l, _ := start(t, f, nil)
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		elapse(time.Second)
		f.fail(errDown)
		elapse(6 * time.Second)
		decide(t, l, ask(), pb.Reason_REASON_FALLBACK)
	})
}

// sleepy is the system's clock on a machine that has slept: its boot clock has gone on.
type sleepy struct {
	regional.Clock

	slept func() time.Duration
}

func (s sleepy) Clocks() holder.Clocks {
	c := s.Clock.Clocks()
	c.Boot = c.Mono + s.slept()
	return c
}

// A machine that sleeps for longer than the bound wakes up with credit that it does not
// spend before it has asked.
func TestSleptLimiterAsksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept time.Duration
		f := newFakeBroker(staleAfter(policy{operation: "report.create", capacity: 1000, cost: 5}))
		l, _ := start(t, f, func(c *regional.Config) {
			c.Clock = sleepy{regional.SystemClock(), func() time.Duration { return slept }}
		})
		handle := l.Budget("acme", "report.create")
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		synctest.Wait()
		if handle.Remaining() < 5 {
			t.Fatalf("%d remain", handle.Remaining())
		}
		slept = time.Minute
		if handle.AllowN(1) {
			t.Error("spent before it has asked")
		}
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED) // which waits for the answer
	})
}

// The clocks of this machine go on.
func TestSystemClocks(t *testing.T) {
	clock := regional.SystemClock()
	first := clock.Clocks()
	second := clock.Clocks()
	if second.Mono < first.Mono || second.Boot < first.Boot || second.Boot <= 0 || second.Wall < time.Duration(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()) {
		t.Errorf("%+v and then %+v", first, second)
	}
}
