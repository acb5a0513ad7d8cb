package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Generations of these tests: what is declared is drawn, so they do not follow
// one another.
const (
	second = 4711
	third  = 9000
)

// newOldRig is a rig whose cluster has a record, with a policy that refills.
func newOldRig(t *testing.T, capacity, perSecond int64, change ...func(*Config)) *rig {
	t.Helper()
	r := newRig(t, change...)
	r.put(layout.Cluster(), record.Cluster{ID: "c", Shards: 1, Generation: 1})
	r.refilled(1, capacity, perSecond)
	return r
}

// refilled puts a version in force that refills.
func (r *rig) refilled(version, capacity, perSecond int64) {
	r.t.Helper()
	rule := lease.Rule{Kind: lease.TokenBucket, Version: version, Capacity: capacity, MaxSharePercent: 100}
	if perSecond > 0 {
		rule.Refill = lease.Rate{Tokens: perSecond, Interval: time.Second}
	}
	r.put(layout.Policy(operation), lease.Policy{Operation: operation, DefaultCost: 1, Rule: rule})
	r.shard.PoliciesChanged()
}

// era changes the cluster record and its declaration, as the broker does.
func (r *rig) era(change func(*record.Cluster)) {
	r.t.Helper()
	res, err := r.store.Apply(store.Txn{Then: layout.EraOps()})
	if err != nil {
		r.t.Fatal(err)
	}
	e, _, err := layout.TakeEra(res.Results)
	if err != nil {
		r.t.Fatal(err)
	}
	cluster := e.Cluster
	change(&cluster)
	done, err := r.store.Apply(store.Txn{If: e.Guard(layout), Then: []store.Op{
		put(layout.Cluster(), cluster),
		put(layout.Declaration(cluster.Generation), record.Declaration{Generation: cluster.Generation}),
	}})
	if err != nil || !done.Succeeded {
		r.t.Fatalf("%v, %v", done, err)
	}
}

func (r *rig) declare(generation uint32) {
	r.t.Helper()
	r.era(func(c *record.Cluster) { c.Generation = generation })
}

// attest does likewise, and the shard hears of it.
func (r *rig) attest() {
	r.t.Helper()
	r.era(func(c *record.Cluster) { c.Attested = c.Generation })
	r.shard.ClusterChanged()
}

// own starts another owner of the shard, which knows nothing.
func (r *rig) own(change ...func(*Config)) {
	r.t.Helper()
	if _, err := r.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpDelete, Key: layout.Owner(0)}}}); err != nil {
		r.t.Fatal(err)
	}
	cfg := Config{Layout: layout, OwnerRevision: r.put(layout.Owner(0), record.Owner{BrokerID: "b"})}
	for _, f := range change {
		f(&cfg)
	}
	r.shard = New(cfg)
}

// restart gives the holder its next epoch, as the broker does.
func (r *rig) restart(h lease.Holder, generation uint32) (epoch uint64) {
	r.t.Helper()
	reg := record.Registration{Region: h.Region, Instance: h.Instance, StartNonce: "n"}
	res, err := r.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpGet, Key: layout.Holder(h)}}})
	if err != nil {
		r.t.Fatal(err)
	}
	if kvs := res.Results[0].KVs; len(kvs) > 0 {
		if reg, err = record.Decode[record.Registration](kvs[0]); err != nil {
			r.t.Fatal(err)
		}
	}
	reg.Epoch = max(reg.Epoch, lease.EpochFloor(generation)) + 1
	r.put(layout.Holder(h), reg)
	return reg.Epoch
}

// as is the request of another epoch.
func as(epoch uint64, req *pb.SyncRequest) *pb.SyncRequest {
	req.Epoch = epoch
	return req
}

// sync is a request that is answered without an error.
func (r *rig) sync(req *pb.SyncRequest) *pb.SyncResponse {
	r.t.Helper()
	a, _ := r.send(req)
	r.settle()
	return a.requireOne(r.t)
}

