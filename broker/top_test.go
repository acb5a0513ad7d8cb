package broker

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func (n *node) top(order pb.BudgetOrder, limit uint32) *pb.TopBudgetsResponse {
	n.site.t.Helper()
	resp, err := n.admin.TopBudgets(n.site.ctx, connect.NewRequest(&pb.TopBudgetsRequest{Order: order, Limit: limit}))
	if err != nil {
		n.site.t.Fatal(err)
	}
	return resp.Msg
}

// The busiest and the most starved budgets of all brokers, in order.
func TestTopBudgets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 8)
		n, m := s.start("a"), s.start("b")
		pass(10 * time.Second)
		n.ready()
		m.ready()
		lapsing := bucket(100, 0)
		lapsing.Reclaim, lapsing.MaxStalenessNs, lapsing.ReclaimMarginNs = pb.Reclaim_RECLAIM_DEADLINE, int64(time.Hour), int64(time.Minute)
		n.apply(lapsing)
		h := n.join("eu", "limiter-0")
		grants := map[string]string{}
		for id := range uint32(8) {
			account := accountIn(id, 8)
			grants[account] = h.hears(account, 1).ask(account, 50).GetGrantId()
		}
		for second := range int64(10) { // account i spends i a second
			pass(time.Second)
			for id := range int64(5) {
				account := accountIn(uint32(id), 8)
				report := h.asking(account, 0, grants[account])
				report.Budgets[0].WantTokens, report.Budgets[0].SpentTokens = 90, id*(second+1)
				h.sync(report)
			}
		}
		busiest := m.top(pb.BudgetOrder_BUDGET_ORDER_BUSIEST, 3)
		if len(busiest.GetBudgets()) != 3 || len(busiest.GetShardsMissing()) != 0 {
			t.Fatalf("busiest %v", busiest)
		}
		for i, b := range busiest.GetBudgets() {
			rate := float64(4-i) * 0.66 // of a rate that has lasted for as long as it is averaged over
			if want := accountIn(uint32(4-i), 8); b.GetKey().GetAccount() != want || b.GetCapacityTokens() != 100 || b.GetReclaim() != pb.Reclaim_RECLAIM_DEADLINE || math.Abs(b.GetSpentTokensPerSecond()-rate) > rate/10 {
				t.Errorf("rank %d is not %s at %v: %v", i, want, rate, b)
			}
		}
		pass(time.Minute)
		if quiet := m.top(pb.BudgetOrder_BUDGET_ORDER_BUSIEST, 1).GetBudgets(); len(quiet) > 0 && quiet[0].GetSpentTokensPerSecond() > 0.1 {
			t.Errorf("a minute later: %v", quiet)
		}

		ctx := s.ctx
		var waits sync.WaitGroup
		for i := range 3 { // they wait for what the first holder has
			other := n.join("us", fmt.Sprint("limiter-", i)).hears(accountIn(7, 8), 1)
			req := other.asking(accountIn(7, 8), 90)
			req.WaitMs = 60_000
			waits.Go(func() { _, _ = other.node.broker.Sync(ctx, connect.NewRequest(req)) })
		}
		pass(100 * time.Millisecond)
		starved := m.top(pb.BudgetOrder_BUDGET_ORDER_STARVED, 0)
		if len(starved.GetBudgets()) == 0 || starved.GetBudgets()[0].GetKey().GetAccount() != accountIn(7, 8) || starved.GetBudgets()[0].GetWaitingHolders() != 3 || starved.GetBudgets()[0].GetWantedTokens() < 180 {
			t.Errorf("starved %v", starved)
		}
		waits.Wait()
	})
}

// Shards whose owner does not answer are named.
func TestTopBudgetsMissing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 8)
		n, m := s.start("a"), s.start("b")
		pass(10 * time.Second)
		n.ready()
		s.local.handlers.Delete("b")
		if got := n.top(0, 0); len(got.GetShardsMissing()) != m.ownership.count() || m.ownership.count() == 0 {
			t.Errorf("missing %v, b has %d", got.GetShardsMissing(), m.ownership.count())
		}
	})
}

// What a check of the cluster's health needs, from all brokers and the store.
func TestShowCluster(t *testing.T) {
	s := newSite(t, etcd(t).Store(), 4)
	version := func(c *Config) { c.ProgramVersion = "v9" }
	n := s.start("a", version).ready()
	n.apply(bucket(40, 0))
	m := s.serve("b") // not live: it never ran
	resp, err := m.admin.ShowCluster(s.ctx, connect.NewRequest(&pb.ShowClusterRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	c := resp.Msg
	if c.GetClusterId() != n.ClusterID() || c.GetGeneration() != 1 || c.GetShards() != 4 || c.GetBrokerId() != "b" || c.GetProgramVersion() != "" || c.GetPolicyVersion() != 1 || c.GetRevision() == 0 {
		t.Errorf("cluster %v", c)
	}
	if len(c.GetBrokers()) != 1 {
		t.Fatalf("brokers %v", c.GetBrokers())
	}
	if b := c.GetBrokers()[0]; b.GetBrokerId() != "a" || !b.GetReached() || b.GetShards() != 4 || b.GetProgramVersion() != "v9" || b.GetRoundTripNs() <= 0 || time.Since(time.UnixMilli(b.GetUnixMs())).Abs() > time.Minute {
		t.Errorf("broker %v", b)
	}
	if st := c.GetStore(); !st.GetKnown() || len(st.GetMembers()) != 1 || !st.GetMembers()[0].GetReached() || !st.GetMembers()[0].GetLeader() || st.GetMembers()[0].GetVersion() == "" || st.GetMembers()[0].GetSizeBytes() == 0 || len(st.GetAlarms()) != 0 {
		t.Errorf("store %v", st)
	}
	n.close() // it lives, and cannot be reached
	resp, err = m.admin.ShowCluster(s.ctx, connect.NewRequest(&pb.ShowClusterRequest{}))
	if err != nil || len(resp.Msg.GetBrokers()) != 1 || resp.Msg.GetBrokers()[0].GetReached() {
		t.Errorf("unreachable: %v, %v", resp, err)
	}
}
