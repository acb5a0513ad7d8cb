package broker

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Errors of declarations and attestations. Nothing was changed.
var (
	// ErrGeneration means that another generation is in force than the request
	// names.
	ErrGeneration = errors.New("broker: another generation is in force")
	// ErrNoCluster means that the store has no cluster under the prefix.
	ErrNoCluster = errors.New("broker: no cluster is stored there; check the etcd and the prefix")
	// ErrUndeclared means that the declaration of the generation in force is not
	// stored.
	ErrUndeclared = errors.New("broker: the declaration of the generation in force is not stored, so it cannot be attested; declare the restore again, with `tokenlease restore declare`")
)

// txnFunc runs one guarded transaction.
type txnFunc = func(context.Context, store.Txn) (store.TxnResult, error)

// DrawStride draws by how much a declaration raises the generation: 1 to 65,536.
//
// The next number would not do. A copy from before an earlier declaration does not
// know of it, and the number would be given out twice: epochs and grants of one
// history would be taken for those of another. Nothing that is left after such a
// restore is sure to know which numbers were used, so they are drawn: two
// histories meet once in 65,536. An operator who names the highest number that was
// in force (above_generation) excludes that as well.
func DrawStride() uint32 {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails
	return 1 + uint32(binary.BigEndian.Uint16(b[:]))
}

// DeclareRestore records that the store was restored from an older copy, and
// starts a new generation (contract C6). It is one transaction on the cluster
// record, with its audit entry, which compares the generation as it was read:
//
//   - from then on no transaction of an earlier generation applies, be it a
//     commit of a shard, a registration or an attestation, however late it comes:
//     all of them compare their generation;
//   - the same nonce declares once, so an attempt of unknown outcome is repeated;
//   - a request that replaces another generation than the one in force changes
//     nothing, so a late repetition fences nobody.
//
// Where the declaration of the generation in force is not stored (somebody deleted
// it, or restored a part of the keys), a new declaration is the only way on, and it
// is safe: no other transaction of that generation applies meanwhile, because all of
// them compare a revision that the missing key does not have. What may compete is
// another declaration, and that changes the revision of the cluster record, which
// this one compares, together with the absence of the key. The new number is above
// the one in force and above every declaration that is stored. What is given up is
// that the revision of the declaration tells histories apart: a store that is
// restored once more between the read and the write of this call, with the cluster
// record at the same revision, might take it. Who restores once more has to declare
// once more in any case.
//
// It is declared by the caller of ctx, or where that has no certificate by whom the
// request names.
//
// stride draws by how much the generation is raised, as DrawStride does. Errors:
// ErrGeneration, ErrNoCluster, record.ErrUnreadable; any other leaves the outcome
// unknown.
func DeclareRestore(ctx context.Context, txn txnFunc, layout record.Layout, req *pb.DeclareRestoreRequest, unixMs int64, stride func() uint32) (*pb.Restore, error) {
	by, verified := person(ctx, req.GetDeclaredBy())
	for {
		era, declared, err := readEra(ctx, txn, layout)
		if err != nil {
			return nil, err
		}
		same := func(d record.Declaration) bool { return d.Nonce == req.GetNonce() }
		if at := slices.IndexFunc(declared, same); at >= 0 {
			return restoreToWire(declared[at], era), nil
		}
		if era.Generation != req.GetReplacedGeneration() {
			return nil, fmt.Errorf("%w: %d, where the declaration replaces %d; see `tokenlease restore status`", ErrGeneration, era.Generation, req.GetReplacedGeneration())
		}
		above, step := max(highest(era, declared), req.GetAboveGeneration()), max(1, stride())
		if above > math.MaxUint32-step {
			return nil, fmt.Errorf("%w: no generation is left above %d", ErrGeneration, above)
		}
		next := record.Declaration{
			Generation: above + step, Replaced: era.Generation, Nonce: req.GetNonce(),
			UnixMs: unixMs, By: by, Because: req.GetBecause(),
		}
		cluster := era.Cluster
		cluster.Generation = next.Generation
		word := record.Audit{Action: "restore.declare", By: by, Verified: verified, Because: next.Because}
		done, err := changeEra(ctx, txn, layout, era, cluster, next, word, unixMs)
		if err != nil {
			return nil, err
		}
		if done {
			return restoreToWire(next, record.Era{Cluster: cluster}), nil
		}
	}
}

