package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/policyset"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// keptHistory is how many changes of policies are kept.
const keptHistory = 1000

// Errors of changes of policies.
var (
	// ErrPolicyVersion means that the policies have changed since the version that
	// the request names.
	ErrPolicyVersion = errors.New("broker: the policies have changed")
	// ErrPlanInUse means that accounts are assigned to a plan that is to be removed.
	ErrPlanInUse = errors.New("broker: the plan is in use")
	// ErrNoPlan means that an account, or the default, names a plan that there is not.
	ErrNoPlan = errors.New("broker: no such plan")
	// ErrNotKept means that the history does not reach back to the version.
	ErrNotKept = errors.New("broker: the history of policies does not reach back so far")
	// ErrSplit means that the change does not fit into one transaction.
	ErrSplit = errors.New("broker: the change is too large for one transaction")
)

// edit is a change of policies that is wanted. What it does not name stays as it is;
// what it names and is so already changes nothing.
type edit struct {
	policies       []lease.Policy
	removePolicies []string
	plans          []record.Plan // name and policies
	removePlans    []string
	accounts       []record.Account // account, plan and policies
	defaultPlan    *string
	disabled       *record.Disabled // operation, whether, and why
}

// wish is who wants a change, and how.
type wish struct {
	action    string // as the history calls it
	by        string // as the caller says
	because   string
	to        int64 // the version that a rollback goes back to
	ifVersion int64
	dryRun    bool
}

// draft is one attempt at a change, from what was read at one revision.
type draft struct {
	v       *view
	before  *policyset.Set
	after   *policyset.Set
	now     int64 // milliseconds since 1970
	version int64 // that it makes, unless it changes nothing

	writes   map[string][]byte // nil: deleted
	changes  []record.Change
	effects  []effect // of the changes, if they were weighed
	accounts map[string]record.Account
	removed  []string // operations that have no policy for everybody any more
	tooLarge error    // of a dry run: why it would be refused

	revision int64 // of the store at which it is in force, or that was read
}

// effect is what a change means for budgets that have a record.
type effect struct{ live, recalled int64 }

// changePolicies makes the change that build finds, or tells what it would be. Every
// change compares and rewrites the policy version, so it applies to exactly what was
// read, all or nothing; one that was overtaken starts over. Its history and its audit
// entry are written in the same transaction. Of dry runs, each of which reads every
// budget and which viewers may ask for, one goes on at a time. Errors: those above, and what build
// returns; any other leaves the outcome unknown, and it is safe to try again.
func (b *Broker) changePolicies(ctx context.Context, w wish, build func(*view) (edit, error)) (*draft, error) {
	if w.dryRun {
		select {
		case b.dryRuns <- struct{}{}:
			defer func() { <-b.dryRuns }()
		case <-ctx.Done():
			return nil, connect.NewError(connect.CodeDeadlineExceeded, errors.New("other dry runs were before this one: try again"))
		}
	}
	for {
		d := &draft{
			v: b.view(ctx), now: b.cfg.Clock.Now().UnixMilli(),
			writes: map[string][]byte{}, accounts: map[string]record.Account{},
		}
		if err := d.make(w, build); err != nil {
			return nil, err
		}
		d.revision = d.v.revision
		if w.dryRun {
			d.tooLarge = d.split(d.txn(record.History{Version: d.version, Changes: d.changes}))
			return d, d.weigh()
		}
		if len(d.changes) == 0 {
			return d, nil
		}
		by, verified := person(ctx, w.by)
		txn := d.txn(record.History{
			Version: d.version, Action: w.action, By: by, Verified: verified, Because: w.because, UnixMs: d.now, Changes: d.changes, To: w.to,
		})
		if err := d.split(txn); err != nil {
			return nil, err
		}
		res, err := b.cfg.Store.Txn(ctx, txn)
		if err != nil {
			return nil, err
		}
		if res.Succeeded {
			d.revision = res.Revision
			return d, nil
		}
	}
}