// records are the keys and values under the prefix.
func (r *rig) records(prefix string) []string {
	r.t.Helper()
	from, end := record.All(prefix)
	res, err := r.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpRange, Key: from, End: end}}})
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, kv := range res.Results[0].KVs {
		all = append(all, fmt.Sprintf("%s %s", kv.Key, kv.Value))
	}
	return all
}

// requireIssued checks the credit in the only answer of a response.
func requireIssued(t *testing.T, resp *pb.SyncResponse, want int64) *pb.BudgetAnswer {
	t.Helper()
	a := resp.GetBudgets()[0]
	if a.GetIssuedTokens() != want {
		t.Errorf("%d issued, want %d: %v", a.GetIssuedTokens(), want, a)
	}
	return a
}

// A commit of an owner that has not heard of the declaration is refused, however
// late it comes, and so is its answer from memory.
func TestDeclarationRefusesTheOldGeneration(t *testing.T) {
	for _, tc := range []struct {
		name   string
		second int64 // what is asked for when the declaration overtakes
	}{{"a grant", 20}, {"an answer that changes nothing", 10}} {
		t.Run(tc.name, func(t *testing.T) {
			r := newOldRig(t, 40, 0)
			first := requireIssued(t, r.sync(asking(eu, "acme", 1, 10)), 10)
			before := r.records(layout.Shards())
			declared := false
			r.fate = func(store.Txn) (bool, error) {
				if !declared {
					r.declare(second)
				}
				declared = true
				return true, nil
			}
			req := asking(eu, "acme", 2, tc.second)
			req.Budgets[0].GrantId = first.GetGrantId()
			late, _ := r.send(req)
			r.settle()
			late.requireError(t, ErrUncertain)
			if after := r.records(layout.Shards()); !slices.Equal(before, after) {
				t.Errorf("the shard has\n%v\nand had\n%v", after, before)
			}
			if resp := r.sync(asking(eu, "acme", 3, 20)); !resp.GetFenced() || resp.GetBudgets()[0].GetIssuedTokens() != 0 {
				t.Errorf("asked again: %v", resp)
			}
		})
	}
}

// Processes of before the restore hear that they are fenced, and what they say
// changes nothing: their accounts are done, and their grants are gone. They have
// seen heads and epochs that the store does not have, which stops nothing.
func TestEarlierEpochsChangeNothing(t *testing.T) {
	key := &pb.BudgetKey{Account: "acme", Operation: operation}
	for _, attested := range []bool{false, true} {
		r := newOldRig(t, 40, 0)
		held := requireIssued(t, r.sync(asking(eu, "acme", 1, 10)), 10).GetGrantId()
		r.declare(second)
		if attested {
			r.attest()
		}
		r.pass(time.Minute)
		records := func() []string { // all but the clock
			return slices.DeleteFunc(r.records(layout.Shards()), func(kv string) bool { return strings.Contains(kv, "/head ") })
		}
		before := records()
		account := func(source pb.AccountSource, epoch uint64) *pb.EpochAccount {
			return &pb.EpochAccount{Epoch: epoch, Source: source, JournalCounter: 3, Grants: []*pb.GrantAccount{{GrantId: held, SpentTokens: 99}}}
		}
		for name, req := range map[string]*pb.SyncRequest{
			"a wish":             asking(eu, "acme", 2, 20),
			"a lost epoch":       as(17, asking(eu, "acme", 2, 20)),
			"a head":             {Holder: wire(eu), Epoch: 1, HighestHead: 1 << 40},
			"a counter":          {Holder: wire(eu), Epoch: 1, JournalCounter: 99},
			"a report":           {Holder: wire(eu), Epoch: 1, Budgets: []*pb.BudgetReport{{Key: key, Sequence: 9, GrantId: held, SpentTokens: 5, ReturnedTokens: 5}}},
			"a close":            {Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{{GrantId: held, Key: key}}},
			"a list":             {Holder: wire(eu), Epoch: 1, ListGrants: true},
			"its account":        {Holder: wire(eu), Epoch: 1, Accounts: []*pb.EpochAccount{account(pb.AccountSource_ACCOUNT_SOURCE_HOLDER, 1)}},
			"a lost account":     {Holder: wire(eu), Epoch: 17, Accounts: []*pb.EpochAccount{account(pb.AccountSource_ACCOUNT_SOURCE_HOLDER, 17)}},
			"an earlier journal": {Holder: wire(eu), Epoch: 17, Accounts: []*pb.EpochAccount{account(pb.AccountSource_ACCOUNT_SOURCE_JOURNAL, 16)}},
		} {
			resp := r.sync(req)
			if !resp.GetFenced() || resp.GetJournalCounter() != 0 || len(resp.GetGrants()) != 0 {
				t.Errorf("%s: %v", name, resp)
			}
			for _, a := range resp.GetAccounts() {
				if !a.GetApplied() {
					t.Errorf("%s: %v", name, a)
				}
			}
			for _, a := range resp.GetBudgets() {
				if a.GetGrantId() != "" || a.GetGone() != (name == "a report") {
					t.Errorf("%s: %v", name, a)
				}
			}
		}
		if after := records(); !slices.Equal(before, after) || r.shard.SetBack() {
			t.Errorf("attested %v: the shard has\n%s\nand had\n%s", attested, strings.Join(after, "\n"), strings.Join(before, "\n"))
		}
	}
}

