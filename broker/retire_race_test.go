package broker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// A shard changes hands while its grants are resolved. Each is resolved once.
func TestRetireWhileShardsMove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := store.NewFaulty(store.NewMemory())
		s := newLocalSite(t, st, 2)
		n, m := s.start("a"), s.start("b")
		pass(10 * time.Second)
		n.ready()
		m.ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0")
		for i := range 30 {
			account := fmt.Sprint("account-", i)
			h.hears(account, 1).ask(account, 10)
		}
		pass(2 * time.Minute)
		var resolved atomic.Int32
		var moves sync.WaitGroup
		st.Intercept = func(_ context.Context, txn store.Txn, next func() (store.TxnResult, error)) (store.TxnResult, error) {
			res, err := next()
			for _, op := range txn.Then {
				if res.Succeeded && strings.Contains(op.Key, "grants.resolve") && resolved.Add(1) == 1 { // the first of all: now
					for id := range uint32(2) {
						for _, to := range []string{"a", "b"} {
							moves.Go(func() { _, _ = n.moveShard(id, to) })
						}
					}
				}
			}
			return res, err
		}
		counted, attempts := int64(0), 0
		for {
			attempts++
			done, err := m.retire(h)
			counted += done.GetCountedAsSpentTokens()
			if err == nil {
				break
			}
			if code := connect.CodeOf(err); code != connect.CodeUnavailable && code != connect.CodeFailedPrecondition || attempts > 100 {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		moves.Wait()
		for i := range 30 {
			s.requireBalance(fmt.Sprint("account-", i), 30, 0)
		}
		if got := len(s.actions("grants.resolve")); got != 30 {
			t.Errorf("%d grants were resolved", got)
		}
		if counted > 300 {
			t.Errorf("%d tokens counted", counted)
		}
		n.verified(0)
	})
}

// A start after the fence accounts for its earlier epochs by its journal, while they
// are resolved: each grant ends once, and what it had comes back once at the most.
func TestRetireAgainstTheJournal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, journalFirst := range []bool{true, false} {
			s := newLocalSite(t, store.NewMemory(), 1)
			n := s.start("a").ready()
			n.apply(bucket(40, 0))
			h := n.join("eu", "limiter-0").hears("acme", 1)
			grant := h.ask("acme", 10).GetGrantId()
			pass(2 * time.Minute)
			req := &pb.RetireHolderRequest{Holder: h.name, Epoch: h.epoch, AttestedBy: "ann", Because: "it burned"}
			if err := retire(s.ctx, n.cfg.Store, n.layout, holderOf(h.name), h.epoch, n.word(s.ctx, "ann", "it burned")); err != nil {
				t.Fatal(err)
			}
			next := n.join("eu", "limiter-0", h.epoch)
			account := func() *pb.SyncResponse {
				account := next.request("acme")
				account.Accounts = []*pb.EpochAccount{{Epoch: h.epoch, Source: pb.AccountSource_ACCOUNT_SOURCE_JOURNAL, JournalCounter: 5, Grants: []*pb.GrantAccount{{GrantId: grant, SpentTokens: 4}}}}
				return next.sync(account)
			}
			resolve := func() *pb.RetireHolderResponse {
				done := &pb.RetireHolderResponse{}
				if err := n.resolveAll(s.ctx, req, done); err != nil {
					t.Fatal(err)
				}
				return done
			}
			if journalFirst {
				account()
				if done := resolve(); done.GetGrantsCount() != 0 {
					t.Errorf("resolved %v", done)
				}
				s.requireBalance("acme", 36, 0)
			} else {
				if done := resolve(); done.GetGrantsCount() != 1 {
					t.Errorf("resolved %v", done)
				}
				if got := account(); !got.GetAccounts()[0].GetApplied() {
					t.Errorf("the journal's account is not confirmed: %v", got)
				}
				s.requireBalance("acme", 30, 0)
			}
			if got := next.ask("acme", 3); got.GetIssuedTokens() != 3 {
				t.Errorf("the new epoch: %v", got)
			}
			if done := resolve(); done.GetGrantsCount() != 0 { // of the new epoch nothing
				t.Errorf("the new epoch's grant is resolved: %v", done)
			}
			n.verified(0)
			n.stop()
		}
	})
}

// A part of a retirement that another broker asks for, late or forged, resolves nothing
// of an epoch that is served.
func TestRetirePartForLiveEpoch(t *testing.T) {
	s, n, h := one(t, store.NewMemory(), bucket(40, 0))
	h.ask("acme", 10)
	req := passOn(n.Broker, &pb.RetireHolderRequest{Holder: h.name, Epoch: h.epoch, AttestedBy: "ann", Because: "a lie"})
	_, err := n.admin.RetireHolder(s.ctx, req)
	requireCode(t, err, connect.CodeFailedPrecondition)
	s.requireBalance("acme", 30, 10)
	if len(s.actions("grants.resolve")) != 0 {
		t.Error("recorded")
	}
}

// Slots of a retired holder are free at once, and are told apart from tokens.
func TestRetireSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(&pb.Policy{Operation: operation, DefaultCostTokens: 1, Rule: &pb.Policy_Concurrency{Concurrency: &pb.Concurrency{Slots: 40}}})
		h := n.join("eu", "limiter-0").hears("acme", 1)
		h.ask("acme", 10)
		pass(2 * time.Minute)
		for _, change := range []func(*pb.RetireHolderRequest){dryRun, func(*pb.RetireHolderRequest) {}} {
			done, err := n.retire(h, change)
			if err != nil || done.GetFreedSlots() != 10 || done.GetCountedAsSpentTokens() != 0 || done.GetGrantsCount() != 1 {
				t.Errorf("%v, %v", done, err)
			}
		}
		s.requireBalance("acme", 40, 0)
		n.verified(0)
	})
}

// A stored grant that no budget lists, which is damage, is told, and does not keep a
// retirement busy for ever.
func TestRetireStrayGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		h.ask("acme", 10)
		stray := record.Grant{ID: "g1-000-00000077", Account: "acme", Operation: operation, Region: "eu", Instance: "limiter-0", Epoch: h.epoch, Issued: 5}
		id, err := lease.ParseGrantID(stray.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Txn(s.ctx, store.Txn{Then: []store.Op{{
			Kind: store.OpPut, Key: s.layout.Grants(0) + record.GrantPath(holderOf(h.name), h.epoch, id), Value: record.Encode(stray),
		}}}); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		_, err = n.retire(h)
		requireCode(t, err, connect.CodeDataLoss)
		if !strings.Contains(err.Error(), "tokenlease verify") {
			t.Errorf("error %v", err)
		}
		s.requireBalance("acme", 30, 0) // what could be resolved was
	})
}
