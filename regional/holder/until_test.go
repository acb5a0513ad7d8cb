package holder

import (
	"strconv"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// hostClocks are clocks that tests set. Each has an origin of its own.
type hostClocks struct{ Clocks }

func newHostClocks() *hostClocks {
	return &hostClocks{Clocks{Mono: 3 * time.Second, Boot: 5 * time.Hour, Wall: 1_700_000_000 * time.Second}}
}

func (h *hostClocks) read() Clocks { return h.Clocks }

// pass lets all clocks go on alike.
func (h *hostClocks) pass(d time.Duration) {
	h.Mono, h.Boot, h.Wall = h.Mono+d, h.Boot+d, h.Wall+d
}

const staleAfter = 9 * time.Second

// bounded is a supplied rig under a bound on staleness, and its clocks.
func bounded(t *testing.T, kind lease.Kind, change func(*Config)) (*rig, *hostClocks) {
	t.Helper()
	clocks := newHostClocks()
	policy := policyOf(kind, 100)
	policy.MaxStaleness = staleAfter
	r := supplied(t, policy, 10, func(cfg *Config) {
		cfg.Clocks = clocks.read
		if change != nil {
			change(cfg)
		}
	})
	return r, clocks
}

// pass lets time go by in ticks, on the manager's clock and the host's.
func (r *rig) pass(clocks *hostClocks, d time.Duration) {
	r.t.Helper()
	for end := r.now + d; r.now < end; {
		tick := min(100*time.Millisecond, end-r.now)
		clocks.pass(tick)
		r.step(tick)
	}
}

// Whichever clock has moved furthest ends the spending, and no other way of taking
// credit goes on after it.
func TestStaleByTheFurthestClock(t *testing.T) {
	for name, move := range map[string]func(*hostClocks, time.Duration){
		"monotonic": func(h *hostClocks, d time.Duration) { h.Mono += d },
		"boot":      func(h *hostClocks, d time.Duration) { h.Boot += d },
		"wall":      func(h *hostClocks, d time.Duration) { h.Wall += d },
	} {
		t.Run(name, func(t *testing.T) {
			r, clocks := bounded(t, lease.TokenBucket, nil)
			move(clocks, staleAfter-1)
			if _, ok := r.b.Spend(1); !ok || r.b.Stale() {
				t.Error("nothing is spent before the bound has passed")
			}
			before := r.b.Remaining()
			move(clocks, 1)
			if _, ok := r.b.Spend(1); ok {
				t.Error("spent after the bound")
			}
			if r.b.SpendAllowed(1) {
				t.Error("spent after the bound, by SpendAllowed")
			}
			if _, ok := r.b.Hold(1, 1, time.Hour, false); ok {
				t.Error("held after the bound")
			}
			if !r.b.Stale() || r.b.Credit() != 0 || r.b.Remaining() != 0 {
				t.Errorf("stale %v, credit %d, remaining %d", r.b.Stale(), r.b.Credit(), r.b.Remaining())
			}
			move(clocks, -1)
			if r.b.Remaining() != before {
				t.Errorf("%d remain, %d before: a refused spend has taken something", r.b.Remaining(), before)
			}
		})
	}
}

// The bound counts from before the request was sent, however late its answer comes.
func TestBoundCountsFromTheRequest(t *testing.T) {
	clocks := newHostClocks()
	policy := policyOf(lease.TokenBucket, 100)
	policy.MaxStaleness = staleAfter
	r := newRig(t, policy, func(cfg *Config) { cfg.Clocks = clocks.read })
	if _, ok := r.b.Wait(5); !ok {
		t.Fatal("the budget is retired")
	}
	r.b.Signal()
	e := r.m.Step(r.now)
	if len(e.Syncs) != 1 {
		t.Fatalf("%d requests", len(e.Syncs))
	}
	clocks.pass(staleAfter - time.Second)
	r.m.Synced(e.Syncs[0].ID, r.serve(e.Syncs[0].Request), nil, r.now)
	if _, ok := r.b.Spend(1); !ok {
		t.Fatal("nothing is spent after the answer")
	}
	clocks.pass(time.Second)
	if _, ok := r.b.Spend(1); ok {
		t.Error("spent though the request was sent too long ago")
	}
}

// A report tells by what the holder goes when it is sent: nothing while it holds
// nothing, the bound it has installed, none without one, and none for slots.
func TestReportsTellTheBound(t *testing.T) {
	r, clocks := bounded(t, lease.TokenBucket, nil)
	if first := r.reports[0]; first.GetGrantId() != "" || first.GetBoundNs() != 1 {
		t.Errorf("first report %v", first)
	}
	report := func() int64 { // the first of what may be several
		n := len(r.reports)
		r.b.Spend(1)
		r.pass(clocks, 4*time.Second)
		if len(r.reports) == n {
			t.Fatal("nothing is reported")
		}
		return r.reports[n].GetBoundNs()
	}
	if got := report(); got != int64(staleAfter) {
		t.Errorf("bound %d, want %v", got, staleAfter)
	}
	longer := *r.policy
	longer.MaxStaleness, longer.Rule.Version = 2*staleAfter, 2
	r.policy = &longer
	if got := report(); got != int64(staleAfter) {
		t.Errorf("the report that fetches the new bound tells %d, want the old one, %v", got, staleAfter)
	}
	if got := report(); got != int64(2*staleAfter) {
		t.Errorf("bound %d, want %v", got, 2*staleAfter)
	}
	none := *r.policy
	none.MaxStaleness, none.Rule.Version = 0, 3
	r.policy = &none
	report()
	if got := report(); got != 0 {
		t.Errorf("bound %d without one in the policy", got)
	}
	clocks.pass(time.Hour)
	if _, ok := r.b.Spend(1); !ok {
		t.Error("nothing is spent though the bound was lifted")
	}

	slots, clocks := bounded(t, lease.Concurrency, nil)
	slots.b.Hold(1, 2, time.Hour, true)
	slots.pass(clocks, 4*time.Second)
	if got := slots.last(); got.GetGrantId() == "" || got.GetBoundNs() != 0 {
		t.Errorf("bound %d of slots of %q", got.GetBoundNs(), got.GetGrantId())
	}
}

// Credit is renewed while it is here, in use or not, and handed back when the budget is
// idle: nothing lapses of a limiter that reaches the broker.
func TestCreditIsRenewed(t *testing.T) {
	r, clocks := bounded(t, lease.TokenBucket, func(cfg *Config) { cfg.IdleAfter = time.Minute })
	begun, reports := r.now, len(r.reports)
	for r.now-begun < 50*time.Second {
		r.pass(clocks, 100*time.Millisecond)
		if r.b.Stale() {
			t.Fatalf("stale after %v", r.now-begun)
		}
	}
	if n := len(r.reports) - reports; n < 10 || n > 20 {
		t.Errorf("%d reports of an idle budget in 50 s, want one in about 3 s", n)
	}
	r.pass(clocks, 15*time.Second)
	if len(r.closes) != 1 || r.grant != nil {
		t.Errorf("%d closes, grant %v: want the idle grant closed", len(r.closes), r.grant)
	}
	closed := len(r.reports)
	r.pass(clocks, time.Minute)
	if len(r.reports) != closed {
		t.Error("a budget without a grant is renewed")
	}
}

// A handle keeps its budget in memory, not its grant.
func TestPinnedBudgetIsNotRenewedForEver(t *testing.T) {
	r, clocks := bounded(t, lease.TokenBucket, nil)
	r.b.Pin()
	r.pass(clocks, 15*time.Second)
	if len(r.closes) != 1 || r.grant != nil {
		t.Fatalf("%d closes, grant %v", len(r.closes), r.grant)
	}
	reports := len(r.reports)
	r.pass(clocks, time.Minute)
	if len(r.reports) != reports {
		t.Error("a budget without a grant is renewed")
	}
	if r.b.SpendAllowed(1) {
		t.Fatal("spent without a grant")
	}
	r.b.Refused(1)
	r.pass(clocks, 200*time.Millisecond)
	if !r.b.SpendAllowed(1) {
		t.Error("the budget does not come back")
	}
}

// Once stale, a check that waits has the broker asked though the credit is here, and
// goes on when the answer comes; so does one that does not wait.
func TestStaleCreditIsAskedFor(t *testing.T) {
	for name, ask := range map[string]func(b *Budget){
		"waits":         func(b *Budget) { b.Wait(1); b.Signal() },
		"does not wait": func(b *Budget) { b.Refused(1) },
	} {
		t.Run(name, func(t *testing.T) {
			r, clocks := bounded(t, lease.TokenBucket, nil)
			r.losing = true
			r.pass(clocks, 2*staleAfter)
			if r.b.SpendAllowed(1) {
				t.Fatal("spent though the broker was silent for too long")
			}
			r.losing = false
			ask(r.b)
			r.pass(clocks, 3*time.Second)
			if !r.b.SpendAllowed(1) {
				t.Error("nothing is spent though the broker answers")
			}
		})
	}
}

// A request hangs no longer than its answer would be of use.
func TestBoundedRequestsHangForLess(t *testing.T) {
	r, clocks := bounded(t, lease.TokenBucket, nil)
	r.free, r.retry = 0, time.Minute
	if _, ok := r.b.Wait(1000); !ok {
		t.Fatal("the budget is retired")
	}
	hung := false
	for range 100 {
		clocks.pass(100 * time.Millisecond)
		r.now += 100 * time.Millisecond
		r.b.Denied()
		for _, s := range r.m.Step(r.now).Syncs {
			if s.Hanging {
				hung = true
				if got := time.Duration(s.Request.GetWaitMs()) * time.Millisecond; got != staleAfter/renewParts {
					t.Errorf("hangs for %v, want %v", got, staleAfter/renewParts)
				}
			}
			r.m.Synced(s.ID, r.serve(s.Request), nil, r.now)
		}
	}
	if !hung {
		t.Error("no request hangs: the test says nothing")
	}
}

// A process that has looked at the bound before takes nothing of an answer that comes
// after the bound which it brings.
func TestLateAnswerGivesNothing(t *testing.T) {
	clocks := newHostClocks()
	policy := policyOf(lease.TokenBucket, 100)
	policy.MaxStaleness = time.Hour
	var meanwhile func()
	r := supplied(t, policy, 10, func(cfg *Config) {
		cfg.Clocks = func() Clocks {
			now := clocks.read()
			if f := meanwhile; f != nil {
				meanwhile = nil
				f()
			}
			return now
		}
	})
	r.b.Pin()
	r.pass(clocks, 20*time.Second) // the grant is closed, the bound of an hour stays
	shorter := *r.policy
	shorter.MaxStaleness, shorter.Rule.Version = staleAfter, 2
	r.policy = &shorter
	r.b.Refused(5)
	r.now += 100 * time.Millisecond
	e := r.m.Step(r.now)
	if r.grant != nil || len(e.Syncs) != 1 {
		t.Fatalf("grant %v, %d requests", r.grant, len(e.Syncs))
	}
	resp := r.serve(e.Syncs[0].Request)
	clocks.pass(time.Minute)
	answered := false
	meanwhile = func() {
		r.m.Synced(e.Syncs[0].ID, resp, nil, r.now)
		answered = true
	}
	if _, ok := r.b.Spend(1); ok || !answered {
		t.Errorf("spent a minute after the request, under a bound of %v; answered %v", staleAfter, answered)
	}
}

// Where no policy rules, or the broker cannot use its record, a bound that there was
// has nobody ask more often.
func TestNothingIsRenewedWithoutAPolicy(t *testing.T) {
	r, clocks := bounded(t, lease.TokenBucket, nil)
	r.policy = nil
	r.m.Hint(0, []lease.Key{rigKey}, false)
	r.pass(clocks, 20*time.Second)
	n := len(r.reports)
	r.pass(clocks, time.Minute)
	if more := len(r.reports) - n; more > 0 {
		t.Errorf("%d reports in a minute of a budget that nobody uses and no policy rules", more)
	}
}

func TestUnusableRecordIsNotAskedForAllTheTime(t *testing.T) {
	r, clocks := bounded(t, lease.TokenBucket, nil)
	reports := 0
	for begun := r.now; r.now-begun < time.Minute; {
		clocks.pass(100 * time.Millisecond)
		r.now += 100 * time.Millisecond
		for _, s := range r.m.Step(r.now).Syncs {
			resp := &pb.SyncResponse{}
			for _, b := range s.Request.GetBudgets() {
				reports++
				resp.Budgets = append(resp.Budgets, &pb.BudgetAnswer{Key: b.GetKey(), Sequence: b.GetSequence(), Evidence: pb.Evidence_EVIDENCE_RECORD_UNUSABLE})
			}
			r.m.Synced(s.ID, resp, nil, r.now)
		}
	}
	if reports > 30 {
		t.Errorf("%d reports in a minute", reports)
	}
}

// A budget that waits to hang, while as many requests hang as may, is renewed.
func TestStarvedBudgetIsRenewed(t *testing.T) {
	r, clocks := bounded(t, lease.TokenBucket, nil)
	r.free, r.retry = 0, time.Hour
	r.key().shard.hanging = maxHanging
	if _, ok := r.b.Wait(1000); !ok {
		t.Fatal("the budget is retired")
	}
	r.b.Signal()
	for range 300 {
		r.pass(clocks, 100*time.Millisecond)
		if r.b.Stale() {
			t.Fatal("stale though the broker answers")
		}
	}
}

// What is remembered of grants that the broker has ended is bounded.
func TestLostGrantsAreForgotten(t *testing.T) {
	r, clocks := bounded(t, lease.TokenBucket, nil)
	sh := r.key().shard
	for range 3 * maxLost {
		r.key().grant = "g1-000-" + strconv.Itoa(len(sh.lost)+len(sh.closed))
		r.m.lost(r.key(), r.now)
	}
	r.pass(clocks, time.Second)
	if len(sh.closed) > maxLost || len(sh.lost) > maxLost {
		t.Errorf("%d and %d are remembered, want %d at most", len(sh.closed), len(sh.lost), maxLost)
	}
}

// So is one that waits for credit which is called back from others; and as long as it is
// stale, a check that has waited in vain is told that no authority was reached, not that
// the budget is used up (C7).
func TestRecallingBudgetIsRenewed(t *testing.T) {
	r, clocks := bounded(t, lease.TokenBucket, nil)
	if _, ok := r.b.Wait(50); !ok {
		t.Fatal("the budget is retired")
	}
	r.b.Signal()
	r.free = 0
	recalled := false
	for range 300 {
		clocks.pass(100 * time.Millisecond)
		r.now += 100 * time.Millisecond
		for _, s := range r.m.Step(r.now).Syncs {
			resp := r.serve(s.Request)
			for _, a := range resp.GetBudgets() {
				if a.GetShortage() == pb.Shortage_SHORTAGE_EXHAUSTED {
					a.Shortage, a.LevelTokens = pb.Shortage_SHORTAGE_RECALLING, 100
					recalled = true
				}
			}
			r.m.Synced(s.ID, resp, nil, r.now)
		}
		r.key().shard.hanging = maxHanging // others take all places
		if r.b.Stale() {
			t.Fatal("stale though the broker answers")
		}
	}
	if got := r.b.Unanswered(r.now); !recalled || got != pb.Reason_REASON_EXHAUSTED {
		t.Errorf("recalled %v, a check is told %v", recalled, got)
	}
	clocks.pass(time.Hour)
	if got := r.b.Unanswered(r.now); got != pb.Reason_REASON_UNAVAILABLE {
		t.Errorf("a check of a stale budget is told %v", got)
	}
}
