package broker

import (
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// parked waits until so many requests hang in a shard that this node runs.
func (n *node) parked(id uint32, want int) {
	n.site.t.Helper()
	for {
		waiting := make(chan int, 1)
		n.ownership.runner(id).insist(func(s *shard.Shard, _ shard.Moment) { waiting <- s.Waiting() })
		if <-waiting == want {
			return
		}
		if n.site.ctx.Err() != nil {
			n.site.t.Fatal("waited in vain")
		}
	}
}

// hang sends a request that may wait, and returns where its answer arrives.
func (h *holder) hang(req *pb.SyncRequest, limit time.Duration) <-chan *pb.SyncResponse {
	req.WaitMs = uint32(limit.Milliseconds())
	answer := make(chan *pb.SyncResponse, 1)
	go func() {
		resp, err := h.node.broker.Sync(h.node.site.ctx, connect.NewRequest(req))
		if err != nil {
			h.node.site.t.Errorf("a hanging request: %v", err)
			answer <- nil
			return
		}
		answer <- resp.Msg
	}()
	return answer
}

// A starved holder's hanging request is answered by what another gives back.
func TestHangUntilReturn(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, h := one(t, st, bucket(10, 0))
		all := h.ask("acme", 10)
		starved := n.join("us", "limiter-0")
		answer := starved.hang(starved.asking("acme", 4), time.Minute)
		n.parked(0, 1)
		back := h.asking("acme", 4, all.GetGrantId())
		back.Budgets[0].ReturnedTokens = 6
		h.sync(back)
		if got := (<-answer).GetBudgets()[0]; got.GetIssuedTokens() != 4 || got.GetShortage() != pb.Shortage_SHORTAGE_UNSPECIFIED {
			t.Errorf("woken with %v, want 4", got)
		}
		s.requireBalance("acme", 2, 8)
	})
}

// Refill answers it as well, no earlier than it has earned what is needed.
func TestHangUntilRefill(t *testing.T) {
	_, n, h := one(t, etcd(t).Store(), bucket(40, 50))
	settle := h.asking("acme", 0, h.ask("acme", 40).GetGrantId())
	settle.Budgets[0].SpentTokens = 40
	starved := n.join("us", "limiter-0")
	start := time.Now() // all is out until the settlement, so nothing has been earned
	h.sync(settle)
	got := (<-starved.hang(starved.asking("acme", 20), time.Minute)).GetBudgets()[0]
	if took := time.Since(start); got.GetIssuedTokens() != 20 || took < 400*time.Millisecond {
		t.Errorf("woken after %v with %v, want 20 after 400ms", took, got)
	}
}

// It ends by itself, with what it would have been told at once.
func TestHangUntilDeadline(t *testing.T) {
	_, n, h := one(t, store.NewMemory(), bucket(10, 0))
	wants := h.asking("acme", 10)
	wants.Budgets[0].NeedTokens = 0
	h.sync(wants)
	starved := n.join("us", "limiter-0")
	got := (<-starved.hang(starved.asking("acme", 8), 20*time.Millisecond)).GetBudgets()[0] // of two who want all, one gets half
	if got.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || got.GetHasRetry() {
		t.Errorf("at the deadline: %v, want exhausted, with nothing to wait for", got)
	}
	above := starved.hang(starved.asking("acme", 11), time.Minute)
	if got := (<-above).GetBudgets()[0]; got.GetShortage() != pb.Shortage_SHORTAGE_ABOVE_CAPACITY {
		t.Errorf("a need above the capacity: %v, want no wait", got)
	}
}

// A newer request of the same budget takes its place.
func TestHangSuperseded(t *testing.T) {
	_, n, h := one(t, store.NewMemory(), bucket(10, 0))
	h.ask("acme", 10)
	starved := n.join("us", "limiter-0")
	older := starved.hang(starved.asking("acme", 4), time.Minute)
	n.parked(0, 1)
	newer := starved.ask("acme", 3)
	if got := (<-older).GetBudgets()[0]; got.GetShortage() != pb.Shortage_SHORTAGE_SUPERSEDED {
		t.Errorf("the older request: %v, want it superseded", got)
	}
	if newer.GetShortage() != pb.Shortage_SHORTAGE_RECALLING {
		t.Errorf("the newer one: %v, want credit called back for it", newer)
	}
}

// CASE 19: a budget is exhausted, then its capacity is raised: waiters go on.
func TestCase19CapacityRaised(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		_, n, h := one(t, st, bucket(10, 1000))
		h.ask("acme", 10)
		starved := n.join("us", "limiter-0")
		answer := starved.hang(starved.asking("acme", 4), time.Minute)
		n.parked(0, 1)
		n.apply(bucket(20, 1000))
		if got := (<-answer).GetBudgets()[0]; got.GetIssuedTokens() != 4 || got.GetPolicy().GetVersion() != 2 {
			t.Errorf("woken with %v, want 4 under version 2", got)
		}
	})
}
