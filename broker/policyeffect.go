package broker

import (
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// weigh finds out what the changes mean for the budgets that have a record, all read
// at the revision of the draft: which get another policy by which change, and what
// they have out above their new capacity. It reads every budget, so only dry runs do.
func (d *draft) weigh() error {
	d.effects = make([]effect, len(d.changes))
	if len(d.changes) == 0 {
		return nil
	}
	cluster, err := d.v.era()
	if err != nil {
		return err
	}
	causes := map[record.Change]int{}
	for i, c := range d.changes {
		causes[record.Change{Subject: c.Subject, Name: c.Name, Operation: c.Operation}] = i
	}
	for id := range d.v.b.cluster.Shards {
		walk := accountWalk{v: d.v}
		err := d.v.each(d.layout().Budgets(id), func(kv store.KeyValue) error {
			b, err := record.Decode[record.Budget](kv)
			if err != nil || b.Since() != cluster.Generation {
				return err
			}
			account, err := walk.account(b.Account)
			if err == nil {
				d.affect(b, account, causes)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// affect adds one budget to the change that gives it another policy.
func (d *draft) affect(b record.Budget, account record.Account, causes map[record.Change]int) {
	next, changed := d.accounts[b.Account]
	if !changed {
		next = account
	}
	was, had := d.before.Rules(account, b.Operation)
	is, has := d.after.Rules(next, b.Operation)
	if had == has && was.SameTerms(is.Policy) {
		return
	}
	for _, cause := range []record.Change{
		{Subject: record.OfAccount, Name: b.Account, Operation: b.Operation},
		{Subject: record.OfAccount, Name: b.Account},
		{Subject: record.OfPlan, Name: planOf(is.Plan, was.Plan), Operation: b.Operation},
		{Subject: record.OfDefault},
		{Subject: record.OfEverybody, Operation: b.Operation},
		{Subject: record.OfOperation, Operation: b.Operation},
	} {
		if at, found := causes[cause]; found {
			d.effects[at].live++
			d.effects[at].recalled += max(0, b.Reserved-is.Rule.Capacity)
			return
		}
	}
}

// planOf is the plan that gives a policy now, or gave one before.
func planOf(is, was string) string {
	if is != "" {
		return is
	}
	return was
}

// outTime is how long a token is assumed to be out on average: commit, answer, idle
// in the region, report. The broker does not measure it, and limiters report within
// a second.
const outTime = 500 * time.Millisecond

// worthTelling is the part of a rolling window that may be lost before that is worth a
// warning, in percent.
const worthTelling = 10

// warnings are what an operator should know about the policies that the draft puts in
// force, or removes.
func (d *draft) warnings() []string {
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if d.tooLarge != nil {
		warn("all at once this is refused: %v", d.tooLarge)
	}
	for i, c := range d.changes {
		what := c.String()
		if c.Subject != record.OfEverybody && c.Operation != "" {
			what += ", " + c.Operation
		}
		switch {
		case c.After != nil:
			if before := d.ruledBefore(c); before != nil && before.Rule.Kind != c.After.Rule.Kind {
				warn("%s: it changes from %s to %s, so its budgets start as if all of them had just been spent", what, before.Rule.Kind, c.After.Rule.Kind)
			}
			for _, w := range starving(*c.After) {
				warn("%s: %s", what, w)
			}
		case c.Before != nil && d.effects == nil:
			warn("%s is removed: what is out of its budgets is called back, and counts until it is in", what)
		case c.Before != nil && d.effects[i].recalled > 0:
			warn("%s is removed while its budgets have %d tokens out above what rules them then: these are called back, and count until they are in", what, d.effects[i].recalled)
		}
	}
	return all
}

// ruledBefore is the policy in whose place another one comes.
func (d *draft) ruledBefore(c record.Change) *lease.Policy {
	if c.Before != nil {
		return c.Before
	}
	var account record.Account
	switch c.Subject {
	case record.OfAccount:
		account, _ = d.v.account(c.Name) // it was read to make the draft
	case record.OfPlan, record.OfEverybody, record.OfDefault, record.OfOperation:
	}
	if r, ok := d.before.Rules(account, c.Operation); ok {
		return &r.Policy
	}
	return nil
}

// starving says how a policy denies more than its numbers say.
func starving(p lease.Policy) (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	r := p.Rule
	switch {
	case r.Capacity == 0 || p.Disabled:
		return nil // it is meant to deny
	case r.Capacity < p.DefaultCost:
		warn("its capacity, %d, is below the cost of one check, %d: every check that names no lower cost is denied", r.Capacity, p.DefaultCost)
	case r.ShareCap() < p.DefaultCost:
		warn("a holder's share, %d%% of %d, is %d, below the cost of one check, %d: every check that names no lower cost is denied", r.MaxSharePercent, r.Capacity, r.ShareCap(), p.DefaultCost)
	}
	switch r.Kind {
	case lease.TokenBucket:
		full, ok := r.FullAfter()
		if ok && full < outTime {
			warn("it cannot use all of its refill: tokens that are out are not refilled, and an empty budget fills in %v. Where a token is out for %v on average, which is an assumption, at most %d%% of the refill is used; a larger capacity helps", full, outTime, int64(full)*100/int64(outTime))
		}
	case lease.RollingWindow:
		if lost := int64(outTime) * 100 / int64(r.Window+outTime); lost >= worthTelling {
			warn("its window, %v, is short: a token comes back one window after it was reported as spent. Where a token is out for %v on average, which is an assumption, at most %d%% of the limit is used", r.Window, outTime, 100-lost)
		}
	case lease.FixedWindow, lease.Concurrency:
	}
	return all
}
