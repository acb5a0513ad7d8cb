package regional_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/policywire"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// policy is what a test needs of one.
type policy struct {
	operation string
	capacity  int64
	refill    lease.Rate
	cost      int64
	maxCost   int64
	zero      bool
	version   int64               // 0: 1
	terms     func(*lease.Policy) // what else it says
}

// full is the policy as the broker has it.
func (p policy) full() lease.Policy {
	out := lease.Policy{
		Operation: p.operation, DefaultCost: p.cost, MaxCost: p.maxCost, AllowZeroCost: p.zero,
		Rule: lease.Rule{Kind: lease.TokenBucket, Version: max(1, p.version), Capacity: p.capacity, Refill: p.refill, MaxSharePercent: 100},
	}
	if p.terms != nil {
		p.terms(&out)
	}
	return out
}

// fakeBroker is a broker without a store: one ledger per budget, the transitions
// of package lease, and nothing else. Package simulations runs limiters against
// the real one.
type fakeBroker struct {
	mu       sync.Mutex
	start    time.Time
	policies map[string]policy
	ledgers  map[lease.Key]*lease.Ledger
	epochs   map[lease.Holder]uint64
	nonces   map[lease.Holder]string
	counters map[uint64]uint64 // told, by epoch
	next     uint64
	cluster  string
	failing  error         // what every request gets, if not nil
	delay    time.Duration // before each answer
	syncs    int           // requests that were answered
	requests []*pb.SyncRequest
}

const fakeShards = 4

func newFakeBroker(policies ...policy) *fakeBroker {
	f := &fakeBroker{
		start: time.Now(), policies: map[string]policy{}, ledgers: map[lease.Key]*lease.Ledger{},
		epochs: map[lease.Holder]uint64{}, nonces: map[lease.Holder]string{}, counters: map[uint64]uint64{}, cluster: "cluster-1",
	}
	for _, p := range policies {
		f.policies[p.operation] = p
	}
	return f
}

func (f *fakeBroker) now() lease.Time { return lease.Time(time.Since(f.start)) }

// fail makes every request fail from now on; nil heals it.
func (f *fakeBroker) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = err
}

func (f *fakeBroker) answered() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncs
}

// ledger is a copy of the budget's ledger, advanced to now.
func (f *fakeBroker) ledger(account, operation string) lease.Ledger {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.open(lease.Key{Account: account, Operation: operation})
	l.Advance(f.now())
	return l.Clone()
}

// rule is what the ledgers run under: a token bucket whatever the policy says, which
// is a quota for slots.
func (f *fakeBroker) rule(p policy) lease.Rule {
	return lease.Rule{Kind: lease.TokenBucket, Version: max(1, p.version), Capacity: p.capacity, Refill: p.refill, MaxSharePercent: 100}
}

// put puts a policy in force.
func (f *fakeBroker) put(p policy) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.policies[p.operation] = p
	for key, l := range f.ledgers {
		if key.Operation == p.operation {
			if err := l.Install(f.now(), f.rule(p)); err != nil {
				panic(err)
			}
		}
	}
}

func (f *fakeBroker) open(key lease.Key) *lease.Ledger {
	l := f.ledgers[key]
	if l == nil {
		fresh := lease.NewLedger(key, f.rule(f.policies[key.Operation]), f.now())
		l = &fresh
		f.ledgers[key] = l
	}
	return l
}

// Register gives the next epoch to whoever replaces the current one.
func (f *fakeBroker) Register(_ context.Context, req *connect.Request[pb.RegisterRequest]) (*connect.Response[pb.RegisterResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failing != nil {
		return nil, f.failing
	}
	h := lease.Holder{Region: req.Msg.GetHolder().GetRegion(), Instance: req.Msg.GetHolder().GetInstance()}
	resp := &pb.RegisterResponse{ClusterId: f.cluster, Shards: fakeShards, CurrentEpoch: f.epochs[h]}
	if f.nonces[h] != req.Msg.GetStartNonce() {
		if f.epochs[h] != req.Msg.GetReplacesEpoch() {
			return connect.NewResponse(resp), nil
		}
		f.epochs[h]++
		f.nonces[h] = req.Msg.GetStartNonce()
	}
	resp.Registered, resp.CurrentEpoch = true, f.epochs[h]
	return connect.NewResponse(resp), nil
}

// Sync applies the request to the ledgers, then waits out the delay, and the
// hanging time of what it cannot give.
func (f *fakeBroker) Sync(ctx context.Context, req *connect.Request[pb.SyncRequest]) (*connect.Response[pb.SyncResponse], error) {
	hang := time.NewTimer(time.Duration(req.Msg.GetWaitMs()) * time.Millisecond)
	defer hang.Stop()
	for {
		resp, err := f.apply(req.Msg)
		if err != nil {
			return nil, err
		}
		short := req.Msg.GetWaitMs() > 0 && len(resp.Budgets) > 0 && resp.Budgets[0].GetShortage() == pb.Shortage_SHORTAGE_EXHAUSTED
		if !short {
			return connect.NewResponse(resp), f.pause(ctx, f.delay)
		}
		select {
		case <-hang.C:
			return connect.NewResponse(resp), nil
		default:
			if err := f.pause(ctx, 10*time.Millisecond); err != nil {
				return nil, err
			}
		}
	}
}

func (f *fakeBroker) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return connect.NewError(connect.CodeCanceled, ctx.Err())
	}
}