// A new start finishes what its journal has of before the restore, also of epochs
// that were lost, and without effect.
func TestJournalsOfBeforeAreFinished(t *testing.T) {
	r := newOldRig(t, 40, 0)
	r.sync(asking(eu, "acme", 1, 10))
	r.declare(second)
	req := &pb.SyncRequest{Holder: wire(eu), Epoch: r.restart(eu, second), ListGrants: true}
	for _, epoch := range []uint64{1, 17} {
		req.Accounts = append(req.Accounts, &pb.EpochAccount{
			Epoch: epoch, Source: pb.AccountSource_ACCOUNT_SOURCE_JOURNAL, JournalCounter: 1, Partial: epoch == 17,
			Grants: []*pb.GrantAccount{{GrantId: "g1-000-00000001", SpentTokens: 3}},
		})
	}
	before := r.records(layout.Budgets(0))
	resp := r.sync(req)
	if resp.GetFenced() || len(resp.GetAccounts()) != 2 || len(resp.GetGrants()) != 0 || !resp.GetListed() {
		t.Fatalf("%v", resp)
	}
	for i, a := range resp.GetAccounts() {
		if !a.GetApplied() || a.GetPartial() != (i == 1) || a.GetEvidence() != 0 {
			t.Errorf("%v", a)
		}
	}
	if after := r.records(layout.Budgets(0)); !slices.Equal(before, after) {
		t.Errorf("budgets %v, had %v", after, before)
	}
}

// Until the attestation nothing is granted, whatever becomes of the policy, of
// budgets that the copy has a record of and of others, and no time is promised.
func TestNothingIsGrantedBeforeTheAttestation(t *testing.T) {
	r := newOldRig(t, 40, 20)
	r.sync(asking(eu, "acme", 1, 10))
	r.declare(second)
	epoch := r.restart(us, second)
	for i, capacity := range []int64{40, 400, 10, 4000} {
		r.refilled(int64(i)+1, capacity, capacity)
		for _, account := range []string{"acme", "beta"} {
			a := requireIssued(t, r.sync(as(epoch, asking(us, account, uint64(i)+1, 5))), 0)
			if a.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || a.GetHasRetry() || a.GetPolicy().GetVersion() != int64(i)+1 {
				t.Errorf("capacity %d, %s: %v", capacity, account, a)
			}
		}
		r.pass(time.Hour)
		if i == 1 {
			r.own() // nothing is remembered, and nothing else follows
		}
	}
	if got := r.records(layout.Budgets(0)); len(got) != 1 || strings.Contains(got[0], "generation") {
		t.Errorf("budgets %v", got)
	}
}

