package shard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

var errUnknown = errors.New("deadline exceeded")

// Every transaction compares the ownership; all but the first the head and the
// generation as well.
func TestEveryTransactionIsGuarded(t *testing.T) {
	r := newRig(t)
	first, _ := r.send(asking(eu, "acme", 1, 10))
	r.settle()
	again, _ := r.send(asking(eu, "acme", 1, 10)) // changes nothing
	r.settle()
	first.requireOne(t)
	again.requireOne(t)
	for i, txn := range r.txns {
		guards := len(txn.If) == 3 && txn.If[1].Key == layout.Head(0) && txn.If[1].Target == store.ModRevision &&
			txn.If[2].Key == layout.Cluster() && txn.If[2].Target == store.ModRevision
		if i == 0 {
			guards = len(txn.If) == 1
		}
		if !guards || txn.If[0].Key != layout.Owner(0) || txn.If[0].Target != store.CreateRevision || txn.If[0].Revision == 0 {
			t.Errorf("transaction %d compares %+v", i, txn.If)
		}
	}
	if len(r.txns) < 3 {
		t.Errorf("%d transactions", len(r.txns))
	}
}

// Whatever waits, no transaction is above the store's limits: not in operations,
// and not in bytes, with names of the greatest length.
func TestTransactionsStayWithinLimits(t *testing.T) {
	for _, limit := range []int{8, 16, 128} {
		r := newRig(t, func(c *Config) { c.MaxTxnOps = limit })
		r.store.SetMaxTxnOps(limit)
		var answers []*answer
		for i := range 40 {
			req := &pb.SyncRequest{Holder: wire(eu), Epoch: 1, ListGrants: true}
			for b := range 20 {
				account := accountName(i*20+b) + strings.Repeat("\u00fc", 120) // escaped, three bytes each
				req.Budgets = append(req.Budgets, asking(eu, account, 1, 10).GetBudgets()[0])
			}
			a, _ := r.send(req)
			answers = append(answers, a)
		}
		r.settle()
		for _, a := range answers {
			for _, b := range a.requireOne(t).GetBudgets() {
				if b.GetIssuedTokens() != 10 {
					t.Fatalf("%v", b)
				}
			}
		}
		final := &pb.SyncRequest{Holder: wire(eu), Epoch: 1, Accounts: []*pb.EpochAccount{{Epoch: 1, Source: pb.AccountSource_ACCOUNT_SOURCE_HOLDER}}}
		a, _ := r.send(final)
		r.settle()
		if !a.requireOne(t).GetAccounts()[0].GetApplied() || r.shard.Stats().GrantsEnded != 800 {
			t.Errorf("limit %d: %v, %+v", limit, a.resp, r.shard.Stats())
		}
		for _, txn := range r.txns {
			size := 0
			for _, op := range txn.Then {
				size += len(op.Key) + len(op.Value)
			}
			if len(txn.Then) > limit || size > store.MaxTxnBytes {
				t.Fatalf("limit %d: a transaction of %d operations, %d bytes", limit, len(txn.Then), size)
			}
		}
	}
}

// Requests are answered once each, whatever happens to transactions: applied,
// lost, or applied with an error. What was answered without an error stands.
func TestAnsweredOnce(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		r := newRig(t)
		r.fate = func(store.Txn) (bool, error) {
			switch rnd.IntN(6) {
			case 0:
				return false, errUnknown
			case 1:
				return true, errUnknown
			}
			return true, nil
		}
		type sent struct {
			*answer
			account string
		}
		var all []sent
		for i := range 30 {
			h := []lease.Holder{eu, us}[rnd.IntN(2)]
			account := accountName(rnd.IntN(3))
			req := asking(h, account, uint64(i)+1, rnd.Int64N(50))
			req.WaitMs = uint32(rnd.IntN(3))
			req.ListGrants = rnd.IntN(4) == 0
			a, _ := r.send(req)
			all = append(all, sent{a, account})
			if rnd.IntN(2) == 0 {
				r.step()
			}
		}
		for range 100 {
			r.step()
		}
		r.fate = nil
		r.settle()
		for i, s := range all {
			if s.times != 1 {
				t.Fatalf("seed %d: request %d was answered %d times", seed, i, s.times)
			}
		}
		if r.shard.Waiting() != 0 {
			t.Fatalf("seed %d: %d wait", seed, r.shard.Waiting())
		}
		for i := range 3 {
			checkStored(t, r, accountName(i), 40)
		}
	}
}

