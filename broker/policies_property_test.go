package broker

import (
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"
	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/broker/policyset"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

var (
	drawnAccounts   = []string{"acme", "Acme", "b/1", "zoe"}
	drawnOperations = []string{"create", "read"}
	drawnPlans      = []string{"free", "premium"}
)

// chain is a cluster whose policies change at random, and what ruled every budget at
// each version.
type chain struct {
	t      *rapid.T
	n      *node
	rulers map[lease.Key]map[int64]policyset.Ruling // by policy version; absent: none
	newest map[lease.Key]policyset.Ruling
}

func keysDrawn() (keys []lease.Key) {
	for _, account := range drawnAccounts {
		for _, operation := range drawnOperations {
			keys = append(keys, lease.Key{Account: account, Operation: operation})
		}
	}
	return keys
}

func drawPolicies(t *rapid.T, label string) (policies []*pb.Policy) {
	for _, operation := range drawnOperations {
		if capacity := rapid.Int64Range(0, 3).Draw(t, label+" "+operation); capacity > 0 {
			p := bucket(10*capacity, 0)
			p.Operation = operation
			policies = append(policies, p)
		}
	}
	return policies
}

// change makes a random change. Some are refused, and some change nothing.
func (c *chain) change() {
	req := &pb.ApplyPoliciesRequest{AppliedBy: "ann"}
	plan := rapid.SampledFrom(append([]string{""}, drawnPlans...)).Draw(c.t, "plan")
	account := rapid.SampledFrom(drawnAccounts).Draw(c.t, "account")
	operation := rapid.SampledFrom(drawnOperations).Draw(c.t, "operation")
	var err error
	switch what := rapid.SampledFrom([]string{"policies", "remove", "plan", "plan", "plan", "remove plan", "account", "remove account", "default", "disable", "enable", "rollback"}).Draw(c.t, "change"); {
	case what == "policies":
		req.Policies = drawPolicies(c.t, "for everybody")
	case what == "remove":
		req.RemoveOperations = []string{operation}
	case what == "plan" && plan != "":
		req.Plans = []*pb.Plan{{Name: plan, Policies: drawPolicies(c.t, "of the plan")}}
	case what == "remove plan" && plan != "":
		req.RemovePlans = []string{plan}
	case what == "account":
		req.Accounts = []*pb.AccountPolicies{{Account: account, Plan: plan, Policies: drawPolicies(c.t, "of the account")}}
	case what == "remove account":
		req.RemoveAccounts = []string{account}
	case what == "default":
		req.DefaultPlan = &plan
	case what == "disable":
		_, err = c.n.admin.DisableOperation(c.n.site.ctx, connect.NewRequest(&pb.DisableOperationRequest{Operation: operation, DisabledBy: "ann", Because: "test"}))
	case what == "enable":
		_, err = c.n.admin.EnableOperation(c.n.site.ctx, connect.NewRequest(&pb.EnableOperationRequest{Operation: operation, EnabledBy: "ann"}))
	case what == "rollback":
		back := rapid.Int64Range(1, 5).Draw(c.t, "back")
		_, err = c.n.admin.RollbackPolicies(c.n.site.ctx, connect.NewRequest(&pb.RollbackPoliciesRequest{ToVersion: max(0, c.version()-back), AppliedBy: "ann", Because: "test"}))
	}
	if req.Validate() == nil {
		_, err = c.n.admin.ApplyPolicies(c.n.site.ctx, connect.NewRequest(req))
	}
	switch connect.CodeOf(err) {
	case connect.CodeFailedPrecondition, connect.CodeInvalidArgument: // a plan that is in use, or is not there
	default:
		if err != nil {
			c.t.Fatalf("%v: %v", req, err)
		}
	}
}

func (c *chain) version() int64 {
	set, err := c.n.view(c.n.site.ctx).policySet()
	if err != nil {
		c.t.Fatal(err)
	}
	return set.Version
}

// look notes what rules every budget now, and holds it against what ruled it before.
func (c *chain) look() {
	v := c.n.view(c.n.site.ctx)
	for _, key := range keysDrawn() {
		r, ruled, err := v.ruling(key)
		if err != nil {
			c.t.Fatal(err)
		}
		if !ruled {
			continue
		}
		if version := v.set.Version; r.Rule.Version > version {
			c.t.Fatalf("%v is ruled by version %d, and %d is in force", key, r.Rule.Version, version)
		}
		if c.rulers[key] == nil {
			c.rulers[key] = map[int64]policyset.Ruling{}
		}
		last, known := c.newest[key]
		switch {
		case known && r.Rule.Version < last.Rule.Version:
			c.t.Fatalf("%v falls from %+v to %+v", key, last, r)
		case known && r.Rule.Version == last.Rule.Version && !r.SameTerms(last.Policy):
			c.t.Fatalf("%v has other terms under the same version: %+v and %+v", key, last, r)
		}
		c.newest[key], c.rulers[key][v.set.Version] = r, r
	}
}

func newChain(t *testing.T, rt *rapid.T) *chain {
	s := newLocalSite(t, store.NewMemory(), 1)
	c := &chain{t: rt, n: s.serve("a"), rulers: map[lease.Key]map[int64]policyset.Ruling{}, newest: map[lease.Key]policyset.Ruling{}}
	create, free := bucket(10, 0), drawnPlans[0]
	create.Operation = drawnOperations[0]
	_, err := c.n.admin.ApplyPolicies(s.ctx, connect.NewRequest(&pb.ApplyPoliciesRequest{
		Policies: []*pb.Policy{create}, Plans: []*pb.Plan{{Name: free}}, DefaultPlan: &free, AppliedBy: "ann",
	}))
	if err != nil {
		rt.Fatal(err)
	}
	c.look()
	return c
}

// Whatever moves, the version that rules a budget never falls, and rises whenever its
// terms change: a ledger takes up higher versions only.
func TestRulingVersionsOnlyRise(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newChain(t, rt)
		for range rapid.IntRange(1, 30).Draw(rt, "changes") {
			c.change()
			c.look()
		}
	})
}

