package shard

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// The policy of these tests: 40, refilled by 2 a second, and credit that lapses 12 s
// after the newest request.
const (
	staleness = 9 * time.Second
	margin    = 3 * time.Second
)

// deadline puts a version of that policy in force, after change.
func (r *rig) deadline(version int64, change func(*lease.Policy)) {
	r.t.Helper()
	p := capped(version, 40, 2)
	p.MaxStaleness, p.ReclaimMargin = staleness, margin
	if change != nil {
		change(&p)
	}
	r.put(layout.Policy(operation), p)
	r.shard.PoliciesChanged()
	r.settle()
}

func byProof(p *lease.Policy) { p.ReclaimMargin = 0 }

// hold has eu take all 40, and is the answer.
func (r *rig) hold() *pb.BudgetAnswer {
	r.t.Helper()
	a := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 40, NeedTokens: 40, BoundNs: 1})
	if a.GetIssuedTokens() != 40 {
		r.t.Fatalf("%v", a)
	}
	return a
}

// report is eu's report of a grant, of which it has spent 4, with its bound.
func reporting(a *pb.BudgetAnswer, sequence uint64, bound time.Duration) *pb.BudgetReport {
	return &pb.BudgetReport{Sequence: sequence, GrantId: a.GetGrantId(), SpentTokens: 4, WantTokens: 36, BoundNs: int64(bound)}
}

// requireLapse lets time go by, and requires that the only grant lapses after exactly d.
func (r *rig) requireLapse(d time.Duration) {
	r.t.Helper()
	lapsed := r.shard.Stats().GrantsLapsed
	r.pass(d - 100*time.Millisecond)
	if n := len(r.grants()); n != 1 {
		r.t.Errorf("%d grants before the deadline", n)
	}
	r.pass(200 * time.Millisecond)
	if n := len(r.grants()); n != 0 || r.shard.Stats().GrantsLapsed != lapsed+1 {
		r.t.Errorf("%d grants after the deadline, %d lapsed, want 1", n, r.shard.Stats().GrantsLapsed-lapsed)
	}
}

// requireHeld requires that the grant does not lapse in an hour.
func (r *rig) requireHeld() {
	r.t.Helper()
	r.pass(time.Hour)
	if g := r.grants(); len(g) != 1 || r.shard.Stats().GrantsLapsed != 0 {
		r.t.Errorf("%d grants, %d lapsed: want the one held", len(g), r.shard.Stats().GrantsLapsed)
	}
}

// What a silent holder has lapses after its staleness and the margin, counts as spent
// then, and comes back through refill alone.
func TestSilentGrantLapses(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	a := r.hold()
	r.requireLapse(staleness + margin)
	r.pass(900 * time.Millisecond) // one second since it lapsed
	if b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 3, NeedTokens: 3, BoundNs: 1}); b.GetIssuedTokens() != 0 {
		t.Errorf("3 tokens one second after 40 have lapsed: %v", b)
	}
	if b := r.ask(us, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 2, NeedTokens: 2, BoundNs: 1}); b.GetIssuedTokens() != 2 {
		t.Errorf("2 tokens were earned: %v", b)
	}
	if s := r.shard.Stats(); s.TokensLapsed != 40 {
		t.Errorf("%d tokens lapsed, want 40", s.TokensLapsed)
	}
	// Its holder comes back late, and finds it gone, spent or not.
	late := r.ask(eu, 1, reporting(a, 2, staleness))
	if !late.GetGone() || late.GetIssuedTokens() != 0 {
		t.Errorf("the late report is answered %v", late)
	}
	id, err := lease.ParseGrantID(a.GetGrantId())
	if err != nil {
		t.Fatal(err)
	}
	if audit := r.records(layout.Audits()); len(audit) != 1 || !strings.Contains(audit[0], `"action":"grants.lapse"`) ||
		!strings.Contains(audit[0], `{"grant":"`+a.GetGrantId()+`","holder":"eu/limiter-0","epoch":1,"outstanding":40}`) || !strings.Contains(audit[0], `"counted_as_spent":40`) {
		t.Errorf("the audit has %q", audit)
	}
	events := r.shard.Tell(r.now, id, eu).Story.Events
	if last := events[len(events)-1]; last.What != Lapsed || last.What.String() != "lapsed" || last.Spent != 40 {
		t.Errorf("its story ends with %+v", last)
	}
}

