package record

import (
	"fmt"

	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// Era is a generation as it was read: what the cluster record says, and what a
// transaction compares to apply in that generation alone.
//
// Revisions do not tell one history of the store from another: after a restore
// they are given out again, and brokers that start alike write alike. So a
// declaration has a key of its own, named by its generation, and generations are
// drawn at random (the broker's declaration says why). A transaction of a
// generation that the store does not have finds no such key, and one of an
// earlier generation, or from before the attestation, finds another revision of
// the cluster record. A copy from between a declaration and its attestation has the
// declaration, as it was created: so it is the revision of its last change that is
// compared, which no other history has together with that of the cluster record.
type Era struct {
	Cluster

	Revision int64 // of the cluster record; 0: there is none
	Declared int64 // revision of the generation's declaration, which its attestation rewrites; 0 in generation 1
}

// Floor is below every epoch of the generation, and above all earlier ones.
func (e Era) Floor() uint64 { return lease.EpochFloor(e.Generation) }

// Fences says that the epoch is of an earlier generation.
func (e Era) Fences(epoch uint64) bool { return epoch < e.Floor() }

// Guard is what a transaction of the generation compares.
func (e Era) Guard(l Layout) []store.Compare {
	guard := []store.Compare{{Key: l.Cluster(), Target: store.ModRevision, Revision: e.Revision}}
	if e.Generation > 1 {
		guard = append(guard, store.Compare{Key: l.Declaration(e.Generation), Target: store.ModRevision, Revision: e.Declared})
	}
	return guard
}

// eraOps is the number of operations that read an era.
const eraOps = 2

// EraOps read the era in a transaction; TakeEra takes their results.
func (l Layout) EraOps() []store.Op {
	from, end := All(l.Declarations())
	return []store.Op{{Kind: store.OpGet, Key: l.Cluster()}, {Kind: store.OpRange, Key: from, End: end}}
}

// TakeEra reads the results of EraOps, and returns those that follow. A store
// without a cluster record is in generation 1. Errors: ErrUnreadable.
func (l Layout) TakeEra(results []store.OpResult) (Era, []store.OpResult, error) {
	e := Era{Cluster: Cluster{Generation: 1}}
	rest := results[eraOps:]
	if len(results[0].KVs) == 0 {
		return e, rest, nil
	}
	var err error
	if e.Cluster, err = Decode[Cluster](results[0].KVs[0]); err != nil {
		return e, rest, err
	}
	e.Revision = results[0].KVs[0].ModRevision
	e.Generation = max(1, e.Generation)
	if e.Generation == 1 {
		return e, rest, nil
	}
	for _, kv := range results[1].KVs {
		if kv.Key == l.Declaration(e.Generation) {
			e.Declared = kv.ModRevision
			return e, rest, nil
		}
	}
	return e, rest, fmt.Errorf("the cluster record at %s is of generation %d, whose declaration is not stored (%w)", l.Cluster(), e.Generation, ErrUnreadable)
}
