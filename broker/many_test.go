package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// fill stores what so many grants look like, without the time that granting takes.
func (s *site) fill(n *node, holders, budgets int) {
	s.t.Helper()
	var ops []store.Op
	put := func(key string, value any) {
		ops = append(ops, store.Op{Kind: store.OpPut, Key: key, Value: record.Encode(value)})
		if len(ops) == 100 {
			s.flush(&ops)
		}
	}
	now := time.Now().UnixMilli()
	names := make([]lease.Holder, holders)
	for i := range names {
		names[i] = lease.Holder{Region: fmt.Sprint("region-", i%5), Instance: fmt.Sprint("limiter-", i)}
		epoch := uint64(1)
		if i%10 == 0 {
			epoch = 2
		}
		put(s.layout.Holder(names[i]), record.Registration{Region: names[i].Region, Instance: names[i].Instance, Epoch: epoch, StartNonce: randomID(), RegisteredUnixMs: now})
	}
	rule := lease.Rule{Kind: lease.TokenBucket, Capacity: 1_000_000, MaxSharePercent: 100, Version: 1}
	next := make([]uint64, s.shards)
	for b := range budgets {
		key := lease.Key{Account: fmt.Sprint("account-", b), Operation: operation}
		id := lease.ShardOf(key, s.shards)
		l := lease.NewLedger(key, rule, 0)
		for i, h := range names {
			next[id]++
			grant := lease.GrantID{Generation: 1, Shard: id, Sequence: next[id]}
			if err := l.Open(0, grant, h, 1, 10); err != nil {
				s.t.Fatal(err)
			}
			opened := now
			if i == 1 {
				opened -= time.Hour.Milliseconds()
			}
			put(s.layout.Grants(id)+record.GrantPath(h, 1, grant), record.FromGrant(key, *l.Grant(grant), opened))
		}
		put(s.layout.Budget(id, key), record.FromLedger(&l))
	}
	for id, sequence := range next {
		put(s.layout.Head(uint32(id)), record.Head{NextGrant: sequence + 1, CommittedUnixMs: now})
	}
	s.flush(&ops)
}

func (s *site) flush(ops *[]store.Op) {
	s.t.Helper()
	if len(*ops) == 0 {
		return
	}
	if _, err := s.store.Txn(s.ctx, store.Txn{Then: *ops}); err != nil {
		s.t.Fatal(err)
	}
	*ops = (*ops)[:0]
}

// reads counts what is read outside of transactions.
type reads struct {
	store.Store
	calls, keys, values atomic.Int64
}

func (r *reads) Range(ctx context.Context, req store.RangeRequest) (store.RangeResult, error) {
	res, err := r.Store.Range(ctx, req)
	r.calls.Add(1)
	r.keys.Add(int64(len(res.KVs)))
	if !req.KeysOnly {
		r.values.Add(int64(len(res.KVs)))
	}
	return res, err
}

