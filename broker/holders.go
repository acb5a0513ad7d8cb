package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ListHolders implements tokenleasev1connect.AdminHandler. Asked by another broker,
// it tells what the shards of this one have heard.
func (s adminService) ListHolders(ctx context.Context, req *connect.Request[pb.ListHoldersRequest]) (*connect.Response[pb.ListHoldersResponse], error) {
	if forwarded(req.Header()) {
		return connect.NewResponse(s.b.heardHere(ctx).answer()), nil
	}
	v := s.b.view(ctx)
	unusable := v.past()
	all, t, err := v.holders(lease.Holder{Region: req.Msg.GetRegion()})
	if err != nil {
		return nil, wireError(err)
	}
	h, err := v.hearOf(ctx, all)
	if err == nil {
		err = v.policyLags(all, t.add)
	}
	if err != nil {
		return nil, wireError(err)
	}
	resp := h.answer()
	resp.Holders, resp.Revision = all, v.revision
	resp.Unusable, resp.UnusableCount = unusable.first, unusable.count()
	return connect.NewResponse(resp), nil
}

// ShowHolder implements tokenleasev1connect.AdminHandler.
func (s adminService) ShowHolder(ctx context.Context, req *connect.Request[pb.ShowHolderRequest]) (*connect.Response[pb.ShowHolderResponse], error) {
	v, h := s.b.view(ctx), holderOf(req.Msg.GetHolder())
	unusable := v.past()
	status, t, err := v.holder(h)
	resp := &pb.ShowHolderResponse{Status: status}
	if err == nil {
		t.take = func(g *pb.Grant) { resp.Grants = append(resp.Grants, g) }
		err = v.tallyGrants(h, t)
	}
	if err == nil {
		_, err = v.hearOf(ctx, []*pb.HolderStatus{status})
	}
	if err == nil {
		err = v.policyLag(resp.GetStatus(), resp.GetGrants())
	}
	if err != nil {
		return nil, wireError(err)
	}
	resp.Revision, resp.Unusable, resp.UnusableCount = v.revision, unusable.first, unusable.count()
	return connect.NewResponse(resp), nil
}

// holder is one registered holder. What it has out is still to be added: see
// tallyGrants. The error says so if it never registered.
func (v *view) holder(h lease.Holder) (*pb.HolderStatus, *tally, error) {
	all, t, err := v.holders(h)
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("holder %v has never registered; `tokenlease holders list` shows those that have", h))
	}
	return all[0], t, nil
}

