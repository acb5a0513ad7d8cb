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
// registration, which also compares the generation:
//
//   - the same start nonce gets the same epoch again, so a retry is safe;
//   - a request that replaces another epoch than the current one changes
//     nothing, so a late repetition fences nobody, and its answer names the
//     current epoch;
//   - otherwise the next epoch of the generation in force is recorded under the
//     nonce.
//
// An epoch of an earlier generation is fenced, so it is not given again: a start
// whose registration was answered before a restore was declared asks for another.
//
// txn runs one guarded transaction. An error leaves the outcome unknown; the
// holder asks again with the same nonce.
func Register(ctx context.Context, txn txnFunc, layout record.Layout, req *pb.RegisterRequest, unixMs int64) (*pb.RegisterResponse, error) {
	h := lease.Holder{Region: req.GetHolder().GetRegion(), Instance: req.GetHolder().GetInstance()}
	key := layout.Holder(h)
	for {
		seen, err := readRegistration(ctx, txn, layout, key)
		if err != nil {
			return nil, err
		}
		next := seen.Registration
		switch {
		case seen.StartNonce == req.GetStartNonce() && !seen.era.Fences(seen.Epoch):
		case seen.Epoch != req.GetReplacesEpoch():
			return &pb.RegisterResponse{CurrentEpoch: seen.Epoch}, nil
		default:
			next = record.Registration{
				Region: h.Region, Instance: h.Instance, Epoch: max(seen.Epoch, seen.era.Floor()) + 1,
				StartNonce: req.GetStartNonce(), RegisteredUnixMs: unixMs,
			}
		}
		if next.Epoch > lease.EpochCeiling(seen.era.Generation) {
			return nil, fmt.Errorf("%w: %v has no epoch left in generation %d", ErrGeneration, h, seen.era.Generation)
		}
		done, err := confirmRegistration(ctx, txn, layout, key, seen, next)
		if err != nil {
			return nil, err
		}
		if done {
			return &pb.RegisterResponse{Registered: true, CurrentEpoch: next.Epoch}, nil
		}
	}
}

// registration is a registration as it was read, in the generation of that time.
type registration struct {
	record.Registration

	revision int64
	era      record.Era
}

func readRegistration(ctx context.Context, txn txnFunc, layout record.Layout, key string) (registration, error) {
	res, err := txn(ctx, store.Txn{Then: append(layout.EraOps(), store.Op{Kind: store.OpGet, Key: key})})
	if err != nil {
		return registration{}, fmt.Errorf("broker: the registration cannot be read: %w", err)
	}
	era, rest, err := layout.TakeEra(res.Results)
	if err != nil {
		return registration{}, err
	}
	seen := registration{era: era}
	if len(rest[0].KVs) == 0 {
		return seen, nil
	}
	kv := rest[0].KVs[0]
	seen.revision = kv.ModRevision
	seen.Registration, err = record.Decode[record.Registration](kv)
	return seen, err
}

// confirmRegistration writes next if it differs, and what goes with it, provided
// that the registration and the generation are still what was seen; false when
// they are not.
func confirmRegistration(ctx context.Context, txn txnFunc, layout record.Layout, key string, seen registration, next record.Registration, with ...store.Op) (bool, error) {
	t := store.Txn{If: append([]store.Compare{{Key: key, Target: store.ModRevision, Revision: seen.revision}}, seen.era.Guard(layout)...)}
	if next != seen.Registration {
		t.Then = append(t.Then, with...)
		t.Then = append(t.Then, store.Op{Kind: store.OpPut, Key: key, Value: record.Encode(next)})
	}
	res, err := txn(ctx, t)
	if err != nil {
		return false, fmt.Errorf("broker: the registration cannot be recorded: %w", err)
	}
	return res.Succeeded, nil
}

// retire marks the holder's current epoch as gone by attestation, and records in the
// same transaction whose word that is. It is safe to repeat. Errors: ErrOtherEpoch,
// if another epoch is current; any other leaves the outcome unknown.
func retire(ctx context.Context, st store.Store, layout record.Layout, h lease.Holder, epoch uint64, word record.Audit) error {
	key := layout.Holder(h)
	for {
		seen, err := readRegistration(ctx, st.Txn, layout, key)
		if err != nil {
			return err
		}
		if seen.Epoch != epoch {
			return fmt.Errorf("%w: %v is at epoch %d, not %d; look at what it holds now, and decide anew", ErrOtherEpoch, h, seen.Epoch, epoch)
		}
		if seen.Retired {
			return nil
		}
		next := seen.Registration
		next.Retired = true
		word.Action, word.Subject, word.Before, word.After = "holders.retire", h.String(), seen.Registration, next
		audit := store.Op{
			Kind: store.OpPut, Key: layout.Audit(word.UnixMs, fmt.Sprintf("%s-%v-%d", word.Action, h, epoch)), Value: record.Encode(word),
		}
		done, err := confirmRegistration(ctx, st.Txn, layout, key, seen, next, audit)
		if err != nil || done {
			return err
		}
	}
}
