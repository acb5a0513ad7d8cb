package holder

import (
	"slices"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// A report tells what is held beside what was spent, and wants free credit.
func TestReportsTellWhatIsHeld(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 1000), 100, nil)
	credit := r.b.Credit()
	if _, ok := r.b.Hold(1, 60, far, false); !ok {
		t.Fatal("not held")
	}
	r.b.Spend(10)
	r.steps(2 * time.Second)
	if l := r.last(); l.GetHeldTokens() != 60 || l.GetSpentTokens() != 10 {
		t.Errorf("held %d and spent %d are told, want 60 and 10", l.GetHeldTokens(), l.GetSpentTokens())
	}
	r.b.Settle(1, 25, false)
	r.steps(2 * time.Second)
	if l := r.last(); l.GetHeldTokens() != 0 || l.GetSpentTokens() != 35 {
		t.Errorf("held %d and spent %d are told, want 0 and 35", l.GetHeldTokens(), l.GetSpentTokens())
	}
	if now := r.b.Credit(); now < credit-35 {
		t.Errorf("credit %d, want %d or more", now, credit-35)
	}
}

// What is held is nobody's to return: a level of 0 takes the free credit alone.
func TestLevelsAreOfFreeCredit(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 1000), 100, nil)
	r.b.Hold(1, 60, far, false)
	r.steps(2 * time.Second)
	r.level = 0
	r.m.Hint(0, []lease.Key{rigKey}, false)
	r.step(10 * time.Millisecond)
	r.step(10 * time.Millisecond)
	if credit, held := r.b.balance(); credit != 0 || held != 60 {
		t.Errorf("credit %d, held %d, want 0 and 60", credit, held)
	}
	if s := r.b.Settle(1, 20, false); s.Returned != 40 {
		t.Errorf("%+v", s)
	}
	if l := r.last(); l.GetSpentTokens() != 0 || l.GetHeldTokens() != 60 || l.GetReturnedTokens() == 0 {
		t.Errorf("told: %v", l)
	}
}

// A budget of which something is held keeps its grant, however long nobody uses it;
// then it is retired as others are.
func TestHeldBudgetsAreNotRetired(t *testing.T) {
	for _, slots := range []bool{false, true} {
		kind := lease.TokenBucket
		if slots {
			kind = lease.Concurrency
		}
		retired := 0
		r := supplied(t, policyOf(kind, 100), 5, func(c *Config) { c.Retired = func(*Budget) { retired++ } })
		if _, ok := r.b.Hold(1, 2, far, slots); !ok {
			t.Fatal("not held")
		}
		r.steps(time.Minute)
		if len(r.closes) != 0 || retired != 0 {
			t.Errorf("%s: %d closes, %d retired with 2 held", kind, len(r.closes), retired)
		}
		if n := len(r.reports); n > 10 {
			t.Errorf("%s: %d reports in a minute in which nothing changed", kind, n)
		}
		if s := r.b.Settle(1, 0, false); s.Returned != 2 {
			t.Errorf("%s: %+v", kind, s)
		}
		r.steps(9 * time.Second)
		if len(r.closes) != 0 {
			t.Errorf("%s: closed before it was idle", kind)
		}
		r.steps(10 * time.Second)
		if len(r.closes) != 1 || retired != 1 || r.closes[0].GetHeldTokens() != 0 || r.closes[0].GetSpentTokens() != 0 {
			t.Errorf("%s: %v, %d retired", kind, r.closes, retired)
		}
	}
}

// owingRig is a rig with a budget under a policy that is postpaid, of which all is spent,
// and that owes debt.
func owingRig(t *testing.T, debt int64, change func(*Config)) *rig {
	t.Helper()
	policy := policyOf(lease.TokenBucket, 100)
	policy.Postpaid = true
	r := supplied(t, policy, 5, change)
	r.free = 0 // the budget is used up
	r.b.Hold(1, 5, far, false)
	if s := r.b.Settle(1, r.issued+debt, true); s.Debt != debt {
		t.Fatalf("%+v of %d", s, r.issued)
	}
	return r
}

