package broker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// The tests in this file hold the contract's rules on owners (C3.1, C3.2, C6)
// against etcd itself. Each runs twice: as it is, and as a mutant whose
// transactions have lost their guards on the way, which has to be noticed.

// tap is a store whose transactions on shards are recorded, and lose their
// guards if unguarded is set.
type tap struct {
	*store.Faulty
	unguarded bool
	past      atomic.Int64 // revision at which reads are answered; 0: now

	mu   sync.Mutex
	seen []store.Txn
	fail func(store.Txn, func() (store.TxnResult, error)) (store.TxnResult, error) // the next commit's fate
}

func newTap(inner store.Store, unguarded bool) *tap {
	t := &tap{Faulty: store.NewFaulty(inner), unguarded: unguarded}
	t.Intercept = func(ctx context.Context, txn store.Txn, next func() (store.TxnResult, error)) (store.TxnResult, error) {
		if !ofShard(txn) {
			return next()
		}
		if past := t.past.Load(); past != 0 && !writes(txn) {
			return t.readPast(ctx, txn, past)
		}
		t.mu.Lock()
		t.seen = append(t.seen, txn)
		fail := t.fail
		if fail != nil && writes(txn) {
			t.fail = nil
		} else {
			fail = nil
		}
		t.mu.Unlock()
		run := func() (store.TxnResult, error) { return inner.Txn(context.Background(), t.stripped(txn)) }
		if fail != nil {
			return fail(txn, run)
		}
		return run()
	}
	return t
}

// fate decides about the next commit in place of the store.
func (t *tap) fate(fail func(txn store.Txn, run func() (store.TxnResult, error)) (store.TxnResult, error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fail = fail
}

// stripped is the transaction as it reaches the store.
func (t *tap) stripped(txn store.Txn) store.Txn {
	if t.unguarded {
		txn.If = nil
		if len(txn.Then) == 0 {
			txn.Then = []store.Op{{Kind: store.OpGet, Key: "/nothing"}}
		}
	}
	return txn
}

// commits are the transactions that have changed something, in order.
func (t *tap) commits() []store.Txn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.seen), func(txn store.Txn) bool { return !writes(txn) })
}

func ofShard(txn store.Txn) bool {
	return len(txn.If) > 0 && strings.Contains(txn.If[0].Key, "/owners/")
}

func writes(txn store.Txn) bool {
	return slices.ContainsFunc(txn.Then, func(op store.Op) bool { return strings.HasSuffix(op.Key, "/head") && op.Kind == store.OpPut })
}

// guarded runs a test as it is and as a mutant. check says whether the rule held.
func guarded(t *testing.T, check func(t *testing.T, unguarded bool) error) {
	t.Helper()
	t.Run("as it is", func(t *testing.T) {
		if err := check(t, false); err != nil {
			t.Error(err)
		}
	})
	t.Run("mutant without guards", func(t *testing.T) {
		if err := check(t, true); err == nil {
			t.Error("nobody noticed that the guards were gone")
		} else {
			t.Log("noticed:", err)
		}
	})
}

// pausedOwner is an owner whose session has ended in etcd while it was paused,
// and a successor that has taken over and committed. The budget "acme" of 40 has
// 10 out to h by the old owner, and then 20 to another holder by the new one.
func pausedOwner(t *testing.T, unguarded bool) (s *site, old, successor *node, h *holder, grant string) {
	t.Helper()
	s = newSite(t, etcd(t).Store(), 1)
	old = s.serve("old", func(c *Config) { c.Store = newTap(s.store, unguarded) })
	old.own()
	old.apply(bucket(40, 0))
	old.ownership.runner(0).insist(policiesChanged)
	h = old.join("eu", "limiter-0").hears("acme", 1)
	grant = h.ask("acme", 10).GetGrantId()
	old.expire()
	successor = s.serve("successor")
	successor.own()
	successor.join("us", "limiter-0").ask("acme", 20)
	return s, old, successor, h, grant
}

// A paused owner's late commit is refused by etcd itself.
func TestPausedOwnerCommitsNothing(t *testing.T) {
	guarded(t, func(t *testing.T, unguarded bool) error {
		s, _, _, h, grant := pausedOwner(t, unguarded)
		_, err := h.send(h.asking("acme", 30, grant)) // 20 more, of the 30 that the old owner remembers
		if err == nil {
			return errors.New("a paused owner granted credit that its successor had handed out")
		}
		requireCode(t, err, connect.CodeUnavailable)
		s.requireBalance("acme", 10, 30)
		return nil
	})
}

// Nor does a paused owner's answer from memory leave, though it would change
// nothing: gone, denied, fenced, closed, or the grant as it stands (C3.2).
func TestPausedOwnerAnswersNothing(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request func(h *holder, grant string) *pb.SyncRequest
	}{
		{"gone", func(h *holder, _ string) *pb.SyncRequest { return h.asking("acme", 1, "g1-000-000000ff") }},
		{"closed", func(h *holder, _ string) *pb.SyncRequest { return h.closing("acme", "g1-000-000000ff", 0, 0) }},
		{"denied", func(h *holder, grant string) *pb.SyncRequest { return h.asking("acme", 41, grant) }},
		{"no policy", func(h *holder, _ string) *pb.SyncRequest {
			req := h.asking("acme", 1)
			req.Budgets[0].Key.Operation = "other"
			return req
		}},
		{"as it stands", func(h *holder, grant string) *pb.SyncRequest {
			req := h.asking("acme", 10, grant)
			req.Budgets[0].Sequence = 1 // stale: nothing is recorded
			return req
		}},
		{"fenced", func(h *holder, grant string) *pb.SyncRequest {
			req := h.asking("acme", 10, grant)
			req.Epoch = 1
			return req
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			guarded(t, func(t *testing.T, unguarded bool) error {
				s, old, _, h, grant := pausedOwner(t, unguarded)
				if tc.name == "fenced" && unguarded {
					// Without guards the old owner takes the newer epoch in first.
					h = old.join("eu", "limiter-0", h.epoch)
					_, _ = h.send(h.asking("beta", 0))
				}
				resp, err := h.send(tc.request(h, grant))
				if err == nil {
					return errors.New("answered from memory: " + resp.String())
				}
				requireCode(t, err, connect.CodeUnavailable)
				s.requireBalance("acme", 10, 30)
				return nil
			})
		})
	}
}