// Once attested, every budget has what refill has earned since, and no more.
func TestAttestedBudgetsRefill(t *testing.T) {
	r := newOldRig(t, 40, 20)
	r.sync(asking(eu, "acme", 1, 40))
	r.declare(second)
	epoch := r.restart(us, second)
	waits := asking(us, "acme", 1, 10)
	waits.WaitMs = 60_000
	waiting, _ := r.send(as(epoch, waits))
	r.pass(10 * time.Second)
	r.attest()
	r.settle()
	if waiting.times != 0 {
		t.Fatalf("%v, %v", waiting.resp, waiting.err)
	}
	for _, account := range []string{"beta", "gamma"} {
		a := requireIssued(t, r.sync(as(epoch, asking(us, account, 2, 20))), 0)
		if !a.GetHasRetry() || a.GetRetryInNs() < int64(time.Second-20*time.Millisecond) {
			t.Errorf("%s: %v", account, a)
		}
	}
	r.pass(500 * time.Millisecond)
	requireIssued(t, waiting.requireOne(t), 10)
	requireIssued(t, r.sync(as(epoch, asking(us, "beta", 3, 10))), 10)
	r.pass(1500 * time.Millisecond)
	requireIssued(t, r.sync(as(epoch, asking(us, "gamma", 4, 40))), 40)
	r.pass(time.Hour)
	requireIssued(t, r.sync(as(epoch, asking(us, "delta", 5, 40))), 40)
	requireIssued(t, r.sync(as(epoch, asking(us, "delta", 6, 80))), 40) // out, and no more
}

// A fixed quota stays at 0; a refill for a while is how an operator hands it out
// anew.
func TestAttestedQuota(t *testing.T) {
	r := newOldRig(t, 40, 0)
	r.declare(second)
	r.attest()
	epoch := r.restart(us, second)
	r.pass(10 * time.Hour)
	requireIssued(t, r.sync(as(epoch, asking(us, "acme", 1, 1))), 0)
	r.refilled(2, 40, 40)
	r.settle()
	r.pass(2 * time.Second)
	r.refilled(3, 40, 0)
	r.settle()
	requireIssued(t, r.sync(as(epoch, asking(us, "beta", 2, 40))), 40)
}

// A policy that is raised after the attestation mints nothing, with a record or
// without.
func TestRaisedAfterTheAttestation(t *testing.T) {
	for _, restart := range []bool{false, true} {
		r := newOldRig(t, 40, 20)
		r.declare(second)
		r.attest()
		epoch := r.restart(us, second)
		r.settle()
		r.pass(500 * time.Millisecond)
		requireIssued(t, r.sync(as(epoch, asking(us, "acme", 1, 5))), 5)
		r.refilled(2, 4000, 20)
		r.settle()
		if restart {
			r.own()
			r.settle()
		}
		for _, account := range []string{"acme", "beta"} {
			a := requireIssued(t, r.sync(as(epoch, asking(us, account, 2, 100))), map[string]int64{"acme": 5}[account])
			if wait := time.Duration(a.GetRetryInNs()); wait < 4400*time.Millisecond || wait > 4500*time.Millisecond {
				t.Errorf("%s: %v", account, a)
			}
		}
	}
}

// Records are dropped where no record means the same, and what is read back is
// worth no more.
func TestDroppedAfterTheAttestation(t *testing.T) {
	r := newOldRig(t, 40, 20)
	r.sync(asking(eu, "old", 1, 10)) // of before the restore, and never asked for again
	r.declare(second)
	r.attest()
	epoch := r.restart(us, second)
	r.settle()
	r.pass(time.Second)
	got := requireIssued(t, r.sync(as(epoch, asking(us, "acme", 1, 10))), 10)
	end := &pb.SyncRequest{Holder: wire(us), Epoch: epoch, Closes: []*pb.GrantAccount{{
		GrantId: got.GetGrantId(), SpentTokens: 10, Key: &pb.BudgetKey{Account: "acme", Operation: operation},
	}}}
	r.sync(end)
	for range 60 {
		r.pass(time.Second)
	}
	if left := r.records(layout.Budgets(0)); len(left) != 0 {
		t.Errorf("budgets are still stored: %v", left)
	}
	r.own()
	r.settle()
	requireIssued(t, r.sync(as(epoch, asking(us, "acme", 2, 40))), 40)

	r.refilled(2, 4000, 0) // a full budget of the old capacity, and no refill
	r.settle()
	requireIssued(t, r.sync(as(epoch, asking(us, "beta", 3, 4000))), 0)
	requireIssued(t, r.sync(as(epoch, asking(us, "beta", 4, 40))), 40)
}