// A debt is told at once, and again until an answer confirms it, however many are lost.
// Then the budget owes nothing here.
func TestDebtIsReported(t *testing.T) {
	r := owingRig(t, 80, nil)
	r.losing = true
	n := len(r.reports)
	r.step(100 * time.Millisecond)
	if len(r.reports) == n || r.last().GetOwedTokens() != 80 || r.b.Debt() != 80 {
		t.Fatalf("%d reports, the last %v; debt %d", len(r.reports)-n, r.last(), r.b.Debt())
	}
	n = len(r.reports)
	r.steps(2 * time.Second)
	if more := len(r.reports) - n; more < 2 || more > 20 || r.last().GetOwedTokens() != 80 || r.b.Debt() != 80 {
		t.Errorf("%d reports, the last %v; debt %d", more, r.last(), r.b.Debt())
	}
	r.losing = false
	r.steps(3 * time.Second)
	if r.b.Debt() != 0 || r.charged != 80 || r.last().GetSpentTokens() != r.issued {
		t.Errorf("debt %d, %d charged, last %v", r.b.Debt(), r.charged, r.last())
	}
	n = len(r.reports)
	r.steps(2 * time.Second)
	if len(r.reports) != n {
		t.Errorf("%d more reports of what is told", len(r.reports)-n)
	}
	r.free = 10 // credit that comes pays nothing
	if _, ok := r.b.Wait(4); !ok {
		t.Fatal("retired")
	}
	r.b.Signal()
	r.steps(time.Second)
	if r.b.Credit() < 4 || r.last().GetOwedTokens() != 80 {
		t.Errorf("credit %d, last %v", r.b.Credit(), r.last())
	}
}

// A debt is told though a request hangs, and others are denied all the time.
func TestDebtIsReportedWhileARequestHangs(t *testing.T) {
	policy := policyOf(lease.TokenBucket, 100)
	policy.Postpaid = true
	r := supplied(t, policy, 5, nil)
	r.b.Hold(1, r.b.Credit(), far, false)
	r.free = 0
	r.b.Wait(1)
	r.b.Signal()
	r.steps(time.Second)
	for _, s := range r.m.Step(r.now + 200*time.Millisecond).Syncs { // not answered
		if !s.Hanging {
			t.Fatalf("a request that does not hang: %v", s.Request)
		}
	}
	r.now += 200 * time.Millisecond
	if !r.key().hanging {
		t.Fatal("no request hangs")
	}
	r.b.Settle(1, 50, true)
	n := len(r.reports)
	r.b.Denied()
	r.step(100 * time.Millisecond)
	if len(r.reports) == n || r.charged == 0 || r.b.Debt() != 0 {
		t.Errorf("%d reports, %d charged, debt %d", len(r.reports)-n, r.charged, r.b.Debt())
	}
}

// Whatever ends a grant tells what is owed: that it is idle, that the kind of its rule
// changes, that the limiter stops. A limiter that is killed loses what it had not
// reported.
func TestDebtOutlivesItsGrant(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(r *rig)
		want int64
	}{
		"idle": {func(r *rig) { r.steps(30 * time.Second) }, 7},
		"another kind": {func(r *rig) {
			r.policy = policyOf(lease.RollingWindow, 100)
			r.policy.Rule.Version = 2
			r.steps(2 * time.Second)
		}, 7},
		"no policy":      {func(r *rig) { r.policy = nil; r.steps(30 * time.Second) }, 7},
		"an orderly end": {func(r *rig) { r.m.Stop(); r.step(0) }, 7},
		"an orderly end that is told late": {func(r *rig) {
			r.losing = true
			r.m.Stop()
			r.step(0)
			r.losing = false
			r.steps(3 * time.Second)
		}, 7},
		"a crash": {func(*rig) {}, 0},
	} {
		retired := 0
		r := owingRig(t, 7, func(c *Config) { c.Retired = func(*Budget) { retired++ } })
		c.end(r)
		if r.charged != c.want || r.b.Debt() != 7-c.want {
			t.Errorf("%s: %d charged, debt %d", name, r.charged, r.b.Debt())
		}
		if name == "idle" && retired != 1 {
			t.Errorf("%s: not retired", name)
		}
	}
}

// A grant that the broker has ended on its own owes nothing any more of what was told;
// what was not is told of the next one.
func TestDebtOfAGrantThatIsGone(t *testing.T) {
	r := owingRig(t, 7, nil)
	r.grant, r.issued, r.free = nil, 0, 20
	r.step(100 * time.Millisecond)
	if r.b.Debt() != 0 || r.charged != 0 {
		t.Errorf("debt %d, %d charged", r.b.Debt(), r.charged)
	}
}