// split refuses a change that does not fit into one transaction: ErrSplit. What is
// named and is so already is no part of it.
func (d *draft) split(txn store.Txn) error {
	most := d.v.b.cfg.Store.MaxTxnOps()
	fits := max(0, most-len(txn.Then)+len(d.writes)) // the others are of the history
	if n := len(d.writes); n > fits {
		return fmt.Errorf("%w: %d policies, plans and accounts change, and at most %d do at once; apply it in parts", ErrSplit, n, fits)
	}
	if err := txn.Validate(most); err != nil {
		return fmt.Errorf("%w: %d policies, plans and accounts change; apply it in parts (%w)", ErrSplit, len(d.writes), err)
	}
	return nil
}

// make reads what is in force and works out what the edit changes of it.
func (d *draft) make(w wish, build func(*view) (edit, error)) (err error) {
	if d.before, err = d.v.policySet(); err != nil {
		return err
	}
	if w.ifVersion != 0 && w.ifVersion != d.before.Version {
		return fmt.Errorf("%w: version %d is in force, and the request is for version %d; see what has changed with `tokenlease policy history`, and compare again", ErrPolicyVersion, d.before.Version, w.ifVersion)
	}
	d.version = d.before.Version + 1
	e, err := build(d.v)
	if err != nil {
		return err
	}
	d.everybody(e)
	d.plans(e)
	names := make([]string, 0, len(e.accounts))
	for _, a := range e.accounts {
		names = append(names, a.Account)
	}
	current, err := d.v.accountsOf(names)
	if err != nil {
		return err
	}
	for _, a := range e.accounts {
		d.account(current[a.Account], a)
	}
	if e.defaultPlan != nil {
		d.defaults(*e.defaultPlan)
	}
	if e.disabled != nil {
		d.disable(*e.disabled)
	}
	if d.after, err = d.apply(); err != nil {
		return err
	}
	return d.checkPlans(e.removePlans)
}

// everybody changes the policies for everybody.
func (d *draft) everybody(e edit) {
	for _, p := range e.policies {
		current, had := d.before.For(p.Operation)
		if had && p.SameTerms(current) {
			continue
		}
		p.Rule.Version, p.UpdatedUnixMs = d.version, d.now
		c := record.Change{Subject: record.OfEverybody, Operation: p.Operation, After: &p}
		if had {
			c.Before = &current
		}
		d.put(d.layout().Policy(p.Operation), p, c)
	}
	for _, operation := range e.removePolicies {
		if current, had := d.before.For(operation); had {
			d.removed = append(d.removed, operation)
			d.put(d.layout().Policy(operation), nil, record.Change{Subject: record.OfEverybody, Operation: operation, Before: &current})
		}
	}
}

// plans changes plans, each as a whole.
func (d *draft) plans(e edit) {
	for _, wanted := range e.plans {
		current, had := d.before.Plan(wanted.Name)
		policies, changes, shrunk := d.merge(record.OfPlan, wanted.Name, current.Policies, wanted.Policies)
		if !had {
			changes = append([]record.Change{{Subject: record.OfPlan, Name: wanted.Name, Is: record.PlanExists}}, changes...)
		}
		next := record.Plan{Name: wanted.Name, Version: d.version, Policies: policies, Shrunk: current.Shrunk, UpdatedUnixMs: d.now}
		if shrunk || !had {
			// A plan that could not be read may have ruled what it does not name any more.
			next.Shrunk = d.version
		}
		d.put(d.layout().Plan(wanted.Name), next, changes...)
	}
	for _, name := range e.removePlans {
		if current, had := d.before.Plan(name); had {
			_, changes, _ := d.merge(record.OfPlan, name, current.Policies, nil)
			gone := record.Change{Subject: record.OfPlan, Name: name, Was: record.PlanExists}
			d.put(d.layout().Plan(name), nil, append([]record.Change{gone}, changes...)...)
		}
	}
}

// account changes what an account has of its own, as a whole.
func (d *draft) account(current, wanted record.Account) {
	policies, changes, shrunk := d.merge(record.OfAccount, wanted.Account, current.Policies, wanted.Policies)
	if wanted.Plan != current.Plan {
		moved := record.Change{Subject: record.OfAccount, Name: wanted.Account, Was: current.Plan, Is: wanted.Plan}
		changes, shrunk = append([]record.Change{moved}, changes...), true
	}
	next := record.Account{
		Account: wanted.Account, Version: d.version, Plan: wanted.Plan, Policies: policies, Shrunk: current.Shrunk, UpdatedUnixMs: d.now,
	}
	if shrunk || current.Version == 0 {
		// One whose record was deleted may have had what it does not name any more.
		next.Shrunk = d.version
	}
	if len(changes) > 0 {
		d.accounts[wanted.Account] = next
	}
	d.put(d.layout().Account(wanted.Account), next, changes...)
}