func (f *fakeBroker) apply(req *pb.SyncRequest) (*pb.SyncResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failing != nil {
		return nil, f.failing
	}
	f.syncs++
	f.requests = append(f.requests, req)
	h := lease.Holder{Region: req.GetHolder().GetRegion(), Instance: req.GetHolder().GetInstance()}
	f.counters[req.GetEpoch()] = max(f.counters[req.GetEpoch()], req.GetJournalCounter())
	resp := &pb.SyncResponse{Head: int64(f.syncs), Fenced: req.GetEpoch() < f.epochs[h], JournalCounter: f.counters[req.GetEpoch()]}
	for _, c := range req.GetCloses() {
		id, _ := lease.ParseGrantID(c.GetGrantId())
		_ = f.open(lease.Key{Account: c.GetKey().GetAccount(), Operation: c.GetKey().GetOperation()}).
			Close(f.now(), id, c.GetSpentTokens(), c.GetReturnedTokens(), c.GetOwedTokens())
		resp.Closes = append(resp.Closes, &pb.CloseAnswer{GrantId: c.GetGrantId()})
	}
	for _, a := range req.GetAccounts() {
		f.account(req.GetShard(), h, a)
		resp.Accounts = append(resp.Accounts, &pb.AccountAnswer{Epoch: a.GetEpoch(), Partial: a.GetPartial(), Applied: true})
	}
	for _, r := range req.GetBudgets() {
		resp.Budgets = append(resp.Budgets, f.report(h, req.GetEpoch(), r, resp.GetFenced()))
	}
	resp.Listed = req.GetListGrants()
	return resp, nil
}

func (f *fakeBroker) account(shard uint32, h lease.Holder, a *pb.EpochAccount) {
	spent := map[string]*pb.GrantAccount{}
	for _, g := range a.GetGrants() {
		spent[g.GetGrantId()] = g
	}
	for _, l := range f.ledgers {
		if lease.ShardOf(l.Key, fakeShards) != shard {
			continue
		}
		for _, g := range l.Clone().Grants {
			if g.Holder != h || g.Epoch != a.GetEpoch() {
				continue
			}
			named := spent[g.ID.String()]
			if a.GetSource() == pb.AccountSource_ACCOUNT_SOURCE_JOURNAL {
				_ = l.CloseProven(f.now(), g.ID, named.GetSpentTokens())
			} else {
				_ = l.Close(f.now(), g.ID, named.GetSpentTokens(), named.GetReturnedTokens(), named.GetOwedTokens())
			}
		}
	}
}

func (f *fakeBroker) report(h lease.Holder, epoch uint64, r *pb.BudgetReport, fenced bool) *pb.BudgetAnswer {
	a := &pb.BudgetAnswer{Key: r.GetKey(), Sequence: r.GetSequence()}
	p, ruled := f.policies[r.GetKey().GetOperation()]
	if !ruled {
		a.Shortage = pb.Shortage_SHORTAGE_NO_POLICY
		return a
	}
	l := f.open(lease.Key{Account: r.GetKey().GetAccount(), Operation: r.GetKey().GetOperation()})
	if id, _ := lease.ParseGrantID(r.GetGrantId()); !id.IsZero() {
		a.Gone = errors.Is(l.Account(f.now(), id, r.GetSpentTokens(), r.GetReturnedTokens(), r.GetOwedTokens()), lease.ErrGone)
	}
	if fenced || a.Gone {
		return a
	}
	f.give(l, h, epoch, r, a)
	a.Policy = policywire.To(p.full())
	return a
}

func (f *fakeBroker) give(l *lease.Ledger, h lease.Holder, epoch uint64, r *pb.BudgetReport, a *pb.BudgetAnswer) {
	live := l.Live(h, epoch)
	var out int64
	if live != nil {
		out = max(0, live.Outstanding()-r.GetHeldTokens()) // wants are of free credit
	}
	want, need := r.GetWantTokens(), r.GetNeedTokens()
	if n := int64(r.GetDefaultCostChecks()); n > 0 {
		cost := f.policies[l.Key.Operation].cost
		want, need = want+n*cost, max(need, cost)
	}
	add := max(0, min(want-out, l.Headroom(f.now(), h)))
	if out+add < need {
		add = 0
		a.Shortage = pb.Shortage_SHORTAGE_EXHAUSTED
		if wait, ok := l.Retry(f.now(), need-out); ok && f.policies[l.Key.Operation].full().Rule.Kind != lease.Concurrency {
			a.HasRetry, a.RetryInNs = true, int64(wait)
		}
	}
	switch {
	case add > 0 && live == nil:
		f.next++
		_ = l.Open(f.now(), lease.GrantID{Generation: 1, Shard: lease.ShardOf(l.Key, fakeShards), Sequence: f.next}, h, epoch, add)
	case add > 0:
		_ = l.TopUp(f.now(), live.ID, add)
	}
	if live := l.Live(h, epoch); live != nil {
		a.GrantId, a.IssuedTokens = live.ID.String(), live.Issued
	}
	a.LevelTokens = r.GetWantTokens()
}

// Watch has no hints.
func (f *fakeBroker) Watch(context.Context, *connect.Request[pb.WatchRequest]) (*connect.ServerStreamForClient[pb.WatchResponse], error) {
	return nil, connect.NewError(connect.CodeUnavailable, errors.New("no hints here"))
}

// elapse lets time pass: simulated time, in the bubbles of these tests.
func elapse(d time.Duration) { <-time.After(d) }

// start runs a limiter against the broker until the test ends, or stop is
// called, which returns what Run did.
func start(t testing.TB, f *fakeBroker, change func(*regional.Config)) (l *regional.Limiter, stop func() error) {
	t.Helper()
	cfg := regional.Config{
		Region: "eu", Instance: "limiter-0", Clients: []client{f}, JournalMode: holder.JournalOff,
	}
	if change != nil {
		change(&cfg)
	}
	l, err := regional.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = l.Run(ctx)
	}()
	stop = func() error {
		cancel()
		<-ended
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return l, stop
}