// What was settled after the newest report of a grant that the broker then calls gone is
// paid by the next one. If the budget is not used again, it is given up when that is
// retired, as it is then, and not kept for ever.
func TestDebtThatNoGrantTells(t *testing.T) {
	for _, again := range []bool{false, true} {
		retired := 0
		r := owingRig(t, 7, func(c *Config) { c.Retired = func(*Budget) { retired++ } })
		r.grant, r.issued, r.free = nil, 0, 0
		r.now += 100 * time.Millisecond
		for _, s := range r.m.Step(r.now).Syncs {
			r.b.admit(1) // a token that comes meanwhile, and work that was begun with it
			if _, ok := r.b.Hold(9, 1, far, false); !ok {
				t.Fatal("no credit to hold")
			}
			r.b.Settle(9, 4, true)
			r.m.Synced(s.ID, r.serve(s.Request), nil, r.now)
		}
		if r.b.Debt() != 3 || r.key().grant != "" {
			t.Fatalf("debt %d with grant %q, want 3 without one", r.b.Debt(), r.key().grant)
		}
		if again {
			r.free = 20
			r.b.Refused(2)
			r.steps(time.Second)
			if paid := r.key().spent(); r.b.Debt() != 0 || paid+r.charged != 3 {
				t.Errorf("used again: debt %d, %d paid and %d charged, want 3 in all", r.b.Debt(), paid, r.charged)
			}
		}
		r.steps(30 * time.Second)
		if retired != 1 || r.b.Debt() != 0 {
			t.Errorf("used again %v: retired %d times, debt %d", again, retired, r.b.Debt())
		}
		if _, ok := r.m.keys[rigKey]; ok {
			t.Error("the manager still has the budget")
		}
	}
}

// The manager ends holds by itself, no earlier than their time, and within
// ReportWithin; and it says when it wants to be woken for that.
func TestManagerEndsHoldsInTime(t *testing.T) {
	for _, slots := range []bool{false, true} {
		kind := lease.RollingWindow
		if slots {
			kind = lease.Concurrency
		}
		r := supplied(t, policyOf(kind, 100), 5, nil)
		r.steps(3 * time.Second) // asleep, or idle
		until := r.now + 5*time.Second + 50*time.Millisecond
		r.b.Hold(1, 2, until, slots)
		for r.now < until+1200*time.Millisecond {
			r.step(0)
			_, held := r.b.balance()
			if held > 0 && r.wake > until+1100*time.Millisecond {
				t.Fatalf("%s: at %v it wants to be woken at %v, with an end at %v", kind, r.now, r.wake, until)
			}
			if r.now < until && held != 2 {
				t.Fatalf("%s: held %d at %v, before its end at %v", kind, held, r.now, until)
			}
			r.now = max(r.now+time.Millisecond, r.wake) // no sooner than it asks for
		}
		_, held := r.b.balance()
		if want := map[bool]int64{true: 0, false: 2}[slots]; held != 0 || r.key().spent() != want {
			t.Errorf("%s: held %d, spent %d at %v, want 0 and %d", kind, held, r.key().spent(), r.now, want)
		}
	}
}

// A grant is not rotated while something of it is held.
func TestHeldGrantsAreNotRotated(t *testing.T) {
	policy := policyOf(lease.TokenBucket, lease.MaxCapacity)
	r := supplied(t, policy, 5, nil)
	r.b.Hold(1, 2, far, false)
	r.issued, r.key().issued = rotateAt+1, rotateAt+1
	r.b.Refused(lease.MaxCapacity)
	r.steps(2 * time.Second)
	if len(r.closes) != 0 {
		t.Fatal("rotated with something held")
	}
	r.b.Settle(1, 1, false)
	r.b.Refused(1)
	r.steps(2 * time.Second)
	if len(r.closes) != 1 {
		t.Errorf("%d closes after it was settled", len(r.closes))
	}
}

