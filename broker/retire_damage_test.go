package broker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// One record that cannot be read keeps what it is about reserved, and nothing else: the
// epoch is fenced, the other grants of all shards are resolved, and the fault is told,
// by the preview too.
func TestRetirePastDamage(t *testing.T) {
	for name, tc := range map[string]struct {
		damaged  func(s *site, h *holder, account string) string
		foreseen bool // by the preview
	}{
		"grant": {func(s *site, h *holder, account string) string {
			return s.layout.Grants(0) + s.pathOf(h, account)
		}, true},
		"budget": {func(s *site, _ *holder, account string) string {
			return s.layout.Budget(0, lease.Key{Account: account, Operation: operation})
		}, true},
		"account": {func(s *site, _ *holder, account string) string { return s.layout.Account(account) }, false},
		"fence":   {func(s *site, h *holder, _ string) string { return s.layout.Fence(0, holderOf(h.name)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newLocalSite(t, store.NewMemory(), 2)
				n, m := s.start("a"), s.start("b")
				pass(10 * time.Second)
				n.ready()
				m.ready()
				for id, to := range []string{"a", "b"} {
					if _, err := n.moveShard(uint32(id), to); err != nil {
						t.Fatal(err)
					}
				}
				n.apply(bucket(40, 0))
				bad, good, far := accountIn(0, 2), "good", accountIn(1, 2)
				for i := 0; lease.ShardOf(lease.Key{Account: good, Operation: operation}, 2) != 0; i++ {
					good = fmt.Sprint("good-", i)
				}
				n.change(&pb.ApplyPoliciesRequest{Accounts: []*pb.AccountPolicies{account(bad, "", bucket(40, 0))}})
				h := n.join("eu", "limiter-0").hears(bad, 2).hears(far, 1)
				h.ask(bad, 10)
				h.ask(good, 5)
				h.ask(far, 7)
				pass(2 * time.Minute) // nothing is in memory any more
				s.put(tc.damaged(s, h, bad), brokenRecord)
				pass(time.Second)

				for _, asked := range []*node{m, n} { // the owner of the good shard, and of the bad one
					preview, err := asked.retire(h, dryRun)
					if err != nil {
						t.Fatal(err)
					}
					told := strings.Join(preview.GetUnusable(), "\n")
					if tc.foreseen != (preview.GetUnusableCount() == 1 && strings.Contains(told, tc.damaged(s, h, bad))) {
						t.Errorf("preview %v", preview)
					}
					_, err = asked.retire(h)
					if name == "fence" && err == nil {
						break // it was written anew: what it says is the registration's to say
					}
					requireCode(t, err, connect.CodeDataLoss)
					if !strings.Contains(err.Error(), "1 cannot be resolved") || !strings.Contains(err.Error(), tc.damaged(s, h, bad)) {
						t.Errorf("error %v", err)
					}
				}
				s.requireBalance(far, 33, 0)
				if name != "fence" {
					s.requireBalance(good, 35, 0)
				}
				if got := len(s.actions("holders.retire")); got != 1 {
					t.Errorf("%d audit entries of the fence", got)
				}
			})
		})
	}
}

// pathOf is what the account's budget calls its only grant.
func (s *site) pathOf(h *holder, account string) string {
	s.t.Helper()
	from, end := record.All(s.layout.GrantsOf(0, holderOf(h.name)))
	for _, kv := range s.keys(from, end) {
		if g, err := record.Decode[record.Grant](kv); err != nil || g.Account == account {
			return strings.TrimPrefix(kv.Key, s.layout.Grants(0))
		}
	}
	s.t.Fatalf("no grant of %s", account)
	return ""
}

// A broker that does not know yet that a shard has another owner waits until it does,
// rather than to tell of damage that there is not.
func TestRetireWithStaleOwners(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n, m := s.start("a"), s.start("b")
		pass(10 * time.Second)
		n.ready()
		m.ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		h.ask("acme", 10)
		pass(2 * time.Minute)
		asked := n
		if asked.ownership.runner(0) != nil {
			asked = m
		}
		other := s.serve("c") // which owns nothing, and has never
		asked.ownership.publish(map[uint32]owned{0: {Owner: record.Owner{BrokerID: "c", URL: other.url}}})
		if done, err := asked.retire(h); err != nil || done.GetGrantsCount() != 1 {
			t.Errorf("retired: %v, %v", done, err)
		}
		n.verified(0)
	})
}

// A part that fails does not keep the parts of other owners from being resolved, and
// counted.
func TestRetirePartsAreMerged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mine := store.NewFaulty(store.NewMemory())
		s := newLocalSite(t, mine, 2)
		n, m := s.start("a"), s.start("b")
		pass(10 * time.Second)
		n.ready()
		m.ready()
		for id, to := range []string{"a", "b"} {
			if _, err := n.moveShard(uint32(id), to); err != nil {
				t.Fatal(err)
			}
		}
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears(accountIn(0, 2), 1).hears(accountIn(1, 2), 1)
		h.ask(accountIn(0, 2), 10)
		h.ask(accountIn(1, 2), 7)
		pass(2 * time.Minute)
		var broken atomic.Bool
		broken.Store(true)
		mine.Intercept = func(_ context.Context, txn store.Txn, next func() (store.TxnResult, error)) (store.TxnResult, error) {
			for _, op := range txn.Then {
				if broken.Load() && writes(txn) && strings.HasPrefix(op.Key, s.layout.Grants(0)) {
					return store.TxnResult{}, context.DeadlineExceeded // the shard of the broker that is asked
				}
			}
			return next()
		}
		_, err := n.retire(h)
		requireCode(t, err, connect.CodeUnavailable)
		if !strings.Contains(err.Error(), "(1 are by this request)") {
			t.Errorf("error %v", err)
		}
		s.requireBalance(accountIn(1, 2), 33, 0)
		broken.Store(false)
		if done, err := n.retire(h); err != nil || done.GetGrantsCount() != 1 {
			t.Errorf("goes on: %v, %v", done, err)
		}
		n.verified(0)
	})
}

// counting counts the reads of a store.
type counting struct {
	store.Store

	reads atomic.Int64
}

func (c *counting) Range(ctx context.Context, req store.RangeRequest) (store.RangeResult, error) {
	c.reads.Add(1)
	return c.Store.Range(ctx, req)
}

// A preview of many grants takes few reads of the store: it may be far away, and who
// asks does not wait for long.
func TestRetireManyTakesFewReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := &counting{Store: store.NewMemory()}
		s := newLocalSite(t, st, 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		const grants = 2000
		for i := 0; i < grants; i += 500 {
			req := h.request("acme")
			for k := range 500 {
				h.sequence++
				req.Budgets = append(req.Budgets, &pb.BudgetReport{Key: key(fmt.Sprint("account-", i+k)), Sequence: h.sequence, WantTokens: 10, NeedTokens: 10})
			}
			h.sync(req)
		}
		pass(2 * time.Minute)
		before := st.reads.Load()
		preview, err := n.retire(h, dryRun)
		if err != nil || preview.GetGrantsCount() != grants || preview.GetCountedAsSpentTokens() != 10*grants {
			t.Fatalf("preview of %d grants, %v", preview.GetGrantsCount(), err)
		}
		if reads := st.reads.Load() - before; reads > 100 {
			t.Errorf("%d reads of the store", reads)
		}
	})
}
