package shard

import (
	"slices"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// applied puts records in force under a policy version, as the broker does.
func (r *rig) applied(version int64, accounts []string, ops ...store.Op) {
	r.t.Helper()
	var before record.PolicySet
	res, err := r.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpGet, Key: layout.PolicySet()}}})
	if err != nil {
		r.t.Fatal(err)
	}
	if kvs := res.Results[0].KVs; len(kvs) > 0 {
		if before, err = record.Decode[record.PolicySet](kvs[0]); err != nil {
			r.t.Fatal(err)
		}
	}
	if _, err := r.store.Apply(store.Txn{Then: append(ops, put(layout.PolicySet(), before.Next(version, 0, accounts, nil)))}); err != nil {
		r.t.Fatal(err)
	}
	r.shard.PoliciesChanged()
}

// capped is a policy of the version that refills so many a second.
func capped(version, capacity, perSecond int64) lease.Policy {
	p := lease.Policy{Operation: operation, DefaultCost: 1, Rule: lease.Rule{Kind: lease.TokenBucket, Version: version, Capacity: capacity, MaxSharePercent: 100}}
	if perSecond > 0 {
		p.Rule.Refill = lease.Rate{Tokens: perSecond, Interval: time.Second}
	}
	return p
}

func (r *rig) head() (head record.Head) {
	r.t.Helper()
	res, err := r.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpGet, Key: layout.Head(0)}}})
	if err == nil && len(res.Results[0].KVs) > 0 {
		head, err = record.Decode[record.Head](res.Results[0].KVs[0])
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return head
}

// grants are the stored grants, in order of key.
func (r *rig) grants() (grants []record.Grant) {
	r.t.Helper()
	from, end := record.All(layout.Grants(0))
	res, err := r.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpRange, Key: from, End: end}}})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, kv := range res.Results[0].KVs {
		g, err := record.Decode[record.Grant](kv)
		if err != nil {
			r.t.Fatal(err)
		}
		grants = append(grants, g)
	}
	return grants
}

// A grant carries the version that came with it, and then what its holder tells, as
// far as its budget is; each costs one commit.
func TestInstalledVersions(t *testing.T) {
	r := newRig(t)
	r.applied(2, nil, put(layout.Policy(operation), capped(2, 40, 0)))
	sequence := uint64(0)
	report := func(version int64) {
		t.Helper()
		sequence++
		req := asking(eu, "acme", sequence, 10)
		if grants := r.grants(); len(grants) > 0 {
			req.Budgets[0].GrantId = grants[0].ID
		}
		req.Budgets[0].PolicyVersion = version
		a, _ := r.send(req)
		r.settle()
		a.requireOne(t)
	}
	report(0)
	r.applied(3, nil, put(layout.Policy(operation), capped(3, 30, 0)))
	for _, step := range []struct{ told, want int64 }{{0, 2}, {2, 2}, {3, 3}, {2, 3}, {9, 3}} {
		report(step.told)
		if got := r.grants()[0].PolicyVersion; got != step.want {
			t.Errorf("told version %d, stored %d, want %d", step.told, got, step.want)
		}
	}
	r.applied(4, nil, put(layout.Policy(operation), capped(4, 30, 0)))
	report(4)
	report(99)
	if got := r.grants()[0].PolicyVersion; got != 4 {
		t.Errorf("stored %d, want 4, the version of the budget", got)
	}
}

// A version reaches stored budgets that are not in memory, and whose holders ask for
// nothing: these are hinted, until they have it. Then the head tells that it is taken
// up, in one commit.
func TestSpreadReachesStoredBudgets(t *testing.T) {
	r := newRig(t)
	r.applied(2, nil, put(layout.Policy(operation), capped(2, 40, 0)))
	for i := range 50 {
		a, _ := r.send(asking(eu, accountName(i), uint64(i+1), 10))
		r.settle()
		a.requireOne(t)
	}
	if r.pass(time.Minute + 20*time.Second); r.shard.Budgets() != 0 {
		t.Fatalf("%d budgets are in memory", r.shard.Budgets())
	}
	var hinted []lease.Key
	r.shard.Subscribe(eu, 1, func(keys []lease.Key, _ bool) { hinted = append(hinted, keys...) })
	special := record.Account{Account: accountName(7), Version: 3, Policies: []lease.Policy{capped(3, 5, 0)}}
	r.applied(3, []string{special.Account}, put(layout.Account(special.Account), special))
	r.settle()
	if got := r.head().PolicyVersion; got != 3 {
		t.Errorf("the head tells version %d, want 3", got)
	}
	if len(hinted) != 1 || hinted[0].Account != special.Account {
		t.Errorf("hinted %v, want %s alone", hinted, special.Account)
	}
	r.applied(4, nil, put(layout.Policy(operation), capped(4, 20, 0)))
	r.settle()
	hinted = slices.CompactFunc(hinted, func(a, b lease.Key) bool { return a == b })
	if r.head().PolicyVersion != 4 || len(hinted) != 50 { // account 7 was told before, and has a policy of its own
		t.Errorf("%d budgets were hinted, the head tells version %d", len(hinted), r.head().PolicyVersion)
	}
	commits := r.shard.Stats().Commits
	r.shard.PoliciesChanged()
	r.settle()
	if got := r.shard.Stats().Commits; got != commits {
		t.Errorf("%d commits for a version that is taken up", got-commits)
	}
	hinted = nil
	r.pass(beatEvery)
	if len(hinted) != 50 {
		t.Errorf("%d budgets were hinted again, want all that are behind", len(hinted))
	}
	for i, g := range r.grants() {
		req := asking(eu, g.Account, uint64(100+i), 0)
		req.Budgets[0].GrantId, req.Budgets[0].PolicyVersion = g.ID, 4
		a, _ := r.send(req)
		r.settle()
		a.requireOne(t)
	}
	hinted = nil
	r.pass(2 * beatEvery)
	if len(hinted) != 0 {
		t.Errorf("hinted %v, who have told that they have it", hinted)
	}
}