// tallyGrants adds what the holder has out, in order of shard, epoch and ID.
func (v *view) tallyGrants(h lease.Holder, t *tally) error {
	for id := range v.b.cluster.Shards {
		err := v.each(v.b.layout.GrantsOf(id, h), func(kv store.KeyValue) error {
			r, err := storedGrant(kv)
			if err != nil {
				return t.v.damaged(err)
			}
			return t.add(id, r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// storedGrant is a stored grant whose ID can be read.
func storedGrant(kv store.KeyValue) (record.Grant, error) {
	r, err := record.Decode[record.Grant](kv)
	if err == nil {
		if _, bad := lease.ParseGrantID(r.ID); bad != nil {
			err = fmt.Errorf("the record at %s cannot be used (%w): %w", kv.Key, bad, record.ErrUnreadable)
		}
	}
	return r, err
}

// hearOf adds when the owners of the shards have heard of holders, and how long those
// have said that their requests take.
func (v *view) hearOf(ctx context.Context, all []*pb.HolderStatus) (heard, error) {
	h, err := v.heard(ctx)
	for _, status := range all {
		holder := holderOf(status.GetHolder())
		status.LastHeardUnixMs = max(status.LastHeardUnixMs, h.at[holder])
		status.RoundTripNs = int64(h.trips[holder])
	}
	return h, err
}

// holders are the registered holders, in order of region and instance: all, or those of
// a region, or one. What they have out is still to be added to the tally. Where the view
// goes on past damage, one whose registration cannot be read has epoch 0. Of one holder
// the view does not go on to read what others have.
func (v *view) holders(of lease.Holder) ([]*pb.HolderStatus, *tally, error) {
	t := &tally{v: v, holders: map[lease.Holder]*pb.HolderStatus{}}
	if of.Instance != "" {
		v.registrations = map[lease.Holder]record.Registration{}
	}
	cluster, err := v.era()
	if err != nil {
		return nil, nil, err
	}
	var all []*pb.HolderStatus
	err = v.of(v.b.layout.Holders(), of, func(kv store.KeyValue) error {
		r, err := record.Decode[record.Registration](kv)
		if err != nil {
			if err := v.damaged(err); err != nil {
				return err
			}
			r = record.Registration{} // its key tells whose it is
			r.Region, r.Instance, _ = strings.Cut(strings.TrimPrefix(kv.Key, v.b.layout.Holders()), "/")
		}
		status := &pb.HolderStatus{
			Holder: &pb.Holder{Region: r.Region, Instance: r.Instance}, Epoch: r.Epoch,
			RegisteredUnixMs: r.RegisteredUnixMs, Retired: r.Retired, Fenced: err == nil && r.Epoch < lease.EpochFloor(cluster.Generation),
		}
		t.holders[r.Holder()] = status
		if of.Instance != "" {
			v.registrations[r.Holder()] = r
		}
		all = append(all, status)
		return nil
	})
	for id := range v.b.cluster.Shards {
		if of.Instance != "" {
			v.fences[id] = map[lease.Holder]uint64{}
		}
		if err == nil {
			err = v.of(v.b.layout.Fences(id), of, func(kv store.KeyValue) error { return t.heard(kv, v.fences[id]) })
		}
	}
	slices.SortFunc(all, func(a, b *pb.HolderStatus) int { return holderOf(a.GetHolder()).Compare(holderOf(b.GetHolder())) })
	return all, t, err
}

// of calls take for the keys under a prefix that go on with the holder's region and
// instance; either may be empty for all.
func (v *view) of(prefix string, of lease.Holder, take func(store.KeyValue) error) error {
	switch {
	case of.Region == "":
		return v.each(prefix, take)
	case of.Instance == "":
		return v.each(prefix+record.RegionPath(of.Region), take)
	}
	kv, err := v.get(prefix + record.HolderPath(of))
	if err == nil && kv != nil {
		err = take(*kv)
	}
	return err
}

// tally adds up what holders have out.
type tally struct {
	v       *view
	holders map[lease.Holder]*pb.HolderStatus
	take    func(*pb.Grant) // gets the grants; nil: nobody does

	// The grants of a holder in a shard follow each other.
	shard  uint32
	last   lease.Holder
	lowest uint64
	status *pb.HolderStatus
}

// heard takes a stored fence, and notes it in those of the shard unless they are nil.
func (t *tally) heard(kv store.KeyValue, fences map[lease.Holder]uint64) error {
	f, err := record.Decode[record.Fence](kv)
	if err != nil {
		return t.v.damaged(err)
	}
	holder := lease.Holder{Region: f.Region, Instance: f.Instance}
	if h := t.holders[holder]; h != nil {
		h.LastHeardUnixMs = max(h.LastHeardUnixMs, f.HeardUnixMs)
	}
	if fences != nil {
		fences[holder] = f.MinEpoch
	}
	return nil
}

// add takes a stored grant of the shard.
func (t *tally) add(id uint32, r record.Grant) error {
	if earlier, err := t.v.earlier(r); err != nil || earlier {
		return err
	}
	if h := (lease.Holder{Region: r.Region, Instance: r.Instance}); h != t.last || id != t.shard {
		lowest, err := t.v.minEpoch(id, h)
		if err != nil {
			return err
		}
		t.shard, t.last, t.lowest, t.status = id, h, lowest, t.holders[h]
	}
	if t.status == nil {
		return nil
	}
	if outstanding := r.Issued - r.Spent - r.Returned; r.Epoch < t.lowest {
		t.status.OrphanedGrants++
		t.status.OrphanedTokens += outstanding
	} else {
		t.status.LiveGrants++
		t.status.LiveTokens += outstanding
	}
	if t.take != nil {
		t.take(shard.GrantToWire(r, t.lowest))
	}
	return nil
}
