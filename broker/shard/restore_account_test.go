package shard

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// quick is a policy under which 40 are back in an instant.
func quick(kind lease.Kind, version int64) lease.Policy {
	p := capped(version, 40, 40)
	if kind == lease.RollingWindow {
		p.Rule = lease.Rule{Kind: kind, Version: version, Capacity: 40, Window: time.Second, MaxSharePercent: 100}
	}
	return p
}

// slow are policies of the account, under which 40 that were spent are not back within
// minutes.
func slow(version int64) map[string]lease.Policy {
	perHour, window, quota := capped(version, 40, 0), capped(version, 40, 0), capped(version, 40, 0)
	perHour.Rule.Refill = lease.Rate{Tokens: 1, Interval: time.Hour}
	window.Rule = lease.Rule{Kind: lease.RollingWindow, Version: version, Capacity: 40, Window: time.Hour, MaxSharePercent: 100}
	return map[string]lease.Policy{"quota": quota, "slow bucket": perHour, "long window": window}
}

// owned is acme's record with a policy of its own.
func owned(own lease.Policy) store.Op {
	return put(layout.Account("acme"), record.Account{Account: "acme", Version: own.Rule.Version, Shrunk: own.Rule.Version, Policies: []lease.Policy{own}})
}

// restored declares and attests a restore, and is the holder's epoch after it.
func (r *rig) restored() (epoch uint64) {
	r.t.Helper()
	r.declare(second)
	r.settle()
	r.attest()
	r.settle()
	return r.restart(eu, second)
}

// wanting asks for up to so many tokens.
func (r *rig) wanting(epoch, sequence uint64, tokens int64) *pb.BudgetAnswer {
	r.t.Helper()
	req := as(epoch, asking(eu, "acme", sequence, tokens))
	req.Budgets[0].NeedTokens = 1
	return r.sync(req).GetBudgets()[0]
}

// What everybody's policy refills in a moment is not refilled of a budget under its
// account's own policy, or its plan's: what was spent before the restore counts for as
// long as that says, whether the budget is asked for at once or later, by this owner or
// the next. The account may have had its policy before the restore or get it after.
func TestOwnPolicyAfterARestore(t *testing.T) {
	for _, kind := range []lease.Kind{lease.TokenBucket, lease.RollingWindow} {
		for name, own := range slow(6) {
			for _, how := range []string{"own", "own, given after the restore", "plan", "default plan"} {
				t.Run(string(kind)+"/"+name+"/"+how, func(t *testing.T) {
					r := newOldRig(t, 40, 10)
					r.applied(5, nil, put(layout.Policy(operation), quick(kind, 5)))
					plan := put(layout.Plan("p"), record.Plan{Name: "p", Version: 6, Shrunk: 6, Policies: []lease.Policy{own}})
					give := func() {
						switch how {
						case "plan":
							r.applied(6, []string{"acme"}, plan, put(layout.Account("acme"), record.Account{Account: "acme", Version: 6, Shrunk: 6, Plan: "p"}))
						case "default plan":
							r.applied(6, nil, plan, put(layout.Defaults(), record.Defaults{Plan: "p", Version: 6}))
						default:
							r.applied(6, []string{"acme"}, owned(own))
						}
						r.settle()
					}
					late := how == "own, given after the restore"
					if !late {
						give()
						requireIssued(t, r.sync(asking(eu, "acme", 1, 40)), 40) // all of it, and spends it
					}
					epoch := r.restored()
					r.pass(30 * time.Second)
					if late {
						give()
					}
					for i := range 4 {
						if a := r.wanting(epoch, uint64(i+1), 40); a.GetIssuedTokens() != 0 {
							t.Errorf("asked %d times: %d of 40 are issued, which were spent less than 10 minutes ago", i+1, a.GetIssuedTokens())
						}
						r.pass(time.Minute)
						if i == 1 {
							r.own()
							r.settle()
						}
					}
				})
			}
		}
	}
}