// When the rule's kind changes, the grant is closed before anything of the answer
// is taken over, and the manager asks again under the new one.
func TestKindChangeClosesTheGrant(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 100), 20, nil)
	first := r.grant.GetGrantId()
	r.b.Hold(1, 7, far, false)
	r.b.Spend(3)
	changed := policyOf(lease.Concurrency, 10)
	changed.Rule.Version = 2
	r.policy, r.free = changed, 10
	if _, ok := r.b.Hold(2, 1, far, true); ok {
		t.Fatal("a slot of a token bucket")
	}
	r.b.Wait(2)
	r.b.Refused(50) // more than there is: the broker is asked
	r.steps(time.Second)
	if len(r.closes) != 1 || r.closes[0].GetGrantId() != first || r.closes[0].GetSpentTokens() != 10 || r.closes[0].GetHeldTokens() != 0 {
		t.Fatalf("closes: %v; want %s with 10 spent, 7 of them held", r.closes, first)
	}
	if r.grant == nil || r.grant.GetGrantId() == first || r.b.Credit() < 2 {
		t.Fatalf("after it: grant %v, credit %d", r.grant, r.b.Credit())
	}
	if r.b.SpendAllowed(1) {
		t.Error("a slot is spent")
	}
	if _, ok := r.b.Hold(3, 1, far, false); ok {
		t.Error("a reservation of slots")
	}
	if s := r.b.Settle(1, 0, false); s.Known {
		t.Errorf("a hold of the old kind is settled: %+v", s)
	}
	if _, ok := r.b.Hold(4, 1, far, true); !ok {
		t.Error("no slot")
	}
	// And back: the slots in use stay reserved.
	second, back := r.grant.GetGrantId(), policyOf(lease.FixedWindow, 100)
	back.Rule.Version = 3
	r.policy, r.free = back, 100
	r.b.Refused(50)
	r.steps(time.Second)
	if len(r.closes) != 2 || r.closes[1].GetGrantId() != second || r.closes[1].GetSpentTokens() != 0 || r.closes[1].GetHeldTokens() != 1 {
		t.Errorf("closes: %v; want %s with 1 held", r.closes, second)
	}
	if s := r.b.Settle(4, 0, false); s.Known {
		t.Errorf("a slot of the old kind is settled: %+v", s)
	}
}

// An answer of another kind is nothing to adopt from, whatever it says was issued.
func TestKindChangeTakesNothingFromItsAnswer(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 100), 20, nil)
	k := r.key()
	before, opened := k.issued, r.m.stats.TokensIssued
	if before == 0 {
		t.Fatal("nothing was issued")
	}
	changed := policyOf(lease.RollingWindow, 100)
	changed.Rule.Version = 2
	answer := &pb.BudgetAnswer{GrantId: k.grant, IssuedTokens: before + 50, LevelTokens: 100, Policy: wire(changed)}
	news := r.b.News()
	r.m.apply(k, answer, r.now)
	if k.grant != "" || r.b.Credit() != 0 || r.m.stats.TokensIssued != opened {
		t.Errorf("grant %q, credit %d, %d more issued", k.grant, r.b.Credit(), r.m.stats.TokensIssued-opened)
	}
	if k.queued == notQueued {
		t.Error("the broker is not asked again")
	}
	if o := r.b.Outlook(); o.Policy.Rule.Kind != lease.RollingWindow || o.GrantID != "" {
		t.Errorf("outlook %+v", o)
	}
	if reason := r.b.Unanswered(r.now); reason != pb.Reason_REASON_UNAVAILABLE {
		t.Errorf("a check that waits is told %v", reason)
	}
	select {
	case <-news:
	default:
		t.Error("nobody is told")
	}
}

// A policy that was deleted in between does not hide the change.
func TestKindChangeAcrossDeletion(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 100), 20, nil)
	k := r.key()
	r.m.apply(k, &pb.BudgetAnswer{GrantId: k.grant, IssuedTokens: k.issued, Shortage: pb.Shortage_SHORTAGE_NO_POLICY}, r.now)
	if k.grant == "" {
		t.Fatal("the grant ends with the policy")
	}
	r.m.apply(k, &pb.BudgetAnswer{GrantId: k.grant, IssuedTokens: k.issued, Policy: wire(policyOf(lease.Concurrency, 100))}, r.now)
	if k.grant != "" || r.b.Credit() != 0 {
		t.Errorf("grant %q with %d in credit is used for slots", k.grant, r.b.Credit())
	}
}