// An owner that takes over goes on with a version that its predecessor has not spread.
func TestSpreadAfterTakingOver(t *testing.T) {
	r := newRig(t)
	r.applied(2, nil, put(layout.Policy(operation), capped(2, 40, 0)))
	a, _ := r.send(asking(eu, "acme", 1, 10))
	r.settle()
	a.requireOne(t)
	r.applied(3, nil, put(layout.Policy(operation), capped(3, 8, 0)))
	r.own()
	r.settle()
	if b := r.budget(); b.Rule.Version != 3 || b.Rule.Capacity != 8 || r.head().PolicyVersion != 3 {
		t.Errorf("the budget is under %+v, the head tells version %d", b.Rule, r.head().PolicyVersion)
	}
}

// A version that comes while the spread of the one before is reading budgets reaches
// these as well, at whatever step it comes: the head tells it only then.
func TestSpreadDuringASpread(t *testing.T) {
	r := newRig(t)
	r.applied(2, nil, put(layout.Policy(operation), capped(2, 40, 0)))
	for i := range 40 {
		r.sync(asking(eu, accountName(i), uint64(i+1), 10))
	}
	version := int64(2)
	for steps := range 12 {
		if r.pass(time.Minute + 20*time.Second); r.shard.Budgets() != 0 {
			t.Fatalf("%d budgets are in memory", r.shard.Budgets())
		}
		r.applied(version+1, nil, put(layout.Policy(operation), capped(version+1, 20, 0)))
		for range steps {
			r.step()
		}
		version += 2
		r.applied(version, nil, put(layout.Policy(operation), capped(version, 10, 0)))
		for range 1000 {
			if r.head().PolicyVersion == version || !r.step() {
				break
			}
		}
		behind := 0
		for _, b := range r.budgets() {
			if b.Rule.Version < version {
				behind++
			}
		}
		if told := r.head().PolicyVersion; told != version || behind > 0 {
			t.Errorf("after %d steps: the head tells version %d of %d, and %d budgets with credit out are behind", steps, told, version, behind)
		}
	}
}

// budgets are the stored budgets, in order of key.
func (r *rig) budgets() (budgets []record.Budget) {
	r.t.Helper()
	from, end := record.All(layout.Budgets(0))
	res, err := r.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpRange, Key: from, End: end}}})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, kv := range res.Results[0].KVs {
		b, err := record.Decode[record.Budget](kv)
		if err != nil {
			r.t.Fatal(err)
		}
		budgets = append(budgets, b)
	}
	return budgets
}

// A policy that is removed hints the holders of all its budgets, of which nothing is
// written: in batches, and in hints of bounded size, each budget once.
func TestRemovalIsHintedInBatches(t *testing.T) {
	const budgets = 10_000
	r := newRig(t)
	r.applied(2, nil, put(layout.Policy(operation), capped(2, 40, 0)))
	hinted, notices, longest := map[lease.Key]int{}, 0, 0
	r.shard.Subscribe(eu, 1, func(keys []lease.Key, _ bool) {
		notices++
		longest = max(longest, len(keys))
		for _, key := range keys {
			hinted[key]++
		}
	})
	for i := 0; i < budgets; i += 500 {
		req := &pb.SyncRequest{Holder: wire(eu), Epoch: 1}
		for k := i; k < i+500; k++ {
			req.Budgets = append(req.Budgets, asking(eu, accountName(k), uint64(k+1), 1).GetBudgets()[0])
		}
		r.sync(req)
	}
	if _, err := r.store.Apply(store.Txn{Then: []store.Op{
		{Kind: store.OpDelete, Key: layout.Policy(operation)},
		put(layout.PolicySet(), record.PolicySet{Version: 2}.Next(3, 0, nil, []string{operation})),
	}}); err != nil {
		t.Fatal(err)
	}
	r.shard.PoliciesChanged()
	most := 0
	for {
		before := len(hinted)
		if !r.step() {
			break
		}
		most = max(most, len(hinted)-before)
	}
	if len(hinted) != budgets || most > maxBatchHints || longest > maxHinted || notices < budgets/maxHinted {
		t.Errorf("%d of %d budgets hinted, up to %d in a step and %d in one of %d hints", len(hinted), budgets, most, longest, notices)
	}
	for key, times := range hinted {
		if times != 1 {
			t.Errorf("%v hinted %d times", key, times)
		}
	}
}

// Whoever subscribes late hears of all budgets that it is behind with, in hints of
// bounded size.
func TestSubscriberIsToldInPieces(t *testing.T) {
	const budgets = 2500
	r := newRig(t)
	r.applied(2, nil, put(layout.Policy(operation), capped(2, 40, 0)))
	for i := 0; i < budgets; i += 500 {
		req := &pb.SyncRequest{Holder: wire(eu), Epoch: 1}
		for k := i; k < i+500; k++ {
			req.Budgets = append(req.Budgets, asking(eu, accountName(k), uint64(k+1), 1).GetBudgets()[0])
		}
		r.sync(req)
	}
	r.applied(3, nil, put(layout.Policy(operation), capped(3, 30, 0)))
	r.settle()
	var sizes []int
	r.shard.Subscribe(eu, 1, func(keys []lease.Key, _ bool) { sizes = append(sizes, len(keys)) })
	if want := []int{maxHinted, maxHinted, budgets - 2*maxHinted}; !slices.Equal(sizes, want) {
		t.Errorf("hints of %v budgets, want %v", sizes, want)
	}
}
