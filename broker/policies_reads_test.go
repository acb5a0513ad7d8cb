package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Dry runs, which viewers may ask for, read the store in proportion to what it has, not
// to what they name.
func TestDryRunsTakeFewReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := &counting{Store: store.NewMemory()}
		s := newLocalSite(t, st, 1)
		n := s.start("a").ready()
		n.apply(bucket(100, 1))
		for i := range 20 {
			req := &pb.ApplyPoliciesRequest{AppliedBy: "anna"}
			for k := range 100 {
				req.Accounts = append(req.Accounts, &pb.AccountPolicies{
					Account: fmt.Sprintf("account-%d-%d", i, k), Policies: []*pb.Policy{bucket(int64(10+k), 1)},
				})
			}
			n.change(req)
		}
		plans := &pb.ApplyPoliciesRequest{AppliedBy: "anna"}
		var names, accounts []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("plan-%d", i))
			plans.Plans = append(plans.Plans, &pb.Plan{Name: names[i], Policies: []*pb.Policy{bucket(10, 1)}})
		}
		n.change(plans)
		for i := range 1000 {
			accounts = append(accounts, fmt.Sprintf("account-%d-%d", i%20, i))
		}
		for what, run := range map[string]func() error{
			"going back over 2000 accounts": func() error {
				_, err := n.admin.RollbackPolicies(t.Context(), connect.NewRequest(&pb.RollbackPoliciesRequest{ToVersion: 1, DryRun: true}))
				return err
			},
			"removing 100 plans": func() error {
				_, err := n.admin.ApplyPolicies(t.Context(), connect.NewRequest(&pb.ApplyPoliciesRequest{RemovePlans: names, DryRun: true}))
				return err
			},
			"removing 1000 accounts": func() error {
				_, err := n.admin.ApplyPolicies(t.Context(), connect.NewRequest(&pb.ApplyPoliciesRequest{RemoveAccounts: accounts, DryRun: true}))
				return err
			},
		} {
			before := st.reads.Load()
			if err := run(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			// Two thousand accounts are eight pages.
			if reads := st.reads.Load() - before; reads > 40 {
				t.Errorf("%s takes %d reads", what, reads)
			}
		}
	})
}

// Plans that are removed together are each looked for in all accounts, those of the
// same change as well, and the first that is in use is told, with who has it.
func TestPlansInUseAreToldTogether(t *testing.T) {
	s := newSite(t, store.NewMemory(), 1)
	n := s.start("a").ready()
	n.change(&pb.ApplyPoliciesRequest{
		AppliedBy: "anna", Policies: []*pb.Policy{bucket(10, 1)},
		Plans:    []*pb.Plan{{Name: "free"}, {Name: "gold"}, {Name: "iron"}},
		Accounts: []*pb.AccountPolicies{{Account: "acme", Plan: "iron"}, {Account: "globex", Plan: "gold"}},
	})
	for _, test := range []struct {
		accounts []*pb.AccountPolicies
		want     string
	}{
		{nil, `accounts "globex" have plan "gold"`},
		{[]*pb.AccountPolicies{{Account: "globex"}}, `accounts "acme" have plan "iron"`},
		{[]*pb.AccountPolicies{{Account: "zeus", Plan: "free"}}, `accounts "zeus" have plan "free"`},
		{[]*pb.AccountPolicies{{Account: "globex"}, {Account: "acme"}}, ""},
	} {
		_, err := n.admin.ApplyPolicies(t.Context(), connect.NewRequest(&pb.ApplyPoliciesRequest{
			RemovePlans: []string{"free", "gold", "iron"}, Accounts: test.accounts, DryRun: true,
		}))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("with %v: %v, want %q", test.accounts, err, test.want)
		}
	}
}

// One dry run goes on at a time. Another waits for its turn, and leaves with its
// caller; a change is not held up.
func TestDryRunsTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(100, 1))
		n.dryRuns <- struct{}{} // one goes on
		dry := func(ctx context.Context) chan error {
			done := make(chan error, 1)
			go func() {
				_, err := n.admin.ApplyPolicies(ctx, connect.NewRequest(&pb.ApplyPoliciesRequest{Policies: []*pb.Policy{bucket(7, 1)}, DryRun: true}))
				done <- err
			}()
			synctest.Wait()
			return done
		}
		leaving, leave := context.WithCancel(t.Context())
		left, waiting := dry(leaving), dry(t.Context())
		leave()
		requireCode(t, <-left, connect.CodeCanceled)
		n.apply(bucket(50, 1))
		select {
		case err := <-waiting:
			t.Fatalf("a dry run did not wait for another: %v", err)
		default:
		}
		<-n.dryRuns
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	})
}