// With 25,000 grants a page is filled from a bounded number of reads, whatever is
// filtered; all pages together have what passes, once and in order. Time is measured
// by BenchmarkManyGrants.
func TestListManyGrants(t *testing.T) {
	st := &reads{Store: store.NewMemory()}
	s := newSite(t, st, 4)
	n := s.serve("a")
	s.fill(n, 200, 125)
	orphaned := pb.GrantState_GRANT_STATE_ORPHANED
	live := pb.GrantState_GRANT_STATE_LIVE
	all := s.pagesOf(n, st, &pb.ListGrantsRequest{PageSize: 1000}, 1300)
	if len(all) != 25_000 {
		t.Fatalf("%d grants", len(all))
	}
	now := time.Now().UnixMilli()
	for _, tc := range []struct {
		req  *pb.ListGrantsRequest
		pass func(*pb.Grant) bool
		most int64 // keys read by one call
	}{
		{&pb.ListGrantsRequest{Region: "region-2"}, func(g *pb.Grant) bool { return g.GetHolder().GetRegion() == "region-2" }, 1500},
		{&pb.ListGrantsRequest{Region: "region-2", Instance: "limiter-7"}, func(g *pb.Grant) bool { return g.GetHolder().GetInstance() == "limiter-7" }, 1500},
		{&pb.ListGrantsRequest{Region: "region-2", Instance: "limiter-1"}, func(*pb.Grant) bool { return false }, 1500},
		{&pb.ListGrantsRequest{Instance: "limiter-7"}, func(g *pb.Grant) bool { return g.GetHolder().GetInstance() == "limiter-7" }, maxRead + 1500},
		{&pb.ListGrantsRequest{Account: "account-3"}, func(g *pb.Grant) bool { return g.GetBudget().GetAccount() == "account-3" }, 1500},
		{&pb.ListGrantsRequest{Account: "account-3", Operation: operation, State: orphaned}, func(g *pb.Grant) bool {
			return g.GetBudget().GetAccount() == "account-3" && g.GetState() == orphaned
		}, 1500},
		{&pb.ListGrantsRequest{Account: "nobody"}, func(*pb.Grant) bool { return false }, 1500},
		{&pb.ListGrantsRequest{Operation: "none"}, func(*pb.Grant) bool { return false }, maxRead + 1500},
		{&pb.ListGrantsRequest{State: orphaned}, func(g *pb.Grant) bool { return g.GetState() == orphaned }, maxRead + 1500},
		{&pb.ListGrantsRequest{State: live, Region: "region-0"}, func(g *pb.Grant) bool { return g.GetState() == live && g.GetHolder().GetRegion() == "region-0" }, maxRead + 1500},
		{&pb.ListGrantsRequest{MinAgeMs: 60_000}, func(g *pb.Grant) bool { return g.GetOpenedUnixMs() <= now-60_000 }, maxRead + 1500},
		{&pb.ListGrantsRequest{GrantIdPrefix: "g1-002-000000f"}, func(g *pb.Grant) bool { return strings.HasPrefix(g.GetGrantId(), "g1-002-000000f") }, 9000},
		{&pb.ListGrantsRequest{GrantIdPrefix: "g2"}, func(*pb.Grant) bool { return false }, maxRead + 1500},
		{&pb.ListGrantsRequest{GrantIdPrefix: "nonsense-"}, func(*pb.Grant) bool { return false }, maxRead + 1500},
	} {
		var want []string
		for _, g := range all {
			if tc.pass(g) {
				want = append(want, g.GetGrantId())
			}
		}
		var got []string
		for _, g := range s.pagesOf(n, st, tc.req, tc.most) {
			got = append(got, g.GetGrantId())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %d grants, want %d", tc.req, len(got), len(want))
		}
	}
}

