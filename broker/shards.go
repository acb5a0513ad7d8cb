package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// maxMoveWait is how long MoveShard waits for the new owner.
const maxMoveWait = 30 * time.Second

// ListShards implements tokenleasev1connect.AdminHandler.
func (s adminService) ListShards(ctx context.Context, _ *connect.Request[pb.ListShardsRequest]) (*connect.Response[pb.ListShardsResponse], error) {
	v := s.b.view(ctx)
	unusable := v.past()
	resp := &pb.ListShardsResponse{}
	owners, err := v.owners()
	if err != nil {
		return nil, wireError(err)
	}
	moves, err := v.moves()
	if err != nil {
		return nil, wireError(err)
	}
	for id := range s.b.cluster.Shards {
		status, err := v.shard(id, owners[id], moves[id])
		if err != nil {
			return nil, wireError(err)
		}
		resp.Shards = append(resp.Shards, status)
	}
	resp.Revision, resp.Unusable, resp.UnusableCount = v.revision, unusable.first, unusable.count()
	return connect.NewResponse(resp), nil
}

// shard is where one shard stands.
func (v *view) shard(id uint32, owner record.Owner, move record.Move) (*pb.ShardStatus, error) {
	kv, err := v.get(v.b.layout.Head(id))
	if err != nil {
		return nil, err
	}
	status := &pb.ShardStatus{Shard: id, BrokerId: owner.BrokerID, BrokerUrl: owner.URL, OwnedSinceUnixMs: owner.SinceUnixMs, MovedTo: move.BrokerID}
	if kv == nil {
		return status, nil
	}
	head, err := record.Decode[record.Head](*kv)
	status.Head, status.LedgerNs, status.CommittedUnixMs = kv.ModRevision, head.ClockNs, head.CommittedUnixMs
	status.PolicyVersion = head.PolicyVersion
	return status, v.damaged(err)
}

// owners are the shards' owners.
func (v *view) owners() (map[uint32]record.Owner, error) {
	owners := map[uint32]record.Owner{}
	return owners, v.each(v.b.layout.Owners(), func(kv store.KeyValue) error {
		r, err := record.Decode[record.Owner](kv)
		if err != nil {
			return v.damaged(err)
		}
		owners[r.Shard] = r
		return nil
	})
}

// moves are the shards that operators have given to a broker. A choice that cannot be
// read counts for nothing, as it does for the owners.
func (v *view) moves() (map[uint32]record.Move, error) {
	moves := map[uint32]record.Move{}
	return moves, v.each(v.b.layout.Moves(), func(kv store.KeyValue) error {
		if m, err := moveOf(v.b.layout, kv); err == nil {
			moves[m.Shard] = m
		}
		return nil
	})
}

// moveOf is the stored choice of a broker for a shard.
func moveOf(l record.Layout, kv store.KeyValue) (record.Move, error) {
	m, err := record.Decode[record.Move](kv)
	if err == nil && kv.Key != l.Move(m.Shard) {
		err = fmt.Errorf("the record at %s is of shard %d: %w", kv.Key, m.Shard, record.ErrUnreadable)
	}
	return m, err
}

// MoveShard implements tokenleasev1connect.AdminHandler. It records the choice, and
// waits until the broker that was chosen serves the shard, or the request's time is
// over.
//
// A move changes who is to own a shard, and nothing else: the owner gives up as it
// does for a broker that has joined, and the next one reads what was committed. What
// protects is that every commit compares the ownership and the head, as ever.
func (s adminService) MoveShard(ctx context.Context, req *connect.Request[pb.MoveShardRequest]) (*connect.Response[pb.MoveShardResponse], error) {
	b, m := s.b, req.Msg
	if m.GetShard() >= b.cluster.Shards {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("shard %d: this cluster has the shards 0 to %d", m.GetShard(), b.cluster.Shards-1))
	}
	for {
		done, err := b.move(ctx, m)
		if err != nil {
			return nil, wireError(err)
		}
		if done {
			break
		}
	}
	return b.moved(ctx, m)
}