func (d *draft) defaults(plan string) {
	if current := d.before.Defaults(); current.Plan != plan {
		d.put(d.layout().Defaults(), record.Defaults{Plan: plan, Version: d.version},
			record.Change{Subject: record.OfDefault, Was: current.Plan, Is: plan})
	}
}

func (d *draft) disable(wanted record.Disabled) {
	current, _ := d.before.Disable(wanted.Operation)
	if current.Disabled == wanted.Disabled && (!wanted.Disabled || current.Because == wanted.Because) {
		return
	}
	wanted.Version, wanted.SinceUnixMs = d.version, d.now
	c := record.Change{Subject: record.OfOperation, Operation: wanted.Operation}
	if current.Disabled {
		c.Was = current.Because
	}
	if wanted.Disabled {
		c.Is = wanted.Because
	}
	d.put(d.layout().Disable(wanted.Operation), wanted, c)
}

// merge puts wanted policies in place of others. Those of the same terms keep their
// versions. shrunk says that some are gone.
func (d *draft) merge(of record.Subject, name string, current, wanted []lease.Policy) (merged []lease.Policy, changes []record.Change, shrunk bool) {
	was, is := byOperation(current), byOperation(wanted)
	for _, operation := range operationsOf(was, is) {
		old, had := was[operation]
		next, has := is[operation]
		c := record.Change{Subject: of, Name: name, Operation: operation}
		if had {
			c.Before = &old
		}
		switch {
		case !has:
			shrunk = true
			changes = append(changes, c)
			continue
		case had && next.SameTerms(old):
			next = old
		default:
			next.Rule.Version, next.UpdatedUnixMs = d.version, d.now
			c.After = &next
			changes = append(changes, c)
		}
		merged = append(merged, next)
	}
	return merged, changes, shrunk
}

// put notes that a record is to be written, or deleted where it is nil, if that
// changes anything.
func (d *draft) put(key string, value any, changes ...record.Change) {
	if len(changes) == 0 {
		return
	}
	d.changes = append(d.changes, changes...)
	d.writes[key] = nil
	if value != nil {
		d.writes[key] = record.Encode(value)
	}
}

func (d *draft) layout() record.Layout { return d.v.b.layout }

// apply is the set as it will be.
func (d *draft) apply() (*policyset.Set, error) {
	var kvs []store.KeyValue
	for _, kv := range d.v.setRecords {
		if _, written := d.writes[kv.Key]; !written {
			kvs = append(kvs, kv)
		}
	}
	for key, value := range d.writes {
		if value != nil && !strings.HasPrefix(key, d.layout().Accounts()) {
			kvs = append(kvs, store.KeyValue{Key: key, Value: value})
		}
	}
	set, _, err := policyset.Of(d.layout(), kvs)
	if err == nil && len(d.accounts) > 0 {
		set.Accounts = true
	}
	return set, err
}

// checkPlans checks that every plan that is named will be there, and that nobody is
// assigned to one that is removed.
func (d *draft) checkPlans(removed []string) error {
	if name := d.after.Defaults().Plan; name != "" {
		if _, ok := d.after.Plan(name); !ok && slices.Contains(removed, name) {
			return fmt.Errorf("%w: %q is the default plan; choose another default before, or with the same request", ErrPlanInUse, name)
		} else if !ok {
			return fmt.Errorf("%w: the default plan %q; `tokenlease policy list` lists the plans", ErrNoPlan, name)
		}
	}
	for _, a := range d.accounts {
		if a.Plan == "" {
			continue
		}
		_, was := d.before.Plan(a.Plan)
		if _, is := d.after.Plan(a.Plan); !is && (!was || !slices.Contains(removed, a.Plan)) {
			return fmt.Errorf("%w: account %q is to have plan %q; `tokenlease policy list` lists the plans", ErrNoPlan, a.Account, a.Plan)
		}
	}
	users := map[string][]string{}
	for _, name := range removed {
		if _, had := d.before.Plan(name); had {
			users[name] = nil
		}
	}
	if err := d.findUsers(users); err != nil {
		return err
	}
	for _, name := range removed {
		if found := users[name]; len(found) > 0 {
			return fmt.Errorf("%w: accounts %s have plan %q; give them another one first, see `tokenlease accounts list --plan %s`", ErrPlanInUse, quoted(found), name, name)
		}
	}
	return nil
}

