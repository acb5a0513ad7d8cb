package broker

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// readGrants reads the grants of budgets in the order of their keys, all at once, for
// addGrants.
func (v *view) readGrants(budgets []record.Budget) error {
	var keys []string
	for _, r := range budgets {
		prefix := v.b.layout.Grants(lease.ShardOf(lease.Key{Account: r.Account, Operation: r.Operation}, v.b.cluster.Shards))
		for _, path := range r.Grants {
			keys = append(keys, prefix+path)
		}
	}
	slices.Sort(keys)
	v.stored = make(map[string]record.Grant, len(keys))
	return v.records(slices.Compact(keys), func(kv store.KeyValue) error {
		r, err := storedGrant(kv)
		if err != nil {
			r = record.Grant{} // without an ID
		}
		v.stored[kv.Key] = r
		return v.damaged(err)
	})
}

// addGrants adds what each region has out of the budget, whose grants have been read;
// with all it adds the grants as well.
func (v *view) addGrants(budget *pb.Budget, r record.Budget, all bool) error {
	for _, path := range r.Grants {
		at := v.b.layout.Grants(budget.GetShard()) + path
		stored, ok := v.stored[at]
		if !ok && v.bad != nil {
			v.bad(fmt.Errorf("there is no record at %s, which its budget lists", at))
		}
		if stored.ID == "" {
			continue
		}
		lowest, err := v.minEpoch(budget.GetShard(), lease.Holder{Region: stored.Region, Instance: stored.Instance})
		if err != nil {
			return err
		}
		addCredit(budget, stored, stored.Epoch < lowest)
		if all {
			budget.Grants = append(budget.Grants, shard.GrantToWire(stored, lowest))
		}
	}
	return nil
}

// addCredit adds a grant to what its region has out.
func addCredit(budget *pb.Budget, g record.Grant, orphaned bool) {
	at, found := slices.BinarySearchFunc(budget.GetRegions(), g.Region, func(c *pb.RegionCredit, region string) int {
		return cmp.Compare(c.GetRegion(), region)
	})
	if !found {
		budget.Regions = slices.Insert(budget.Regions, at, &pb.RegionCredit{Region: g.Region})
	}
	region, outstanding := budget.Regions[at], g.Issued-g.Spent-g.Returned
	region.Grants++
	if orphaned {
		region.OrphanedTokens += outstanding
		budget.OrphanedTokens += outstanding
	} else {
		region.LiveTokens += outstanding
	}
}

// fullIn sets when the budget is full if what is out comes back now and nothing more
// is spent. l is the ledger as it stands now, with what is out in one grant without an
// ID. Never by waiting alone is a quota of which something was spent, nor one with
// orphaned credit, of which nobody knows when it comes back.
func (v *view) fullIn(budget *pb.Budget, l lease.Ledger, now lease.Time) {
	l = l.Clone()
	l.Rule.MaxSharePercent = 100 // of all holders together
	if err := l.Close(now, lease.GrantID{}, 0, 0, 0); err != nil {
		return
	}
	wait, ok := l.Retry(now, l.Rule.Capacity)
	if !ok || l.Counted() == math.MaxInt64 {
		return
	}
	budget.HasFullIn, budget.FullInNs = true, max(0, int64(wait))
}
