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
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// retire asks to retire the holder's epoch.
func (n *node) retire(h *holder, change ...func(*pb.RetireHolderRequest)) (*pb.RetireHolderResponse, error) {
	req := &pb.RetireHolderRequest{Holder: h.name, Epoch: h.epoch, AttestedBy: "ann", Because: "the region burned down"}
	for _, f := range change {
		f(req)
	}
	resp, err := n.admin.RetireHolder(n.site.ctx, connect.NewRequest(req))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

func dryRun(req *pb.RetireHolderRequest) {
	req.DryRun, req.Epoch, req.AttestedBy, req.Because = true, 0, "", ""
}
func force(req *pb.RetireHolderRequest) { req.Force = true }

// verified fails the test unless every invariant holds and so much is orphaned.
func (n *node) verified(orphaned int64) {
	n.site.t.Helper()
	resp, err := n.admin.Verify(n.site.ctx, connect.NewRequest(&pb.VerifyRequest{}))
	if err != nil {
		n.site.t.Fatal(err)
	}
	if len(resp.Msg.GetViolations()) > 0 || resp.Msg.GetOrphanedTokens() != orphaned {
		n.site.t.Errorf("verify: %v, want %d orphaned", resp.Msg, orphaned)
	}
}

// actions are the entries of the audit with the action.
func (s *site) actions(action string) []record.Audit {
	s.t.Helper()
	var found []record.Audit
	for _, entry := range s.audits() {
		if entry.Action == action {
			found = append(found, entry)
		}
	}
	return found
}

// A preview tells what would be attested, and changes nothing. The real run does
// that, once the holder was silent for a minute; every view agrees at once (case 54).
func TestCase54RetireHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 2)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("a", 1).hears("b", 1)
		a, b := accountIn(0, 2), accountIn(1, 2)
		h.ask(a, 10)
		h.ask(b, 7)
		next := n.join("eu", "limiter-0", h.epoch).hears(a, 1)
		next.ask(a, 5)
		other := n.join("us", "limiter-0").hears(a, 1)
		other.ask(a, 3)
		pass(61 * time.Second)

		preview, err := n.retire(next, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		if !preview.GetDryRun() || preview.GetNeedsForce() || preview.GetGrantsCount() != 3 || len(preview.GetGrants()) != 3 || preview.GetCountedAsSpentTokens() != 22 ||
			preview.GetFreedSlots() != 0 || preview.GetClusterId() != n.ClusterID() || preview.GetHeardMsAgo() != 61_000 || preview.GetStatus().GetEpoch() != 2 {
			t.Errorf("preview %v", preview)
		}
		if len(s.actions("holders.retire")) != 0 {
			t.Error("a preview was recorded")
		}
		done, err := n.retire(next)
		if err != nil {
			t.Fatal(err)
		}
		if done.GetDryRun() || done.GetGrantsCount() != 3 || done.GetCountedAsSpentTokens() != 22 || len(done.GetGrants()) != 3 {
			t.Errorf("retired: %v", done)
		}
		n.verified(0)
		s.requireBalance(a, 22, 3) // 15 count as spent, 3 are out in us
		s.requireBalance(b, 33, 0)
		status, err := n.admin.ShowHolder(s.ctx, connect.NewRequest(&pb.ShowHolderRequest{Holder: h.name}))
		if err != nil || !status.Msg.GetStatus().GetRetired() || len(status.Msg.GetGrants()) != 0 || status.Msg.GetStatus().GetOrphanedTokens() != 0 {
			t.Errorf("holder %v, %v", status, err)
		}
		retired, resolved := s.actions("holders.retire"), s.actions("grants.resolve")
		if len(retired) != 1 || retired[0].By != "ann" || retired[0].Forced || retired[0].Because != "the region burned down" || len(resolved) != 3 {
			t.Errorf("audit %+v, %+v", retired, resolved)
		}

		again, err := n.retire(next)
		if err != nil || again.GetGrantsCount() != 0 || len(s.actions("holders.retire")) != 1 || len(s.actions("grants.resolve")) != 3 {
			t.Errorf("repeated: %v, %v", again, err)
		}
	})
}

// A holder that was heard a moment ago is not retired unless forced, and that is
// recorded (case 53). So is one of which nobody can know.
func TestCase53RetireHeard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		grant := h.ask("acme", 10).GetGrantId()
		pass(2 * time.Minute)
		h.ask("acme", 10, grant) // which records nothing
		pass(12 * time.Second)
		preview, err := n.retire(h, dryRun)
		if err != nil || !preview.GetNeedsForce() || preview.GetHeardMsAgo() != 12_000 {
			t.Errorf("preview %v, %v", preview, err)
		}
		_, err = n.retire(h)
		requireCode(t, err, connect.CodeFailedPrecondition)
		if !strings.Contains(err.Error(), "heard 12s ago") || !strings.Contains(err.Error(), "force") {
			t.Errorf("error %v", err)
		}
		s.requireBalance("acme", 30, 10)
		if n := len(s.actions("holders.retire")) + len(s.actions("grants.resolve")); n != 0 {
			t.Errorf("%d audit entries", n)
		}
		if resp := h.sync(h.asking("acme", 10, grant)); resp.GetFenced() {
			t.Error("fenced")
		}
		done, err := n.retire(h, force)
		if err != nil || done.GetGrantsCount() != 1 {
			t.Fatalf("forced: %v, %v", done, err)
		}
		for _, entry := range append(s.actions("holders.retire"), s.actions("grants.resolve")...) {
			if !entry.Forced {
				t.Errorf("not recorded as forced: %+v", entry)
			}
		}
		s.requireBalance("acme", 30, 0)

		// The zombie reports what it says that it spent: too late.
		late := h.asking("acme", 10, grant)
		late.Budgets[0].SpentTokens = 10
		if resp := h.sync(late); !resp.GetFenced() || !resp.GetBudgets()[0].GetGone() || resp.GetBudgets()[0].GetIssuedTokens() != 0 {
			t.Errorf("the zombie: %v", resp)
		}
		s.requireBalance("acme", 30, 0)
		n.verified(0)
		_, err = n.retire(h) // it lives: whatever is left needs force again
		requireCode(t, err, connect.CodeFailedPrecondition)
	})
}

