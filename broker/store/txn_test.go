package store_test

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/broker/store"
)

// Size must never be below what etcd counts, or a transaction that Validate
// passes could be refused there.
func TestSizeIsAnUpperBound(t *testing.T) {
	for _, length := range []int{1, 100, 200, 20000, 1 << 20} {
		long := strings.Repeat("k", length)
		txn := store.Txn{
			If: []store.Compare{{Key: long, Target: store.ModRevision, Revision: 1<<63 - 1}},
			Then: []store.Op{
				{Kind: store.OpPut, Key: long, Value: make([]byte, length), Session: 1<<63 - 1},
				{Kind: store.OpRange, Key: long, End: long, Limit: 1<<63 - 1},
			},
		}
		if encoded := proto.Size(encode(txn)); txn.Size() < encoded {
			t.Errorf("length %d: size %d, but %d bytes encoded", length, txn.Size(), encoded)
		}
	}
}

// encode is a request with the largest numbers in every field.
func encode(txn store.Txn) *pb.InternalRaftRequest {
	c, put, read := txn.If[0], txn.Then[0], txn.Then[1]
	return &pb.InternalRaftRequest{
		Header: &pb.RequestHeader{ID: 1<<64 - 1, Username: strings.Repeat("u", 128), AuthRevision: 1<<64 - 1},
		Txn: &pb.TxnRequest{
			Compare: []*pb.Compare{{
				Key: []byte(c.Key), Target: pb.Compare_MOD, Result: pb.Compare_NOT_EQUAL,
				TargetUnion: &pb.Compare_ModRevision{ModRevision: c.Revision},
			}},
			Success: []*pb.RequestOp{
				{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
					Key: []byte(put.Key), Value: put.Value, Lease: int64(put.Session),
				}}},
				{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
					Key: []byte(read.Key), RangeEnd: []byte(read.End), Limit: read.Limit,
				}}},
			},
		},
	}
}
