package broker

import (
	"context"
	"time"

	"github.com/tokenlease/tokenlease/broker/policyset"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
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
	lost          map[string]error // registrations and fences that cannot be read, by key
	heads         map[uint32]storedHead
	stored        map[string]record.Grant   // by key: see readGrants
	set           *policyset.Set            // see policySet
	setRecords    []store.KeyValue          // that it was made of
	faults        []error                   // records of it that are not usable
	accounts      map[string]record.Account // see account
	templates     map[string]record.Budget  // by key
	calendar      shard.Calendar

	bad func(error) // gets records that cannot be read: see damaged
}

// storedHead is a shard's head, or why it cannot be read.
type storedHead struct {
	record.Head

	err error
}

func (b *Broker) view(ctx context.Context) *view {
	return &view{b: b, ctx: ctx, fences: map[uint32]map[lease.Holder]uint64{}, heads: map[uint32]storedHead{}, lost: map[string]error{}, templates: map[string]record.Budget{}, calendar: shard.Calendar{}}
}

// read reads keys at the revision of the view.
func (v *view) read(req store.RangeRequest) (store.RangeResult, error) {
	req.Revision = v.revision
	res, err := v.b.cfg.Store.Range(v.ctx, req)
	if err == nil && v.revision == 0 {
		v.revision = res.Revision
	}
	return res, err
}

// walk calls take for every key in [from, end), in order, until it says stop.
// full is false when it did, and last is the last key that was taken.
func (v *view) walk(from, end string, take func(store.KeyValue) (more bool, err error)) (full bool, last string, err error) {
	for {
		res, err := v.read(store.RangeRequest{Key: from, End: end, Limit: readPage})
		if err != nil {
			return false, last, err
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
// registration and the shard's fence. Those of other holders that cannot be read are
// no fault of it.
func (v *view) minEpoch(id uint32, h lease.Holder) (uint64, error) {
	if err := v.readRegistrations(); err != nil {
		return 0, err
	}
	if err := v.readFences(id); err != nil {
		return 0, err
	}
	if len(v.lost) > 0 { // hardly ever: keys take time to make
		for _, key := range []string{v.b.layout.Holder(h), v.b.layout.Fence(id, h)} {
			if err := v.damaged(v.lost[key]); err != nil {
				return 0, err
			}
		}
	}
	cluster, err := v.era()
	return max(v.registrations[h].Serves(), v.fences[id][h], lease.EpochFloor(cluster.Generation)), err
}

func (v *view) readRegistrations() error {
	if v.registrations != nil {
		return nil
	}
	all := map[lease.Holder]record.Registration{}
	err := v.each(v.b.layout.Holders(), func(kv store.KeyValue) error {
		r, err := record.Decode[record.Registration](kv)
		if err == nil {
			all[r.Holder()] = r
			return nil
		}
		v.lost[kv.Key] = err // until it is asked for
		return nil
	})
	if err == nil {
		v.registrations = all
	}
	return err
}

func (v *view) readFences(id uint32) error {
	if v.fences[id] != nil {
		return nil
	}
	all := map[lease.Holder]uint64{}
	err := v.each(v.b.layout.Fences(id), func(kv store.KeyValue) error {
		f, err := record.Decode[record.Fence](kv)
		if err == nil {
			all[lease.Holder{Region: f.Region, Instance: f.Instance}] = f.MinEpoch
			return nil
		}
		v.lost[kv.Key] = err // until it is asked for
		return nil
	})
	if err == nil {
		v.fences[id] = all
	}
	return err
}

// head is the shard's head.
func (v *view) head(id uint32) (record.Head, error) {
	head, ok := v.heads[id]
	if ok {
		return head.Head, head.err
	}
	var kv *store.KeyValue
	kv, head.err = v.get(v.b.layout.Head(id))
	if head.err == nil && kv != nil {
		head.Head, head.err = record.Decode[record.Head](*kv)
	}
	v.heads[id] = head
	return head.Head, head.err
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

// ledgerTime is the latest wall clock that is known of a shard, in milliseconds since
// 1970, and its ledger time by that.
func (v *view) ledgerTime(head record.Head) (wallMs int64, now lease.Time) {
	wallMs = max(v.b.cfg.Clock.Now().UnixMilli(), head.CommittedUnixMs)
	return wallMs, lease.Time(head.ClockNs).Add(time.Duration(wallMs-head.CommittedUnixMs) * time.Millisecond)
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
		Key: &pb.BudgetKey{Account: r.Account, Operation: r.Operation}, Policy: policyToWire(policy),
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
	wall, now := v.ledgerTime(head)
	l := r.Bare()
	v.calendar.Turn(&l, l.Updated, wall, 0, v.b.cfg.Logger)
	l.Advance(now)
	if budget.GetOrphanedTokens() == 0 {
		v.fullIn(budget, l, now)
	}
	budget.AvailableTokens, budget.RecoveringTokens, budget.DebtTokens = l.Available, l.Counted(), l.Debt
	if budget.GetRecoveringTokens() == lease.MaxCapacity {
		budget.RecoveringTokens = l.Rule.Capacity // all, however much it is: see lease.NewSpent
	}
	return budget, nil
}

// policy is the policy in force for the budget: its costs as they stand now,
// with the rule that the budget runs under; that alone where the rest cannot be read.
func (v *view) policy(r record.Budget) (policyset.Ruling, error) {
	ruling, _, err := v.ruling(lease.Key{Account: r.Account, Operation: r.Operation})
	ruling.Operation, ruling.Rule = r.Operation, r.Rule
	return ruling, v.damaged(err)
}