// Each request that is answered puts the deadline off; what asks in a queue behind it
// does so as well.
func TestRequestsPutTheDeadlineOff(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	a := r.hold()
	for i := range 5 {
		r.pass(staleness + margin - time.Second)
		if got := r.ask(eu, 1, reporting(a, uint64(i)+2, staleness)); got.GetGone() {
			t.Fatal("lapsed though its holder reports")
		}
	}
	late, _ := r.send(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Budgets: []*pb.BudgetReport{{
		Key: a.GetKey(), Sequence: 20, GrantId: a.GetGrantId(), SpentTokens: 4, BoundNs: int64(staleness),
	}}})
	r.now.Mono += time.Minute // in which the owner did nothing
	r.settle()
	if got := late.requireOne(t).GetBudgets()[0]; got.GetGone() {
		t.Error("lapsed though a request was waiting")
	}
	r.requireLapse(staleness + margin)
}

// Without the holder's word that it goes by a bound nothing lapses: a limiter of a
// version that knows of none, or one that has not installed the policy.
func TestWithoutABoundNothingLapses(t *testing.T) {
	for name, bound := range map[string]time.Duration{"says nothing": 0, "says too much": 2 * lease.MaxHold} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.deadline(1, nil)
			r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 40, NeedTokens: 40, BoundNs: int64(bound)})
			r.requireHeld()
		})
	}
	t.Run("proof", func(t *testing.T) {
		r := newRig(t)
		r.deadline(1, byProof)
		a := r.hold()
		r.ask(eu, 1, reporting(a, 2, staleness))
		r.requireHeld()
	})
}

// A policy that comes to declare a deadline binds a grant once its holder goes by it,
// and not before, whatever was answered.
func TestDeadlineBindsOnceInstalled(t *testing.T) {
	r := newRig(t)
	r.deadline(1, func(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin = 0, 0 })
	a := r.hold()
	r.deadline(2, nil)
	r.ask(eu, 1, reporting(a, 2, 0)) // the answer carries the deadline, and may be lost
	r.requireHeld()
	r.ask(eu, 1, reporting(a, 3, staleness))
	r.requireLapse(staleness + margin)
}

// A shorter bound counts once the holder goes by it; a longer one at once.
func TestBoundsChange(t *testing.T) {
	shorter, longer := func(p *lease.Policy) { p.MaxStaleness = 5 * time.Second }, func(p *lease.Policy) { p.MaxStaleness = 20 * time.Second }
	t.Run("shorter", func(t *testing.T) {
		r := newRig(t)
		r.deadline(1, nil)
		a := r.hold()
		r.deadline(2, shorter)
		r.ask(eu, 1, reporting(a, 2, staleness))
		r.requireLapse(staleness + margin)
	})
	t.Run("shorter and installed", func(t *testing.T) {
		r := newRig(t)
		r.deadline(1, nil)
		a := r.hold()
		r.deadline(2, shorter)
		r.ask(eu, 1, reporting(a, 2, staleness))
		r.ask(eu, 1, reporting(a, 3, 5*time.Second))
		r.requireLapse(5*time.Second + margin)
	})
	t.Run("longer", func(t *testing.T) {
		r := newRig(t)
		r.deadline(1, nil)
		a := r.hold()
		r.deadline(2, longer)
		r.ask(eu, 1, reporting(a, 2, staleness))
		r.requireLapse(20*time.Second + margin)
	})
	t.Run("back to proof", func(t *testing.T) {
		r := newRig(t)
		r.deadline(1, nil)
		a := r.hold()
		r.deadline(2, byProof)
		r.ask(eu, 1, reporting(a, 2, staleness))
		r.requireHeld()
	})
	t.Run("to proof, and nobody hears of it", func(t *testing.T) {
		r := newRig(t)
		r.deadline(1, nil)
		r.hold()
		r.deadline(2, byProof)
		r.requireHeld()
		if g := r.grants(); g[0].LapsesAfterNs != 0 {
			t.Errorf("lapses after %d ns under proof", g[0].LapsesAfterNs)
		}
		r.deadline(3, nil)
		r.requireHeld()
	})
	t.Run("no policy, and nobody hears of it", func(t *testing.T) {
		r := newRig(t)
		r.deadline(1, nil)
		r.hold()
		r.removePolicy()
		r.requireHeld()
	})
	t.Run("no policy", func(t *testing.T) {
		r := newRig(t)
		r.deadline(1, nil)
		a := r.hold()
		r.removePolicy()
		if got := r.ask(eu, 1, reporting(a, 2, staleness)); got.GetPolicy() != nil {
			t.Fatalf("%v", got)
		}
		r.requireHeld()
	})
}

