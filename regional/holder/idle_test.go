package holder

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// idling is a rig whose budget has credit that nobody uses, of a policy with a bound
// on staleness or without.
func idling(t *testing.T, staleness time.Duration) (*rig, *hostClocks) {
	t.Helper()
	clocks := newHostClocks()
	policy := policyOf(lease.TokenBucket, 100)
	policy.MaxStaleness = staleness
	r := supplied(t, policy, 10, func(cfg *Config) { cfg.Clocks = clocks.read })
	r.b.Spend(1)
	r.pass(clocks, 2*time.Second) // which is reported
	return r, clocks
}

// Idle credit goes back, so that others can have it.
func TestIdleCreditGoesBack(t *testing.T) {
	for name, staleness := range map[string]time.Duration{"no bound": 0, "bounded": staleAfter} {
		t.Run(name, func(t *testing.T) {
			r, clocks := idling(t, staleness)
			r.pass(clocks, 7*time.Second)
			if len(r.closes) != 0 {
				t.Error("closed before it was idle for long enough")
			}
			r.pass(clocks, 6*time.Second)
			if len(r.closes) != 1 || r.grant != nil || r.b.Remaining() != 0 {
				t.Errorf("%d closes, grant %v, %d remain", len(r.closes), r.grant, r.b.Remaining())
			}
		})
	}
}

// Cut off, it stays where it can be spent: nobody would hear that it was given up. When
// the broker is back, it goes back at last.
func TestIdleCreditStaysWhereNobodyHears(t *testing.T) {
	for name, staleness := range map[string]time.Duration{"no bound": 0, "bounded": time.Hour} {
		t.Run(name, func(t *testing.T) {
			r, clocks := idling(t, staleness)
			r.losing = true
			held := r.b.Remaining()
			r.pass(clocks, 10*time.Minute)
			if got := r.b.Remaining(); held == 0 || got != held {
				t.Fatalf("%d of %d remain after ten minutes without a broker", got, held)
			}
			if _, ok := r.b.Spend(1); !ok {
				t.Error("it cannot be spent")
			}
			r.losing = false
			r.pass(clocks, 40*time.Second)
			if r.grant != nil || r.b.Remaining() != 0 {
				t.Errorf("grant %v, %d remain: want it back at the broker", r.grant, r.b.Remaining())
			}
		})
	}
}

// What is known of an idle budget stays through an outage, too: its policy may have a
// local allowance. Of one that nothing is known of nothing is kept.
func TestIdlePolicyStaysWhereNobodyHears(t *testing.T) {
	r, clocks := idling(t, 0)
	r.free, r.level = 0, 0
	r.m.Hint(0, []lease.Key{rigKey}, false)
	r.pass(clocks, 3*time.Second) // all that is here is recalled
	r.losing = true
	r.pass(clocks, time.Minute)
	if o := r.b.Outlook(); !r.b.Pin() || o == nil || o.Policy == nil {
		t.Errorf("the budget is retired, or its policy forgotten: %+v", o)
	}

	unknown := newRig(t, policyOf(lease.TokenBucket, 100), nil)
	unknown.losing = true
	unknown.b.Refused(1)
	unknown.steps(time.Minute)
	if unknown.b.Pin() {
		t.Error("a budget that nothing is known of is kept")
	}
}

// An idle limiter asks once whether it is heard, not for each of its budgets.
func TestIdleLimiterAsksOnce(t *testing.T) {
	signals := NewSignals()
	m := New(Config{
		Holder: lease.Holder{Region: "eu", Instance: "a"}, Epoch: 1, Shards: 1,
		Journal: JournalOff, Jitter: func() float64 { return 0.5 }, Clocks: func() Clocks { return Clocks{} },
	}, signals)
	r := &rig{t: t, m: m, b: NewBudget(rigKey, signals), now: time.Second, policy: policyOf(lease.TokenBucket, 100), level: -1}
	for i := range 50 {
		b := NewBudget(lease.Key{Account: string(rune('a' + i)), Operation: rigKey.Operation}, signals)
		b.Refused(1)
	}
	requests := 0
	for range 200 {
		r.now += 100 * time.Millisecond
		for _, s := range m.Step(r.now).Syncs {
			requests++
			r.grant, r.issued, r.free = nil, 0, 100 // each budget is the broker's only one
			m.Synced(s.ID, r.serve(s.Request), nil, r.now)
		}
	}
	if len(m.keys) != 0 {
		t.Errorf("%d budgets are kept after 20 s", len(m.keys))
	}
	if requests > 10 {
		t.Errorf("%d requests for 50 budgets that were asked for once", requests)
	}
}