// pagesOf is the whole list, of which no page reads more than most keys.
func (s *site) pagesOf(n *node, st *reads, req *pb.ListGrantsRequest, most int64) []*pb.Grant {
	s.t.Helper()
	var all []*pb.Grant
	for {
		before := st.keys.Load()
		resp, err := n.admin.ListGrants(s.ctx, connect.NewRequest(req))
		if err != nil {
			s.t.Fatal(err)
		}
		if read := st.keys.Load() - before; read > most {
			s.t.Errorf("%v: a page of %d grants took %d keys, want %d at the most", req, len(resp.Msg.GetGrants()), read, most)
		}
		all = append(all, resp.Msg.GetGrants()...)
		if req.PageToken = resp.Msg.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

// What is asked of one holder, one grant or one page of budgets reads little of what is
// stored; holders as a whole read each grant once or twice.
func TestShowAmongManyGrants(t *testing.T) {
	st := &reads{Store: store.NewMemory()}
	s := newSite(t, st, 4)
	n := s.serve("a")
	n.apply(bucket(1_000_000, 0))
	s.fill(n, 100, 100)
	for name, tc := range map[string]struct {
		call         func() error
		keys, values int64 // at the most
	}{
		"show grant": {func() error {
			_, err := n.admin.ShowGrant(s.ctx, connect.NewRequest(&pb.ShowGrantRequest{GrantId: "g1-003-00000100"}))
			return err
		}, 4000, 500},
		"show holder": {func() error {
			_, err := n.admin.ShowHolder(s.ctx, connect.NewRequest(&pb.ShowHolderRequest{Holder: &pb.Holder{Region: "region-1", Instance: "limiter-11"}}))
			return err
		}, 1000, 1000},
		"list holders": {func() error {
			resp, err := n.admin.ListHolders(s.ctx, connect.NewRequest(&pb.ListHoldersRequest{}))
			if err == nil && (len(resp.Msg.GetHolders()) != 100 || resp.Msg.GetHolders()[1].GetLiveGrants()+resp.Msg.GetHolders()[1].GetOrphanedGrants() != 100) {
				t.Errorf("%v", resp)
			}
			return err
		}, 11_000, 11_000},
		"list budgets": {func() error {
			resp, err := n.admin.ListBudgets(s.ctx, connect.NewRequest(&pb.ListBudgetsRequest{PageSize: 10}))
			if err == nil && (len(resp.Msg.GetBudgets()) != 10 || resp.Msg.GetBudgets()[0].GetReservedTokens() != 1000 || resp.Msg.GetBudgets()[0].GetOrphanedTokens() != 100) {
				t.Errorf("%v", resp)
			}
			return err
		}, 12_000, 12_000},
		"search": {func() error {
			resp, err := n.admin.ListBudgets(s.ctx, connect.NewRequest(&pb.ListBudgetsRequest{Search: "COUNT-99"}))
			if err == nil && (len(resp.Msg.GetBudgets()) != 1 || resp.Msg.GetBudgets()[0].GetKey().GetAccount() != "account-99") {
				t.Errorf("%v", resp)
			}
			return err
		}, 1500, 1500},
	} {
		keys, values, calls := st.keys.Load(), st.values.Load(), st.calls.Load()
		if err := tc.call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		keys, values, calls = st.keys.Load()-keys, st.values.Load()-values, st.calls.Load()-calls
		if keys > tc.keys || values > tc.values || calls > 700 {
			t.Errorf("%s reads %d keys, %d of them with their records, in %d calls", name, keys, values, calls)
		}
	}
}

// BenchmarkManyGrants is how long operators wait for answers about a store with
// 100,000 grants.
func BenchmarkManyGrants(b *testing.B) {
	s := newSite(b, etcd(b).Store(), 16)
	s.ctx = b.Context()
	n := s.serve("a")
	n.apply(bucket(1_000_000, 0))
	s.fill(n, 1000, 100)
	ask := func(name string, call func() (int, error)) {
		b.Run(name, func(b *testing.B) {
			begun := cpuTime(b)
			for range b.N {
				if _, err := call(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-begun).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
	list := func(req *pb.ListGrantsRequest) func() (int, error) {
		return func() (int, error) {
			resp, err := n.admin.ListGrants(s.ctx, connect.NewRequest(req))
			if err != nil {
				return 0, err
			}
			return len(resp.Msg.GetGrants()), nil
		}
	}
	ask("list", list(&pb.ListGrantsRequest{}))
	ask("list 1000", list(&pb.ListGrantsRequest{PageSize: 1000}))
	ask("list region", list(&pb.ListGrantsRequest{Region: "region-4"}))
	ask("list instance", list(&pb.ListGrantsRequest{Instance: "limiter-999"}))
	ask("list holder", list(&pb.ListGrantsRequest{Region: "region-4", Instance: "limiter-999"}))
	ask("list account", list(&pb.ListGrantsRequest{Account: "account-99"}))
	ask("list operation", list(&pb.ListGrantsRequest{Operation: "none"}))
	ask("list orphaned", list(&pb.ListGrantsRequest{State: pb.GrantState_GRANT_STATE_ORPHANED, PageSize: 1000}))
	ask("list old", list(&pb.ListGrantsRequest{MinAgeMs: 60_000}))
	ask("list prefix", list(&pb.ListGrantsRequest{GrantIdPrefix: "g1-003-00000f"}))
	ask("holders", func() (int, error) {
		resp, err := n.admin.ListHolders(s.ctx, connect.NewRequest(&pb.ListHoldersRequest{}))
		if err != nil {
			return 0, err
		}
		return len(resp.Msg.GetHolders()), nil
	})
	ask("show holder", func() (int, error) {
		_, err := n.admin.ShowHolder(s.ctx, connect.NewRequest(&pb.ShowHolderRequest{Holder: &pb.Holder{Region: "region-4", Instance: "limiter-999"}}))
		return 0, err
	})
	ask("show grant", func() (int, error) {
		_, err := n.admin.ShowGrant(s.ctx, connect.NewRequest(&pb.ShowGrantRequest{GrantId: "g1-00f-00000fa0"}))
		return 0, err
	})
	ask("budgets", func() (int, error) {
		resp, err := n.admin.ListBudgets(s.ctx, connect.NewRequest(&pb.ListBudgetsRequest{}))
		if err != nil {
			return 0, err
		}
		return len(resp.Msg.GetBudgets()), nil
	})
	ask("show budget", func() (int, error) {
		_, err := n.admin.ShowBudget(s.ctx, connect.NewRequest(&pb.ShowBudgetRequest{Key: key("account-99")}))
		return 0, err
	})
	ask("verify", func() (int, error) {
		resp, err := n.admin.Verify(s.ctx, connect.NewRequest(&pb.VerifyRequest{}))
		if err == nil && len(resp.Msg.GetViolations()) > 0 {
			b.Error(resp.Msg.GetViolations()[0])
		}
		return 0, err
	})
}

// cpuTime is what this process has used, on all cores: it does not count the time that
// others take on a busy machine.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
