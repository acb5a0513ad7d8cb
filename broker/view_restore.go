package broker

import (
	"errors"
	"fmt"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Records of before a declared restore are still stored for a while, and mean
// nothing any more. This file has what the views show in their place.

// era is the cluster record.
func (v *view) era() (record.Cluster, error) {
	if v.cluster != nil {
		return *v.cluster, nil
	}
	cluster := record.Cluster{}
	kv, err := v.get(v.b.layout.Cluster())
	if err == nil && kv != nil {
		cluster, err = record.Decode[record.Cluster](*kv)
	}
	if err != nil {
		return cluster, err
	}
	cluster.Generation = max(1, cluster.Generation)
	v.cluster = &cluster
	return cluster, nil
}

// earlier says that the grant is of an earlier generation, and so is gone.
func (v *view) earlier(g record.Grant) (bool, error) {
	id, err := lease.ParseGrantID(g.ID)
	if err != nil {
		return false, err
	}
	cluster, err := v.era()
	return !id.IsZero() && id.Generation < cluster.Generation, err
}

// inForce is the record of a budget as the generation in force has it. Of one of
// before a restore that is not attested, all is unknown: one grant stands for it.
// Once it is attested, the budget is like one without a record: it has what its
// operation's template has, or, where its account has a record, all of it counts as
// spent when it is first asked for.
func (v *view) inForce(id uint32, r record.Budget) (record.Budget, *pb.Grant, error) {
	cluster, err := v.era()
	if err != nil || r.Since() >= cluster.Generation {
		return r, nil, err
	}
	rule, key := r.Rule, lease.Key{Account: r.Account, Operation: r.Operation}
	p, ruled, err := v.ruling(key)
	if err != nil {
		return r, nil, err
	}
	if ruled {
		rule = p.Rule
	}
	if cluster.Unknown() {
		l := lease.NewUnknown(key, rule, lease.Time(r.UpdatedNs), cluster.Generation, id)
		g := record.FromGrant(key, l.Grants[0], 0)
		return record.FromLedger(&l), shard.GrantToWire(g, g.Epoch+1), nil
	}
	account, err := v.account(r.Account)
	if err != nil {
		return r, nil, err
	}
	template, err := v.template(id, r.Operation)
	if err != nil || template.Since() != cluster.Generation || account.Account != "" {
		head, headErr := v.head(id)
		_, now := v.ledgerTime(head)
		l := lease.NewSpent(key, rule, now)
		return record.FromLedger(&l), nil, errors.Join(err, headErr)
	}
	template.Account = r.Account
	if l := template.Bare(); ruled {
		l.Grants, l.Rule.Version = nil, 0 // the shard may not have taken the policy up yet
		err = l.Install(l.Updated, rule)
		template = record.FromLedger(&l).In(cluster.Generation)
	}
	return template, nil, err
}

// template is the stored template of the operation, or none.
func (v *view) template(id uint32, operation string) (record.Budget, error) {
	at := v.b.layout.Template(id, operation)
	known, ok := v.templates[at]
	if ok {
		return known, nil
	}
	kv, err := v.get(at)
	if err == nil && kv != nil {
		known, err = record.Decode[record.Budget](*kv)
	}
	if err == nil {
		v.templates[at] = known
	}
	return known, err
}

// unrecorded says what it means that a budget has no record.
func (v *view) unrecorded(key lease.Key) error {
	cluster, err := v.era()
	switch {
	case err != nil:
		return err
	case cluster.Generation == 1:
		return fmt.Errorf("no record of budget %s %s: it is full, with nothing out, or nobody has asked for it", key.Account, key.Operation)
	case cluster.Unknown():
		return fmt.Errorf("no record of budget %s %s: a restore was declared and is not attested, so all of it is reserved as unknown; see `tokenlease restore status`", key.Account, key.Operation)
	}
	if account, err := v.account(key.Account); err != nil || account.Account != "" {
		return errors.Join(err, fmt.Errorf("no record of budget %s %s: nothing of it is out, and nobody has asked for it since the restore was attested; all of it counts as spent when somebody does, since its account has policies or a plan of its own; see `tokenlease restore status`", key.Account, key.Operation))
	}
	return fmt.Errorf("no record of budget %s %s: nothing of it is out, and it has what refill has earned since the restore was attested; see `tokenlease restore status`", key.Account, key.Operation)
}

// listedGrant reads one record of the list of grants, which is nil where it is not
// to be shown. While a restore is not attested, the list is of budgets: one grant
// stands for each that the copy had a record of.
func (v *view) listedGrant(kv store.KeyValue) (*pb.Grant, error) {
	cluster, err := v.era()
	if err != nil {
		return nil, err
	}
	if cluster.Unknown() {
		r, err := record.Decode[record.Budget](kv)
		if err != nil {
			return nil, err
		}
		key := lease.Key{Account: r.Account, Operation: r.Operation}
		_, unknown, err := v.inForce(lease.ShardOf(key, v.b.cluster.Shards), r)
		return unknown, err
	}
	r, err := storedGrant(kv)
	if err != nil {
		return nil, err
	}
	if earlier, err := v.earlier(r); err != nil || earlier {
		return nil, err
	}
	return v.grant(r)
}
