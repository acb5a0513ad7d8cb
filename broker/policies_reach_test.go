package broker

import (
	"context"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// deaf is a store in memory whose watches deliver nothing.
type deaf struct{ *store.Memory }

func (deaf) Watch(ctx context.Context, _, _ string, _ int64) <-chan store.WatchBatch {
	batches := make(chan store.WatchBatch)
	go func() {
		<-ctx.Done()
		close(batches)
	}()
	return batches
}

// hints counts the hints that a holder gets of one shard.
type hints struct {
	mu   sync.Mutex
	keys []lease.Key
}

func (h *hints) take(keys []lease.Key, _ bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys = append(h.keys, keys...)
}

func (h *hints) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.keys)
}

// A change reaches a limiter that holds credit, asks for nothing, and whose budget has
// left the broker's memory, within 30 s: with the store's watch at once, and without.
func TestPoliciesReachLimiters(t *testing.T) {
	for name, change := range map[string]*pb.ApplyPoliciesRequest{
		"for everybody": {Policies: []*pb.Policy{bucket(20, 0)}},
		"of a plan":     {Plans: []*pb.Plan{plan("free", bucket(20, 0))}},
		"of an account": {Accounts: []*pb.AccountPolicies{account("acme", "", bucket(20, 0))}},
	} {
		for watch, within := range map[bool]time.Duration{true: time.Second, false: 30 * time.Second} {
			t.Run(name+map[bool]string{true: ", watched", false: ", polled"}[watch], func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					mem := store.NewMemory()
					s := newLocalSite(t, mem, 1)
					n := s.start("a", func(c *Config) {
						if !watch {
							c.Store = deaf{mem}
						}
					})
					pass(10 * time.Second)
					n.change(&pb.ApplyPoliciesRequest{Policies: []*pb.Policy{bucket(40, 0)}, Plans: []*pb.Plan{plan("free")}, Accounts: []*pb.AccountPolicies{account("acme", "free")}})
					pass(30 * time.Second)
					h := n.join("eu", "limiter-0").hears("acme", 1)
					grant := h.ask("acme", 10).GetGrantId()
					pass(90 * time.Second)
					got := &hints{}
					n.ownership.runner(0).insist(func(s *shard.Shard, _ shard.Moment) {
						if s.Budgets() != 0 {
							t.Errorf("%d budgets are in memory", s.Budgets())
						}
						s.Subscribe(lease.Holder{Region: "eu", Instance: "limiter-0"}, h.epoch, got.take)
					})
					version := n.change(change).GetVersion()
					for waited := time.Duration(0); got.count() == 0; waited += time.Second {
						if waited > within {
							t.Fatalf("nothing was heard in %v", waited)
						}
						pass(time.Second)
					}
					if status := n.status(version); status.GetInstalled() || len(status.GetShardsBehind()) != 0 || len(status.GetHoldersBehind()) != 1 {
						t.Errorf("before the limiter has told: %v", status)
					}
					if p := h.ask("acme", 0, grant).GetPolicy(); p.GetVersion() != version || p.GetTokenBucket().GetCapacityTokens() != 20 {
						t.Errorf("the answer is under %v", p)
					}
					req := h.asking("acme", 0, grant)
					req.Budgets[0].PolicyVersion = version
					h.sync(req)
					if status := n.status(version); !status.GetInstalled() || !status.GetSettled() {
						t.Errorf("when it has told: %v", status)
					}
				})
			})
		}
	}
}

// The status names the shards and holders that are behind, the dark one among them,
// and holders are told with what they have installed.
func TestPolicyStatusNamesWhoIsMissing(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, replaced := populated(t, st)
		status := n.status(0)
		if !status.GetInstalled() || !status.GetSettled() || status.GetVersion() != 1 {
			t.Fatalf("at first: %v", status)
		}
		n.change(&pb.ApplyPoliciesRequest{Plans: []*pb.Plan{plan("small", bucket(8, 0))}, Accounts: []*pb.AccountPolicies{account("c", "small")}})
		h := n.join("us", "limiter-1")
		for _, name := range []string{"a", "b", "c", "d", "e/x"} {
			h.hears(name, map[bool]int64{true: 2, false: 1}[name == "c"])
		}
		for len(status.GetHoldersBehind()) != 3 || len(status.GetShardsBehind()) != 0 {
			if status = n.status(2); s.ctx.Err() != nil {
				t.Fatalf("status %v", status)
			}
		}
		dark := status.GetHoldersBehind()[1]
		if holderOf(dark.GetHolder()) != holderOf(replaced.name) || dark.GetGrants() != 1 || dark.GetOutstandingTokens() != 10 || dark.GetPolicyVersion() != 1 {
			t.Errorf("the dark holder is told as %v", dark)
		}
		if len(status.GetBudgetsAbove()) != 1 || status.GetBudgetsAboveCount() != 1 {
			t.Fatalf("above: %v", status)
		}
		above := status.GetBudgetsAbove()[0]
		if above.GetKey().GetAccount() != "c" || above.GetCapacityTokens() != 8 || above.GetReservedTokens() != 20 || len(above.GetHolders()) != 3 {
			t.Errorf("above: %v", above)
		}
		for _, held := range above.GetHolders() {
			if want := map[bool]int64{true: 10, false: 0}[holderOf(held.GetHolder()) == holderOf(replaced.name)]; held.GetOrphanedTokens() != want {
				t.Errorf("%v, want %d orphaned", held, want)
			}
		}
		list, err := n.admin.ListHolders(s.ctx, connect.NewRequest(&pb.ListHoldersRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		for _, status := range list.Msg.GetHolders() {
			version, behind := int64(1), int64(1)
			switch holderOf(status.GetHolder()) {
			case holderOf(replaced.name):
				behind = 0 // its grant is orphaned
			case holderOf(h.name):
				version, behind = 2, 0 // it has nothing out
			}
			if status.GetPolicyVersion() != version || status.GetGrantsBehind() != behind {
				t.Errorf("%v, want version %d and %d behind", status, version, behind)
			}
			one, err := n.admin.ShowHolder(s.ctx, connect.NewRequest(&pb.ShowHolderRequest{Holder: status.GetHolder()}))
			if err != nil || one.Msg.GetStatus().GetPolicyVersion() != version || one.Msg.GetStatus().GetGrantsBehind() != behind {
				t.Errorf("shown: %v, %v", one, err)
			}
		}
		_, err = n.admin.ShowPolicyStatus(s.ctx, connect.NewRequest(&pb.ShowPolicyStatusRequest{Version: 3}))
		requireCode(t, err, connect.CodeNotFound)
	})
}