func (r *rig) removePolicy() {
	r.t.Helper()
	if _, err := r.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpDelete, Key: layout.Policy(operation)}}}); err != nil {
		r.t.Fatal(err)
	}
	r.shard.PoliciesChanged()
	r.settle()
}

// A request that is answered twice, by different policies, leaves the holder with either
// answer: the longer bound counts.
func TestRepeatedRequestKeepsTheLongerBound(t *testing.T) {
	for name, test := range map[string]struct {
		first, second func(*lease.Policy)
		want          time.Duration // 0: never
	}{
		"shorter then":    {nil, func(p *lease.Policy) { p.MaxStaleness = 5 * time.Second }, staleness + margin},
		"longer then":     {nil, func(p *lease.Policy) { p.MaxStaleness = 20 * time.Second }, 20*time.Second + margin},
		"proof then":      {nil, byProof, 0},
		"proof before":    {byProof, nil, 0},
		"no bound before": {func(p *lease.Policy) { p.MaxStaleness, p.ReclaimMargin = 0, 0 }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.deadline(1, test.first)
			r.hold()
			r.deadline(2, test.second)
			again := r.ask(eu, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 40, NeedTokens: 40, BoundNs: 1})
			if again.GetShortage() != pb.Shortage_SHORTAGE_STALE || again.GetIssuedTokens() != 40 {
				t.Fatalf("the repetition is answered %v", again)
			}
			if test.want == 0 {
				r.requireHeld()
			} else {
				r.requireLapse(test.want)
			}
		})
	}
}

// What is older than the newest request puts nothing off, and shortens nothing.
func TestOldRequestsDoNotMoveTheDeadline(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	a := r.hold()
	r.ask(eu, 1, reporting(a, 5, staleness))
	r.pass(6 * time.Second)
	r.ask(eu, 1, reporting(a, 4, time.Second))
	r.requireLapse(staleness + margin - 6*time.Second)
}

// A new owner knows of no request, so it waits for all of the time that is stored; and
// so does an owner that reads the shard again after a doubt.
func TestNewOwnerWaitsAnew(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	r.hold()
	r.pass(10 * time.Second)
	r.own()
	r.settle()
	r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 1, BoundNs: 1}) // has the budget read
	r.requireLapse(staleness + margin)
}

func TestDoubtWaitsAnew(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	r.hold()
	r.pass(10 * time.Second)
	r.fate = func(store.Txn) (bool, error) { return false, errors.New("lost") }
	lost, _ := r.send(asking(us, "acme", 1, 1))
	r.step()
	r.fate = nil
	r.settle()
	if lost.times == 0 {
		t.Fatal("the request was not answered")
	}
	r.ask(us, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 1, BoundNs: 1})
	r.requireLapse(staleness + margin)
}

// A new owner finds grants that lapse though nobody asks for their budget.
func TestNewOwnerFindsWhatLapses(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	r.hold()
	if b := r.budget(); b == nil || !b.Lapsing {
		t.Fatalf("the record does not tell that its grants lapse: %+v", b)
	}
	r.own()
	r.settle()
	r.pass(staleness + margin + 3*beatEvery)
	if n := len(r.grants()); n != 0 {
		t.Errorf("%d grants are left, which nobody has asked for", n)
	}
}

