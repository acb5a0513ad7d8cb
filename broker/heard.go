package broker

import (
	"context"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// heard is when the owners of the shards have heard of holders. They keep that in
// memory: a holder with nothing to record costs no commit. So an owner knows of
// nothing before it began to listen, and who asks is told since when that is.
type heard struct {
	unixMs  int64 // of this broker's wall clock, which the times are told by
	at      map[lease.Holder]int64
	trips   map[lease.Holder]time.Duration // the largest round trip that each has told of late
	since   int64                          // every owner that answered has listened since then
	missing map[uint32]bool
}

// heardHere is what the shards of this broker have heard.
func (b *Broker) heardHere(ctx context.Context) heard {
	h := heard{unixMs: b.cfg.Clock.Now().UnixMilli(), at: map[lease.Holder]int64{}, trips: map[lease.Holder]time.Duration{}, missing: map[uint32]bool{}}
	for id := range b.cluster.Shards {
		h.missing[id] = true
	}
	for id, told := range askShards(ctx, b, func(s *shard.Shard, m shard.Moment) (shard.Heard, bool) {
		return s.Heard(m), true // also while it reads the store again
	}) {
		delete(h.missing, id)
		h.since = max(h.since, h.unixMs-told.Listening.Milliseconds())
		for holder, ago := range told.Ago {
			h.at[holder] = max(h.at[holder], h.unixMs-ago.Milliseconds())
		}
		for holder, took := range told.RoundTrips {
			h.trips[holder] = max(h.trips[holder], took)
		}
	}
	return h
}

// heard asks the owners of all shards.
func (v *view) heard(ctx context.Context) (heard, error) {
	b := v.b
	h := b.heardHere(ctx)
	if len(h.missing) == 0 {
		return h, nil
	}
	brokers, err := v.brokers()
	if err != nil {
		return h, err
	}
	for _, said := range askOthers(ctx, b, brokers, func(ctx context.Context, p peer) (*connect.Response[pb.ListHoldersResponse], error) {
		return p.admin.ListHolders(ctx, passOn(b, &pb.ListHoldersRequest{}))
	}) {
		if said.err == nil {
			h.add(said.answer.Msg)
		}
	}
	return h, nil
}

// add takes over what another broker has told, whose wall clock may be another.
func (h *heard) add(told *pb.ListHoldersResponse) {
	ahead := told.GetUnixMs() - h.unixMs
	missing := told.GetShardsMissing()
	answered := false
	for id := range h.missing {
		if !slices.Contains(missing, id) {
			answered = true
			delete(h.missing, id)
		}
	}
	if answered {
		h.since = max(h.since, told.GetListeningSinceUnixMs()-ahead)
	}
	for _, status := range told.GetHolders() {
		holder := holderOf(status.GetHolder())
		h.at[holder] = max(h.at[holder], status.GetLastHeardUnixMs()-ahead)
		if took := time.Duration(status.GetRoundTripNs()); took > 0 {
			h.trips[holder] = max(h.trips[holder], took)
		}
	}
}

// answer is what this broker's shards have heard, for another broker.
func (h heard) answer() *pb.ListHoldersResponse {
	resp := &pb.ListHoldersResponse{UnixMs: h.unixMs, ListeningSinceUnixMs: h.since, ShardsMissing: slices.Sorted(maps.Keys(h.missing))}
	for holder, at := range h.at {
		resp.Holders = append(resp.Holders, &pb.HolderStatus{
			Holder: &pb.Holder{Region: holder.Region, Instance: holder.Instance}, LastHeardUnixMs: at,
			RoundTripNs: int64(h.trips[holder]),
		})
	}
	return resp
}

// slowest is the longest round trip of a region of late, and which region that is, the
// first of several; 0 if nothing was told. That of a region is the median of its
// limiters, the lower one of two: a single one of several cannot make it longer,
// whatever it tells.
func (h heard) slowest() (region string, took time.Duration) {
	told := map[string][]time.Duration{}
	for holder, t := range h.trips {
		told[holder.Region] = append(told[holder.Region], t)
	}
	for _, name := range sortedKeys(told) {
		trips := slices.Sorted(slices.Values(told[name]))
		if median := trips[(len(trips)-1)/2]; median > took {
			region, took = name, median
		}
	}
	return region, took
}

// listened says that the owner of each shard has answered, and listened for so long:
// who was heard by none of them was silent.
func (h heard) listened(d time.Duration) bool {
	return h.since <= h.unixMs-d.Milliseconds() && len(h.missing) == 0
}

func holderOf(h *pb.Holder) lease.Holder {
	return lease.Holder{Region: h.GetRegion(), Instance: h.GetInstance()}
}
