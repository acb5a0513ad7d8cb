package etcdstore

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tokenlease/tokenlease/broker/store"
)

// Txn sends the transaction once. store.ErrTooLarge and store.ErrInvalid mean
// that nothing was sent; any other error that the outcome is unknown.
func (s *Store) Txn(ctx context.Context, txn store.Txn) (store.TxnResult, error) {
	if err := txn.Validate(s.maxTxnOps); err != nil {
		return store.TxnResult{}, err
	}
	ctx, done, err := s.call(ctx)
	if err != nil {
		return store.TxnResult{}, err
	}
	defer done()
	request := s.client.Txn(ctx).If(compares(txn.If)...).Then(operations(txn.Then)...)
	if key, needed := barrier(txn); needed {
		request = request.Else(clientv3.OpDelete(key))
	}
	resp, err := request.Commit()
	if err != nil {
		return store.TxnResult{}, txnError(err)
	}
	result := store.TxnResult{Succeeded: resp.Succeeded, Revision: resp.Header.Revision}
	if !resp.Succeeded {
		return result, nil
	}
	result.Results = make([]store.OpResult, len(resp.Responses))
	for i, r := range resp.Responses {
		if read := r.GetResponseRange(); read != nil {
			result.Results[i] = store.OpResult{KVs: keyValues(read.Kvs), More: read.More}
		}
	}
	return result, nil
}

// barrier is the key whose deletion makes a transaction without changes a write,
// and whether one is needed; see the package comment. No such key ever exists,
// because keys do not hold the byte 0.
func barrier(txn store.Txn) (key string, needed bool) {
	for _, op := range txn.Then {
		if op.Kind == store.OpPut || op.Kind == store.OpDelete {
			return "", false
		}
	}
	if len(txn.If) > 0 {
		return txn.If[0].Key + "\x00", true
	}
	return txn.Then[0].Key + "\x00", true
}

func compares(list []store.Compare) []clientv3.Cmp {
	out := make([]clientv3.Cmp, len(list))
	for i, c := range list {
		target := clientv3.CreateRevision(c.Key)
		if c.Target == store.ModRevision {
			target = clientv3.ModRevision(c.Key)
		}
		out[i] = clientv3.Compare(target, "=", c.Revision)
	}
	return out
}

func operations(list []store.Op) []clientv3.Op {
	out := make([]clientv3.Op, len(list))
	for i, op := range list {
		switch op.Kind {
		case store.OpPut:
			out[i] = clientv3.OpPut(op.Key, string(op.Value), clientv3.WithLease(clientv3.LeaseID(op.Session)))
		case store.OpDelete:
			out[i] = clientv3.OpDelete(op.Key)
		case store.OpGet:
			out[i] = clientv3.OpGet(op.Key)
		case store.OpRange:
			out[i] = clientv3.OpGet(firstKey(op.Key), append(rangeOptions(op.End), clientv3.WithLimit(op.Limit))...)
		}
	}
	return out
}

// rangeOptions are the options for a range up to end; "" is one key.
func rangeOptions(end string) []clientv3.OpOption {
	if end == "" {
		return nil
	}
	return []clientv3.OpOption{clientv3.WithRange(end)}
}

// firstKey is the start of a range as etcd wants it: it knows no empty key.
func firstKey(key string) string {
	if key == "" {
		return "\x00"
	}
	return key
}

func keyValues(kvs []*mvccpb.KeyValue) []store.KeyValue {
	out := make([]store.KeyValue, len(kvs))
	for i, kv := range kvs {
		out[i] = keyValue(kv)
	}
	return out
}

func keyValue(kv *mvccpb.KeyValue) store.KeyValue {
	return store.KeyValue{
		Key: string(kv.Key), Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
	}
}

// txnError wraps what a transaction returned: an unknown outcome, and a hint
// where an operator can do something about it.
func txnError(err error) error {
	hint := ""
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		hint = " (etcd is out of space: compact and defragment it, raise its quota, then disarm the alarm)"
	case errors.Is(err, rpctypes.ErrTooManyOps):
		hint = " (lower the store's transaction operations to the members' --max-txn-ops)"
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		hint = fmt.Sprintf(" (raise the members' --max-request-bytes to %d)", store.MaxTxnBytes)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		hint = " (grant the etcd user read and write permission on the key prefix)"
	}
	return fmt.Errorf("etcdstore: the outcome of a transaction is unknown: %w%s", err, hint)
}
