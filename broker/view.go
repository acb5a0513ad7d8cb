package broker

import (
	"context"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/policywire"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// readPage is how many keys are read at a time.
const readPage = 1000

// view reads the store at one revision, for display: the revision of its first
// read.
type view struct {
	b        *Broker
	ctx      context.Context //nolint:containedctx // a view lives for one request
	revision int64

	cluster       *record.Cluster
	registrations map[lease.Holder]record.Registration
	fences        map[uint32]map[lease.Holder]uint64
	heads         map[uint32]record.Head
	policies      map[string]lease.Policy
	templates     map[string]record.Budget // by key
	calendar      shard.Calendar
}

func (b *Broker) view(ctx context.Context) *view {
	return &view{b: b, ctx: ctx, fences: map[uint32]map[lease.Holder]uint64{}, heads: map[uint32]record.Head{}, templates: map[string]record.Budget{}, calendar: shard.Calendar{}}
}

// walk calls take for every key in [from, end), in order, until it says stop.
// full is false when it did, and last is the last key that was taken.
func (v *view) walk(from, end string, take func(store.KeyValue) (more bool, err error)) (full bool, last string, err error) {
	for {
		res, err := v.b.cfg.Store.Range(v.ctx, store.RangeRequest{Key: from, End: end, Limit: readPage, Revision: v.revision})
		if err != nil {
			return false, last, err
		}
		if v.revision == 0 {
			v.revision = res.Revision
		}
		for _, kv := range res.KVs {
			more, err := take(kv)
			if err != nil {
				return false, kv.Key, err
			}
			if !more {
				return false, kv.Key, nil
			}
			from = kv.Key + "\x00"
		}
		if !res.More {
			return true, last, nil
		}
	}
}

// each calls take for every key under the prefix.
func (v *view) each(prefix string, take func(store.KeyValue) error) error {
	from, end := record.All(prefix)
	_, _, err := v.walk(from, end, func(kv store.KeyValue) (bool, error) { return true, take(kv) })
	return err
}

// get is one key, or nil.
func (v *view) get(key string) (*store.KeyValue, error) {
	var found *store.KeyValue
	_, _, err := v.walk(key, key+"\x00", func(kv store.KeyValue) (bool, error) {
		found = &kv
		return true, nil
	})
	return found, err
}

// minEpoch is the lowest epoch of the holder that is still served, by its
// registration and the shard's fence.
func (v *view) minEpoch(id uint32, h lease.Holder) (uint64, error) {
	if v.registrations == nil {
		v.registrations = map[lease.Holder]record.Registration{}
		err := v.each(v.b.layout.Holders(), func(kv store.KeyValue) error {
			r, err := record.Decode[record.Registration](kv)
			v.registrations[r.Holder()] = r
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	if v.fences[id] == nil {
		v.fences[id] = map[lease.Holder]uint64{}
		err := v.each(v.b.layout.Fences(id), func(kv store.KeyValue) error {
			f, err := record.Decode[record.Fence](kv)
			v.fences[id][lease.Holder{Region: f.Region, Instance: f.Instance}] = f.MinEpoch
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	cluster, err := v.era()
	return max(v.registrations[h].Serves(), v.fences[id][h], lease.EpochFloor(cluster.Generation)), err
}

// head is the shard's head.
func (v *view) head(id uint32) (record.Head, error) {
	head, ok := v.heads[id]
	if ok {
		return head, nil
	}
	kv, err := v.get(v.b.layout.Head(id))
	if err == nil && kv != nil {
		head, err = record.Decode[record.Head](*kv)
	}
	v.heads[id] = head
	return head, err
}

// grant is a stored grant in the form of answers.
func (v *view) grant(r record.Grant) (*pb.Grant, error) {
	id, err := lease.ParseGrantID(r.ID)
	if err != nil {
		return nil, err
	}
	lowest, err := v.minEpoch(id.Shard, lease.Holder{Region: r.Region, Instance: r.Instance})
	if err != nil {
		return nil, err
	}
	return shard.GrantToWire(r, lowest), nil
}

// budget is a stored budget in the form of answers, with what refill has earned
// since it was recorded by the clock of this broker: an estimate for people.
func (v *view) budget(r record.Budget, withGrants bool) (*pb.Budget, error) {
	key := lease.Key{Account: r.Account, Operation: r.Operation}
	id := lease.ShardOf(key, v.b.cluster.Shards)
	head, err := v.head(id)
	if err != nil {
		return nil, err
	}
	r, unknown, err := v.inForce(id, r)
	if err != nil {
		return nil, err
	}
	policy, err := v.policy(r)
	if err != nil {
		return nil, err
	}
	budget := &pb.Budget{
		Key: &pb.BudgetKey{Account: r.Account, Operation: r.Operation}, Policy: policywire.To(policy),
		ReservedTokens: r.Reserved, Shard: id, UpdatedLedgerNs: r.UpdatedNs, Projected: true, NotStrict: !policy.Strict(),
	}
	if unknown != nil {
		budget.OrphanedTokens = unknown.GetOutstandingTokens()
		if withGrants {
			budget.Grants = append(budget.Grants, unknown)
		}
		return budget, nil
	}
	if err := v.addGrants(budget, r, withGrants); err != nil {
		return nil, err
	}
	wall := max(v.b.cfg.Clock.Now().UnixMilli(), head.CommittedUnixMs)
	now := lease.Time(head.ClockNs).Add(time.Duration(wall-head.CommittedUnixMs) * time.Millisecond)
	l := r.Bare()
	v.calendar.Turn(&l, l.Updated, wall, 0, v.b.cfg.Logger)
	l.Advance(now)
	budget.AvailableTokens, budget.RecoveringTokens = l.Available, l.Counted()
	if budget.GetRecoveringTokens() == lease.MaxCapacity {
		budget.RecoveringTokens = l.Rule.Capacity // all, however much it is: see lease.NewSpent
	}
	return budget, nil
}

// addGrants reads the budget's grants, as far as they are to be shown or may be
// orphaned.
func (v *view) addGrants(budget *pb.Budget, r record.Budget, all bool) error {
	for _, path := range r.Grants {
		kv, err := v.get(v.b.layout.Grants(budget.GetShard()) + path)
		if err != nil {
			return err
		}
		if kv == nil {
			continue // damage, which Verify reports
		}
		stored, err := record.Decode[record.Grant](*kv)
		if err != nil {
			return err
		}
		g, err := v.grant(stored)
		if err != nil {
			return err
		}
		if g.GetState() == pb.GrantState_GRANT_STATE_ORPHANED {
			budget.OrphanedTokens += g.GetOutstandingTokens()
		}
		if all {
			budget.Grants = append(budget.Grants, g)
		}
	}
	return nil
}

// policy is the policy in force for the budget: its costs as they stand now,
// with the rule that the budget runs under.
func (v *view) policy(r record.Budget) (lease.Policy, error) {
	if v.policies == nil {
		v.policies = map[string]lease.Policy{}
		err := v.each(v.b.layout.Policies(), func(kv store.KeyValue) error {
			p, err := record.Decode[lease.Policy](kv)
			v.policies[p.Operation] = p
			return err
		})
		if err != nil {
			return lease.Policy{}, err
		}
	}
	p := v.policies[r.Operation]
	p.Operation, p.Rule = r.Operation, r.Rule
	return p, nil
}