// The grants of before are deleted once their end is attested, in transactions
// that the store takes, and once.
func TestGrantsOfBeforeAreCleared(t *testing.T) {
	r := newOldRig(t, 40, 20, func(c *Config) { c.MaxTxnOps = 16 })
	r.store.SetMaxTxnOps(16)
	for i := range 100 {
		r.sync(asking(eu, accountName(i), uint64(i)+1, 10))
	}
	r.declare(second)
	r.pass(time.Minute)
	if got := r.records(layout.Grants(0)); len(got) != 100 {
		t.Fatalf("%d grants before the attestation", len(got))
	}
	r.attest()
	epoch := r.restart(us, second)
	r.sync(as(epoch, asking(us, "acme", 1, 0)))
	r.pass(time.Minute)
	requireIssued(t, r.sync(as(epoch, asking(us, "acme", 2, 10))), 10)
	if got := r.records(layout.Grants(0)); len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf("/g%d-000-", second)) {
		t.Errorf("grants %v", got)
	}
	head := r.records(layout.Head(0))
	if !strings.Contains(head[0], fmt.Sprintf(`"cleared":%d`, second)) {
		t.Errorf("%v", head)
	}
}

// A second restore on top of the first: what the first has attested is as unknown
// as everything else.
func TestSecondRestore(t *testing.T) {
	r := newOldRig(t, 40, 20)
	r.declare(second)
	r.attest()
	epoch := r.restart(us, second)
	r.settle().pass(time.Hour)
	held := requireIssued(t, r.sync(as(epoch, asking(us, "acme", 1, 40))), 40).GetGrantId()
	copied := r.store.Snapshot()
	r.sync(as(epoch, asking(us, "beta", 2, 40)))
	r.store.Restore(copied)
	r.declare(third)
	r.own()
	req := as(epoch, asking(us, "acme", 3, 40))
	req.Budgets[0].GrantId = held
	again := r.sync(req)
	if !again.GetFenced() || !again.GetBudgets()[0].GetGone() {
		t.Errorf("%v", again)
	}
	later := r.restart(us, third)
	requireIssued(t, r.sync(as(later, asking(us, "acme", 1, 1))), 0)
	r.pass(time.Hour)
	requireIssued(t, r.sync(as(later, asking(us, "beta", 2, 1))), 0)
	r.attest()
	r.pass(time.Minute)
	if id := requireIssued(t, r.sync(as(later, asking(us, "acme", 3, 40))), 40).GetGrantId(); id == held {
		t.Errorf("grant %s a second time", id)
	}
}

// A shard that stands still because its store was set back is served again once
// that is declared, and stops again for what is new.
func TestDeclarationEndsASetBack(t *testing.T) {
	for _, hinted := range []bool{true, false} {
		r := newOldRig(t, 40, 0)
		r.sync(asking(eu, "acme", 1, 10))
		evidence := &pb.SyncRequest{Holder: wire(eu), Epoch: 1, HighestHead: 1 << 40}
		stopped, _ := r.send(evidence)
		r.settle()
		stopped.requireError(t, ErrSetBack)
		still, _ := r.send(asking(eu, "acme", 2, 10))
		r.pass(time.Minute) // it reads again, and it is the same generation
		still.requireError(t, ErrSetBack)
		if !r.shard.SetBack() || r.shard.Serving() {
			t.Fatal("the shard is served")
		}
		r.declare(second)
		if hinted {
			r.shard.ClusterChanged()
		} else {
			r.pass(pollEvery)
		}
		if resp := r.sync(evidence); !resp.GetFenced() || r.shard.SetBack() {
			t.Errorf("%v", resp)
		}
		next := &pb.SyncRequest{Holder: wire(eu), Epoch: r.restart(eu, second), HighestHead: 1 << 40}
		stopped, _ = r.send(next)
		r.settle()
		stopped.requireError(t, ErrSetBack)
	}
}

