package broker

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// watched is a stream of hints. Beats are left out.
type watched struct {
	hints chan *pb.WatchResponse
	err   chan error
}

// watch subscribes at a broker, and returns when the owner has the subscription.
func (h *holder) watch(owner *node, account string) *watched {
	h.node.site.t.Helper()
	w := &watched{hints: make(chan *pb.WatchResponse, 100), err: make(chan error, 1)}
	ctx, cancel := context.WithCancel(h.node.site.ctx)
	h.node.site.t.Cleanup(cancel)
	shardID := h.shardOf(account)
	before := owner.subscribers(shardID)
	go func() {
		stream, err := h.node.broker.Watch(ctx, connect.NewRequest(&pb.WatchRequest{ClusterId: h.node.ClusterID(), Holder: h.name, Epoch: h.epoch, Shard: shardID}))
		if err != nil {
			w.err <- err
			return
		}
		defer func() { _ = stream.Close() }()
		for stream.Receive() {
			if msg := stream.Msg(); len(msg.GetKeys()) > 0 || msg.GetFenced() {
				w.hints <- msg
			}
		}
		w.err <- stream.Err()
	}()
	for owner.subscribers(shardID) == before {
	}
	return w
}

// subscribers is how many watch a shard at this node.
func (n *node) subscribers(id uint32) int {
	count := make(chan int, 1)
	n.ownership.runner(id).insist(func(s *shard.Shard, _ shard.Moment) { count <- s.Subscribers() })
	if n.site.ctx.Err() != nil {
		n.site.t.Fatal("waited in vain")
	}
	return <-count
}

func (w *watched) next(s *site) *pb.WatchResponse {
	s.t.Helper()
	select {
	case hint := <-w.hints:
		return hint
	case err := <-w.err:
		s.t.Fatalf("the stream ended: %v", err)
	case <-s.ctx.Done():
		s.t.Fatal("waited in vain")
	}
	return nil
}

// Hints name what to sync: credit that others starve for, a policy that has
// changed, an epoch that was replaced.
func TestWatchHints(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, h := one(t, st, bucket(10, 0))
		h.ask("acme", 10)
		w := h.watch(n, "acme")

		n.join("us", "limiter-0").ask("acme", 4)
		if hint := w.next(s); len(hint.GetKeys()) != 1 || hint.GetKeys()[0].GetAccount() != "acme" || hint.GetFenced() {
			t.Errorf("credit is wanted elsewhere: %v", hint)
		}
		n.apply(bucket(8, 0))
		if hint := w.next(s); len(hint.GetKeys()) != 1 || hint.GetKeys()[0].GetAccount() != "acme" {
			t.Errorf("the policy has changed: %v", hint)
		}
		n.join("eu", "limiter-0", h.epoch).ask("beta", 1)
		if hint := w.next(s); !hint.GetFenced() {
			t.Errorf("the epoch was replaced: %v", hint)
		}
	})
}

// A policy that was applied between the reading of the shard and the start of
// the watch is not missed.
func TestPolicyBeforeTheWatch(t *testing.T) {
	late := &lateWatch{Memory: store.NewMemory(), proceed: make(chan struct{})}
	s := newSite(t, late, 1)
	n := s.start("a").ready()
	h := n.join("eu", "limiter-0")
	if answer := h.ask("acme", 1); answer.GetShortage() != pb.Shortage_SHORTAGE_NO_POLICY {
		t.Fatalf("without a policy: %v", answer)
	}
	n.apply(bucket(10, 0))
	close(late.proceed)
	h.hears("acme", 1)
}

// lateWatch is a store whose watches begin when the test says so.
type lateWatch struct {
	*store.Memory
	proceed chan struct{}
}

func (l *lateWatch) Watch(ctx context.Context, key, end string, after int64) <-chan store.WatchBatch {
	select {
	case <-l.proceed:
	case <-ctx.Done():
	}
	return l.Memory.Watch(ctx, key, end, after)
}

// The stream ends when the shard moves, and when the caller leaves the owner
// forgets the subscription.
func TestWatchEnds(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		_, n, h := one(t, st, bucket(10, 0))
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := n.broker.Watch(ctx, connect.NewRequest(&pb.WatchRequest{ClusterId: h.node.ClusterID(), Holder: h.name, Epoch: h.epoch, Shard: 0}))
		if err != nil || !stream.Receive() || len(stream.Msg().GetKeys()) > 0 || n.subscribers(0) != 1 {
			t.Fatalf("subscribed: %v, %v", err, stream)
		}
		cancel()
		for n.subscribers(0) != 0 {
		}
		_ = stream.Close()

		w := h.watch(n, "acme")
		n.ownership.giveUp(t.Context(), 0)
		requireCode(t, <-w.err, connect.CodeUnavailable)
	})
}

// A watch of a shard that does not exist is refused.
func TestWatchWrongShard(t *testing.T) {
	_, n, h := one(t, store.NewMemory(), bucket(10, 0))
	stream, err := n.broker.Watch(t.Context(), connect.NewRequest(&pb.WatchRequest{ClusterId: h.node.ClusterID(), Holder: h.name, Epoch: 1, Shard: 1}))
	if err == nil {
		stream.Receive()
		err = stream.Err()
		_ = stream.Close()
	}
	requireCode(t, err, connect.CodeInvalidArgument)
}
