package broker

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// brokenRecord is the value of a record that cannot be read.
var brokenRecord = []byte("{broken")

// A plan that cannot be read is applied anew, without an operation that it had. The
// account goes by the policy for everybody from then on, whose version is a higher one
// than that of what it had: no credit of that is left.
func TestDamagedPlanAppliedAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		other := bucket(7, 0)
		other.Operation = "other"
		n.change(&pb.ApplyPoliciesRequest{
			Plans: []*pb.Plan{plan("big", bucket(1000, 0), other)}, Accounts: []*pb.AccountPolicies{account("acme", "big")},
		})
		pass(20 * time.Second) // so that the budget begins under it
		h := n.join("eu", "limiter-0").hears("acme", 2)
		if got := h.capacity("acme"); got != 1000 {
			t.Fatalf("under the plan: %d", got)
		}
		h.sync(h.closing("acme", h.ask("acme", 500).GetGrantId(), 400, 0))
		s.put(s.layout.Plan("big"), brokenRecord)
		pass(20 * time.Second)
		if resp := n.change(&pb.ApplyPoliciesRequest{Plans: []*pb.Plan{plan("big", other)}}); resp.GetVersion() != 3 {
			t.Fatalf("applied anew: %v", resp)
		}
		pass(20 * time.Second)
		answer := h.ask("acme", 500)
		if answer.GetIssuedTokens() > 40 || answer.GetPolicy().GetTokenBucket().GetCapacityTokens() != 40 || answer.GetPolicy().GetVersion() != 3 {
			t.Errorf("after that: %v", answer)
		}
		if l := s.ledger("acme"); l.Rule.Capacity != 40 || l.Available+l.Reserved() > 40 {
			t.Errorf("the ledger is %v", l)
		}
		n.sound()
	})
}

// The same of an account whose damaged record was deleted by hand.
func TestDeletedAccountAppliedAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		other := bucket(7, 0)
		other.Operation = "other"
		n.change(&pb.ApplyPoliciesRequest{Accounts: []*pb.AccountPolicies{account("acme", "", bucket(1000, 0), other)}})
		pass(20 * time.Second) // so that the budget begins under it
		h := n.join("eu", "limiter-0").hears("acme", 2)
		h.sync(h.closing("acme", h.ask("acme", 500).GetGrantId(), 400, 0))
		s.remove(s.layout.Account("acme"))
		n.change(&pb.ApplyPoliciesRequest{Accounts: []*pb.AccountPolicies{account("acme", "", other)}})
		pass(20 * time.Second)
		if answer := h.ask("acme", 500); answer.GetIssuedTokens() > 40 || answer.GetPolicy().GetVersion() != 3 {
			t.Errorf("after that: %v", answer)
		}
		n.sound()
	})
}

// An operation that was disabled stays so when the record of that is damaged, until it
// is enabled or disabled anew.
func TestDamagedDisabled(t *testing.T) {
	for name, say := range map[string]func(s *site, n *node) error{
		"enable": func(s *site, n *node) error {
			resp, err := n.admin.EnableOperation(s.ctx, connect.NewRequest(&pb.EnableOperationRequest{Operation: operation, EnabledBy: "ann", Because: "mended"}))
			if err == nil && !resp.Msg.GetWasDisabled() {
				s.t.Errorf("enabled: %v", resp.Msg)
			}
			return err
		},
		"disable": func(s *site, n *node) error {
			_, err := n.admin.DisableOperation(s.ctx, connect.NewRequest(&pb.DisableOperationRequest{Operation: operation, DisabledBy: "ann", Because: "still on fire"}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newLocalSite(t, store.NewMemory(), 1)
				n := s.start("a").ready()
				n.apply(bucket(40, 0))
				_, err := n.admin.DisableOperation(s.ctx, connect.NewRequest(&pb.DisableOperationRequest{Operation: operation, DisabledBy: "ann", Because: "on fire"}))
				if err != nil {
					t.Fatal(err)
				}
				s.put(s.layout.Disable(operation), brokenRecord)
				pass(20 * time.Second)
				h := n.join("eu", "limiter-0").hears("acme", 2)
				if got := h.ask("acme", 10).GetPolicy(); !got.GetDisabled() || !strings.Contains(got.GetDisabledBecause(), "anew") {
					t.Errorf("with a damaged record: %v", got)
				}
				if err := say(s, n); err != nil {
					t.Fatal(err)
				}
				h.hears("acme", 3)
				got := h.ask("acme", 10).GetPolicy()
				if got.GetDisabled() != (name == "disable") || name == "disable" && got.GetDisabledBecause() != "still on fire" {
					t.Errorf("said anew: %v", got)
				}
				n.sound()
			})
		})
	}
}

// No account gets a plan that there is not, nor one that goes with the same request.
func TestAccountOfNoPlan(t *testing.T) {
	_, n, h := one(t, store.NewMemory(), bucket(40, 0))
	_, err := n.tryChange(&pb.ApplyPoliciesRequest{Accounts: []*pb.AccountPolicies{account("acme", "ghost")}, RemovePlans: []string{"ghost"}})
	requireCode(t, err, connect.CodeInvalidArgument)
	if !strings.Contains(err.Error(), `account "acme" is to have plan "ghost"`) {
		t.Errorf("error %v", err)
	}
	n.change(&pb.ApplyPoliciesRequest{Plans: []*pb.Plan{plan("real", bucket(50, 0))}})
	_, err = n.tryChange(&pb.ApplyPoliciesRequest{Accounts: []*pb.AccountPolicies{account("acme", "real")}, RemovePlans: []string{"real"}})
	requireCode(t, err, connect.CodeFailedPrecondition)
	if got := h.capacity("acme"); got != 40 {
		t.Errorf("acme is under %d", got)
	}
}
