package broker

import (
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// alter rewrites a record past every rule.
func alter[T any](s *site, at string, change func(*T)) {
	s.t.Helper()
	value := load[T](s, at)
	change(&value)
	s.putRecord(at, value)
}

// Damage to policies, plans and accounts is found and named, and so is what is of a
// version that is still to come.
func TestVerifyFindsDamagedPolicies(t *testing.T) {
	budgetAt := func(s *site) string {
		return s.layout.Budget(0, lease.Key{Account: "acme", Operation: operation})
	}
	for name, tc := range map[string]struct {
		damage func(s *site)
		want   string
	}{
		"a budget of a version to come": {
			func(s *site) { alter(s, budgetAt(s), func(b *record.Budget) { b.Rule.Version = 3 }) },
			"budget acme/report.create is under policy version 3, and version 2 is in force",
		},
		"a grant of a version to come": {
			func(s *site) {
				path := load[record.Budget](s, budgetAt(s)).Grants[0]
				alter(s, s.layout.Grants(0)+path, func(g *record.Grant) { g.PolicyVersion = 3 })
			},
			"has installed policy version 3, and version 2 is in force",
		},
		"a policy of a version to come": {
			func(s *site) {
				alter(s, s.layout.Policy(operation), func(p *lease.Policy) { p.Rule.Version = 3 })
			},
			"a policy, plan or default is of version 3, and the policy version that is stored is 2",
		},
		"a plan that holds a newer policy": {
			func(s *site) {
				alter(s, s.layout.Plan("free"), func(p *record.Plan) { p.Version = 1 })
			},
			"plan free is of policy version 1, and its policy of report.create of 2",
		},
		"a plan in another place": {
			func(s *site) { alter(s, s.layout.Plan("free"), func(p *record.Plan) { p.Name = "Free" }) },
			"belongs at",
		},
		"an account of a version to come": {
			func(s *site) { alter(s, s.layout.Account("acme"), func(a *record.Account) { a.Version = 9 }) },
			"account acme is of policy version 9, and version 2 is in force",
		},
		"an account of a plan that is not there": {
			func(s *site) { alter(s, s.layout.Account("acme"), func(a *record.Account) { a.Plan = "gold" }) },
			`account acme has plan "gold", which is not stored`,
		},
		"a default plan that is not there": {
			func(s *site) { alter(s, s.layout.Defaults(), func(d *record.Defaults) { d.Plan = "gold" }) },
			`the default plan "gold" is not stored`,
		},
		"a policy version that is no JSON": {
			func(s *site) {
				_, err := s.store.Txn(s.ctx, store.Txn{Then: []store.Op{{Kind: store.OpPut, Key: s.layout.PolicySet(), Value: []byte("{")}}})
				if err != nil {
					s.t.Fatal(err)
				}
			},
			"policyset cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, n, h := one(t, store.NewMemory(), bucket(40, 0))
			n.change(&pb.ApplyPoliciesRequest{
				Plans: []*pb.Plan{plan("free", bucket(30, 0))}, Accounts: []*pb.AccountPolicies{account("acme", "free")}, DefaultPlan: new("free"),
			})
			h.hears("acme", 2).ask("acme", 10)
			n.stop()
			verifier := s.serve("verifier")
			if clean := verifier.verify(); len(clean.GetViolations()) != 0 || clean.GetPolicies() != 2 {
				t.Fatalf("before: %v", clean)
			}
			tc.damage(s)
			if got := verifier.verify().GetViolations(); !strings.Contains(strings.Join(got, "\n"), tc.want) {
				t.Errorf("violations %q, want %q", got, tc.want)
			}
		})
	}
}