// A broker that has just begun does not know who was heard before.
func TestRetireUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 2)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		h.ask("acme", 10)
		pass(time.Hour)
		n.stop()
		n = s.start("b").ready()
		pass(59 * time.Second)
		_, err := n.retire(h)
		requireCode(t, err, connect.CodeFailedPrecondition)
		if !strings.Contains(err.Error(), "not every owner") {
			t.Errorf("error %v", err)
		}
		pass(10 * time.Second)
		if done, err := n.retire(h); err != nil || done.GetGrantsCount() != 1 {
			t.Errorf("retired: %v, %v", done, err)
		}
	})
}

// A holder that starts again between preview and act is not retired, and its new
// epoch keeps what it has.
func TestRetireOtherEpoch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		h.ask("acme", 10)
		pass(2 * time.Minute)
		next := n.join("eu", "limiter-0", h.epoch).hears("acme", 1)
		next.ask("acme", 5)
		for _, change := range []func(*pb.RetireHolderRequest){force, func(*pb.RetireHolderRequest) {}} {
			_, err := n.retire(h, change)
			requireCode(t, err, connect.CodeFailedPrecondition)
		}
		s.requireBalance("acme", 25, 15)
		n.verified(10)
		if got := next.ask("acme", 6); got.GetIssuedTokens() != 6 {
			t.Errorf("the new epoch: %v", got)
		}
		_, err := n.retire(&holder{name: &pb.Holder{Region: "ap", Instance: "x"}, epoch: 1})
		requireCode(t, err, connect.CodeNotFound)
	})
}

// An attempt that fails in the middle is repeated, whatever was done of it.
func TestRetireGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := store.NewFaulty(store.NewMemory())
		s := newLocalSite(t, st, 4)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0")
		for i := range 40 {
			account := fmt.Sprint("account-", i)
			h.hears(account, 1).ask(account, 10)
		}
		pass(2 * time.Minute)
		var broken atomic.Bool
		var left atomic.Int32
		broken.Store(true)
		left.Store(3)
		st.Intercept = func(_ context.Context, txn store.Txn, next func() (store.TxnResult, error)) (store.TxnResult, error) {
			if broken.Load() && writes(txn) && left.Add(-1) < 0 {
				return store.TxnResult{}, context.DeadlineExceeded
			}
			return next()
		}
		_, err := n.retire(h)
		requireCode(t, err, connect.CodeUnavailable)
		if !strings.Contains(err.Error(), "repeat the request to go on") {
			t.Errorf("error %v", err)
		}
		broken.Store(false)
		done, err := n.retire(h)
		if err != nil || done.GetGrantsCount() == 0 || done.GetGrantsCount() == 40 {
			t.Errorf("goes on: %v grants, %v", done.GetGrantsCount(), err)
		}
		n.verified(0)
		for i := range 40 {
			s.requireBalance(fmt.Sprint("account-", i), 30, 0)
		}
		if len(s.actions("holders.retire")) != 1 || len(s.actions("grants.resolve")) != 40 {
			t.Errorf("%d and %d audit entries", len(s.actions("holders.retire")), len(s.actions("grants.resolve")))
		}
	})
}

// The grants of a holder are resolved by the owners of their shards, wherever those
// are; which broker is asked makes no difference.
func TestRetireOverBrokers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 8)
		n, m := s.start("a"), s.start("b")
		pass(10 * time.Second) // both have their share
		n.ready()
		m.ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0")
		for id := range uint32(8) {
			h.hears(accountIn(id, 8), 1).ask(accountIn(id, 8), 10)
		}
		pass(2 * time.Minute)
		preview, err := m.retire(h, dryRun)
		if err != nil || preview.GetNeedsForce() || preview.GetHeardMsAgo() < 110_000 || preview.GetHeardMsAgo() > 130_000 {
			t.Errorf("preview %v, %v", preview, err)
		}
		done, err := m.retire(h)
		if err != nil || done.GetGrantsCount() != 8 || done.GetCountedAsSpentTokens() != 80 {
			t.Errorf("retired: %v, %v", done, err)
		}
		if n.ownership.count() == 0 || m.ownership.count() == 0 {
			t.Error("one broker owns all: nothing was passed on")
		}
		n.verified(0)
	})
}

// Who says that a broker has passed the request on gets no dry run past the checks:
// nothing changes.
func TestForwardedDryRunChangesNothing(t *testing.T) {
	s := newSite(t, store.NewMemory(), 1)
	n := s.serve("a")
	n.own()
	n.apply(bucket(40, 0))
	n.ownership.runner(0).insist(policiesChanged)
	h := n.join("eu", "limiter-0").hears("acme", 1)
	h.ask("acme", 10)
	next := n.join("eu", "limiter-0", h.epoch).hears("acme", 1)
	next.ask("acme", 5)
	req := connect.NewRequest(&pb.RetireHolderRequest{Holder: h.name, Epoch: next.epoch, DryRun: true})
	req.Header().Set(forwardedHeader, "x")
	_, err := n.admin.RetireHolder(t.Context(), req)
	requireCode(t, err, connect.CodeInvalidArgument)
	s.requireBalance("acme", 25, 15)
	if got := len(s.actions("grants.resolve")); got != 0 {
		t.Errorf("%d grants were resolved", got)
	}
}