// Slots that were in use when their grant was closed stay reserved at the broker under
// its ID, until it is attested that the work has ended. So the grant is not forgotten:
// it is not taken up again or closed as unspent when the broker names it, and the
// final account and the journal name it.
func TestClosedGrantWithSlotsInUseIsRemembered(t *testing.T) {
	r := supplied(t, policyOf(lease.Concurrency, 100), 20, func(c *Config) { c.Journal = JournalBlock })
	id := r.grant.GetGrantId()
	if _, ok := r.b.Hold(1, 3, far, true); !ok {
		t.Fatal("not held")
	}
	changed := policyOf(lease.TokenBucket, 100)
	changed.Rule.Version = 2
	r.policy = changed
	r.b.Refused(90)
	r.steps(time.Second)
	if len(r.closes) != 1 || r.closes[0].GetHeldTokens() != 3 || len(r.m.shards[0].closing) != 0 {
		t.Fatalf("closes %v", r.closes)
	}
	grant := &pb.Grant{GrantId: id, Budget: &pb.BudgetKey{Account: rigKey.Account, Operation: rigKey.Operation}, Epoch: 1, OutstandingTokens: 3}
	r.m.compare(r.m.shards[0], []*pb.Grant{grant})
	if c := r.m.shards[0].closing; len(c) != 0 {
		t.Errorf("%v slots in use are given back", c[0].wire())
	}
	k := r.key()
	r.m.closeGrant(k)
	r.m.adopt(k, &pb.BudgetAnswer{GrantId: id, IssuedTokens: 50})
	if k.grant != "" || slices.Contains(r.m.journal.forget, id) {
		t.Errorf("grant %q is live, the journal forgets %v", k.grant, r.m.journal.forget)
	}
	r.m.Stop()
	r.step(time.Second)
	named := slices.ContainsFunc(r.final[0].GetGrants(), func(g *pb.GrantAccount) bool { return g.GetGrantId() == id && g.GetHeldTokens() == 3 })
	if !named {
		t.Errorf("the final account: %v", r.final)
	}
}

// A stop in order tells the slots that are in use, and counts reservations as spent.
func TestFinalAccountTellsWhatIsHeld(t *testing.T) {
	for _, c := range []struct {
		kind        lease.Kind
		spent, held int64
	}{{lease.Concurrency, 0, 3}, {lease.TokenBucket, 3, 0}, {lease.RollingWindow, 3, 0}, {lease.FixedWindow, 3, 0}} {
		r := supplied(t, policyOf(c.kind, 100), 5, nil)
		if _, ok := r.b.Hold(1, 3, far, c.kind == lease.Concurrency); !ok {
			t.Fatal("not held")
		}
		r.m.Stop()
		r.step(time.Second)
		if !r.m.Ended() || len(r.final) != 1 || len(r.final[0].GetGrants()) != 1 {
			t.Fatalf("%s: final accounts %v", c.kind, r.final)
		}
		if g := r.final[0].GetGrants()[0]; g.GetSpentTokens() != c.spent || g.GetHeldTokens() != c.held {
			t.Errorf("%s: %v, want spent %d and held %d", c.kind, g, c.spent, c.held)
		}
		if s := r.b.Settle(1, 0, false); s.Known || r.b.Credit() != 0 || !r.b.Stopped() {
			t.Errorf("%s: %+v and %d in credit after the end", c.kind, s, r.b.Credit())
		}
	}
}

// A grant that the broker has ended takes the claim of its holds with it.
func TestGoneGrantEndsItsHolds(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 100), 20, nil)
	r.b.Hold(1, 5, far, false)
	r.grant, r.issued = nil, 0 // ended there
	r.b.Refused(90)
	r.steps(time.Second)
	r.b.Refused(20)
	r.steps(time.Second)
	if s := r.b.Settle(1, 0, false); s.Known {
		t.Errorf("%+v", s)
	}
	if got := r.b.Credit() + r.key().undrawn(); got != r.issued || got < 20 {
		t.Errorf("%d can be spent of the new grant of %d", got, r.issued)
	}
}

