package broker

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// watchBeat is how often an idle Watch stream carries an empty message, so that
// either side notices a connection that is gone.
const watchBeat = 10 * time.Second

// Mount adds the Broker and Admin services to mux.
func (b *Broker) Mount(mux *http.ServeMux, opts ...connect.HandlerOption) {
	opts = append(opts, connect.WithInterceptors(b.obs.interceptor(), logActs(b.cfg.Logger)))
	mux.Handle(tokenleasev1connect.NewBrokerHandler(brokerService{b}, opts...))
	mux.Handle(tokenleasev1connect.NewAdminHandler(adminService{b: b}, opts...))
}

// brokerService serves the Broker RPCs. Requests have been validated.
type brokerService struct{ b *Broker }

// Register implements tokenleasev1connect.BrokerHandler.
func (s brokerService) Register(ctx context.Context, req *connect.Request[pb.RegisterRequest]) (*connect.Response[pb.RegisterResponse], error) {
	b := s.b
	resp, err := Register(ctx, b.cfg.Store.Txn, b.layout, req.Msg, b.cfg.Clock.Now().UnixMilli())
	if err != nil {
		return nil, wireError(err)
	}
	resp.ClusterId, resp.Shards = b.cluster.ID, b.cluster.Shards
	return connect.NewResponse(resp), nil
}

// Sync implements tokenleasev1connect.BrokerHandler. While the owner of the shard
// cannot be reached it waits, for a while, until another has taken over: to send
// the request again is safe.
func (s brokerService) Sync(ctx context.Context, req *connect.Request[pb.SyncRequest]) (*connect.Response[pb.SyncResponse], error) {
	b := s.b
	if err := b.checkShard(req.Msg); err != nil {
		return nil, err
	}
	for {
		local, remote, err := b.owner(ctx, req.Header(), req.Msg.GetShard())
		if err != nil {
			return nil, wireError(err)
		}
		if local != nil {
			resp, err := local.sync(ctx, req.Msg)
			if err != nil {
				return nil, wireError(err)
			}
			return connect.NewResponse(resp), nil
		}
		resp, err := b.peers.at(remote.URL).broker.Sync(ctx, passOn(b, req.Msg))
		err = relayed(ctx, err)
		if connect.CodeOf(err) != connect.CodeUnavailable || connect.IsWireError(err) || !b.replaced(ctx, req.Msg.GetShard(), remote) {
			return resp, err
		}
	}
}

// checkCluster refuses requests of holders that registered with another cluster.
// Let in, they would make a shard believe that its store was set back, and take
// its word on grants of other ledgers.
func (b *Broker) checkCluster(id string) error {
	if id == b.cluster.ID {
		return nil
	}
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("this is cluster %s, the request is for cluster %.40q: point the limiter at the brokers of one cluster", b.cluster.ID, id))
}

// checkShard refuses requests whose budgets belong to another shard: the sender
// counts the shards of another cluster.
func (b *Broker) checkShard(req *pb.SyncRequest) error {
	if err := b.checkCluster(req.GetClusterId()); err != nil {
		return err
	}
	if req.GetShard() >= b.cluster.Shards {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("shard %d of %d: register again, this is another cluster than the one registered with", req.GetShard(), b.cluster.Shards))
	}
	wrong := func(k *pb.BudgetKey) bool {
		key := lease.Key{Account: k.GetAccount(), Operation: k.GetOperation()}
		return lease.ShardOf(key, b.cluster.Shards) != req.GetShard()
	}
	for _, r := range req.GetBudgets() {
		if wrong(r.GetKey()) {
			return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("a budget of the request does not belong to shard %d", req.GetShard()))
		}
	}
	for _, c := range req.GetCloses() {
		if c.GetKey() == nil {
			return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("a close of the request does not name its budget, without which %.40q would look as if it were gone", c.GetGrantId()))
		}
		if wrong(c.GetKey()) {
			return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("a close of the request does not belong to shard %d", req.GetShard()))
		}
	}
	return nil
}

// Watch implements tokenleasev1connect.BrokerHandler.
func (s brokerService) Watch(ctx context.Context, req *connect.Request[pb.WatchRequest], stream *connect.ServerStream[pb.WatchResponse]) error {
	b := s.b
	if err := b.checkCluster(req.Msg.GetClusterId()); err != nil {
		return err
	}
	if req.Msg.GetShard() >= b.cluster.Shards {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("shard %d of %d", req.Msg.GetShard(), b.cluster.Shards))
	}
	local, remote, err := b.owner(ctx, req.Header(), req.Msg.GetShard())
	if err != nil {
		return wireError(err)
	}
	if local == nil {
		return b.relayWatch(ctx, remote.URL, req.Msg, stream)
	}
	return b.watch(ctx, local, req.Msg, stream)
}

// relayWatch passes the owner's hints on.
func (b *Broker) relayWatch(ctx context.Context, url string, req *pb.WatchRequest, stream *connect.ServerStream[pb.WatchResponse]) error {
	from, err := b.peers.at(url).broker.Watch(ctx, passOn(b, req))
	if err != nil {
		return relayed(ctx, err)
	}
	defer func() { _ = from.Close() }()
	for from.Receive() {
		if err := stream.Send(from.Msg()); err != nil {
			return err
		}
	}
	return relayed(ctx, from.Err())
}

// watch sends the shard's hints until the caller leaves or the shard does. A
// subscriber that is slow loses hints, never credit.
func (b *Broker) watch(ctx context.Context, r *runner, req *pb.WatchRequest, stream *connect.ServerStream[pb.WatchResponse]) error {
	holder := lease.Holder{Region: req.GetHolder().GetRegion(), Instance: req.GetHolder().GetInstance()}
	hints := make(chan *pb.WatchResponse, 16)
	notify := func(keys []lease.Key, fenced bool) {
		resp := &pb.WatchResponse{Fenced: fenced}
		for _, k := range keys {
			resp.Keys = append(resp.Keys, &pb.BudgetKey{Account: k.Account, Operation: k.Operation})
		}
		select {
		case hints <- resp:
		default:
		}
	}
	var sub *shard.Subscription
	subscribed := make(chan struct{})
	if !r.submit(func(s *shard.Shard, _ shard.Moment) {
		sub = s.Subscribe(holder, req.GetEpoch(), notify)
		close(subscribed)
	}) {
		return wireError(ErrOverloaded)
	}
	defer r.insist(func(s *shard.Shard, _ shard.Moment) { s.Unsubscribe(sub) })
	for {
		beat := b.cfg.Clock.Timer(watchBeat)
		next := &pb.WatchResponse{}
		select {
		case <-subscribed: // told at once, so that the caller knows what it may have missed
			subscribed = nil
		case next = <-hints:
		case <-beat.C:
		case <-ctx.Done():
			beat.Stop()
			return wireError(ctx.Err())
		case <-r.stopped:
			beat.Stop()
			return wireError(shard.ErrNotOwner)
		}
		beat.Stop()
		if err := stream.Send(next); err != nil {
			return err
		}
	}
}
