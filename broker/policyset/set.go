package policyset

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// Set is what was decided for more than one account. It is never changed once it is
// made, and may be used concurrently.
type Set struct {
	record.PolicySet // Version is that in force

	Recorded bool  // the store has a policy version; false: it is the highest of a policy
	Stored   int64 // the policy version that the store has; Version, unless the records are damaged
	Revision int64 // of the store's policy version; 0: it has none

	everybody map[string]lease.Policy
	plans     map[string]*plan
	defaults  record.Defaults
	disabled  map[string]record.Disabled
}

// plan is a plan with its policies by operation.
type plan struct {
	record.Plan
	policies map[string]lease.Policy
	unusable bool // its record cannot be used: its accounts have no policy
}

// Ruling is the policy that rules a budget. Its version is that of all that decided
// it.
type Ruling struct {
	lease.Policy

	Plan    string // that the policy comes from; empty: it is for everybody or the account
	Account string // that the policy is for alone; empty: it is not
}

// Empty is the set of a store without policies.
func Empty() *Set {
	return &Set{everybody: map[string]lease.Policy{}, plans: map[string]*plan{}, disabled: map[string]record.Disabled{}}
}

// opsCount is the number of operations that read a set.
const opsCount = 3

// Ops read the set in a transaction; Take takes their results. They are few, for
// stores with small transactions: what lies side by side is one range. Other keys that
// come to lie between are passed over.
func Ops(l record.Layout) []store.Op {
	span := func(from, last string) store.Op { return store.Op{Kind: store.OpRange, Key: from, End: last} }
	return []store.Op{
		span(l.Policies(), l.PolicySet()+"\x00"),
		span(l.Plans(), store.PrefixEnd(l.Plans())),
		span(l.Defaults(), store.PrefixEnd(l.Disables())),
	}
}

// Take makes the set of the results of Ops, and returns those that follow. What is
// not usable is left out and told in faults: nobody has a policy by it. Only a policy
// version that cannot be read is an error: record.ErrUnreadable.
func Take(l record.Layout, results []store.OpResult) (s *Set, rest []store.OpResult, faults []error, err error) {
	var kvs []store.KeyValue
	for _, r := range results[:opsCount] {
		kvs = append(kvs, r.KVs...)
	}
	s, faults, err = Of(l, kvs)
	return s, results[opsCount:], faults, err
}

// Prefixes are where the records of a set are stored.
func Prefixes(l record.Layout) []string {
	return []string{l.PolicySet(), l.Policies(), l.Plans(), l.Defaults(), l.Disables()}
}

// Of makes the set of its records, in any order. Faults and errors are as of Take.
func Of(l record.Layout, kvs []store.KeyValue) (s *Set, faults []error, err error) {
	s = Empty()
	for _, kv := range kvs {
		fault := s.take(l, kv)
		if fault != nil && kv.Key == l.PolicySet() {
			return nil, faults, fault
		}
		if fault != nil {
			faults = append(faults, fault)
		}
	}
	s.Stored = s.Version
	s.Version = max(s.Version, s.highest())
	for operation, d := range s.disabled {
		if d.Because == unreadable { // since which version, nobody knows
			d.Version = s.Version
			s.disabled[operation] = d
		}
	}
	return s, faults, nil
}

func (s *Set) take(l record.Layout, kv store.KeyValue) (err error) {
	switch {
	case kv.Key == l.PolicySet():
		s.PolicySet, err = record.Decode[record.PolicySet](kv)
		s.Recorded, s.Revision = true, kv.ModRevision
	case kv.Key == l.Defaults():
		s.defaults, err = record.Decode[record.Defaults](kv)
		if err != nil {
			s.defaults.Plan = "?" // no plan has such a name: accounts without a plan have no policy
		}
	case strings.HasPrefix(kv.Key, l.Policies()):
		var p lease.Policy
		if p, err = record.Decode[lease.Policy](kv); err == nil {
			err = p.Validate()
		}
		if err == nil {
			s.everybody[p.Operation] = p
		}
	case strings.HasPrefix(kv.Key, l.Plans()):
		err = s.takePlan(kv)
	case strings.HasPrefix(kv.Key, l.Disables()):
		err = s.takeDisabled(kv, strings.TrimPrefix(kv.Key, l.Disables()))
	}
	if err != nil {
		return fmt.Errorf("the record at %s: %w", kv.Key, err)
	}
	return nil
}

// takePlan takes a plan whole, or not at all: to fall back to the policy for
// everybody could let more through.
func (s *Set) takePlan(kv store.KeyValue) error {
	r, err := record.Decode[record.Plan](kv)
	if err != nil {
		return err // its accounts have no policy, as with any plan that is not there
	}
	p := &plan{Plan: r, policies: map[string]lease.Policy{}}
	s.plans[r.Name] = p
	for _, policy := range r.Policies {
		err = errors.Join(err, policy.Validate())
		p.policies[policy.Operation] = policy
	}
	p.unusable = err != nil
	return err
}