// maxUsers is how many accounts an error names.
const maxUsers = 5

// findUsers adds the first accounts that will have each of the plans, in one walk over
// all accounts.
func (d *draft) findUsers(users map[string][]string) error {
	if len(users) == 0 {
		return nil
	}
	add := func(a record.Account) {
		if found, asked := users[a.Plan]; asked && len(found) < maxUsers {
			users[a.Plan] = append(found, a.Account)
		}
	}
	for _, name := range sortedKeys(d.accounts) {
		add(d.accounts[name])
	}
	return d.v.each(d.layout().Accounts(), func(kv store.KeyValue) error {
		a, err := record.Decode[record.Account](kv)
		if _, changed := d.accounts[a.Account]; err == nil && !changed {
			add(a)
		}
		return err
	})
}

func quoted(names []string) string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, fmt.Sprintf("%q", name))
	}
	return strings.Join(out, ", ")
}

// txn is the transaction of the change, with its history and audit entry.
func (d *draft) txn(h record.History) store.Txn {
	l := d.layout()
	touched := make([]string, 0, len(d.accounts))
	for account := range d.accounts {
		touched = append(touched, account)
	}
	slices.Sort(touched)
	txn := store.Txn{
		If: []store.Compare{{Key: l.PolicySet(), Target: store.ModRevision, Revision: d.before.Revision}},
		Then: []store.Op{
			{Kind: store.OpPut, Key: l.PolicySet(), Value: record.Encode(d.before.Next(d.version, d.now, touched, d.removed))},
			{Kind: store.OpPut, Key: l.History(d.version), Value: record.Encode(h)},
			{Kind: store.OpPut, Key: l.Audit(d.now, "policies."+h.Action+"-"+randomID()), Value: record.Encode(audited(h))},
		},
	}
	if d.version > keptHistory {
		txn.Then = append(txn.Then, store.Op{Kind: store.OpDelete, Key: l.History(d.version - keptHistory)})
	}
	for _, key := range sortedKeys(d.writes) {
		op := store.Op{Kind: store.OpPut, Key: key, Value: d.writes[key]}
		if op.Value == nil {
			op.Kind = store.OpDelete
		}
		txn.Then = append(txn.Then, op)
	}
	return txn
}

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// side is one side of a change in an audit entry.
type side struct {
	Subject   string        `json:"subject"`
	Operation string        `json:"operation,omitempty"`
	Policy    *lease.Policy `json:"policy,omitempty"`
	Text      string        `json:"text,omitempty"`
}

// audited is the audit entry of a change.
func audited(h record.History) record.Audit {
	var before, after []side
	var subjects []string
	for _, c := range h.Changes {
		if s := c.String(); !slices.Contains(subjects, s) {
			subjects = append(subjects, s)
		}
		was, is := texts(c)
		if c.Before != nil || was != "" {
			before = append(before, side{c.String(), c.Operation, c.Before, was})
		}
		if c.After != nil || is != "" {
			after = append(after, side{c.String(), c.Operation, c.After, is})
		}
	}
	if more := len(subjects) - 10; more > 0 {
		subjects = append(subjects[:10], fmt.Sprintf("and %d more", more))
	}
	return record.Audit{
		UnixMs: h.UnixMs, Action: "policies." + h.Action, By: h.By, Verified: h.Verified, Because: h.Because,
		Subject: strings.Join(subjects, ", "), Before: before, After: after,
	}
}

// texts are what a change says in words, if it is not of a policy.
func texts(c record.Change) (before, after string) {
	word := func(text string) string {
		switch {
		case c.Subject == record.OfOperation && text == "":
			return "enabled"
		case c.Subject == record.OfOperation:
			return "disabled: " + text
		case c.Subject == record.OfPlan:
			return text
		case text == "" && c.Subject == record.OfAccount:
			return "the default plan"
		case text == "":
			return "no plan"
		}
		return "plan " + text
	}
	if c.Before != nil || c.After != nil {
		return "", ""
	}
	return word(c.Was), word(c.Is)
}
