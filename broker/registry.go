package broker

import (
	"context"
	"fmt"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Register gives a start of a holder an epoch above all that the holder had
// (contract C3.3). Each attempt is one guarded transaction on the holder's
// registration:
//
//   - the same start nonce gets the same epoch again, so a retry is safe;
//   - a request that replaces another epoch than the current one changes
//     nothing, so a late repetition fences nobody, and its answer names the
//     current epoch;
//   - otherwise the next epoch is recorded under the nonce.
//
// txn runs one guarded transaction. An error leaves the outcome unknown; the
// holder asks again with the same nonce.
func Register(ctx context.Context, txn func(context.Context, store.Txn) (store.TxnResult, error), layout record.Layout, req *pb.RegisterRequest, unixMs int64) (*pb.RegisterResponse, error) {
	h := lease.Holder{Region: req.GetHolder().GetRegion(), Instance: req.GetHolder().GetInstance()}
	key := layout.Holder(h)
	for {
		seen, revision, err := readRegistration(ctx, txn, key)
		if err != nil {
			return nil, err
		}
		next := seen
		switch {
		case seen.StartNonce == req.GetStartNonce():
		case seen.Epoch != req.GetReplacesEpoch():
			return &pb.RegisterResponse{CurrentEpoch: seen.Epoch}, nil
		default:
			next = record.Registration{
				Region: h.Region, Instance: h.Instance, Epoch: seen.Epoch + 1,
				StartNonce: req.GetStartNonce(), RegisteredUnixMs: unixMs,
			}
		}
		done, err := confirmRegistration(ctx, txn, key, revision, seen, next)
		if err != nil {
			return nil, err
		}
		if done {
			return &pb.RegisterResponse{Registered: true, CurrentEpoch: next.Epoch}, nil
		}
	}
}

func readRegistration(ctx context.Context, txn func(context.Context, store.Txn) (store.TxnResult, error), key string) (record.Registration, int64, error) {
	res, err := txn(ctx, store.Txn{Then: []store.Op{{Kind: store.OpGet, Key: key}}})
	if err != nil {
		return record.Registration{}, 0, fmt.Errorf("broker: the registration cannot be read: %w", err)
	}
	if len(res.Results[0].KVs) == 0 {
		return record.Registration{}, 0, nil
	}
	kv := res.Results[0].KVs[0]
	reg, err := record.Decode[record.Registration](kv)
	return reg, kv.ModRevision, err
}

// confirmRegistration writes next if it differs, and what goes with it, provided
// that the registration is still what was seen; false when it is not.
func confirmRegistration(ctx context.Context, txn func(context.Context, store.Txn) (store.TxnResult, error), key string, revision int64, seen, next record.Registration, with ...store.Op) (bool, error) {
	t := store.Txn{If: []store.Compare{{Key: key, Target: store.ModRevision, Revision: revision}}}
	if next != seen {
		t.Then = append(t.Then, with...)
		t.Then = append(t.Then, store.Op{Kind: store.OpPut, Key: key, Value: record.Encode(next)})
	}
	res, err := txn(ctx, t)
	if err != nil {
		return false, fmt.Errorf("broker: the registration cannot be recorded: %w", err)
	}
	return res.Succeeded, nil
}

// retire marks the holder's current epoch as gone by attestation, if it is
// still epoch, and records in the same transaction whose word that is. It is
// safe to repeat.
func retire(ctx context.Context, st store.Store, layout record.Layout, h lease.Holder, epoch uint64, word record.Audit) error {
	key := layout.Holder(h)
	for {
		seen, revision, err := readRegistration(ctx, st.Txn, key)
		if err != nil || seen.Epoch != epoch || seen.Retired {
			return err
		}
		next := seen
		next.Retired = true
		word.Action, word.Subject, word.Before, word.After = "holders.retire", h.String(), seen, next
		audit := store.Op{
			Kind: store.OpPut, Key: layout.Audit(word.UnixMs, fmt.Sprintf("%s-%v-%d", word.Action, h, epoch)), Value: record.Encode(word),
		}
		done, err := confirmRegistration(ctx, st.Txn, key, revision, seen, next, audit)
		if err != nil || done {
			return err
		}
	}
}