// checkStored checks a budget in the store.
func checkStored(t *testing.T, r *rig, account string, capacity int64) {
	t.Helper()
	res, err := r.store.Range(t.Context(), store.RangeRequest{Key: layout.Budget(0, lease.Key{Account: account, Operation: operation})})
	if err != nil || len(res.KVs) == 0 {
		return
	}
	budget, err := record.Decode[record.Budget](res.KVs[0])
	if err != nil {
		t.Fatal(err)
	}
	var grants []record.Grant
	for _, path := range budget.Grants {
		kv, err := r.store.Range(t.Context(), store.RangeRequest{Key: layout.Grants(0) + path})
		if err != nil || len(kv.KVs) != 1 {
			t.Fatalf("grant %s: %v, %v", path, kv, err)
		}
		g, err := record.Decode[record.Grant](kv.KVs[0])
		if err != nil {
			t.Fatal(err)
		}
		grants = append(grants, g)
	}
	l, err := budget.Ledger(grants)
	if err != nil || l.Available+l.Reserved() != capacity {
		t.Fatalf("%v, %v, want all of %d", &l, err, capacity)
	}
}

// A lost owner answers everything with that, once, and does nothing any more.
func TestLostOwner(t *testing.T) {
	r := newRig(t)
	a, _ := r.send(asking(eu, "acme", 1, 40))
	r.settle()
	a.requireOne(t)
	hanging := asking(us, "acme", 1, 40)
	hanging.WaitMs = 60_000
	parked, _ := r.send(hanging)
	r.settle()
	if parked.times != 0 {
		t.Fatalf("not parked: %v, %v", parked.resp, parked.err)
	}
	if _, err := r.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpDelete, Key: layout.Owner(0)}}}); err != nil {
		t.Fatal(err)
	}
	denied, _ := r.send(asking(eu, "acme", 2, 41))
	r.settle()
	denied.requireError(t, ErrUncertain)
	parked.requireError(t, ErrNotOwner)
	if !r.shard.Lost() {
		t.Error("not lost")
	}
	late, _ := r.send(asking(eu, "acme", 3, 1))
	r.settle()
	late.requireError(t, ErrNotOwner)
}

// Abandoned in the middle of a commit, whose outcome nobody will hear of.
func TestAbandon(t *testing.T) {
	r := newRig(t)
	r.step()
	inFlight, _ := r.send(asking(eu, "acme", 1, 10))
	for range 2 { // the registration, and the budget
		r.step()
	}
	if r.shard.Next(r.now) == nil && inFlight.times == 0 {
		t.Fatal("no commit is on its way")
	}
	waiting, _ := r.send(asking(us, "acme", 1, 10))
	r.shard.Abandon()
	if inFlight.times != 1 || waiting.times != 1 {
		t.Errorf("answered %d and %d times", inFlight.times, waiting.times)
	}
	waiting.requireError(t, ErrNotOwner)
}

// A clock that steps back earns nothing and breaks nothing.
func TestClockStepsBack(t *testing.T) {
	r := newRig(t)
	r.put(layout.Policy(operation), lease.Policy{Operation: operation, DefaultCost: 1, Rule: lease.Rule{
		Kind: lease.TokenBucket, Version: 2, Capacity: 40, Refill: lease.Rate{Tokens: 1, Interval: time.Second}, MaxSharePercent: 100,
	}})
	a, _ := r.send(asking(eu, "acme", 1, 40))
	r.settle()
	spent := asking(eu, "acme", 2, 0)
	spent.Budgets[0].GrantId, spent.Budgets[0].SpentTokens = a.requireOne(t).GetBudgets()[0].GetGrantId(), 40
	b, _ := r.send(spent)
	r.settle()
	b.requireOne(t)
	for range 5 {
		r.now.Mono += 2 * time.Second
		r.settle()
		r.now.Mono -= 2 * time.Second
		r.settle()
	}
	c, _ := r.send(asking(us, "acme", 1, 3))
	r.settle()
	if got := c.requireOne(t).GetBudgets()[0]; got.GetIssuedTokens() != 0 {
		t.Errorf("2s passed, and 3 tokens were there: %v", got)
	}
}