// unreadable is why an operation is disabled whose record says nothing.
const unreadable = "its record cannot be read; disable or enable the operation anew"

// takeDisabled takes what was said of the operation whose name ends the key. One of
// which that cannot be read counts as disabled: somebody may have stopped it in need.
func (s *Set) takeDisabled(kv store.KeyValue, name string) error {
	d, err := record.Decode[record.Disabled](kv)
	operation, escape := url.PathUnescape(name)
	if escape != nil {
		return errors.Join(err, escape) // the name of no operation
	}
	if err == nil && d.Operation != operation {
		err = fmt.Errorf("it is of operation %q (%w)", d.Operation, record.ErrUnreadable)
	}
	if err != nil {
		d = record.Disabled{Operation: operation, Disabled: true, Because: unreadable}
	}
	s.disabled[operation] = d
	return err
}

// highest is the highest version that is stored.
func (s *Set) highest() int64 {
	version := s.defaults.Version
	for _, p := range s.everybody {
		version = max(version, p.Rule.Version)
	}
	for _, p := range s.plans {
		version = max(version, p.Version, p.Shrunk)
		for _, policy := range p.Policies {
			version = max(version, policy.Rule.Version)
		}
	}
	for _, d := range s.disabled {
		version = max(version, d.Version)
	}
	return version
}

// Rules is the policy that rules the account's budget of the operation; ok is false
// for none. The account is its record as it stood at the version of the set, the zero
// record for an account that never had one.
func (s *Set) Rules(account record.Account, operation string) (r Ruling, ok bool) {
	version := account.Shrunk
	if r.Policy, ok = find(account.Policies, operation); ok {
		r.Account = account.Account
	} else {
		var decided int64
		if r, decided, ok = s.others(account.Plan, operation); !ok {
			return Ruling{}, false
		}
		version = max(version, decided)
	}
	d := s.disabled[operation]
	if d.Disabled {
		r.Disabled, r.DisabledBecause = true, d.Because
	}
	r.Rule.Version = max(r.Rule.Version, version, d.Version)
	return r, true
}

// others is the policy of an operation for accounts of the plan that have none of their
// own, and the version at which it was decided that they have that plan and policy.
func (s *Set) others(name, operation string) (r Ruling, decided int64, ok bool) {
	if name == "" {
		name, decided = s.defaults.Plan, s.defaults.Version
	}
	p, known := s.plans[name]
	if name != "" && (!known || p.unusable) {
		return Ruling{}, 0, false
	}
	if known {
		decided = max(decided, p.Shrunk)
		if r.Policy, ok = p.policies[operation]; ok {
			r.Plan = name
			return r, decided, true
		}
	}
	r.Policy, ok = s.everybody[operation]
	return r, decided, ok
}

func find(policies []lease.Policy, operation string) (lease.Policy, bool) {
	for _, p := range policies {
		if p.Operation == operation {
			return p, true
		}
	}
	return lease.Policy{}, false
}

// Everybody are the policies for everybody, in order of operation.
func (s *Set) Everybody() []lease.Policy {
	return values(s.everybody)
}

// For is the policy for everybody of the operation.
func (s *Set) For(operation string) (lease.Policy, bool) {
	p, ok := s.everybody[operation]
	return p, ok
}

// Plans are in order of name.
func (s *Set) Plans() []record.Plan {
	all := make([]record.Plan, 0, len(s.plans))
	for _, name := range slices.Sorted(maps.Keys(s.plans)) {
		all = append(all, s.plans[name].Plan)
	}
	return all
}

// Plan is the plan of this name.
func (s *Set) Plan(name string) (record.Plan, bool) {
	p, ok := s.plans[name]
	if !ok {
		return record.Plan{}, false
	}
	return p.Plan, true
}

// Defaults are what accounts have without a choice.
func (s *Set) Defaults() record.Defaults { return s.defaults }

// Disabled are the operations that were ever disabled, in order.
func (s *Set) Disabled() []record.Disabled { return values(s.disabled) }

// Disable is what was said last of the operation.
func (s *Set) Disable(operation string) (record.Disabled, bool) {
	d, ok := s.disabled[operation]
	return d, ok
}

// Operations are those that any policy is of, in order.
func (s *Set) Operations() []string {
	all := map[string]bool{}
	for operation := range s.everybody {
		all[operation] = true
	}
	for _, p := range s.plans {
		for operation := range p.policies {
			all[operation] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func values[T any](m map[string]T) []T {
	all := make([]T, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[key])
	}
	return all
}
