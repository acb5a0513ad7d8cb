package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

var errDeadline = errors.New("deadline exceeded")

// uncertain is an owner on etcd whose commits meet the fate that st.fail says.
func uncertain(t *testing.T, st *tap) (*site, *node, *holder) {
	t.Helper()
	s := newSite(t, etcd(t).Store(), 1)
	n := s.serve("a", func(c *Config) { c.Store = st })
	n.own()
	n.apply(bucket(40, 0))
	n.ownership.runner(0).insist(policiesChanged)
	return s, n, n.join("eu", "limiter-0").hears("acme", 1)
}

// An error of etcd for a commit that it has applied: the caller hears that the
// broker is unavailable, asks again, and the budget is debited once.
func TestErrorThoughApplied(t *testing.T) {
	for _, tc := range []struct {
		name                string
		request             func(h *holder, grant string) *pb.SyncRequest
		available, reserved int64
	}{
		{"a grant", func(h *holder, grant string) *pb.SyncRequest { return h.asking("acme", 25, grant) }, 15, 25},
		{"a new budget", func(h *holder, _ string) *pb.SyncRequest { return h.asking("beta", 7) }, 30, 10},
		{"counters", func(h *holder, grant string) *pb.SyncRequest {
			req := h.asking("acme", 5, grant)
			req.Budgets[0].ReturnedTokens, req.Budgets[0].SpentTokens = 4, 1
			return req
		}, 34, 5},
		{"a close", func(h *holder, grant string) *pb.SyncRequest { return h.closing("acme", grant, 6, 0) }, 34, 0},
		{"a final account", func(h *holder, grant string) *pb.SyncRequest {
			req := h.request("acme")
			req.Accounts = []*pb.EpochAccount{{
				Epoch: h.epoch, Source: pb.AccountSource_ACCOUNT_SOURCE_HOLDER,
				Grants: []*pb.GrantAccount{{GrantId: grant, SpentTokens: 2}},
			}}
			return req
		}, 38, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := newTap(etcd(t).Store(), false)
			s, _, h := uncertain(t, st)
			grant := h.ask("acme", 10).GetGrantId()
			st.fate(func(_ store.Txn, run func() (store.TxnResult, error)) (store.TxnResult, error) {
				if res, err := run(); err != nil || !res.Succeeded {
					t.Errorf("the commit was not applied: %+v, %v", res, err)
				}
				return store.TxnResult{}, errDeadline
			})
			req := tc.request(h, grant)
			_, err := h.send(req)
			requireCode(t, err, connect.CodeUnavailable)
			for range 2 {
				h.sync(req)
			}
			s.requireBalance("acme", tc.available, tc.reserved)
			if tc.name == "a new budget" {
				s.requireBalance("beta", 33, 7)
			}
		})
	}
}

// A commit that is answered with an error and applied only after the owner has
// read the shard again, and gone on: etcd refuses it. Without its guards it
// would roll the budget back.
func TestErrorThoughAppliedLate(t *testing.T) {
	guarded(t, func(t *testing.T, unguarded bool) error {
		st := newTap(etcd(t).Store(), false)
		s, _, h := uncertain(t, st)
		grant := h.ask("acme", 10).GetGrantId()
		var late store.Txn
		st.fate(func(txn store.Txn, _ func() (store.TxnResult, error)) (store.TxnResult, error) {
			late = txn
			return store.TxnResult{}, errDeadline
		})
		req := h.asking("acme", 25, grant)
		_, err := h.send(req)
		requireCode(t, err, connect.CodeUnavailable)
		h.sync(req)
		h.ask("acme", 40, grant)
		if unguarded {
			late.If = nil
		}
		res, err := s.store.Txn(s.ctx, late)
		if err != nil {
			t.Fatal(err)
		}
		if res.Succeeded {
			return fmt.Errorf("the late commit was applied: %v", s.ledger("acme"))
		}
		s.requireBalance("acme", 0, 40)
		return nil
	})
}

// An owner that goes on from what it read before, instead of reading the shard
// again, is stopped by the head. Without the guards it hands the same credit out
// twice.
func TestGoingOnFromMemory(t *testing.T) {
	guarded(t, func(t *testing.T, unguarded bool) error {
		st := newTap(etcd(t).Store(), unguarded)
		s, n, h := uncertain(t, st)
		h.ask("acme", 10)
		other := n.join("us", "limiter-0").hears("acme", 1)
		before := s.revision()
		st.fate(func(_ store.Txn, run func() (store.TxnResult, error)) (store.TxnResult, error) {
			_, _ = run()
			st.readAt(before)
			return store.TxnResult{}, errDeadline
		})
		_, err := h.send(h.asking("beta", 30))
		requireCode(t, err, connect.CodeUnavailable)
		resp, err := other.send(other.asking("beta", 30))
		if err == nil && resp.GetBudgets()[0].GetIssuedTokens() > 0 {
			return fmt.Errorf("30 of 40 were handed out twice: %v", resp.GetBudgets()[0])
		}
		s.requireBalance("beta", 10, 30)
		return nil
	})
}

// revision is the store's newest.
func (s *site) revision() int64 {
	s.t.Helper()
	res, err := s.store.Range(s.ctx, store.RangeRequest{Key: s.layout.Cluster()})
	if err != nil {
		s.t.Fatal(err)
	}
	return res.Revision
}

// readAt makes what the owner reads from now on be of the past.
func (t *tap) readAt(revision int64) { t.past.Store(revision) }

// readPast is a transaction that only reads, answered from the past.
func (t *tap) readPast(ctx context.Context, txn store.Txn, revision int64) (store.TxnResult, error) {
	result := store.TxnResult{Succeeded: true, Revision: revision}
	for _, op := range txn.Then {
		res, err := t.Store.Range(ctx, store.RangeRequest{Key: op.Key, End: op.End, Limit: op.Limit, Revision: revision})
		if err != nil {
			return store.TxnResult{}, err
		}
		result.Results = append(result.Results, store.OpResult{KVs: res.KVs, More: res.More})
	}
	return result, nil
}