// move makes one attempt to record the choice; done is false when something changed
// in between.
func (b *Broker) move(ctx context.Context, m *pb.MoveShardRequest) (done bool, err error) {
	v := b.view(ctx)
	key, to := b.layout.Move(m.GetShard()), b.layout.Broker(m.GetToBrokerId())
	was, err := v.get(key)
	if err != nil {
		return false, err
	}
	var before record.Move
	var revision int64
	if was != nil {
		revision = was.ModRevision
		if before, err = moveOf(b.layout, *was); err != nil {
			before = record.Move{} // nobody's choice, which is replaced
		}
	}
	if done, err := v.isMoved(m, was != nil, before.BrokerID); done || err != nil {
		return done, err
	}
	txn := store.Txn{If: []store.Compare{{Key: key, Target: store.ModRevision, Revision: revision}}}
	word := b.word(ctx, m.GetMovedBy(), m.GetBecause())
	after := record.Move{Shard: m.GetShard(), BrokerID: m.GetToBrokerId(), By: word.By, Because: word.Because, UnixMs: word.UnixMs}
	if m.GetToBrokerId() == "" {
		txn.Then = []store.Op{{Kind: store.OpDelete, Key: key}}
	} else {
		live, err := v.get(to)
		if err != nil {
			return false, err
		}
		if live == nil {
			return false, fmt.Errorf("%w: %.80q; `tokenlease doctor` and `tokenlease shards list` name those that are", ErrNoBroker, m.GetToBrokerId())
		}
		txn.If = append(txn.If, store.Compare{Key: to, Target: store.ModRevision, Revision: live.ModRevision})
		txn.Then = []store.Op{{Kind: store.OpPut, Key: key, Value: record.Encode(after)}}
		word.After = after
	}
	if was != nil {
		word.Before = before
	}
	word.Action, word.Subject = "shards.move", fmt.Sprintf("shard %d", m.GetShard())
	txn.Then = append(txn.Then, b.audit(word))
	res, err := b.cfg.Store.Txn(ctx, txn)
	return res.Succeeded, err
}

// isMoved says that nothing is to be recorded: the choice is that already, and the shard
// where it is to be. A broker that has taken the shard in place of that one keeps it
// until the choice is made again.
func (v *view) isMoved(m *pb.MoveShardRequest, stored bool, to string) (bool, error) {
	if m.GetToBrokerId() == "" {
		return !stored, nil
	}
	owners, err := v.owners()
	return to == m.GetToBrokerId() && owners[m.GetShard()].BrokerID == to, err
}

// moved waits until the shard is where it is to be.
func (b *Broker) moved(ctx context.Context, m *pb.MoveShardRequest) (*connect.Response[pb.MoveShardResponse], error) {
	timer := b.cfg.Clock.Timer(moveWait(ctx))
	defer timer.Stop()
	for {
		_, _, changed := b.ownership.route(m.GetShard())
		status, there, err := b.view(ctx).moved(m)
		if err != nil {
			return nil, wireError(err)
		}
		if there {
			return connect.NewResponse(&pb.MoveShardResponse{Shard: status, Moved: m.GetToBrokerId() != ""}), nil
		}
		select {
		case <-changed:
		case <-b.ownership.ended:
			return nil, wireError(ErrStopping)
		case <-timer.C:
			return connect.NewResponse(&pb.MoveShardResponse{Shard: status}), nil
		case <-ctx.Done():
			return nil, wireError(ctx.Err())
		}
	}
}

// moveWait is how long to wait for a move: until shortly before the caller gives up.
func moveWait(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return maxMoveWait
	}
	return min(maxMoveWait, time.Until(deadline)*9/10)
}

// moved says whether the shard is owned by the broker that was named, or by the one
// that the cluster chooses if none was.
func (v *view) moved(m *pb.MoveShardRequest) (*pb.ShardStatus, bool, error) {
	owners, err := v.owners()
	if err != nil {
		return nil, false, err
	}
	moves, err := v.moves()
	if err != nil {
		return nil, false, err
	}
	brokers, err := v.brokers()
	if err != nil {
		return nil, false, err
	}
	status, err := v.shard(m.GetShard(), owners[m.GetShard()], moves[m.GetShard()])
	return status, status.GetBrokerId() != "" && status.GetBrokerId() == chosen(m.GetShard(), brokers, moves[m.GetShard()].BrokerID), err
}

// chosen is the broker that a shard is to belong to: the one that an operator has
// given it to, while that is live, and otherwise the preferred one.
func chosen(id uint32, brokers []record.Broker, moved string) string {
	if moved != "" && slices.ContainsFunc(brokers, func(b record.Broker) bool { return b.ID == moved }) {
		return moved
	}
	return preferred(id, brokers)
}