// follower is a shard that hears of changes late, or never, and serves meanwhile.
type follower struct {
	*chain

	sh       *shard.Shard
	now      shard.Moment
	sequence uint64
	grants   map[lease.Key]string
	told     map[lease.Key]int64 // the version of the newest answer
}

func newFollower(c *chain) *follower {
	l := c.n.layout
	s := c.n.site
	res, err := s.store.Txn(s.ctx, store.Txn{Then: []store.Op{
		{Kind: store.OpPut, Key: l.Owner(0), Value: record.Encode(record.Owner{BrokerID: "a"})},
		{Kind: store.OpPut, Key: l.Holder(lease.Holder{Region: "eu", Instance: "a"}), Value: record.Encode(record.Registration{Region: "eu", Instance: "a", Epoch: 1})},
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	return &follower{
		chain: c, sh: shard.New(shard.Config{Layout: l, OwnerRevision: res.Revision}),
		grants: map[lease.Key]string{}, told: map[lease.Key]int64{},
	}
}

// settle runs until there is nothing to do, with changes in between.
func (f *follower) settle(between func()) {
	for range 1000 {
		f.now.Mono += time.Millisecond
		txn := f.sh.Next(f.now)
		if txn == nil {
			return
		}
		res, err := f.n.site.store.Txn(f.n.site.ctx, *txn)
		if err != nil {
			f.t.Fatal(err)
		}
		between()
		f.sh.Result(f.now, res, nil)
	}
	f.t.Fatal("no end in sight")
}

// ask has a holder ask for a budget, and checks that it is answered under a policy
// that ruled it at one version of the chain, no older than what was answered before.
func (f *follower) ask(key lease.Key, between func()) *pb.BudgetAnswer {
	f.sequence++
	var answer *pb.BudgetAnswer
	req := &pb.SyncRequest{Holder: &pb.Holder{Region: "eu", Instance: "a"}, Epoch: 1, Budgets: []*pb.BudgetReport{{
		Key: &pb.BudgetKey{Account: key.Account, Operation: key.Operation}, Sequence: f.sequence, WantTokens: 1, GrantId: f.grants[key],
	}}}
	f.sh.Sync(req, f.now, func(resp *pb.SyncResponse, err error) {
		if err != nil {
			f.t.Fatal(err)
		}
		answer = resp.GetBudgets()[0]
	})
	f.settle(between)
	if answer == nil {
		f.t.Fatal("not answered")
	}
	f.grants[key] = answer.GetGrantId()
	if p := answer.GetPolicy(); p != nil {
		f.requireOnChain(key, p)
	}
	return answer
}

func (f *follower) requireOnChain(key lease.Key, p *pb.Policy) {
	if p.GetVersion() < f.told[key] {
		f.t.Fatalf("%v is answered under version %d after %d", key, p.GetVersion(), f.told[key])
	}
	f.told[key] = p.GetVersion()
	for _, r := range f.rulers[key] {
		if want := policyToWire(r); want.GetVersion() == p.GetVersion() {
			if fmt.Sprint(want) != fmt.Sprint(p) && !r.SameTerms(f.newest[key].Policy) {
				f.t.Fatalf("%v is answered under %v, want %v", key, p, want)
			}
			if got := p.GetTokenBucket().GetCapacityTokens(); got != r.Rule.Capacity || p.GetDisabled() != r.Disabled {
				f.t.Fatalf("%v is answered under %v, want %v", key, p, want)
			}
			return
		}
	}
	f.t.Fatalf("%v is answered under %v, which never ruled it", key, p)
}

// A shard that reads policies and accounts at different times, late, and with changes
// between any two of its transactions, answers under what ruled the budget at some
// version, never an older one than before; and under the newest once it has heard.
func TestShardsFollowTheChain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newChain(t, rt)
		f := newFollower(c)
		change := func() {
			c.change()
			c.look()
		}
		sometimes := func() {
			if rapid.IntRange(0, 9).Draw(rt, "in between") == 0 {
				change()
			}
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1:
				change()
			case 2:
				f.now.Mono += rapid.SampledFrom([]time.Duration{0, time.Second, 20 * time.Second}).Draw(rt, "pause")
			default:
				f.ask(rapid.SampledFrom(keysDrawn()).Draw(rt, "key"), sometimes)
			}
		}
		f.sh.PoliciesChanged()
		f.settle(func() {})
		v := c.n.view(c.n.site.ctx)
		for _, key := range keysDrawn() {
			want, ruled, err := v.ruling(key)
			if err != nil {
				rt.Fatal(err)
			}
			got := f.ask(key, func() {})
			if ruled && got.GetPolicy().GetVersion() != want.Rule.Version || !ruled && got.GetPolicy() != nil {
				rt.Fatalf("%v is answered under %v, want %+v", key, got.GetPolicy(), want)
			}
			f.requireLedger(key, want, ruled)
		}
	})
}

// requireLedger checks that the stored budget runs under the policy that rules it.
func (f *follower) requireLedger(key lease.Key, want policyset.Ruling, ruled bool) {
	kv, err := f.n.view(f.n.site.ctx).get(f.n.layout.Budget(0, key))
	if err != nil {
		f.t.Fatal(err)
	}
	if kv == nil || !ruled {
		return
	}
	b, err := record.Decode[record.Budget](*kv)
	if err != nil || b.Rule != want.Rule {
		f.t.Fatalf("the ledger of %v is under %+v, want %+v, error %v", key, b.Rule, want.Rule, err)
	}
}