// AttestRestore records that every process of earlier generations has ended.
// Whatever they held is spent or lost by then, so shards count it as spent from
// the moment at which they read this. An attestation is made once: where it was
// made, a later one gets the first. Errors: as DeclareRestore, and ErrUndeclared.
func AttestRestore(ctx context.Context, txn txnFunc, layout record.Layout, req *pb.AttestRestoreRequest, unixMs int64) (*pb.Restore, error) {
	by, verified := person(ctx, req.GetAttestedBy())
	for {
		era, declared, err := readEra(ctx, txn, layout)
		if err != nil {
			return nil, err
		}
		current := func(d record.Declaration) bool { return d.Generation == era.Generation }
		at := slices.IndexFunc(declared, current)
		switch {
		case era.Generation != req.GetGeneration() || era.Generation == 1:
			return nil, fmt.Errorf("%w: %d, where the attestation is of %d; see `tokenlease restore status`", ErrGeneration, era.Generation, req.GetGeneration())
		case at < 0:
			return nil, ErrUndeclared
		}
		next, cluster := declared[at], era.Cluster
		if !era.Unknown() {
			return restoreToWire(next, era), nil
		}
		cluster.Attested = era.Generation
		next.AttestedUnixMs, next.AttestedBy, next.AttestedBecause = unixMs, by, req.GetBecause()
		word := record.Audit{Action: "restore.attest", By: by, Verified: verified, Because: next.AttestedBecause}
		done, err := changeEra(ctx, txn, layout, era, cluster, next, word, unixMs)
		if err != nil {
			return nil, err
		}
		if done {
			return restoreToWire(next, record.Era{Cluster: cluster}), nil
		}
	}
}

// ShowRestores tells the generation in force and what was declared. Errors: as
// DeclareRestore.
func ShowRestores(ctx context.Context, txn txnFunc, layout record.Layout) (*pb.ShowRestoreResponse, error) {
	era, declared, err := readEra(ctx, txn, layout)
	if err != nil {
		return nil, err
	}
	resp := &pb.ShowRestoreResponse{Generation: era.Generation, Unknown: era.Unknown()}
	for _, d := range declared {
		resp.Restores = append(resp.Restores, restoreToWire(d, era))
	}
	return resp, nil
}

// highest is the highest generation that the store knows of.
func highest(era record.Era, declared []record.Declaration) uint32 {
	known := era.Generation
	for _, d := range declared {
		known = max(known, d.Generation)
	}
	return known
}

// readEra is the generation in force and all that were declared, in order. That the
// one in force is missing there is no error here: its guard then compares that it
// still is.
func readEra(ctx context.Context, txn txnFunc, layout record.Layout) (record.Era, []record.Declaration, error) {
	res, err := txn(ctx, store.Txn{Then: layout.EraOps()})
	if err != nil {
		return record.Era{}, nil, fmt.Errorf("broker: the cluster record cannot be read: %w", err)
	}
	era, _, err := layout.TakeEra(res.Results)
	undeclared := era.Revision > 0 && era.Generation > 1 && era.Declared == 0
	if err != nil && !undeclared {
		return era, nil, err
	}
	if era.Revision == 0 {
		return era, nil, ErrNoCluster
	}
	var declared []record.Declaration
	for _, kv := range res.Results[1].KVs {
		d, err := record.Decode[record.Declaration](kv)
		if err != nil {
			return era, nil, err
		}
		declared = append(declared, d)
	}
	return era, declared, nil
}

