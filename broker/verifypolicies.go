package broker

import (
	"errors"
	"strings"

	"github.com/tokenlease/tokenlease/broker/policyset"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// policies checks the policies, plans and accounts, and that none is of a version that
// is still to come: a ledger under it would take up nothing until then.
func (c *checker) policies() error {
	set, err := c.v.policySet()
	if errors.Is(err, record.ErrUnreadable) {
		c.report("%v", err)
		set, err = policyset.Empty(), nil
	}
	if err != nil {
		return err
	}
	for _, fault := range c.v.faults {
		c.report("%v", fault)
	}
	c.version = set.Version
	for _, kv := range c.v.setRecords {
		c.placed(kv)
	}
	c.resp.Policies += int64(len(set.Everybody()))
	for _, p := range set.Plans() {
		c.owned("plan "+p.Name, p.Version, p.Policies)
	}
	if set.Recorded && set.Version > set.Stored {
		c.report("a policy, plan or default is of version %d, and the policy version that is stored is %d", set.Version, set.Stored)
	}
	if name := set.Defaults().Plan; name != "" {
		if _, ok := set.Plan(name); !ok {
			c.report("the default plan %q is not stored: accounts without a plan have no policy", name)
		}
	}
	return c.accounts(set)
}

// owned checks the policies of a plan or an account.
func (c *checker) owned(what string, version int64, policies []lease.Policy) {
	c.resp.Policies += int64(len(policies))
	if version > c.version {
		c.report("%s is of policy version %d, and version %d is in force", what, version, c.version)
	}
	for _, p := range policies {
		if p.Rule.Version > version {
			c.report("%s is of policy version %d, and its policy of %s of %d", what, version, p.Operation, p.Rule.Version)
		}
	}
}

// placed checks that a record is stored where what it says belongs. What cannot be
// read is told already.
func (c *checker) placed(kv store.KeyValue) {
	l := c.b.layout
	if p, err := record.Decode[lease.Policy](kv); err == nil && strings.HasPrefix(kv.Key, l.Policies()) {
		c.place(kv.Key, l.Policy(p.Operation))
	}
	if p, err := record.Decode[record.Plan](kv); err == nil && strings.HasPrefix(kv.Key, l.Plans()) {
		c.place(kv.Key, l.Plan(p.Name))
	}
	if d, err := record.Decode[record.Disabled](kv); err == nil && strings.HasPrefix(kv.Key, l.Disables()) {
		c.place(kv.Key, l.Disable(d.Operation))
	}
}

// accounts checks what accounts have of their own.
func (c *checker) accounts(set *policyset.Set) error {
	return c.v.each(c.b.layout.Accounts(), func(kv store.KeyValue) error {
		a, err := record.Decode[record.Account](kv)
		if err != nil {
			c.report("%v", err)
			return nil
		}
		c.place(kv.Key, c.b.layout.Account(a.Account))
		c.owned("account "+a.Account, a.Version, a.Policies)
		for _, p := range a.Policies {
			if err := p.Validate(); err != nil {
				c.report("account %s, policy of %s: %v", a.Account, p.Operation, err)
			}
		}
		if _, ok := set.Plan(a.Plan); a.Plan != "" && !ok {
			c.report("account %s has plan %q, which is not stored: it has no policy but its own", a.Account, a.Plan)
		}
		return nil
	})
}
