package broker

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// After an attested restore the budgets of an account with a policy of its own are shown
// as what they are: with nothing, until they have been asked for and have refilled by
// that policy, and not with what everybody's has refilled.
func TestRestoreOfAccountsIsShown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 40))
		if _, err := n.admin.ApplyPolicies(s.ctx, connect.NewRequest(&pb.ApplyPoliciesRequest{
			Accounts: []*pb.AccountPolicies{
				{Account: "acme", Policies: []*pb.Policy{bucket(40, 1)}}, {Account: "never", Policies: []*pb.Policy{bucket(40, 1)}},
			}, AppliedBy: "ann", Because: "test",
		})); err != nil {
			t.Fatal(err)
		}
		h := n.join("eu", "limiter-0")
		h.ask("acme", 40)
		h.ask("beta", 40)
		n.attest(n.declare(1).GetGeneration())
		pass(6 * time.Second)
		available := func(account string) int64 {
			t.Helper()
			resp, err := n.admin.ShowBudget(s.ctx, connect.NewRequest(&pb.ShowBudgetRequest{Key: key(account)}))
			switch {
			case connect.CodeOf(err) == connect.CodeNotFound && strings.Contains(err.Error(), "all of it counts as spent when somebody does"):
				return 0 // its record of before has been dropped already, which means the same
			case connect.CodeOf(err) == connect.CodeNotFound && strings.Contains(err.Error(), "it has what refill has earned"):
				return 40 // likewise: all of it, after so long
			case err != nil:
				t.Fatal(err)
			}
			return resp.Msg.GetBudget().GetAvailableTokens()
		}
		if acme, beta := available("acme"), available("beta"); acme != 0 || beta != 40 {
			t.Errorf("%d and %d are shown as available, want 0 of the account's own policy and 40 of everybody's", acme, beta)
		}
		_, err := n.admin.ShowBudget(s.ctx, connect.NewRequest(&pb.ShowBudgetRequest{Key: key("never")}))
		if connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "all of it counts as spent when somebody does") {
			t.Errorf("%v", err)
		}
		next := n.join("eu", "limiter-0", h.epoch)
		if got := next.ask("acme", 40).GetIssuedTokens(); got != 0 {
			t.Errorf("%d were issued, where 0 were shown", got)
		}
		pass(6 * time.Second)
		if got := available("acme"); got < 5 || got > 7 {
			t.Errorf("%d are shown as available, 6 s after it was asked for, at 1 a second", got)
		}
	})
}