// changeEra writes the cluster record, its declaration and the audit entry, if
// the era is still the one that was read; false when it is not.
func changeEra(ctx context.Context, txn txnFunc, layout record.Layout, era record.Era, next record.Cluster, why record.Declaration, word record.Audit, unixMs int64) (bool, error) {
	word.UnixMs, word.Subject = unixMs, fmt.Sprintf("generation %d", next.Generation)
	word.Before, word.After = era.Cluster, next
	res, err := txn(ctx, store.Txn{
		If: era.Guard(layout),
		Then: []store.Op{
			{Kind: store.OpPut, Key: layout.Cluster(), Value: record.Encode(next)},
			{Kind: store.OpPut, Key: layout.Declaration(next.Generation), Value: record.Encode(why)},
			{Kind: store.OpPut, Key: layout.Audit(unixMs, fmt.Sprintf("%s-%d", word.Action, next.Generation)), Value: record.Encode(word)},
		},
	})
	if err != nil {
		return false, fmt.Errorf("broker: it is not known whether the store took it; ask again, or see `tokenlease restore status`: %w", err)
	}
	return res.Succeeded, nil
}

func restoreToWire(d record.Declaration, era record.Era) *pb.Restore {
	return &pb.Restore{
		Generation: d.Generation, ReplacedGeneration: d.Replaced, DeclaredUnixMs: d.UnixMs, DeclaredBy: d.By, Because: d.Because,
		Attested:       d.AttestedUnixMs != 0 || d.Generation == era.Attested,
		AttestedUnixMs: d.AttestedUnixMs, AttestedBy: d.AttestedBy, AttestedBecause: d.AttestedBecause,
	}
}

// ShowRestore implements tokenleasev1connect.AdminHandler.
func (s adminService) ShowRestore(ctx context.Context, _ *connect.Request[pb.ShowRestoreRequest]) (*connect.Response[pb.ShowRestoreResponse], error) {
	resp, err := ShowRestores(ctx, s.b.cfg.Store.Txn, s.b.layout)
	if err != nil {
		return nil, wireError(err)
	}
	return connect.NewResponse(resp), nil
}

// DeclareRestore implements tokenleasev1connect.AdminHandler.
func (s adminService) DeclareRestore(ctx context.Context, req *connect.Request[pb.DeclareRestoreRequest]) (*connect.Response[pb.DeclareRestoreResponse], error) {
	b := s.b
	done, err := DeclareRestore(ctx, b.cfg.Store.Txn, b.layout, req.Msg, b.cfg.Clock.Now().UnixMilli(), DrawStride)
	if err != nil {
		return nil, wireError(err)
	}
	b.ownership.each(func(s *shard.Shard, _ shard.Moment) { s.ClusterChanged() })
	b.cfg.Logger.Warn("a restore was declared: all earlier epochs are fenced, and nothing is granted until it is attested", "generation", done.GetGeneration(), "by", done.GetDeclaredBy())
	return connect.NewResponse(&pb.DeclareRestoreResponse{Restore: done}), nil
}

// AttestRestore implements tokenleasev1connect.AdminHandler.
func (s adminService) AttestRestore(ctx context.Context, req *connect.Request[pb.AttestRestoreRequest]) (*connect.Response[pb.AttestRestoreResponse], error) {
	b := s.b
	done, err := AttestRestore(ctx, b.cfg.Store.Txn, b.layout, req.Msg, b.cfg.Clock.Now().UnixMilli())
	if err != nil {
		return nil, wireError(err)
	}
	b.ownership.each(func(s *shard.Shard, _ shard.Moment) { s.ClusterChanged() })
	b.cfg.Logger.Warn("the restore is attested: what was unknown counts as spent, and comes back through refill", "generation", done.GetGeneration(), "by", done.GetAttestedBy())
	return connect.NewResponse(&pb.AttestRestoreResponse{Restore: done}), nil
}
