package broker

import (
	"maps"
	"slices"

	"github.com/tokenlease/tokenlease/broker/policyset"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/policywire"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// maxCachedAccounts bounds what a view remembers of accounts.
const maxCachedAccounts = 10_000

// policySet is what was decided for more than one account; nothing where the view goes on
// past damage and the policy version cannot be read.
func (v *view) policySet() (*policyset.Set, error) {
	if v.set != nil {
		return v.set, nil
	}
	var kvs []store.KeyValue
	for _, prefix := range policyset.Prefixes(v.b.layout) {
		err := v.each(prefix, func(kv store.KeyValue) error {
			kvs = append(kvs, kv)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	set, faults, err := policyset.Of(v.b.layout, kvs)
	if err != nil {
		if err := v.damaged(err); err != nil {
			return nil, err
		}
		set = policyset.Empty()
	}
	if v.bad != nil {
		for _, fault := range faults {
			v.bad(fault)
		}
	}
	v.set, v.setRecords, v.faults = set, kvs, faults
	return set, nil
}

// account is what the account has of its own; the zero record if it never had one.
func (v *view) account(account string) (record.Account, error) {
	set, err := v.policySet()
	if err != nil || !set.Accounts {
		return record.Account{}, err
	}
	known, ok := v.accounts[account]
	if ok {
		return known, nil
	}
	kv, err := v.get(v.b.layout.Account(account))
	if err == nil && kv != nil {
		known, err = record.Decode[record.Account](*kv)
	}
	if err != nil {
		return record.Account{}, err
	}
	if v.accounts == nil || len(v.accounts) >= maxCachedAccounts {
		v.accounts = map[string]record.Account{}
	}
	v.accounts[account] = known
	return known, nil
}

// ruling is the policy that rules the budget; ok is false when none does.
func (v *view) ruling(key lease.Key) (r policyset.Ruling, ok bool, err error) {
	set, err := v.policySet()
	if err != nil {
		return r, false, err
	}
	account, err := v.account(key.Account)
	if err != nil {
		return r, false, err
	}
	r, ok = set.Rules(account, key.Operation)
	return r, ok, nil
}

// policyToWire is a ruling in the form of answers.
func policyToWire(r policyset.Ruling) *pb.Policy {
	p := policywire.To(r.Policy)
	p.Plan, p.Account = r.Plan, r.Account
	return p
}

// accountWalk finds accounts' records for budgets in order of their keys, which is
// nearly that of accounts' keys: it reads accounts a page at a time, and skips those
// that nobody asks for. So a walk over all budgets takes few reads where either few
// accounts have a record, or many of those that have one are asked for.
type accountWalk struct {
	v    *view
	page []store.KeyValue
	from string // the page has every record from here
	to   string // to here, exclusive; empty: none was read
	last string // nobody asks for what comes behind this key; empty: for any
}

// accountPage is how many accounts are read at a time.
const accountPage = 256

// account is what the account has of its own; the zero record if it never had one.
func (w *accountWalk) account(account string) (a record.Account, err error) {
	set, err := w.v.policySet()
	if err != nil || !set.Accounts {
		return a, err
	}
	key := w.v.b.layout.Account(account)
	if key < w.from || key >= w.to {
		_, end := record.All(w.v.b.layout.Accounts())
		if w.last != "" {
			end = w.last + "\x00"
		}
		res, err := w.v.read(store.RangeRequest{Key: key, End: end, Limit: accountPage})
		if err != nil {
			return a, err
		}
		w.page, w.from, w.to = res.KVs, key, end
		if res.More {
			w.to = res.KVs[len(res.KVs)-1].Key + "\x00"
		}
	}
	at, found := slices.BinarySearchFunc(w.page, key, func(kv store.KeyValue, key string) int {
		switch {
		case kv.Key < key:
			return -1
		case kv.Key > key:
			return 1
		}
		return 0
	})
	if !found {
		return a, nil
	}
	return record.Decode[record.Account](w.page[at])
}

// accountsOf is what each of the accounts has of its own, read in few ranges.
func (v *view) accountsOf(names []string) (map[string]record.Account, error) {
	byKey := make(map[string]string, len(names))
	for _, name := range names {
		byKey[v.b.layout.Account(name)] = name
	}
	keys, found := sortedKeys(byKey), make(map[string]record.Account, len(names))
	if len(keys) == 0 {
		return found, nil
	}
	walk := accountWalk{v: v, last: keys[len(keys)-1]}
	for _, key := range keys {
		a, err := walk.account(byKey[key])
		if err != nil {
			return nil, err
		}
		found[byKey[key]] = a
	}
	return found, nil
}

// accountToWire is what an account has of its own in the form of answers.
func accountToWire(a record.Account) *pb.AccountPolicies {
	out := &pb.AccountPolicies{Account: a.Account, Plan: a.Plan, Version: a.Version, UpdatedUnixMs: a.UpdatedUnixMs}
	for _, p := range a.Policies {
		wire := policywire.To(p)
		wire.Account = a.Account
		out.Policies = append(out.Policies, wire)
	}
	return out
}

func planToWire(p record.Plan) *pb.Plan {
	out := &pb.Plan{Name: p.Name, Version: p.Version, UpdatedUnixMs: p.UpdatedUnixMs}
	for _, policy := range p.Policies {
		wire := policywire.To(policy)
		wire.Plan = p.Name
		out.Policies = append(out.Policies, wire)
	}
	return out
}

func disabledToWire(d record.Disabled) *pb.DisabledOperation {
	return &pb.DisabledOperation{
		Operation: d.Operation, Because: d.Because, DisabledBy: d.By, SinceUnixMs: d.SinceUnixMs, Version: d.Version,
	}
}

// byOperation are policies by operation.
func byOperation(policies []lease.Policy) map[string]lease.Policy {
	m := make(map[string]lease.Policy, len(policies))
	for _, p := range policies {
		m[p.Operation] = p
	}
	return m
}

// operationsOf are the operations of both, in order.
func operationsOf(a, b map[string]lease.Policy) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