// An epoch of a generation that the copy does not know tells which to declare
// above.
func TestLaterGenerationStopsTheShard(t *testing.T) {
	r := newOldRig(t, 40, 0)
	r.declare(second)
	a, _ := r.send(as(lease.EpochFloor(third)+1, asking(eu, "acme", 1, 1)))
	r.settle()
	a.requireError(t, ErrSetBack)
	if !strings.Contains(a.err.Error(), "tokenlease restore declare` with --above 9000") {
		t.Errorf("%v", a.err)
	}
}

// Histories that begin with the same copy write the same revisions. A paused
// owner of one commits nothing in the other: generations are drawn, and a
// transaction finds no declaration of its own.
func TestPausedOwnerOfAnotherHistory(t *testing.T) {
	for _, bites := range []bool{false, true} {
		r := newOldRig(t, 40, 20)
		r.settle()
		copied := r.store.Snapshot()
		live := func(generation uint32) *store.Txn {
			r.store.Restore(copied)
			r.declare(generation)
			r.attest()
			r.own()
			epoch := r.restart(us, generation)
			r.settle().pass(time.Hour)
			r.sync(as(epoch, asking(us, "acme", 1, 10)))
			var paused *store.Txn
			r.fate = func(txn store.Txn) (bool, error) {
				if !slices.ContainsFunc(txn.Then, func(op store.Op) bool { return op.Kind == store.OpPut }) {
					return true, nil
				}
				paused = &txn
				return false, errUnknown
			}
			defer func() { r.fate = nil }()
			r.send(as(epoch, asking(us, "beta", 2, 40)))
			for paused == nil {
				r.step()
			}
			return paused
		}
		late := live(second)
		live(third)
		if bites {
			late.If = late.If[:3] // without the declaration
		}
		res, err := r.store.Apply(*late)
		if err != nil || res.Succeeded != bites {
			t.Errorf("without the declaration %v: %v, %v", bites, res.Succeeded, err)
		}
	}
}

// An owner that goes on while the store is set back knows better than the copy:
// by its own commits, and by the generation that it has served in.
func TestOwnerKnowsBetterThanTheCopy(t *testing.T) {
	for _, later := range []bool{false, true} {
		r := newOldRig(t, 40, 20)
		r.sync(asking(eu, "acme", 1, 10))
		copied := r.store.Snapshot()
		epoch := uint64(1)
		if later {
			r.declare(second)
			epoch = r.restart(eu, second)
		}
		r.sync(as(epoch, asking(eu, "acme", 2, 20)))
		r.store.Restore(copied)
		a, _ := r.send(as(epoch, asking(eu, "acme", 3, 30)))
		r.settle()
		if a.err == nil || !r.shard.SetBack() {
			t.Errorf("%v, %v", a.resp, a.err)
		}
		a, _ = r.send(as(epoch, asking(eu, "acme", 4, 30)))
		r.settle()
		a.requireError(t, ErrSetBack)
		if above := strings.Contains(a.err.Error(), fmt.Sprint("--above ", second)); above != later {
			t.Errorf("%v", a.err)
		}
		if later {
			r.declare(second - 1) // not above what was in force
			r.pass(time.Minute)
			if !r.shard.SetBack() {
				t.Error("a generation from the past is served")
			}
		}
		r.declare(third)
		r.shard.ClusterChanged()
		if resp := r.sync(as(epoch, asking(eu, "acme", 5, 30))); !resp.GetFenced() {
			t.Errorf("%v", resp)
		}
	}
}
