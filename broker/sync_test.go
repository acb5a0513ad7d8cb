package broker

import (
	"context"
	"fmt"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// one is a running broker of one shard, with a policy in force and a holder.
func one(t *testing.T, st store.Store, policies ...*pb.Policy) (*site, *node, *holder) {
	t.Helper()
	s := newSite(t, st, 1)
	n := s.start("a").ready()
	n.apply(policies...)
	return s, n, n.join("eu", "limiter-0").hears("warm-up", 1)
}

// The life of one grant: opened, topped up, settled, given back, closed.
func TestSyncGrantLife(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, _, h := one(t, st, bucket(40, 0))
		opened := h.ask("acme", 10)
		if opened.GetIssuedTokens() != 10 || opened.GetGrantId() == "" || opened.GetLevelTokens() != 10 {
			t.Fatalf("opened: %v", opened)
		}
		s.requireBalance("acme", 30, 10)

		topped := h.ask("acme", 15, opened.GetGrantId())
		if topped.GetGrantId() != opened.GetGrantId() || topped.GetIssuedTokens() != 15 {
			t.Fatalf("topped up: %v", topped)
		}
		s.requireBalance("acme", 25, 15)

		req := h.asking("acme", 0, opened.GetGrantId())
		req.Budgets[0].SpentTokens, req.Budgets[0].ReturnedTokens = 7, 3
		h.sync(req)
		s.requireBalance("acme", 28, 5)

		stale := h.sync(req).GetBudgets()[0]
		if stale.GetShortage() != pb.Shortage_SHORTAGE_STALE || stale.GetIssuedTokens() != 15 {
			t.Errorf("a repetition: %v, want it stale, with the grant as it is", stale)
		}
		s.requireBalance("acme", 28, 5)

		closed := h.sync(h.closing("acme", opened.GetGrantId(), 9, 3)).GetCloses()[0]
		if closed.GetGrantId() != opened.GetGrantId() || closed.GetEvidence() != pb.Evidence_EVIDENCE_UNSPECIFIED {
			t.Errorf("closed: %v", closed)
		}
		s.requireBalance("acme", 31, 0)

		h.sync(h.closing("acme", opened.GetGrantId(), 9, 3))
		late := h.asking("acme", 0, opened.GetGrantId())
		late.Budgets[0].SpentTokens = 15
		if answer := h.sync(late).GetBudgets()[0]; !answer.GetGone() {
			t.Errorf("a late account: %v, want gone", answer)
		}
		s.requireBalance("acme", 31, 0)

		if again := h.ask("acme", 5); again.GetGrantId() == opened.GetGrantId() {
			t.Errorf("the ID %s was used again", again.GetGrantId())
		}
	})
}

// CASE 15: a request is repeated with the same identity, also at once and also
// through another connection: the budget is debited once.
func TestCase15RepeatedRequest(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, _, h := one(t, st, bucket(40, 0))
		req := h.asking("acme", 10)
		answers := make(chan *pb.SyncResponse, 20)
		for range cap(answers) {
			go func() {
				resp, err := h.node.broker.Sync(t.Context(), connect.NewRequest(req))
				if err != nil {
					t.Error(err)
					answers <- nil
					return
				}
				answers <- resp.Msg
			}()
		}
		grants := map[string]int64{}
		for range cap(answers) {
			answer := (<-answers).GetBudgets()[0]
			grants[answer.GetGrantId()] = answer.GetIssuedTokens()
		}
		if len(grants) != 1 {
			t.Errorf("grants %v, want one", grants)
		}
		s.requireBalance("acme", 30, 10)
	})
}

// Counters above what was issued are evidence, and change nothing.
func TestSyncEvidence(t *testing.T) {
	s, _, h := one(t, store.NewMemory(), bucket(40, 0))
	grant := h.ask("acme", 10)
	req := h.asking("acme", 20, grant.GetGrantId())
	req.Budgets[0].SpentTokens = 11
	if answer := h.sync(req).GetBudgets()[0]; answer.GetEvidence() != pb.Evidence_EVIDENCE_ABOVE_ISSUED || answer.GetIssuedTokens() != 10 {
		t.Errorf("a report above issued: %v", answer)
	}
	closed := h.sync(h.closing("acme", grant.GetGrantId(), 8, 3)).GetCloses()[0]
	if closed.GetEvidence() != pb.Evidence_EVIDENCE_ABOVE_ISSUED {
		t.Errorf("a close above issued: %v", closed)
	}
	s.requireBalance("acme", 30, 10)
}