// Of slots the want follows how many are in use at once, not the rate of use, and
// what was not used lately is returned when it is called back.
func TestWantOfSlotsFollowsThePeak(t *testing.T) {
	r := supplied(t, policyOf(lease.Concurrency, 1000), 4, nil)
	use := func(n int) {
		t.Helper()
		for round := range 20 { // 2 s
			var ids []uint64
			for i := range n {
				id := uint64(1000*round + i)
				if _, ok := r.b.Hold(id, 1, far, true); !ok {
					r.b.Refused(1)
					break
				}
				ids = append(ids, id)
			}
			r.step(50 * time.Millisecond)
			for _, id := range ids {
				r.b.Settle(id, 0, false)
			}
			r.step(50 * time.Millisecond)
		}
	}
	use(100)
	if credit := r.b.Credit(); credit < 100 {
		t.Fatalf("%d slots for 100 in use", credit)
	}
	k := r.key()
	if want := r.m.want(k, 0); want < 100 || want > 200 {
		t.Errorf("wants %d for a peak of 100", want)
	}
	if k.rate != 0 || k.spent() != 0 {
		t.Errorf("rate %v, spent %d", k.rate, k.spent())
	}
	use(1)
	r.steps(8 * time.Second)
	r.b.Hold(9_000_000, 2, far, true)
	r.step(10 * time.Millisecond)
	if want := r.m.want(k, 0); want > 5 {
		t.Errorf("wants %d when 2 were used lately", want)
	}
	r.level = 1
	r.m.Hint(0, []lease.Key{rigKey}, false)
	r.step(10 * time.Millisecond)
	r.step(10 * time.Millisecond)
	if credit, held := r.b.balance(); credit != 1 || held != 2 || r.grant.GetReturnedTokens() != r.issued-3 {
		t.Errorf("after a recall to 1: credit %d, held %d, %v of %d issued", credit, held, r.grant, r.issued)
	}
}

// What is in use is not wanted on top: free slots and those in use are never more
// than one holder may have.
func TestWantOfSlotsStaysWithinTheShare(t *testing.T) {
	r := supplied(t, policyOf(lease.Concurrency, 10), 8, nil)
	r.b.Hold(1, 8, far, true)
	r.steps(time.Second)
	if want := r.m.want(r.key(), 0); want > 2 {
		t.Errorf("wants %d free with 8 of 10 in use", want)
	}
	n := len(r.reports)
	r.steps(time.Minute)
	if len(r.reports) > n+5 {
		t.Errorf("%d reports in a minute in which nothing changed", len(r.reports)-n)
	}
}

// Slots that were given free are told soon, so that others may have them, whenever
// in the manager's rounds it happens.
func TestReleasedSlotsAreToldSoon(t *testing.T) {
	for phase := range 11 {
		r := supplied(t, policyOf(lease.Concurrency, 10), 8, nil)
		r.b.Hold(1, 8, far, true)
		r.steps(3*time.Second + 100*time.Millisecond*time.Duration(phase))
		if l := r.last(); l.GetHeldTokens() != 8 {
			t.Fatalf("told: %v", l)
		}
		r.b.Settle(1, 0, false)
		r.steps(200 * time.Millisecond)
		if l := r.last(); l.GetHeldTokens() != 0 {
			t.Errorf("phase %d: told after 200 ms: %v", phase, l)
		}
	}
}

// A few of many are told within ReportWithin, even where they were settled between
// a report and the next look.
func TestFewReleasedSlotsAreToldInAWhile(t *testing.T) {
	r := supplied(t, policyOf(lease.Concurrency, 1000), 8, nil)
	r.b.Hold(1, 8, far, true)
	r.steps(3 * time.Second)
	r.m.Hint(0, []lease.Key{rigKey}, false)
	r.step(10 * time.Millisecond)
	r.b.Settle(1, 0, false)
	if l := r.last(); l.GetHeldTokens() != 8 {
		t.Fatalf("told: %v", l)
	}
	r.steps(1500 * time.Millisecond)
	if l := r.last(); l.GetHeldTokens() != 0 {
		t.Errorf("told after 1.5 s: %v", l)
	}
}

// A hold that comes just when the manager takes the budget for idle keeps the grant.
func TestHoldAgainstRetirement(t *testing.T) {
	retired := 0
	r := supplied(t, policyOf(lease.Concurrency, 10), 8, func(c *Config) { c.Retired = func(*Budget) { retired++ } })
	r.steps(5 * time.Second)
	if len(r.m.idle) == 0 {
		t.Fatal("it is not taken for idle")
	}
	if _, ok := r.b.hold(1, 2, far, true); !ok { // and no signal
		t.Fatal("not held")
	}
	r.steps(time.Minute)
	if _, held := r.b.balance(); held != 2 || retired != 0 || len(r.closes) != 0 {
		t.Errorf("held %d, %d retired, closes %v", held, retired, r.closes)
	}
}

