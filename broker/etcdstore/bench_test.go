package etcdstore

import (
	"fmt"
	"testing"

	"github.com/tokenlease/tokenlease/broker/store"
)

// BenchmarkRawBatchedPuts is the speed limit of one shard: one committer that
// writes a batch of records and the shard's head in one transaction, guarded by
// the head, with fsync. One operation is one transaction.
func BenchmarkRawBatchedPuts(b *testing.B) {
	for _, puts := range []int{8, 64} {
		b.Run(fmt.Sprintf("puts=%d", puts), func(b *testing.B) {
			s := startForBenchmark(b)
			head := int64(0)
			batch := 0
			for b.Loop() {
				head = commit(b, s, head, batch, puts)
				batch++
			}
			b.ReportMetric(float64(puts)*float64(b.N)/b.Elapsed().Seconds(), "puts/s")
		})
	}
}

// BenchmarkGuardedRead is what an answer without changes costs: one guard, in
// the log, with fsync.
func BenchmarkGuardedRead(b *testing.B) {
	s := startForBenchmark(b)
	head := commit(b, s, 0, 0, 1)
	guard := store.Txn{If: []store.Compare{{Key: "head", Target: store.ModRevision, Revision: head}}}
	for b.Loop() {
		if res := mustTxn(b, s, guard); !res.Succeeded {
			b.Fatal("the guard does not hold")
		}
	}
}

func startForBenchmark(b *testing.B) *Store {
	b.Helper()
	e, err := StartEmbedded(b.Context(), EmbeddedConfig{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	return e.Store()
}

// commit writes one batch of 100-byte records over 10,000 keys, and the head.
func commit(b *testing.B, s *Store, head int64, batch, puts int) int64 {
	b.Helper()
	txn := store.Txn{If: []store.Compare{{Key: "head", Target: store.ModRevision, Revision: head}}}
	for i := range puts {
		key := fmt.Sprintf("budget/%04d", (batch*puts+i)%10_000)
		txn.Then = append(txn.Then, store.Op{Kind: store.OpPut, Key: key, Value: make([]byte, 100)})
	}
	txn.Then = append(txn.Then, store.Op{Kind: store.OpPut, Key: "head", Value: []byte("1")})
	res := mustTxn(b, s, txn)
	if !res.Succeeded {
		b.Fatal("a commit was refused")
	}
	return res.Revision
}
