package holder

import (
	"errors"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/policywire"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

var (
	rigKey  = lease.Key{Account: "acme", Operation: "llm.complete"}
	errLost = errors.New("lost")
)

// rig is a manager with one budget, and a broker of one figure per counter: it has
// free tokens to give, and gives what is wanted. It holds every report against the
// ones before it.
type rig struct {
	t       testing.TB
	m       *Manager
	b       *Budget
	now     time.Duration
	wake    time.Duration // when the manager wants to be woken
	policy  *lease.Policy // nil: none
	free    int64         // what the broker can still give
	level   int64         // of every answer, where at least 0; else what is wanted
	retry   time.Duration // with a shortage; 0: no guidance
	losing  bool          // answers are lost
	grants  int
	grant   *pb.GrantAccount // live; nil: none
	issued  int64
	reports []*pb.BudgetReport
	closes  []*pb.GrantAccount
	final   []*pb.EpochAccount
	// Of the grants that have ended: what was spent of them, and what of them is
	// held as slots for ever.
	spent, kept int64
	charged     int64 // what all grants were told to owe
}

func policyOf(kind lease.Kind, capacity int64) *lease.Policy {
	p := &lease.Policy{
		Operation: rigKey.Operation, DefaultCost: 1,
		Rule: lease.Rule{Kind: kind, Version: 1, Capacity: capacity, MaxSharePercent: 100},
	}
	switch kind {
	case lease.TokenBucket:
		p.Rule.Refill = lease.Rate{Tokens: 1, Interval: time.Second}
	case lease.RollingWindow:
		p.Rule.Window = 10 * time.Second
	case lease.FixedWindow:
		p.Rule.Period, p.Rule.Zone = lease.Minute, "UTC"
	case lease.Concurrency:
	}
	return p
}

func newRig(t testing.TB, policy *lease.Policy, change func(*Config)) *rig {
	t.Helper()
	signals := NewSignals()
	cfg := Config{
		Holder: lease.Holder{Region: "eu", Instance: "a"}, Epoch: 1, Shards: 1,
		Journal: JournalOff, Jitter: func() float64 { return 0 }, Clocks: func() Clocks { return Clocks{} },
	}
	if change != nil {
		change(&cfg)
	}
	r := &rig{t: t, m: New(cfg, signals), b: NewBudget(rigKey, signals), now: time.Second, policy: policy, level: -1}
	if policy != nil {
		r.free = policy.Rule.Capacity
	}
	return r
}

// supplied is a rig whose budget has been used before, with credit for want.
func supplied(t testing.TB, policy *lease.Policy, want int64, change func(*Config)) *rig {
	t.Helper()
	r := newRig(t, policy, change)
	if _, ok := r.b.Wait(want); !ok {
		t.Fatal("the budget is retired")
	}
	r.b.Signal()
	r.step(10 * time.Millisecond)
	r.b.Leave(want)
	if r.b.Credit() < want {
		t.Fatalf("credit %d, want %d", r.b.Credit(), want)
	}
	return r
}

// key is the manager's state of the budget.
func (r *rig) key() *keyState { return r.m.key(r.b) }

// step lets time pass and the manager act, with all answers at once.
func (r *rig) step(d time.Duration) {
	r.t.Helper()
	r.now += d
	for range 20 {
		e := r.m.Step(r.now)
		r.wake = e.WakeAt
		if e.Journal != nil {
			r.m.Journaled(r.m.journal.counter+1, nil)
		}
		for _, s := range e.Syncs {
			if err := s.Request.Validate(); err != nil {
				r.t.Errorf("an invalid request: %v", err)
			}
			resp := r.serve(s.Request)
			if r.losing {
				r.m.Synced(s.ID, nil, errLost, r.now)
			} else {
				r.m.Synced(s.ID, resp, nil, r.now)
			}
		}
		if len(e.Syncs) == 0 && e.Journal == nil {
			return
		}
	}
}

// steps lets time pass in ticks.
func (r *rig) steps(d time.Duration) {
	r.t.Helper()
	for end := r.now + d; r.now < end; {
		r.step(min(100*time.Millisecond, end-r.now))
	}
}

func (r *rig) serve(req *pb.SyncRequest) *pb.SyncResponse {
	r.t.Helper()
	resp := &pb.SyncResponse{JournalCounter: req.GetJournalCounter()}
	for _, c := range req.GetCloses() {
		r.account(c)
		r.closes = append(r.closes, c)
		resp.Closes = append(resp.Closes, &pb.CloseAnswer{GrantId: c.GetGrantId()})
	}
	for _, a := range req.GetAccounts() {
		for _, g := range a.GetGrants() {
			r.account(g)
		}
		if r.grant != nil { // the holder never heard of it
			r.free += r.issued - r.grant.GetSpentTokens() - r.grant.GetReturnedTokens()
			r.spent += r.grant.GetSpentTokens()
			r.grant, r.issued = nil, 0
		}
		r.final = append(r.final, a)
		resp.Accounts = append(resp.Accounts, &pb.AccountAnswer{Epoch: a.GetEpoch(), Applied: true})
	}
	for _, b := range req.GetBudgets() {
		resp.Budgets = append(resp.Budgets, r.report(b))
	}
	return resp
}

// account ends the live grant by what the holder says of it. What it held as slots
// stays reserved.
func (r *rig) account(c *pb.GrantAccount) {
	r.t.Helper()
	if r.grant == nil || c.GetGrantId() != r.grant.GetGrantId() {
		return // gone
	}
	r.counters(c.GetSpentTokens(), c.GetReturnedTokens(), c.GetHeldTokens(), c.GetOwedTokens())
	r.free += r.issued - c.GetSpentTokens() - c.GetReturnedTokens() - c.GetHeldTokens()
	r.spent += c.GetSpentTokens()
	r.kept += c.GetHeldTokens()
	r.grant, r.issued = nil, 0
}

// counters takes what is said of the live grant: cumulative, never falling, and
// within what was issued.
func (r *rig) counters(spent, returned, held, owed int64) {
	r.t.Helper()
	if spent < r.grant.GetSpentTokens() || returned < r.grant.GetReturnedTokens() || owed < r.grant.GetOwedTokens() || held < 0 {
		r.t.Errorf("spent %d, returned %d, owed %d and held %d after %v", spent, returned, owed, held, r.grant)
	}
	if spent+returned+held > r.issued {
		r.t.Errorf("spent %d, returned %d and held %d of %d issued", spent, returned, held, r.issued)
	}
	r.free += returned - r.grant.GetReturnedTokens()
	r.charged += owed - r.grant.GetOwedTokens()
	r.grant.SpentTokens, r.grant.ReturnedTokens, r.grant.HeldTokens, r.grant.OwedTokens = spent, returned, held, owed
}

func (r *rig) report(b *pb.BudgetReport) *pb.BudgetAnswer {
	r.t.Helper()
	r.reports = append(r.reports, b)
	a := &pb.BudgetAnswer{Key: b.GetKey(), Sequence: b.GetSequence()}
	if b.GetGrantId() != "" {
		if r.grant == nil || b.GetGrantId() != r.grant.GetGrantId() {
			a.Gone = true
			return a
		}
		r.counters(b.GetSpentTokens(), b.GetReturnedTokens(), b.GetHeldTokens(), b.GetOwedTokens())
	}
	if r.policy == nil {
		a.Shortage = pb.Shortage_SHORTAGE_NO_POLICY
		return a
	}
	a.Policy = policywire.To(*r.policy)
	want := b.GetWantTokens() + int64(b.GetDefaultCostChecks())*r.policy.DefaultCost
	a.LevelTokens = want
	if r.level >= 0 {
		a.LevelTokens = r.level
	}
	var here int64
	if r.grant != nil {
		here = r.issued - r.grant.GetSpentTokens() - r.grant.GetReturnedTokens() - r.grant.GetHeldTokens()
	}
	add := max(0, min(a.GetLevelTokens()-here, r.free))
	if here+add < b.GetNeedTokens() {
		add, a.Shortage = 0, pb.Shortage_SHORTAGE_EXHAUSTED
		a.HasRetry, a.RetryInNs = r.retry > 0, int64(r.retry)
	}
	if add > 0 && r.grant == nil {
		r.grants++
		id := lease.GrantID{Generation: 1, Sequence: uint64(r.grants)}
		r.grant = &pb.GrantAccount{GrantId: id.String()}
	}
	r.free -= add
	r.issued += add
	if r.grant != nil {
		a.GrantId, a.IssuedTokens = r.grant.GetGrantId(), r.issued
	}
	return a
}

// last is the newest report.
func (r *rig) last() *pb.BudgetReport {
	r.t.Helper()
	if len(r.reports) == 0 {
		r.t.Fatal("nothing was reported")
	}
	return r.reports[len(r.reports)-1]
}

func wire(p *lease.Policy) *pb.Policy { return policywire.To(*p) }