// Nor is a paused owner's attestation recorded.
func TestPausedOwnerResolvesNothing(t *testing.T) {
	guarded(t, func(t *testing.T, unguarded bool) error {
		s, old, _, _, grant := pausedOwner(t, unguarded)
		_, err := old.admin.ResolveGrant(s.ctx, connect.NewRequest(&pb.ResolveGrantRequest{
			GrantId: grant, AttestedBy: "ann", Because: "gone", RetireEpoch: true, Force: true,
		}))
		if err == nil {
			return errors.New("a paused owner recorded an attestation")
		}
		requireCode(t, err, connect.CodeUnavailable)
		s.requireBalance("acme", 10, 30)
		return nil
	})
}

// A transaction that is repeated late is refused by etcd itself: by the same
// owner's later commits, and by another owner's.
func TestLateRepetitionsAreRefused(t *testing.T) {
	guarded(t, func(t *testing.T, unguarded bool) error {
		s := newSite(t, etcd(t).Store(), 1)
		st := newTap(s.store, false)
		first := s.serve("first", func(c *Config) { c.Store = st })
		first.own()
		first.apply(bucket(40, 0))
		first.ownership.runner(0).insist(policiesChanged)
		h := first.join("eu", "limiter-0").hears("acme", 1)
		grant := h.ask("acme", 10).GetGrantId()
		h.ask("acme", 15, grant)
		other := first.join("us", "limiter-0").hears("acme", 1)
		other.ask("acme", 20)
		if err := repeatAll(s, st, unguarded, "acme", 5, 35); err != nil {
			return err
		}
		first.expire()
		second := s.serve("second")
		second.own()
		h.at(second).sync(h.closing("acme", grant, 12, 0))
		return repeatAll(s, st, unguarded, "acme", 8, 20)
	})
}

// repeatAll sends every commit that a tap has seen again, and says whether one
// was applied. Each had been applied when it was first sent.
func repeatAll(s *site, st *tap, unguarded bool, account string, available, reserved int64) error {
	s.t.Helper()
	for i, txn := range st.commits() {
		if unguarded {
			txn.If = nil
		}
		res, err := s.store.Txn(s.ctx, txn)
		if err != nil {
			s.t.Fatal(err)
		}
		if res.Succeeded {
			return errors.New("commit " + string(rune('0'+i)) + " was applied again")
		}
	}
	s.requireBalance(account, available, reserved)
	return nil
}

// A compare on the ownership key alone would not do: the same owner's
// transaction, late, would roll the budget back. A compare on the head alone
// would not either: an old owner's first commit after a successor's election,
// before the successor's first commit, finds the head that it expects.
func TestBothComparesAreNeeded(t *testing.T) {
	t.Run("ownership alone", func(t *testing.T) {
		s := newSite(t, etcd(t).Store(), 1)
		st := newTap(s.store, false)
		n := s.serve("a", func(c *Config) { c.Store = st })
		n.own()
		n.apply(bucket(40, 0))
		n.ownership.runner(0).insist(policiesChanged)
		h := n.join("eu", "limiter-0").hears("acme", 1)
		grant := h.ask("acme", 10).GetGrantId()
		h.ask("acme", 15, grant)
		commits := st.commits()
		late := commits[len(commits)-2]
		if res, err := s.store.Txn(s.ctx, late); err != nil || res.Succeeded {
			t.Errorf("the late commit: %+v, %v, want it refused", res, err)
		}
		late.If = late.If[:1]
		if res, err := s.store.Txn(s.ctx, late); err != nil || !res.Succeeded {
			t.Errorf("the mutant that compares the ownership alone was refused: %+v, %v", res, err)
		}
	})
	t.Run("head alone", func(t *testing.T) {
		s := newSite(t, etcd(t).Store(), 1)
		st := newTap(s.store, false)
		old := s.serve("old", func(c *Config) { c.Store = st })
		old.own()
		old.apply(bucket(40, 0))
		old.ownership.runner(0).insist(policiesChanged)
		h := old.join("eu", "limiter-0").hears("acme", 1)
		st.fate(func(txn store.Txn, _ func() (store.TxnResult, error)) (store.TxnResult, error) {
			old.expire()
			s.serve("successor").own()
			if res, err := s.store.Txn(s.ctx, txn); err != nil || res.Succeeded {
				t.Errorf("the late commit: %+v, %v, want it refused", res, err)
			}
			txn.If = txn.If[1:]
			if res, err := s.store.Txn(s.ctx, txn); err != nil || !res.Succeeded {
				t.Errorf("the mutant that compares the head alone was refused: %+v, %v", res, err)
			}
			return store.TxnResult{}, errors.New("paused")
		})
		_, err := h.send(h.asking("acme", 10))
		requireCode(t, err, connect.CodeUnavailable)
	})
}
