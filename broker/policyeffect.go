package broker

import (
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
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