// A policy that cannot be read leaves its operation without one until it is
// repaired, and stops nothing else; an older version than a budget's is not
// installed.
func TestPolicyDamagedAndRepaired(t *testing.T) {
	r := newRig(t)
	r.put(layout.Policy(operation), "not a policy")
	a, _ := r.send(asking(eu, "acme", 1, 10))
	r.settle()
	if got := a.requireOne(t).GetBudgets()[0]; got.GetShortage() != pb.Shortage_SHORTAGE_NO_POLICY {
		t.Fatalf("%v", got)
	}
	r.policy(5, 40)
	r.shard.PoliciesChanged()
	r.settle()
	a, _ = r.send(asking(eu, "acme", 2, 10))
	r.settle()
	if got := a.requireOne(t).GetBudgets()[0]; got.GetIssuedTokens() != 10 {
		t.Errorf("%v", got)
	}
	r.policy(4, 10)
	r.shard.PoliciesChanged()
	b, _ := r.send(asking(us, "acme", 1, 30))
	r.settle()
	if got := b.requireOne(t).GetBudgets()[0]; got.GetIssuedTokens() != 30 {
		t.Errorf("under an older version: %v", got)
	}
}

// Hints of one commit are one message per subscription, each key once; a
// subscription that ended gets none.
func TestHintsAreGrouped(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		a, _ := r.send(asking(eu, accountName(i), 1, 40))
		r.settle()
		a.requireOne(t)
	}
	var got [][]lease.Key
	sub := r.shard.Subscribe(eu, 1, func(keys []lease.Key, fenced bool) {
		if fenced {
			t.Error("fenced")
		}
		got = append(got, keys)
	})
	other := r.shard.Subscribe(eu, 1, func([]lease.Key, bool) { t.Error("a hint after the end") })
	r.shard.Unsubscribe(other)
	req := &pb.SyncRequest{Holder: wire(us), Epoch: 1}
	for i := range 3 {
		req.Budgets = append(req.Budgets, asking(us, accountName(i), 1, 10).GetBudgets()[0])
	}
	a, _ := r.send(req)
	r.settle()
	a.requireOne(t)
	if len(got) != 1 || len(got[0]) != 3 {
		t.Errorf("hints %v, want one of three keys", got)
	}
	r.shard.Unsubscribe(sub)
	if r.shard.Subscribers() != 0 {
		t.Errorf("%d subscribers", r.shard.Subscribers())
	}
}

// A holder that only watches is there, and one whose watch has ended was until then.
func TestWatchersAreHeard(t *testing.T) {
	r := newRig(t)
	r.sync(asking(eu, "acme", 1, 10))
	sub := r.shard.Subscribe(eu, 1, func([]lease.Key, bool) {})
	r.pass(time.Minute)
	if ago, ok := r.shard.Heard(r.now).Ago[eu]; !ok || ago != 0 {
		t.Errorf("a watching holder was heard %v ago", ago)
	}
	r.shard.Unsubscribe(sub)
	if ago := r.shard.Heard(r.now).Ago[eu]; ago > 0 {
		t.Errorf("at the end of its watch it was heard %v ago", ago)
	}
	r.pass(time.Minute)
	if ago := r.shard.Heard(r.now).Ago[eu]; ago < time.Minute {
		t.Errorf("a minute after that it was heard %v ago", ago)
	}
}

// However often a batch hints at a budget, its holder hears of it once, in the order of
// the first hints; that it is fenced it hears once, with the first of them.
func TestHintsNameKeysOnce(t *testing.T) {
	var got []string
	subscription := func(name string) *Subscription {
		return &Subscription{notify: func(keys []lease.Key, fenced bool) {
			for _, key := range keys {
				name += " " + key.Account
			}
			got = append(got, fmt.Sprint(name, " ", fenced))
		}}
	}
	one, two, three := subscription("one"), subscription("two"), subscription("three")
	at := func(account string) lease.Key { return lease.Key{Account: account, Operation: operation} }
	b := &batch{hints: []hint{
		{to: one, key: at("b")}, {to: two, fenced: true}, {to: one, key: at("a")}, {to: three, key: at("a")},
		{to: one, key: at("b")}, {to: one, fenced: true}, {to: one, key: at("a")}, {to: two, fenced: true},
	}}
	b.deliverHints()
	if want := []string{"one b a true", "two true", "three a false"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}
