package broker

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// resolve attests that a grant's epoch is gone, or retires it by force.
func (n *node) resolve(grant string, retire bool) (*pb.ResolveGrantResponse, error) {
	return n.resolves(&pb.ResolveGrantRequest{GrantId: grant, RetireEpoch: retire, Force: retire})
}

func (n *node) resolves(req *pb.ResolveGrantRequest) (*pb.ResolveGrantResponse, error) {
	req.AttestedBy, req.Because = "ann", "the disk was shredded"
	resp, err := n.admin.ResolveGrant(n.site.ctx, connect.NewRequest(req))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

// An orphaned grant is resolved by attestation: it counts as spent, is gone for
// good, and is in the audit.
func TestResolveOrphaned(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, old := one(t, st, bucket(40, 0))
		grant := old.ask("acme", 10).GetGrantId()
		n.join("eu", "limiter-0", old.epoch)
		resp, err := n.resolve(grant, false)
		if err != nil || resp.GetCountedAsSpentTokens() != 10 || resp.GetGrant().GetGrantId() != grant {
			t.Fatalf("resolved: %v, %v", resp, err)
		}
		s.requireBalance("acme", 30, 0) // spent, not returned
		last := s.audits()[len(s.audits())-1]
		if last.Action != "grants.resolve" || last.By != "ann" || last.Because != "the disk was shredded" || last.Subject != grant {
			t.Errorf("audit %+v", last)
		}
		_, err = n.resolve(grant, false)
		requireCode(t, err, connect.CodeNotFound)
		late := old.asking("acme", 0, grant)
		late.Budgets[0].SpentTokens = 10
		if answer := old.sync(late); !answer.GetFenced() || !answer.GetBudgets()[0].GetGone() {
			t.Errorf("a late account of it: %v", answer)
		}
		s.requireBalance("acme", 30, 0)
	})
}

// A live grant is refused with a hint, and nothing changes, unless the epoch is
// retired with it. Then the holder is told that it is fenced.
func TestResolveLive(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, h := one(t, st, bucket(40, 0))
		grant, other := h.ask("acme", 10).GetGrantId(), h.ask("beta", 3).GetGrantId()
		_, err := n.resolve(grant, false)
		requireCode(t, err, connect.CodeFailedPrecondition)
		if !strings.Contains(err.Error(), "--retire-epoch") {
			t.Errorf("no hint in %q", err)
		}
		s.requireBalance("acme", 30, 10)
		if audits := s.audits(); len(audits) != 1 {
			t.Errorf("audit %+v", audits)
		}
		if resp, err := n.resolve(grant, true); err != nil || resp.GetCountedAsSpentTokens() != 10 {
			t.Fatalf("with the epoch retired: %v, %v", resp, err)
		}
		s.requireBalance("acme", 30, 0)
		actions := map[string]bool{}
		for _, entry := range s.audits() {
			actions[entry.Action] = true
		}
		if !actions["holders.retire"] || !actions["grants.resolve"] {
			t.Errorf("audit %v", actions)
		}
		if resp := h.sync(h.asking("acme", 5)); !resp.GetFenced() || resp.GetBudgets()[0].GetIssuedTokens() != 0 {
			t.Errorf("the retired epoch asks: %v", resp)
		}
		status, err := n.admin.ShowHolder(s.ctx, connect.NewRequest(&pb.ShowHolderRequest{Holder: h.name}))
		if err != nil || !status.Msg.GetStatus().GetRetired() || status.Msg.GetStatus().GetOrphanedGrants() != 1 {
			t.Errorf("holder %v, %v", status, err)
		}
		if _, err := n.resolve(other, false); err != nil {
			t.Errorf("its other grant: %v", err)
		}
		fresh := n.join("eu", "limiter-0", h.epoch)
		if got := fresh.ask("acme", 30); fresh.epoch != 2 || got.GetIssuedTokens() != 30 {
			t.Errorf("the next start, epoch %d: %v", fresh.epoch, got)
		}
	})
}

// The attestation and its audit entry are one transaction, as are a retirement
// and its own: no state of the store has one without the other.
func TestResolveAuditIsAtomic(t *testing.T) {
	st := store.NewFaulty(store.NewMemory())
	s := newSite(t, st, 1)
	var grant atomic.Value
	var audited atomic.Int32
	st.Intercept = func(_ context.Context, txn store.Txn, next func() (store.TxnResult, error)) (store.TxnResult, error) {
		if grant.Load() == nil {
			return next()
		}
		audits, changes := 0, 0
		for _, op := range txn.Then {
			switch {
			case strings.HasPrefix(op.Key, s.layout.Audits()):
				audits++
			case op.Kind == store.OpDelete && strings.HasSuffix(op.Key, "/"+grant.Load().(string)),
				op.Kind == store.OpPut && strings.HasPrefix(op.Key, s.layout.Holders()):
				changes++
			}
		}
		if audits != changes {
			t.Errorf("a transaction with %d audit entries for %d changes: %+v", audits, changes, txn)
		}
		audited.Add(int32(audits))
		return next()
	}
	n := s.start("a").ready()
	n.apply(bucket(40, 0))
	h := n.join("eu", "limiter-0").hears("acme", 1)
	grant.Store(h.ask("acme", 10).GetGrantId())
	if _, err := n.resolve(grant.Load().(string), true); err != nil {
		t.Fatal(err)
	}
	if audited.Load() != 2 {
		t.Errorf("%d audit entries, want that of the retirement and that of the grant", audited.Load())
	}
}

// A holder that was heard a moment ago is not retired by way of its grant either,
// unless that is forced and recorded (case 53); one that was silent is.
func TestCase53ResolveHeard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		grant := h.ask("acme", 10).GetGrantId()
		pass(2 * time.Minute)
		h.ask("acme", 10, grant)
		pass(12 * time.Second)
		_, err := n.resolves(&pb.ResolveGrantRequest{GrantId: grant, RetireEpoch: true})
		requireCode(t, err, connect.CodeFailedPrecondition)
		if !strings.Contains(err.Error(), "heard 12s ago") || !strings.Contains(err.Error(), "force") {
			t.Errorf("error %v", err)
		}
		s.requireBalance("acme", 30, 10)
		if resp := h.sync(h.asking("acme", 10, grant)); resp.GetFenced() || len(s.actions("holders.retire")) != 0 {
			t.Errorf("it was retired all the same: %v", resp)
		}
		if _, err := n.resolve(grant, true); err != nil {
			t.Fatal(err)
		}
		for _, entry := range append(s.actions("holders.retire"), s.actions("grants.resolve")...) {
			if !entry.Forced {
				t.Errorf("not recorded as forced: %+v", entry)
			}
		}
		s.requireBalance("acme", 30, 0)

		silent := n.join("us", "limiter-0").hears("acme", 1)
		other := silent.ask("acme", 5).GetGrantId()
		pass(61 * time.Second)
		if _, err := n.resolves(&pb.ResolveGrantRequest{GrantId: other, RetireEpoch: true}); err != nil {
			t.Errorf("one that was silent: %v", err)
		}
		if all := s.actions("holders.retire"); len(all) != 2 || all[1].Forced {
			t.Errorf("audit %+v", all)
		}
	})
}