// What is refused before it reaches a shard, or by it.
func TestSyncRefusals(t *testing.T) {
	s := newSite(t, store.NewMemory(), 4)
	n := s.start("a").ready()
	n.apply(bucket(40, 0))
	h, other := n.join("eu", "limiter-0"), n.join("us", "limiter-0")
	account := accountIn(2, 4)
	h.hears(account, 1)
	other.hears(account, 1)
	grant := other.ask(account, 5).GetGrantId()
	for _, tc := range []struct {
		name   string
		change func(*pb.SyncRequest)
	}{
		{"a shard that does not exist", func(r *pb.SyncRequest) { r.Shard = 4 }},
		{"a budget of another shard", func(r *pb.SyncRequest) { r.Shard = 1 }},
		{"a close of another shard", func(r *pb.SyncRequest) {
			r.Closes = []*pb.GrantAccount{{GrantId: grant, Key: key(accountIn(1, 4))}}
		}},
		{"a close that does not name its budget", func(r *pb.SyncRequest) {
			r.Closes = []*pb.GrantAccount{{GrantId: grant}}
		}},
		{"a close of another holder's grant", func(r *pb.SyncRequest) {
			r.Closes = []*pb.GrantAccount{{GrantId: grant, Key: key(account)}}
		}},
		{"a report on another holder's grant", func(r *pb.SyncRequest) { r.Budgets[0].GrantId = grant }},
		{"a grant ID that is none", func(r *pb.SyncRequest) { r.Budgets[0].GrantId = "grant-1" }},
		{"no epoch", func(r *pb.SyncRequest) { r.Epoch = 0 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := h.asking(account, 1)
			tc.change(req)
			_, err := h.send(req)
			requireCode(t, err, connect.CodeInvalidArgument)
		})
	}
	s.requireBalance(account, 35, 5)
}

// A head that is above the shard's tells that the store was set back: the shard
// stops, whoever asks.
func TestSyncSetBack(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, _, h := one(t, st, bucket(40, 0))
		h.ask("acme", 10)
		req := h.asking("acme", 20)
		req.HighestHead = h.heads[0] + 1_000_000
		_, err := h.send(req)
		requireCode(t, err, connect.CodeDataLoss)
		_, err = h.send(h.asking("acme", 20))
		requireCode(t, err, connect.CodeDataLoss)
		s.requireBalance("acme", 30, 10)
	})
}

// A replaced epoch is told so, gets nothing more, and gives its final account,
// which ends every grant that it had, named or not.
func TestSyncFencedEpoch(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, old := one(t, st, bucket(40, 0))
		spent := old.ask("acme", 10)
		old.ask("beta", 20)
		fresh := n.join("eu", "limiter-0", old.epoch)
		fresh.ask("acme", 5)

		answer := old.sync(old.asking("acme", 15, spent.GetGrantId()))
		if !answer.GetFenced() || answer.GetCurrentEpoch() != fresh.epoch || answer.GetBudgets()[0].GetIssuedTokens() != 0 || answer.GetBudgets()[0].GetPolicy() != nil {
			t.Errorf("the old epoch asks: %v", answer)
		}
		s.requireBalance("acme", 25, 15)

		req := old.request("acme")
		req.Accounts = []*pb.EpochAccount{{
			Epoch: old.epoch, Source: pb.AccountSource_ACCOUNT_SOURCE_HOLDER,
			Grants: []*pb.GrantAccount{{GrantId: spent.GetGrantId(), SpentTokens: 4}},
		}}
		for range 2 { // a repetition is confirmed as well
			if account := old.sync(req).GetAccounts()[0]; !account.GetApplied() {
				t.Errorf("the final account: %v", account)
			}
		}
		s.requireBalance("acme", 31, 5)
		s.requireBalance("beta", 40, 0)
		if after := old.sync(old.asking("beta", 1)); !after.GetFenced() || after.GetBudgets()[0].GetIssuedTokens() != 0 {
			t.Errorf("after its account: %v", after)
		}
	})
}

