package broker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
)

// DefaultShards is the number of shards of a new cluster: enough to spread over
// a few brokers, few enough that their commits are large.
const DefaultShards = 16

// MaxShards is the most that grant IDs have room for.
const MaxShards = 4096

// openCluster reads the cluster record, and writes it if the store is new.
func openCluster(ctx context.Context, st store.Store, layout record.Layout, shards uint32, clock Clock) (record.Cluster, error) {
	if shards == 0 {
		shards = DefaultShards
	}
	if shards > MaxShards {
		return record.Cluster{}, fmt.Errorf("broker: %d shards are more than %d", shards, MaxShards)
	}
	key := layout.Cluster()
	fresh := record.Cluster{ID: randomID(), Shards: shards, Generation: 1, CreatedUnixMs: clock.Now().UnixMilli()}
	for {
		kvs, err := st.Range(ctx, store.RangeRequest{Key: key, End: key + "\x00"})
		if err != nil {
			return record.Cluster{}, fmt.Errorf("broker: the cluster record cannot be read: %w", err)
		}
		if len(kvs.KVs) > 0 {
			return record.Decode[record.Cluster](kvs.KVs[0])
		}
		_, err = st.Txn(ctx, store.Txn{
			If:   []store.Compare{{Key: key, Target: store.CreateRevision, Revision: 0}},
			Then: []store.Op{{Kind: store.OpPut, Key: key, Value: record.Encode(fresh)}},
		})
		if err != nil {
			return record.Cluster{}, fmt.Errorf("broker: the cluster record cannot be written: %w", err)
		}
	}
}

// randomID is 16 hexadecimal digits.
func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
