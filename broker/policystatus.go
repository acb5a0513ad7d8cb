package broker

import (
	"context"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/policyset"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// maxAbove is how many budgets with more out than their capacity are told.
const maxAbove = 100

// ShowPolicyStatus implements tokenleasev1connect.AdminHandler.
func (s adminService) ShowPolicyStatus(ctx context.Context, req *connect.Request[pb.ShowPolicyStatusRequest]) (*connect.Response[pb.ShowPolicyStatusResponse], error) {
	v := s.b.view(ctx)
	set, err := v.policySet()
	if err != nil {
		return nil, wireError(err)
	}
	version := req.Msg.GetVersion()
	if version == 0 {
		version = set.Version
	}
	if version > set.Version {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no policy version %d: the newest is %d; see `tokenlease policy history`", version, set.Version))
	}
	unusable := v.past()
	w := newPolicyWalk(v, set, version)
	resp := w.resp
	resp.Version, resp.VersionInForce = version, set.Version
	for id := range s.b.cluster.Shards {
		head, err := v.head(id)
		if err = v.damaged(err); err == nil {
			err = w.shard(id)
		}
		if err != nil {
			return nil, wireError(err)
		}
		if head.PolicyVersion < version && set.Recorded {
			resp.ShardsBehind = append(resp.ShardsBehind, id)
		}
	}
	if resp.HoldersBehind, err = w.holdersBehind(); err != nil {
		return nil, wireError(err)
	}
	resp.Unusable, resp.UnusableCount = unusable.first, unusable.count()
	whole := resp.GetUnusableCount() == 0
	resp.Installed = whole && len(resp.GetShardsBehind()) == 0 && len(resp.GetHoldersBehind()) == 0
	resp.Settled = whole && resp.GetBudgetsAboveCount() == 0
	resp.Revision = v.revision
	return connect.NewResponse(resp), nil
}

// policyWalk goes through all budgets with their grants, and finds who is not under a
// policy version. What a budget is ruled by may have a later version than the one
// that is asked for: that is then not asked of its holders.
type policyWalk struct {
	v       *view
	set     *policyset.Set
	version int64
	resp    *pb.ShowPolicyStatusResponse
	lags    map[lease.Holder]*lag
	see     func(shard uint32, g record.Grant) error // gets every grant that is read; nil: nobody does
}

// lag is what a holder has out under older policies.
type lag struct {
	live, grants, outstanding int64
	missing                   int64 // the lowest version that it lacks
}

func newPolicyWalk(v *view, set *policyset.Set, version int64) *policyWalk {
	return &policyWalk{v: v, set: set, version: version, resp: &pb.ShowPolicyStatusResponse{}, lags: map[lease.Holder]*lag{}}
}

// shard reads the grants of a shard, and then its budgets in order of account, so
// that accounts are read along with them.
func (w *policyWalk) shard(id uint32) error {
	cluster, err := w.v.era()
	if err != nil {
		return err
	}
	grants, prefix := map[string]record.Grant{}, w.v.b.layout.Grants(id)
	err = w.v.each(prefix, func(kv store.KeyValue) error {
		g, err := storedGrant(kv)
		if err != nil {
			return w.v.damaged(err)
		}
		if g.Issued > g.Spent+g.Returned {
			grants[kv.Key[len(prefix):]] = g
		}
		if w.see != nil {
			return w.see(id, g)
		}
		return nil
	})
	if err != nil {
		return err
	}
	walk := accountWalk{v: w.v}
	return w.v.each(w.v.b.layout.Budgets(id), func(kv store.KeyValue) error {
		b, err := record.Decode[record.Budget](kv)
		if err != nil || b.Since() != cluster.Generation {
			return w.v.damaged(err)
		}
		account, err := walk.account(b.Account)
		if err != nil {
			return w.v.damaged(err)
		}
		ruling, ruled := w.set.Rules(account, b.Operation)
		out := make([]record.Grant, 0, len(b.Grants))
		for _, path := range b.Grants {
			if g, ok := grants[path]; ok {
				out = append(out, g)
			}
		}
		if ruled {
			if err := w.behind(id, out, ruling.Rule.Version); err != nil {
				return err
			}
		}
		if b.Reserved > ruling.Rule.Capacity { // of no policy: 0
			return w.above(id, b, ruling, out)
		}
		return nil
	})
}

// behind counts the grants whose holders have not installed the version that rules
// their budget. Slots that a holder has left to its work are nobody's to spend.
func (w *policyWalk) behind(id uint32, out []record.Grant, version int64) error {
	version = min(version, w.version)
	for _, g := range out {
		if g.Kept || g.PolicyVersion >= version {
			continue
		}
		h := lease.Holder{Region: g.Region, Instance: g.Instance}
		lowest, err := w.v.minEpoch(id, h)
		if err != nil {
			return err
		}
		l := w.lags[h]
		if l == nil {
			l = &lag{missing: version}
			w.lags[h] = l
		}
		if g.Epoch >= lowest {
			l.live++
		}
		l.grants++
		l.outstanding += g.Issued - g.Spent - g.Returned
		l.missing = min(l.missing, version)
	}
	return nil
}

// above tells of a budget that has more out than its capacity.
func (w *policyWalk) above(id uint32, b record.Budget, ruling policyset.Ruling, out []record.Grant) error {
	w.resp.BudgetsAboveCount++
	if len(w.resp.GetBudgetsAbove()) >= maxAbove {
		return nil
	}
	above := &pb.BudgetAbove{
		Key: &pb.BudgetKey{Account: b.Account, Operation: b.Operation}, CapacityTokens: ruling.Rule.Capacity, ReservedTokens: b.Reserved,
		Reclaim: policyToWire(ruling).GetReclaim(),
	}
	holdings := map[lease.Holder]*pb.Holding{}
	for _, g := range out {
		h := lease.Holder{Region: g.Region, Instance: g.Instance}
		lowest, err := w.v.minEpoch(id, h)
		if err != nil {
			return err
		}
		if holdings[h] == nil {
			holdings[h] = &pb.Holding{Holder: &pb.Holder{Region: h.Region, Instance: h.Instance}}
			above.Holders = append(above.Holders, holdings[h])
		}
		outstanding := g.Issued - g.Spent - g.Returned
		holdings[h].OutstandingTokens += outstanding
		if g.Epoch < lowest {
			holdings[h].OrphanedTokens += outstanding
		}
	}
	w.resp.BudgetsAbove = append(w.resp.BudgetsAbove, above)
	return nil
}

// holdersBehind are those that lag, in order, with when they were heard last.
func (w *policyWalk) holdersBehind() (behind []*pb.HolderLag, err error) {
	if len(w.lags) == 0 {
		return nil, nil
	}
	heard := map[lease.Holder]int64{}
	for id := range w.v.b.cluster.Shards {
		err := w.v.each(w.v.b.layout.Fences(id), func(kv store.KeyValue) error {
			f, err := record.Decode[record.Fence](kv)
			if err != nil {
				return w.v.damaged(err)
			}
			h := lease.Holder{Region: f.Region, Instance: f.Instance}
			heard[h] = max(heard[h], f.HeardUnixMs)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for h, l := range w.lags {
		behind = append(behind, &pb.HolderLag{
			Holder: &pb.Holder{Region: h.Region, Instance: h.Instance}, PolicyVersion: l.missing - 1,
			Grants: l.grants, OutstandingTokens: l.outstanding, LastHeardUnixMs: heard[h],
		})
	}
	slices.SortFunc(behind, func(a, b *pb.HolderLag) int {
		return holderOf(a.GetHolder()).Compare(holderOf(b.GetHolder()))
	})
	return behind, nil
}

// policyLags tells the holders' installed policy versions. One that lags in nothing
// has the version in force.
func (v *view) policyLags(holders []*pb.HolderStatus, see func(uint32, record.Grant) error) error {
	set, err := v.policySet()
	if err != nil {
		return err
	}
	w := newPolicyWalk(v, set, set.Version)
	w.see = see
	for id := range v.b.cluster.Shards {
		if err := w.shard(id); err != nil {
			return err
		}
	}
	for _, status := range holders {
		status.PolicyVersion = set.Version
		if l := w.lags[holderOf(status.GetHolder())]; l != nil {
			status.PolicyVersion, status.GrantsBehind = l.missing-1, l.live
		}
	}
	return nil
}

// policyLag tells the same of one holder, all of whose grants are at hand.
func (v *view) policyLag(status *pb.HolderStatus, grants []*pb.Grant) error {
	set, err := v.policySet()
	if err != nil {
		return err
	}
	status.PolicyVersion = set.Version
	for _, g := range grants {
		r, ruled, err := v.ruling(lease.Key{Account: g.GetBudget().GetAccount(), Operation: g.GetBudget().GetOperation()})
		if err := v.damaged(err); err != nil {
			return err
		}
		if !ruled || g.GetKept() || g.GetOutstandingTokens() == 0 || g.GetPolicyVersion() >= r.Rule.Version {
			continue
		}
		status.PolicyVersion = min(status.GetPolicyVersion(), r.Rule.Version-1)
		if g.GetState() == pb.GrantState_GRANT_STATE_LIVE {
			status.GrantsBehind++
		}
	}
	return nil
}