// The next start proves by the journal what the killed one never drew; a journal
// that lags what was told proves nothing.
func TestSyncJournalAccount(t *testing.T) {
	s, n, old := one(t, store.NewMemory(), bucket(40, 0))
	tell := old.asking("acme", 10)
	tell.JournalCounter = 7
	grant := old.sync(tell).GetBudgets()[0].GetGrantId()
	fresh := n.join("eu", "limiter-0", old.epoch)
	account := func(counter uint64) *pb.AccountAnswer {
		req := fresh.request("acme")
		req.Accounts = []*pb.EpochAccount{{
			Epoch: old.epoch, Source: pb.AccountSource_ACCOUNT_SOURCE_JOURNAL, JournalCounter: counter,
			Grants: []*pb.GrantAccount{{GrantId: grant, SpentTokens: 6}},
		}}
		return fresh.sync(req).GetAccounts()[0]
	}
	if a := account(6); a.GetApplied() || a.GetEvidence() != pb.Evidence_EVIDENCE_JOURNAL_LAGS {
		t.Errorf("a journal that lags: %v", a)
	}
	s.requireBalance("acme", 30, 10)
	if a := account(7); !a.GetApplied() {
		t.Errorf("the journal: %v", a)
	}
	s.requireBalance("acme", 34, 0)
}

// An epoch with more grants than a page, and more than a transaction holds, is
// listed whole and ended whole.
func TestSyncManyGrants(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		const budgets = 300
		s, _, h := one(t, st, bucket(40, 0))
		req := h.request("acme")
		for i := range budgets {
			req.Budgets = append(req.Budgets, &pb.BudgetReport{
				Key: key(fmt.Sprintf("a%03d", i)), Sequence: 1000, WantTokens: 4, NeedTokens: 1,
			})
		}
		h.sequence = 1000
		ids := map[string]bool{}
		for _, answer := range h.sync(req).GetBudgets() {
			ids[answer.GetGrantId()] = answer.GetIssuedTokens() == 4
		}
		list := h.request("acme")
		list.ListGrants = true
		listed := h.sync(list)
		if len(ids) != budgets || !listed.GetListed() || len(listed.GetGrants()) != budgets {
			t.Fatalf("%d grants opened, %d listed, want %d", len(ids), len(listed.GetGrants()), budgets)
		}
		for _, g := range listed.GetGrants() {
			if !ids[g.GetGrantId()] || g.GetState() != pb.GrantState_GRANT_STATE_LIVE {
				t.Fatalf("listed %v", g)
			}
		}
		end := h.request("acme")
		end.Accounts = []*pb.EpochAccount{{Epoch: h.epoch, Source: pb.AccountSource_ACCOUNT_SOURCE_HOLDER}}
		if a := h.sync(end).GetAccounts()[0]; !a.GetApplied() {
			t.Fatalf("the final account: %v", a)
		}
		s.requireBalance("a000", 40, 0)
		s.requireBalance("a299", 40, 0)
		if from, to := s.layout.Grants(0), s.layout.Grants(0)+"\xff"; len(s.keys(from, to)) != 0 {
			t.Error("grants are left")
		}
	})
}

// A request whose caller gives up while it hangs ends, and takes nothing.
func TestSyncCanceled(t *testing.T) {
	s, n, h := one(t, store.NewMemory(), bucket(10, 0))
	all := h.ask("acme", 10)
	other := n.join("us", "limiter-0")
	ctx, cancel := context.WithCancel(t.Context())
	req := other.asking("acme", 5)
	req.WaitMs = 60_000
	done := make(chan error)
	go func() {
		_, err := n.broker.Sync(ctx, connect.NewRequest(req))
		done <- err
	}()
	n.parked(0, 1)
	cancel()
	requireCode(t, <-done, connect.CodeCanceled)
	n.parked(0, 0)
	h.sync(h.closing("acme", all.GetGrantId(), 0, 0))
	s.requireBalance("acme", 10, 0)
}

// A request for another cluster is refused before a shard sees it: it would take
// the stranger's epochs for proof that its store was set back.
func TestAnotherClusterIsRefused(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		_, _, h := one(t, st, bucket(40, 0))
		req := h.asking("acme", 5)
		req.ClusterId, req.Epoch, req.HighestHead = "another", 99, 1<<40
		_, err := h.send(req)
		requireCode(t, err, connect.CodeFailedPrecondition)
		if got := h.ask("acme", 5); got.GetIssuedTokens() != 5 {
			t.Errorf("the shard goes on: %v", got)
		}
	})
}