// An orphaned grant lapses like any other, and a journal that comes later finds it gone.
func TestOrphanedGrantLapses(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	a := r.hold()
	r.register(eu, 2)
	r.ask(eu, 2, &pb.BudgetReport{Sequence: 1, WantTokens: 1, BoundNs: 1}) // fences epoch 1
	if g := r.grants(); len(g) != 1 || g[0].LapsesAfterNs != int64(staleness+margin) {
		t.Fatalf("%+v", g)
	}
	r.requireLapse(staleness + margin)
	resp := r.sync(&pb.SyncRequest{Holder: wire(eu), Epoch: 2, JournalCounter: 1, Accounts: []*pb.EpochAccount{{
		Epoch: 1, Source: pb.AccountSource_ACCOUNT_SOURCE_JOURNAL, JournalCounter: 7,
		Grants: []*pb.GrantAccount{{GrantId: a.GetGrantId(), Key: a.GetKey(), SpentTokens: 4}},
	}}})
	if got := resp.GetAccounts(); len(got) != 1 || !got[0].GetApplied() {
		t.Errorf("the journal's account is answered %v", got)
	}
	if b := r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 36, NeedTokens: 36, BoundNs: 1}); b.GetIssuedTokens() != 0 {
		t.Errorf("what has lapsed came back by the journal: %v", b)
	}
}

// Requests of an epoch that is fenced put nothing off.
func TestFencedEpochPutsNothingOff(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	a := r.hold()
	r.register(eu, 2)
	r.ask(eu, 2, &pb.BudgetReport{Sequence: 1, BoundNs: 1})
	r.pass(6 * time.Second)
	r.ask(eu, 1, reporting(a, 2, staleness))
	r.requireLapse(staleness + margin - 6*time.Second)
}

// A commit of unknown outcome: the grant lapses once, whether it was applied or not.
func TestLapseOfUnknownOutcome(t *testing.T) {
	for name, applied := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.deadline(1, nil)
			r.hold()
			r.pass(staleness + margin - time.Second)
			r.fate = func(txn store.Txn) (bool, error) {
				for _, op := range txn.Then {
					if op.Kind == store.OpDelete {
						r.fate = nil
						return applied, errors.New("lost")
					}
				}
				return true, nil
			}
			r.pass(2 * time.Second)
			if r.fate != nil {
				t.Fatal("nothing was deleted")
			}
			r.ask(us, 1, &pb.BudgetReport{Sequence: 1, WantTokens: 1, BoundNs: 1})
			r.pass(staleness + margin + time.Second)
			if n := len(r.grants()); n != 0 { // that of us has lapsed, too
				t.Errorf("%d grants", n)
			}
			r.pass(time.Minute)
			if b := r.ask(us, 1, &pb.BudgetReport{Sequence: 2, WantTokens: 100, BoundNs: 1}); b.GetIssuedTokens() != 40 {
				t.Errorf("%d of 40 are handed out when all of it has come back", b.GetIssuedTokens())
			}
		})
	}
}

// Many grants of many budgets lapse in as many transactions as they need, and none of
// another length of time with them.
func TestManyLapse(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	const budgets = 300
	for i := range budgets {
		a, _ := r.send(&pb.SyncRequest{Holder: wire(eu), Epoch: 1, Budgets: []*pb.BudgetReport{{
			Key: &pb.BudgetKey{Account: accountName(i), Operation: operation}, Sequence: uint64(i) + 1, WantTokens: 1, NeedTokens: 1, BoundNs: 1,
		}}})
		r.settle()
		a.requireOne(t)
	}
	r.deadline(2, func(p *lease.Policy) { p.MaxStaleness = time.Hour })
	kept := r.sync(&pb.SyncRequest{Holder: wire(us), Epoch: 1, Budgets: []*pb.BudgetReport{{
		Key: &pb.BudgetKey{Account: accountName(0), Operation: operation}, Sequence: 1, WantTokens: 1, NeedTokens: 1, BoundNs: 1,
	}}})
	r.pass(staleness + margin + time.Minute)
	left := r.grants()
	if len(left) != 1 || left[0].ID != kept.GetBudgets()[0].GetGrantId() {
		t.Errorf("%d grants are left", len(left))
	}
	if s := r.shard.Stats(); s.GrantsLapsed != budgets {
		t.Errorf("%d lapsed, want %d", s.GrantsLapsed, budgets)
	}
	if n := len(r.shard.lapses); n != 1 {
		t.Errorf("%d budgets wait for a deadline, want 1", n)
	}
}

// A budget that is asked for all the time keeps one place among those that lapse.
func TestLapsesDoNotPileUp(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	a := r.hold()
	for i := range 200 {
		version := int64(i) + 2
		r.deadline(version, func(p *lease.Policy) { p.MaxStaleness = staleness + time.Duration(i%7)*time.Second })
		r.ask(eu, 1, reporting(a, uint64(i)+2, staleness))
		r.pass(time.Second)
	}
	if n := len(r.shard.lapses); n != 1 {
		t.Errorf("%d places of one budget", n)
	}
}