// A report that may be lost is told again, with what is held.
func TestLostReportsAreToldAgain(t *testing.T) {
	r := supplied(t, policyOf(lease.Concurrency, 10), 8, nil)
	r.b.Hold(1, 4, far, true)
	r.losing = true
	r.steps(3 * time.Second)
	r.losing = false
	r.grant.HeldTokens = 0 // it was not heard
	r.steps(5 * time.Second)
	if r.grant.GetHeldTokens() != 4 {
		t.Errorf("the broker knows of %d held", r.grant.GetHeldTokens())
	}
}

// In a rolling window a token comes back when its window is over after it was told
// as spent: so it is told soon.
func TestRollingWindowsReportSoon(t *testing.T) {
	for _, c := range []struct {
		kind     lease.Kind
		window   time.Duration
		capacity int64
		spend    int64
		held     bool // beside what is held
		settles  bool // it is a settlement
		within   time.Duration
	}{
		{lease.TokenBucket, 0, 1000, 1, false, false, time.Second},
		{lease.RollingWindow, time.Minute, 1000, 1, false, false, 600 * time.Millisecond},
		{lease.RollingWindow, time.Minute, 1000, 1, true, false, 600 * time.Millisecond},
		{lease.RollingWindow, time.Minute, 1000, 1, true, true, 600 * time.Millisecond},
		{lease.RollingWindow, time.Second, 1000, 1, false, false, 100 * time.Millisecond},
		{lease.RollingWindow, time.Second, 1000, 1, true, false, 100 * time.Millisecond},
		{lease.RollingWindow, time.Second, 1000, 1, true, true, 100 * time.Millisecond},
		{lease.RollingWindow, time.Hour, 1000, 1, false, false, time.Second},
		{lease.RollingWindow, time.Hour, 1000, 10, false, false, 100 * time.Millisecond}, // 1% of the limit
		{lease.TokenBucket, 0, 1000, 10, false, false, time.Second},
		{lease.TokenBucket, 0, 1000, 50, false, false, 100 * time.Millisecond},
	} {
		for phase := range 10 {
			policy := policyOf(c.kind, c.capacity)
			policy.Rule.Window = c.window
			r := supplied(t, policy, 200, nil)
			r.steps(5 * time.Second)
			if c.held {
				r.b.Hold(1, 5, far, false)
			}
			r.b.Spend(1)
			r.steps(1500*time.Millisecond + 100*time.Millisecond*time.Duration(phase))
			r.m.Hint(0, []lease.Key{rigKey}, false) // a report
			r.step(10 * time.Millisecond)
			r.step(10 * time.Millisecond)
			reported, told := r.now, r.grant.GetSpentTokens()
			r.steps(40 * time.Millisecond * time.Duration(phase))
			if c.settles {
				r.b.Settle(1, c.spend, false)
			} else {
				r.b.Spend(c.spend)
			}
			spent := r.now
			for r.grant.GetSpentTokens() == told && r.now < spent+3*time.Second {
				r.step(10 * time.Millisecond)
			}
			if r.now-spent > c.within+200*time.Millisecond || r.now-reported < c.within-50*time.Millisecond {
				t.Errorf("%s, window %v, %d spent %v after a report: told after another %v, want %v", c.kind, c.window, c.spend, spent-reported, r.now-spent, c.within)
			}
		}
	}
}

func TestAnsweredIsTheTimeOfTheNewestAnswer(t *testing.T) {
	r := newRig(t, policyOf(lease.TokenBucket, 10), nil)
	if at, ok := r.b.Answered(); ok {
		t.Errorf("answered at %v", at)
	}
	r.losing = true
	r.b.Refused(1)
	r.step(10 * time.Millisecond)
	if at, ok := r.b.Answered(); ok {
		t.Errorf("a lost answer counts, at %v", at)
	}
	r.losing = false
	r.b.Refused(1)
	r.steps(time.Second)
	first, ok := r.b.Answered()
	if !ok || first > r.now {
		t.Fatalf("answered at %v, %v", first, ok)
	}
	r.policy = nil
	r.b.Refused(20)
	r.steps(time.Second)
	if at, _ := r.b.Answered(); at <= first || at > r.now {
		t.Errorf("answered at %v after %v, now %v", at, first, r.now)
	}
	last, _ := r.b.Answered()
	r.now += time.Second
	r.m.apply(r.key(), &pb.BudgetAnswer{Evidence: pb.Evidence_EVIDENCE_RECORD_UNUSABLE}, r.now)
	if at, _ := r.b.Answered(); at != last {
		t.Error("an answer without the ledger's word counts")
	}
}
