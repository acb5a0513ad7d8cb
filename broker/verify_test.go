package broker

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func (n *node) verify() *pb.VerifyResponse {
	n.site.t.Helper()
	resp, err := n.admin.Verify(n.site.ctx, connect.NewRequest(&pb.VerifyRequest{}))
	if err != nil {
		n.site.t.Fatalf("verify: %v", err)
	}
	return resp.Msg
}

// A cluster in use has no violations, and the totals are those of the lists.
func TestVerifyClean(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, _ := populated(t, st)
		got := n.verify()
		if len(got.GetViolations()) != 0 || got.GetPolicies() != 1 || got.GetHolders() != 3 || got.GetBudgets() != 5 || got.GetGrants() != 15 {
			t.Errorf("verify: %v", got)
		}
		// Of each budget 5+10+5; limiter-1 has 10 of it under a replaced epoch.
		if got.GetReservedTokens() != 100 || got.GetOrphanedTokens() != 50 || got.GetRevision() != s.revision() {
			t.Errorf("verify: %v at revision %d", got, s.revision())
		}
	})
}

// damaged is a cluster of one shard, a budget "acme" of 40 and one grant of 10,
// whose broker has stopped; and its records, to be changed by hand.
type damaged struct {
	*site
	at            record.Layout
	budgetAt      string
	grantAt       string
	budget        record.Budget
	grant         record.Grant
	head          record.Head
	fence         record.Fence
	registration  record.Registration
	grantPath     string
	holder        lease.Holder
	verifyingNode *node
}

func toDamage(t *testing.T) *damaged {
	t.Helper()
	s, n, h := one(t, store.NewMemory(), bucket(40, 0))
	h.ask("acme", 10)
	n.stop()
	d := &damaged{site: s, at: s.layout, holder: lease.Holder{Region: "eu", Instance: "limiter-0"}}
	d.budgetAt = s.layout.Budget(0, lease.Key{Account: "acme", Operation: operation})
	d.budget = load[record.Budget](s, d.budgetAt)
	d.grantPath = d.budget.Grants[0]
	d.grantAt = s.layout.Grants(0) + d.grantPath
	d.grant = load[record.Grant](s, d.grantAt)
	d.head = load[record.Head](s, s.layout.Head(0))
	d.fence = load[record.Fence](s, s.layout.Fence(0, d.holder))
	d.registration = load[record.Registration](s, s.layout.Holder(d.holder))
	d.verifyingNode = s.serve("verifier")
	return d
}