// An account that has had a policy of its own, and has it no more, does not find what
// everybody's has refilled meanwhile, whether that has changed since or not; nor does
// one whose policy allows more.
func TestFormerPolicyAfterARestore(t *testing.T) {
	for name, next := range map[string]record.Account{
		"everybody's":          {Account: "acme", Version: 6, Shrunk: 6},
		"everybody's, changed": {Account: "acme", Version: 6, Shrunk: 6},
		"a larger quota":       {Account: "acme", Version: 6, Shrunk: 4, Policies: []lease.Policy{capped(6, 100, 0)}},
	} {
		r := newOldRig(t, 40, 10)
		r.applied(5, []string{"acme"}, put(layout.Policy(operation), capped(5, 40, 10)), owned(capped(4, 40, 0)))
		requireIssued(t, r.sync(asking(eu, "acme", 1, 40)), 40)
		epoch := r.restored()
		r.pass(30 * time.Second)
		r.applied(6, []string{"acme"}, put(layout.Account("acme"), next))
		r.settle()
		if name == "everybody's, changed" {
			r.applied(7, nil, put(layout.Policy(operation), capped(7, 40, 11)))
			r.settle()
		}
		if a := r.wanting(epoch, 1, 40); a.GetIssuedTokens() != 0 {
			t.Errorf("%s: %d were issued at once", name, a.GetIssuedTokens())
		}
		r.pass(time.Second)
		least, most := int64(9), int64(11)
		if name == "a larger quota" {
			least, most = 0, 0
		}
		if got := r.wanting(epoch, 2, 40).GetIssuedTokens(); got < least || got > most {
			t.Errorf("%s: %d were issued after a second, want %d to %d", name, got, least, most)
		}
	}
}

// A budget that begins with nothing after a restore gets what it has earned since it was
// first asked for, though it is asked for so seldom that it leaves memory in between.
func TestSeldomAskedAfterARestore(t *testing.T) {
	window := capped(4, 40, 0)
	window.Rule = lease.Rule{Kind: lease.RollingWindow, Version: 4, Capacity: 40, Window: time.Minute, MaxSharePercent: 100}
	period := capped(4, 40, 0)
	period.Rule = lease.Rule{Kind: lease.FixedWindow, Version: 4, Capacity: 40, Period: lease.Minute, Zone: "UTC", MaxSharePercent: 100}
	for name, tc := range map[string]struct {
		own      lease.Policy
		everyone bool
	}{
		"a window where others have a bucket": {window, true},
		"a window of minutes":                 {period, true},
		"a bucket that nobody else has":       {capped(4, 40, 1), false},
	} {
		r := newOldRig(t, 40, 10)
		ops := []store.Op{owned(tc.own), {Kind: store.OpDelete, Key: layout.Policy(operation)}}
		if tc.everyone {
			ops[1] = put(layout.Policy(operation), capped(5, 40, 10))
		}
		r.applied(5, []string{"acme"}, ops...)
		r.settle()
		epoch := r.restored()
		var issued int64
		for i := range 4 {
			r.pass(20 * time.Second)
			r.now.UnixMs += 20_000
			issued = r.wanting(epoch, uint64(i+1), 5).GetIssuedTokens()
			if r.pass(20 * time.Second); r.shard.Budgets() > 0 && i == 0 {
				t.Fatalf("%s: the budget is still in memory", name)
			}
			r.now.UnixMs += 20_000
		}
		if issued != 5 {
			t.Errorf("%s: %d issued two minutes after it was first asked for, want 5", name, issued)
		}
	}
}

// The record of a budget of an account that has a record is not dropped after a restore:
// it would begin with nothing again. What is stored of before the restore goes.
func TestRecordsOfAccountsAfterARestore(t *testing.T) {
	r := newOldRig(t, 40, 10)
	nothing := record.Account{Account: "acme", Version: 4, Shrunk: 4} // any more: it is under everybody's policy
	r.applied(5, []string{"acme"}, put(layout.Policy(operation), capped(5, 40, 10)), put(layout.Account("acme"), nothing))
	requireIssued(t, r.sync(asking(eu, "acme", 1, 40)), 40)
	epoch := r.restored()
	for range 60 {
		r.pass(time.Second)
	}
	if left := r.budgets(); len(left) != 0 {
		t.Errorf("what was stored before the restore is still there: %+v", left)
	}
	r.wanting(epoch, 1, 1)
	for range 60 {
		r.pass(time.Second)
	}
	if left := r.budgets(); len(left) != 1 {
		t.Errorf("%d budgets are stored, want the one of the account", len(left))
	}
	r.own()
	r.settle()
	if a := r.wanting(epoch, 2, 40); a.GetIssuedTokens() != 40 {
		t.Errorf("%d of 40 issued, a minute after it was first asked for", a.GetIssuedTokens())
	}
}
