package shard

import (
	"testing"
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// owing is a rig with a bucket of 40, refilled at 10/s, of which eu has all and has
// reported it as spent. The first report tells what is owed on top.
func owing(t *testing.T, owed int64) (r *rig, grantID string) {
	t.Helper()
	r = newRig(t)
	r.rule(40, 10, 100)
	a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 40, NeedTokens: 40})
	if a.GetIssuedTokens() != 40 {
		t.Fatalf("%v", a)
	}
	r.ask(eu, 1, owes(a.GetGrantId(), 2, owed))
	return r, a.GetGrantId()
}

// owes is a report of a grant of which all is spent, and more is owed.
func owes(grantID string, sequence uint64, owed int64) *pb.BudgetReport {
	return &pb.BudgetReport{Sequence: sequence, GrantId: grantID, SpentTokens: 40, OwedTokens: owed}
}

// requireDebt checks the debt that is stored.
func (r *rig) requireDebt(least, most int64) {
	r.t.Helper()
	b := r.budget()
	if b == nil || b.Debt < least || b.Debt > most {
		r.t.Fatalf("%+v is stored, want a debt of %d to %d", b, least, most)
	}
}

// What a report tells as owed is stored before it is answered, counts once however
// often and late it is heard, and is paid before anybody is granted anything: also
// when the limiter that owes is gone, and by another owner of the shard.
func TestDebtIsPaidBeforeTheNextAdmission(t *testing.T) {
	r, id := owing(t, 30)
	r.requireDebt(30, 30)
	for _, late := range []*pb.BudgetReport{owes(id, 2, 30), owes(id, 3, 30), owes(id, 1, 12), owes(id, 1, 0)} {
		r.ask(eu, 1, late)
		r.requireDebt(29, 30)
	}
	r.ask(eu, 1, owes(id, 4, 33)) // 3 more
	r.requireDebt(32, 33)
	r.register(eu, 2) // it was killed, and starts anew

	r.own()
	r.settle()
	a := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 5, NeedTokens: 5})
	if a.GetIssuedTokens() != 0 || a.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || !a.GetHasRetry() {
		t.Fatalf("us is granted before the debt is paid: %v", a)
	}
	wait := time.Duration(a.GetRetryInNs())
	if wait < 3700*time.Millisecond || wait > 3800*time.Millisecond {
		t.Errorf("retry in %v: 33 are owed, and 5 asked for, at 10/s", wait)
	}
	again := r.ask(eu, 2, &pb.BudgetReport{Sequence: 1, WantTokens: 5, NeedTokens: 5})
	if again.GetIssuedTokens() != 0 {
		t.Errorf("eu is granted before the debt is paid: %v", again)
	}
	r.pass(wait - 20*time.Millisecond)
	if a = r.ask(us, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 5, NeedTokens: 5}); a.GetIssuedTokens() != 0 {
		t.Errorf("us is granted before the time that was told: %v", a)
	}
	r.pass(20 * time.Millisecond)
	if a = r.ask(us, 1, &pb.BudgetReport{Sequence: 3, WantTokens: 5, NeedTokens: 5}); a.GetIssuedTokens() != 5 {
		t.Errorf("us is not granted at the time that was told: %v", a)
	}
	r.requireDebt(0, 0)
}

// A close and a final account tell what is owed; of a grant that has ended, nothing
// more is owed.
func TestDebtOfGrantsThatEnd(t *testing.T) {
	for name, end := range map[string]func(r *rig, g *pb.GrantAccount) *pb.SyncRequest{
		"closed": func(_ *rig, g *pb.GrantAccount) *pb.SyncRequest {
			return &pb.SyncRequest{Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{g}}
		},
		"accounted": func(_ *rig, g *pb.GrantAccount) *pb.SyncRequest {
			return &pb.SyncRequest{Holder: wire(eu), Epoch: 1, Accounts: []*pb.EpochAccount{{
				Epoch: 1, Source: pb.AccountSource_ACCOUNT_SOURCE_HOLDER, Grants: []*pb.GrantAccount{g},
			}}}
		},
		"accounted by an epoch that is fenced": func(r *rig, g *pb.GrantAccount) *pb.SyncRequest {
			r.register(eu, 2)
			return &pb.SyncRequest{Holder: wire(eu), Epoch: 1, Accounts: []*pb.EpochAccount{{
				Epoch: 1, Source: pb.AccountSource_ACCOUNT_SOURCE_HOLDER, Grants: []*pb.GrantAccount{g},
			}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, id := owing(t, 30)
			g := &pb.GrantAccount{
				GrantId: id, SpentTokens: 40, OwedTokens: 37, Key: &pb.BudgetKey{Account: "acme", Operation: operation},
			}
			req := end(r, g)
			r.sync(req)
			r.requireDebt(36, 37)
			g.OwedTokens = 99
			r.sync(req) // again, and a late report of it
			r.ask(eu, 1, owes(id, 9, 99))
			r.requireDebt(36, 37)
		})
	}
}

// A journal knows nothing of debt: what was reported before the crash stays.
func TestDebtOutlivesAJournal(t *testing.T) {
	r, id := owing(t, 30)
	r.register(eu, 2)
	r.sync(&pb.SyncRequest{Holder: wire(eu), Epoch: 2, Accounts: []*pb.EpochAccount{{
		Epoch: 1, Source: pb.AccountSource_ACCOUNT_SOURCE_JOURNAL, Grants: []*pb.GrantAccount{{GrantId: id, SpentTokens: 40}},
	}}})
	r.requireDebt(29, 30)
}

// The list of a holder's grants tells what is owed of each, and a ledger that owes is
// not dropped, however long nobody uses it.
func TestDebtIsListedAndKept(t *testing.T) {
	r := newRig(t)
	r.rule(40, 0, 100) // nothing is refilled
	a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 40, NeedTokens: 40})
	r.ask(eu, 1, owes(a.GetGrantId(), 2, 7))
	resp := r.sync(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, ListGrants: true})
	if g := resp.GetGrants(); len(g) != 1 || g[0].GetOwedTokens() != 7 {
		t.Errorf("%v", g)
	}
	r.sync(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Closes: []*pb.GrantAccount{{
		GrantId: a.GetGrantId(), SpentTokens: 40, OwedTokens: 7, Key: &pb.BudgetKey{Account: "acme", Operation: operation},
	}}})
	r.pass(time.Hour)
	r.requireDebt(7, 7)
	b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 5, NeedTokens: 5})
	if b.GetIssuedTokens() != 0 || b.GetHasRetry() {
		t.Errorf("a quota that owes: %v", b)
	}
}
