package broker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/etcdstore"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const benchHolders = 512

// BenchmarkGrants is what one broker does on an embedded etcd with fsync, for
// many holders at once. One operation settles what was spent of a grant and
// tops it up: a put of the budget and one of the grant. Beside it, in the same
// run and on the same kind of etcd, as many puts a transaction, by as many
// committers, guarded by a chained head: what the store gives at best.
func BenchmarkGrants(b *testing.B) {
	for _, shards := range []uint32{1, 16} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			puts, rate := 100.0, 0.0
			b.Run("runner", func(b *testing.B) {
				puts, rate = benchmarkGrants(b, shards, func(n *node) syncer {
					return func(ctx context.Context, req *pb.SyncRequest) (*pb.SyncResponse, error) {
						return n.ownership.runner(req.GetShard()).sync(ctx, req)
					}
				})
			})
			b.Run("connect", func(b *testing.B) {
				benchmarkGrants(b, shards, func(n *node) syncer {
					return func(ctx context.Context, req *pb.SyncRequest) (*pb.SyncResponse, error) {
						resp, err := n.broker.Sync(ctx, connect.NewRequest(req))
						if err != nil {
							return nil, err
						}
						return resp.Msg, nil
					}
				})
			})
			b.Run("raw", func(b *testing.B) { benchmarkRaw(b, int(shards), max(2, int(puts)), rate) })
		})
	}
}

type syncer func(context.Context, *pb.SyncRequest) (*pb.SyncResponse, error)

// counted is a store that counts the puts of commits.
type counted struct {
	store.Store
	commits, puts atomic.Int64
}

func (c *counted) Txn(ctx context.Context, txn store.Txn) (store.TxnResult, error) {
	if writes(txn) {
		c.commits.Add(1)
		c.puts.Add(int64(len(txn.Then)))
	}
	return c.Store.Txn(ctx, txn)
}

// benchmarkGrants returns puts a commit and puts a second.
func benchmarkGrants(b *testing.B, shards uint32, by func(*node) syncer) (putsPerCommit, putsPerSecond float64) {
	st := &counted{Store: durable(b)}
	s := newSite(b, st, shards)
	s.ctx = b.Context()
	n := s.start("a").ready()
	n.apply(bucket(1_000_000_000, 1_000_000_000))
	requests := make([]*pb.SyncRequest, benchHolders)
	sync1 := by(n)
	for i := range requests {
		h := n.join("eu", fmt.Sprint("limiter-", i))
		account := accountIn(uint32(i)%shards, shards) + fmt.Sprint("-", i)
		requests[i] = h.hears(account, 1).asking(account, 10)
		requests[i].Shard = h.shardOf(account)
	}
	var next atomic.Int64
	var all sync.WaitGroup
	st.commits.Store(0)
	st.puts.Store(0)
	b.ResetTimer()
	for _, req := range requests {
		all.Go(func() {
			report := req.GetBudgets()[0]
			for next.Add(1) <= int64(b.N) {
				resp, err := sync1(b.Context(), req)
				if err != nil {
					b.Error(err)
					return
				}
				answer := resp.GetBudgets()[0]
				if answer.GetIssuedTokens() <= report.GetSpentTokens() {
					b.Errorf("nothing was granted: %v", answer)
					return
				}
				req.HighestHead = resp.GetHead()
				report.Sequence++
				report.GrantId, report.SpentTokens = answer.GetGrantId(), answer.GetIssuedTokens()
			}
		})
	}
	all.Wait()
	b.StopTimer()
	seconds := b.Elapsed().Seconds()
	putsPerCommit = float64(st.puts.Load()) / float64(max(1, st.commits.Load()))
	putsPerSecond = float64(st.puts.Load()) / seconds
	b.ReportMetric(float64(b.N)/seconds, "grants/s")
	b.ReportMetric(putsPerCommit, "puts/commit")
	b.ReportMetric(putsPerSecond, "puts/s")
	return putsPerCommit, putsPerSecond
}

// benchmarkRaw is the store alone. One operation is one transaction.
func benchmarkRaw(b *testing.B, committers, puts int, grantPuts float64) {
	st := durable(b)
	var next atomic.Int64
	var all sync.WaitGroup
	value := make([]byte, 250) // about the size of a budget's or a grant's record
	b.ResetTimer()
	for c := range committers {
		all.Go(func() {
			head := int64(0)
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				at := fmt.Sprintf("/raw/%d/head", c)
				txn := store.Txn{If: []store.Compare{{Key: at, Target: store.ModRevision, Revision: head}}}
				for p := range puts - 1 {
					k := fmt.Sprintf("/raw/%d/budgets/%04d", c, (int(i)*puts+p)%2000)
					txn.Then = append(txn.Then, store.Op{Kind: store.OpPut, Key: k, Value: value})
				}
				txn.Then = append(txn.Then, store.Op{Kind: store.OpPut, Key: at, Value: value[:80]})
				res, err := st.Txn(b.Context(), txn)
				if err != nil || !res.Succeeded {
					b.Errorf("%+v, %v", res, err)
					return
				}
				head = res.Revision
			}
		})
	}
	all.Wait()
	b.StopTimer()
	rate := float64(b.N*puts) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "puts/s")
	b.ReportMetric(float64(puts), "puts/commit")
	if grantPuts > 0 {
		b.ReportMetric(grantPuts/rate, "grants:raw")
	}
}

// durable is an etcd of its own that waits for the disk.
func durable(b *testing.B) store.Store {
	b.Helper()
	e, err := etcdstore.StartEmbedded(b.Context(), etcdstore.EmbeddedConfig{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	return e.Store()
}
