package broker

import (
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// audits are the audit entries in the store, oldest first.
func (s *site) audits() []record.Audit {
	s.t.Helper()
	var all []record.Audit
	for _, kv := range s.keys(record.All(s.layout.Audits())) {
		entry, err := record.Decode[record.Audit](kv)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, entry)
	}
	return all
}

// CASE 30: the same policy file applied 100 times: the same version, one audit
// entry, and nobody gets a token more.
func TestCase30AppliedAgain(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, h := one(t, st, bucket(40, 0))
		grant := h.ask("acme", 10)
		before := s.revision()
		for range 100 {
			resp := n.apply(bucket(40, 0))
			if len(resp.GetChanged()) != 0 || resp.GetPolicies()[0].GetVersion() != 1 {
				t.Fatalf("applied again: %v", resp)
			}
		}
		if s.revision() != before || len(s.audits()) != 1 {
			t.Errorf("the store went from revision %d to %d, with %d audit entries", before, s.revision(), len(s.audits()))
		}
		if got := h.ask("acme", 41, grant.GetGrantId()); got.GetIssuedTokens() != 10 {
			t.Errorf("41 of 40: %v", got)
		}
		s.requireBalance("acme", 30, 10)
	})
}

// CASE 31: capacity 100 lowered to 10 with 60 leased: nothing new is granted
// until less than 10 is out.
func TestCase31CapacityLowered(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, h := one(t, st, bucket(100, 0))
		grant := h.ask("acme", 60).GetGrantId()
		if changed := n.apply(bucket(10, 0)).GetChanged(); len(changed) != 1 {
			t.Fatalf("changed %v", changed)
		}
		h.hears("acme", 2)
		other := n.join("us", "limiter-0")
		back := func(returned int64) {
			req := h.asking("acme", 0, grant)
			req.Budgets[0].ReturnedTokens = returned
			h.sync(req)
		}
		for _, step := range []struct{ returned, got int64 }{{0, 0}, {30, 0}, {50, 0}, {51, 1}, {55, 5}} {
			back(step.returned)
			req := other.asking("acme", 10)
			req.Budgets[0].NeedTokens = 1
			if got := other.sync(req).GetBudgets()[0]; got.GetIssuedTokens() != step.got {
				t.Errorf("with %d of 60 back: %v, want %d", step.returned, got, step.got)
			}
			if l := s.ledger("acme"); l.Reserved() > 60 || l.Available > 0 && l.Available+l.Reserved() > 10 {
				t.Errorf("%v", l)
			}
		}
	})
}

// Whoever applies at the same time, each change has a version of its own and an
// audit entry that names what was there before.
func TestApplyConcurrently(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		const appliers = 8
		s := newSite(t, st, 1)
		n := s.serve("a")
		versions := make(chan int64, appliers)
		var all sync.WaitGroup
		for i := range int64(appliers) {
			all.Go(func() { versions <- n.apply(bucket(100+i, 0)).GetPolicies()[0].GetVersion() })
		}
		all.Wait()
		close(versions)
		seen := map[int64]bool{}
		for v := range versions {
			seen[v] = true
		}
		if len(seen) != appliers || !seen[1] || !seen[appliers] {
			t.Errorf("versions %v, want 1 to %d", seen, appliers)
		}
		if entries := s.audits(); len(entries) != appliers || entries[0].By != "ann" || entries[0].Action != "policies.apply" {
			t.Errorf("audit entries %+v", entries)
		}
		list, err := n.admin.ListPolicies(s.ctx, connect.NewRequest(&pb.ListPoliciesRequest{}))
		if err != nil || len(list.Msg.GetPolicies()) != 1 || list.Msg.GetPolicies()[0].GetVersion() != appliers {
			t.Errorf("policies %v, %v", list, err)
		}
	})
}

// One bad policy among two: nothing is applied.
func TestApplyAllOrNothing(t *testing.T) {
	s := newSite(t, store.NewMemory(), 1)
	n := s.serve("a")
	other := bucket(5, 0)
	other.Operation, other.MaxSharePercent = "other", 101
	_, err := n.admin.ApplyPolicies(s.ctx, connect.NewRequest(&pb.ApplyPoliciesRequest{
		Policies: []*pb.Policy{bucket(40, 0), other}, AppliedBy: "ann",
	}))
	requireCode(t, err, connect.CodeInvalidArgument)
	if len(s.keys(record.All(s.layout.Policies()))) != 0 || len(s.audits()) != 0 {
		t.Error("something was applied")
	}
}