func load[T any](s *site, at string) T {
	s.t.Helper()
	value, err := record.Decode[T](s.keys(at, at+"\x00")[0])
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

// remove deletes a key past every rule.
func (s *site) remove(key string) {
	s.t.Helper()
	if _, err := s.store.Txn(s.ctx, store.Txn{Then: []store.Op{{Kind: store.OpDelete, Key: key}}}); err != nil {
		s.t.Fatal(err)
	}
}

// Each kind of damage, done by hand, is found and named; and only it is.
func TestVerifyFinds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(d *damaged)
		want   string
	}{
		{"available above the capacity", func(d *damaged) { d.budget.Available = 31; d.putRecord(d.budgetAt, d.budget) }, "exceed the capacity"},
		{"available below 0", func(d *damaged) { d.budget.Available = -1; d.putRecord(d.budgetAt, d.budget) }, "available is negative"},
		{"a fraction without refill", func(d *damaged) { d.budget.Remainder = 1; d.putRecord(d.budgetAt, d.budget) }, "fraction"},
		{"reserved that is not the sum", func(d *damaged) { d.budget.Reserved = 11; d.putRecord(d.budgetAt, d.budget) }, "records 11 reserved, its grants have 10"},
		{"a rule without a kind", func(d *damaged) { d.budget.Rule.Kind = ""; d.putRecord(d.budgetAt, d.budget) }, "rule kind"},
		{"a budget from the future", func(d *damaged) { d.budget.UpdatedNs = d.head.ClockNs + 1; d.putRecord(d.budgetAt, d.budget) }, "updated after the shard's clock"},
		{"a budget at another's key", func(d *damaged) { d.budget.Account = "beta"; d.putRecord(d.budgetAt, d.budget) }, "belongs at"},
		{"a budget that cannot be read", func(d *damaged) { d.put(d.budgetAt, []byte("[]")) }, "cannot be read"},
		{"a budget that is gone", func(d *damaged) { d.remove(d.budgetAt) }, "is not listed by its budget"},

		{"a grant that is gone", func(d *damaged) { d.remove(d.grantAt) }, "which is not stored"},
		{"a grant that cannot be read", func(d *damaged) { d.put(d.grantAt, []byte("")) }, "cannot be read"},
		{"a grant that nobody lists", func(d *damaged) { d.budget.Grants, d.budget.Reserved = nil, 0; d.putRecord(d.budgetAt, d.budget) }, "is not listed by its budget"},
		{"a grant of another budget", func(d *damaged) { d.grant.Account = "beta"; d.putRecord(d.grantAt, d.grant) }, "not acme/report.create"},
		{"a grant of another holder", func(d *damaged) { d.grant.Instance = "limiter-1"; d.putRecord(d.grantAt, d.grant) }, "belongs at"},
		{"a grant without an ID", func(d *damaged) { d.grant.ID = ""; d.putRecord(d.grantAt, d.grant) }, "grant without an ID"},
		{"a grant ID that is none", func(d *damaged) { d.grant.ID = "g1"; d.putRecord(d.grantAt, d.grant) }, "is not a grant ID"},
		{"a grant of another shard", func(d *damaged) { d.grant.ID = "g1-001-00000001"; d.putRecord(d.grantAt, d.grant) }, "is stored in shard 0"},
		{"a grant that spent too much", func(d *damaged) {
			d.grant.Spent, d.budget.Reserved = 11, -1
			d.putRecord(d.grantAt, d.grant)
			d.putRecord(d.budgetAt, d.budget)
		}, "exceed issued 10"},
		{"a grant of epoch 0", func(d *damaged) { d.grant.Epoch = 0; d.putRecord(d.grantAt, d.grant) }, "epoch 0"},
		{"a grant from the future", func(d *damaged) { d.grant.OpenedNs = d.head.ClockNs + 1; d.putRecord(d.grantAt, d.grant) }, "opened after the shard's clock"},
		{"an ID still to come", func(d *damaged) { d.head.NextGrant = 1; d.putRecord(d.at.Head(0), d.head) }, "could be used twice"},

		{"a head that cannot be read", func(d *damaged) { d.put(d.at.Head(0), []byte("{")) }, "cannot be read"},
		{"a head that is gone", func(d *damaged) { d.remove(d.at.Head(0)) }, "could be used twice"},
		{"a fence that cannot be read", func(d *damaged) { d.put(d.at.Fence(0, d.holder), []byte("{")) }, "cannot be read"},
		{"a fence of another holder", func(d *damaged) { d.fence.Region = "us"; d.putRecord(d.at.Fence(0, d.holder), d.fence) }, "belongs at"},
		{"a registration that cannot be read", func(d *damaged) { d.put(d.at.Holder(d.holder), []byte("{")) }, "cannot be read"},
		{"a registration that was set back", func(d *damaged) { d.remove(d.at.Holder(d.holder)) }, "the store was set back"},
		{"a registration of another holder", func(d *damaged) { d.registration.Region = "us"; d.putRecord(d.at.Holder(d.holder), d.registration) }, "belongs at"},
		{"a policy that cannot be read", func(d *damaged) { d.put(d.at.Policy(operation), []byte("{")) }, "cannot be read"},
		{"a policy that is not valid", func(d *damaged) { d.putRecord(d.at.Policy(operation), lease.Policy{Operation: operation}) }, "rule kind"},
		{"a policy of another operation", func(d *damaged) {
			p := load[lease.Policy](d.site, d.at.Policy(operation))
			p.Operation = "other"
			d.putRecord(d.at.Policy(operation), p)
		}, "belongs at"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := toDamage(t)
			if clean := d.verifyingNode.verify(); len(clean.GetViolations()) != 0 {
				t.Fatalf("before the damage: %v", clean.GetViolations())
			}
			tc.damage(d)
			found := d.verifyingNode.verify().GetViolations()
			if len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), tc.want) {
				t.Errorf("found %q, want %q", found, tc.want)
			}
			again := d.verifyingNode.verify().GetViolations()
			if strings.Join(found, "\n") != strings.Join(again, "\n") {
				t.Errorf("found %q, and the second time %q", found, again)
			}
		})
	}
}

// A budget whose record is damaged is answered as that, also in a request with
// others, which go on.
func TestDamagedBudget(t *testing.T) {
	d := toDamage(t)
	d.budget.Available = 31
	d.putRecord(d.budgetAt, d.budget)
	n := d.start("b").ready()
	h := n.join("us", "limiter-0")
	if got := h.hears("beta", 1).ask("beta", 5); got.GetIssuedTokens() != 5 {
		t.Errorf("another budget: %v", got)
	}
	if got := h.ask("acme", 5); got.GetEvidence() != pb.Evidence_EVIDENCE_RECORD_UNUSABLE || got.GetIssuedTokens() != 0 {
		t.Errorf("the damaged budget: %v", got)
	}
	_, err := n.admin.ShowBudget(d.ctx, connect.NewRequest(&pb.ShowBudgetRequest{Key: key("acme")}))
	if err != nil {
		t.Errorf("shown nevertheless: %v", err)
	}
}