// A record of before a restore tells of another life: nothing of it is read to lapse.
func TestRecordOfBeforeARestoreDoesNotLapse(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	r.hold()
	stored := *r.budget()
	if !r.shard.lapsing(stored) {
		t.Fatal("the record does not lapse in its own generation")
	}
	r.declare(5)
	r.own()
	r.settle()
	if r.shard.lapsing(stored) {
		t.Error("a record of an earlier generation lapses")
	}
	r.pass(staleness + margin + 3*beatEvery)
	if n := r.shard.Stats().GrantsLapsed; n != 0 {
		t.Errorf("%d grants of before a restore have lapsed", n)
	}
	if g := r.grants(); len(g) != 1 || record.Budget.Since(stored) != 1 {
		t.Errorf("%+v", g)
	}
}

// Those of a shard that was taken over are found soon, however many budgets there are.
func TestNewOwnerFindsThemSoon(t *testing.T) {
	r := newRig(t)
	r.deadline(1, nil)
	const budgets = 1500
	for from := 0; from < budgets; from += 100 {
		req := &pb.SyncRequest{Holder: wire(eu), Epoch: 1}
		for i := from; i < from+100; i++ {
			req.Budgets = append(req.Budgets, &pb.BudgetReport{
				Key: &pb.BudgetKey{Account: accountName(i), Operation: operation}, Sequence: uint64(i) + 1, WantTokens: 10, NeedTokens: 10, BoundNs: 1,
			})
		}
		r.sync(req)
	}
	r.own()
	r.settle()
	r.pass(beatEvery + staleness + margin + time.Second)
	if left := len(r.grants()); left > 0 {
		t.Errorf("%d of %d grants are left %v after the shard was taken over", left, budgets, beatEvery+staleness+margin+time.Second)
	}
}

// An account's own policy is read before anything of its budgets lapses: what the shard
// knew of it may be old.
func TestAccountIsReadBeforeItsGrantsLapse(t *testing.T) {
	own := func(version int64, change func(*lease.Policy)) (record.Account, store.Op) {
		p := capped(version, 40, 2)
		p.MaxStaleness, p.ReclaimMargin = staleness, margin
		if change != nil {
			change(&p)
		}
		a := record.Account{Account: "acme", Version: version, Shrunk: version, Policies: []lease.Policy{p}}
		return a, put(layout.Account("acme"), a)
	}
	for name, test := range map[string]struct {
		change func(*lease.Policy)
		left   int
	}{"proof": {byProof, 1}, "deadline": {func(p *lease.Policy) { p.DefaultCost = 2 }, 0}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			_, op := own(2, nil)
			r.applied(2, []string{"acme"}, op)
			r.settle()
			r.hold()
			r.pass(staleness + margin - time.Second)
			e := r.shard.ledgers[lease.Key{Account: "acme", Operation: operation}]
			_, op = own(3, test.change)
			r.applied(3, []string{"acme"}, op)
			r.step()
			if e.accountKnown {
				t.Fatal("the account is known after it was changed")
			}
			r.shard.queue = nil // what would read it
			r.now.Mono += 2 * time.Second
			r.settle()
			if n := len(r.grants()); n != test.left {
				t.Errorf("%d grants are left, want %d", n, test.left)
			}
		})
	}
}

// A window is told of its period before anything of it is written, also where a grant
// does not lapse since the policy says so no more (found by a random world).
func TestWindowIsTurnedBeforeItIsWritten(t *testing.T) {
	daily := func(p *lease.Policy) {
		p.Rule.Kind, p.Rule.Refill, p.Rule.Period, p.Rule.Zone = lease.FixedWindow, lease.Rate{}, lease.Hour, "UTC"
	}
	r := newRig(t)
	noon := time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)
	r.wallAt(noon)
	r.deadline(1, daily)
	r.hold()
	r.deadline(2, func(p *lease.Policy) { daily(p); byProof(p) })
	r.wallAt(noon.Add(time.Hour))
	r.pass(staleness + margin + time.Second)
	if b := r.budget(); b.Lapsing || b.BeganUnixMs != time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC).UnixMilli() {
		t.Errorf("the record has %+v", b)
	}
}
