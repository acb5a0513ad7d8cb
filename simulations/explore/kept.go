package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

var layout = record.NewLayout("/t")

// kept is what the store holds, and what the checks remember of it.
type kept struct {
	memory *store.Memory
	epochs [regions]uint64 // registered

	grants  map[string]record.Grant // by key in the store
	stored  record.Budget
	exists  bool
	dropped bool          // it had a record, which went: the next starts full
	ledger  *lease.Ledger // of the newest commit that touched it; stays when the record goes
	fences  map[lease.Holder]uint64
	newest  lease.GrantID
	clock   int64
}

// storePart is the store.
type storePart struct {
	memory[storeInput, storeResult]

	digest digest
	kept   *kept
	out    []reservation
}

// reservation is what is out of one grant.
type reservation struct {
	grant  string
	tokens int64
}

// storeInput is what happens to the store by other hands than an owner's.
type storeInput struct {
	kind kind
	now  uint8
	arg  int      // starts: the region; failsOver: the owner; writesPolicy: the version
	late *lateTxn // appliesLate
}

type storeResult struct {
	next  *storePart
	owner *ownerPart // failsOver
	fail  string
}

func newKept() *kept {
	return &kept{memory: store.NewMemory(), grants: map[string]record.Grant{}, fences: map[lease.Holder]uint64{}}
}

func (x *explorer) storePart(k *kept) *storePart {
	part := &storePart{digest: digestOf(k), kept: k}
	if k.exists && k.ledger != nil {
		for _, g := range k.ledger.Grants {
			part.out = append(part.out, reservation{g.ID.String(), g.Outstanding()})
		}
	}
	return x.stores.one(part.digest, part)
}

// befalls is what an input does to the store.
func (x *explorer) befalls(part *storePart, in storeInput) *storeResult {
	return part.on(in, func() *storeResult {
		x.ran.Add(1)
		k, r := deepCopy(part.kept), &storeResult{}
		switch in.kind {
		case starts:
			k.epochs[in.arg]++
			h := holderOf(in.arg)
			k.put(layout.Holder(h), record.Registration{Region: h.Region, Instance: h.Instance, Epoch: k.epochs[in.arg], StartNonce: "n"})
		case writesPolicy:
			k.put(layout.Policy(key.Operation), x.scope.policy(in.arg))
		case appliesLate:
			_, r.fail = k.apply(in.late.txn, in.now)
		case failsOver:
			r.owner, r.fail = x.elect(k, in.arg, in.now)
		}
		r.next = x.storePart(k)
		return r
	})
}

func (k *kept) put(key string, value any) int64 {
	res, _ := k.apply(store.Txn{Then: []store.Op{{Kind: store.OpPut, Key: key, Value: record.Encode(value)}}}, 0)
	return res.Revision
}

// apply runs a transaction, and says what it broke.
func (k *kept) apply(txn store.Txn, now uint8) (res store.TxnResult, fail string) {
	before := k.memory.Revision()
	res, err := k.memory.Apply(txn)
	if err != nil {
		return res, fmt.Sprintf("the store refuses a transaction: %v", err)
	}
	if k.memory.Revision() > before {
		if err := k.memory.Compact(k.memory.Revision()); err != nil {
			return res, err.Error()
		}
		fail = k.check(txn, now)
	}
	return res, fail
}

// check holds what a transaction has changed against what was there before.
func (k *kept) check(txn store.Txn, now uint8) (fail string) {
	failed := func(format string, args ...any) {
		if fail == "" {
			fail = "after a commit: " + fmt.Sprintf(format, args...)
		}
	}
	touched, newest := false, k.newest
	for i := range txn.Then {
		op := &txn.Then[i]
		if op.Kind != store.OpPut && op.Kind != store.OpDelete || !strings.HasPrefix(op.Key, layout.Shard(0)) {
			continue
		}
		kind, _, _ := strings.Cut(op.Key[len(layout.Shard(0)):], "/")
		var err error
		switch kind {
		case "head":
			err = k.head(op, now)
		case "budgets":
			touched = op.Kind == store.OpPut
			err = k.budget(op, now)
		case "grants":
			var id lease.GrantID
			id, err = k.grant(op)
			if id.Compare(newest) > 0 {
				newest = id
			}
		case "fences":
			err = k.fence(op)
		}
		if err != nil {
			failed("%v", err)
		}
	}
	k.newest = newest
	if touched && fail == "" {
		if err := k.step(); err != nil {
			failed("%v", err)
		}
	}
	return fail
}

func decode[T any](op *store.Op) (T, error) {
	return record.Decode[T](store.KeyValue{Key: op.Key, Value: op.Value})
}

// head holds that ledger time is never ahead of real time and never steps back.
func (k *kept) head(op *store.Op, now uint8) error {
	h, err := decode[record.Head](op)
	if err != nil {
		return err
	}
	if h.ClockNs < k.clock || h.ClockNs > int64(at(now)) {
		return fmt.Errorf("ledger time is %d after %d, at %d of real time", h.ClockNs, k.clock, int64(at(now)))
	}
	k.clock = h.ClockNs
	return nil
}

func (k *kept) budget(op *store.Op, now uint8) (err error) {
	if op.Kind == store.OpPut {
		k.stored, err = decode[record.Budget](op)
		k.exists = true
		return err
	}
	k.exists, k.dropped, k.stored = false, true, record.Budget{}
	l := k.ledger.Clone()
	// Full from here on, a cut is made up for.
	if wait, ok := l.Rule.Refill.Wait(l.Rule.Capacity - l.Available - l.Reserved()); ok {
		l.Advance(min(lease.Time(at(now)), l.Updated.Add(wait)))
	}
	l.Advance(lease.Time(at(now)))
	if !l.Full() {
		return fmt.Errorf("the record of a budget was dropped that is not full: %v", &l)
	}
	return nil
}

func (k *kept) grant(op *store.Op) (id lease.GrantID, err error) {
	if op.Kind == store.OpDelete {
		delete(k.grants, op.Key)
		return id, nil
	}
	g, err := decode[record.Grant](op)
	if err != nil {
		return id, err
	}
	if id, err = lease.ParseGrantID(g.ID); err != nil {
		return id, err
	}
	if _, known := k.grants[op.Key]; !known && id.Compare(k.newest) <= 0 {
		return id, fmt.Errorf("grant ID %v is used again after %v", id, k.newest)
	}
	k.grants[op.Key] = g
	return id, nil
}

func (k *kept) fence(op *store.Op) error {
	f, err := decode[record.Fence](op)
	if err != nil {
		return err
	}
	h := f.Fence().Holder
	if f.MinEpoch < k.fences[h] {
		return fmt.Errorf("%v was unfenced from %d to %d", h, k.fences[h], f.MinEpoch)
	}
	k.fences[h] = f.MinEpoch
	return nil
}

// step checks the ledger's new state and how it came there.
func (k *kept) step() error {
	var grants []record.Grant
	for _, path := range k.stored.Grants {
		g, ok := k.grants[layout.Grants(0)+path]
		if !ok {
			return fmt.Errorf("the budget lists grant %s, which is not stored", path)
		}
		grants = append(grants, g)
	}
	if len(grants) != len(k.grants) {
		return fmt.Errorf("the budget lists %v, stored are %v", k.stored.Grants, slices.Sorted(maps.Keys(k.grants)))
	}
	l, err := k.stored.Ledger(grants)
	if err != nil {
		return err
	}
	if k.ledger != nil && !k.dropped {
		if err := lease.CheckStep(k.ledger, &l); err != nil {
			return err
		}
	}
	k.ledger, k.dropped = &l, false
	return nil
}

// reserved is what the store holds back for a grant.
func (s *storePart) reserved(grant string) int64 {
	for i := range s.out {
		if s.out[i].grant == grant {
			return s.out[i].tokens
		}
	}
	return 0
}

// elect gives the shard to another owner, who reads it.
func (x *explorer) elect(k *kept, n int, now uint8) (*ownerPart, string) {
	name := layout.Owner(0)
	if n > 0 {
		if _, err := k.memory.Apply(store.Txn{Then: []store.Op{{Kind: store.OpDelete, Key: name}}}); err != nil {
			return nil, err.Error()
		}
	}
	revision := k.put(name, record.Owner{BrokerID: ownerName(n)})
	cfg := shard.Config{Generation: 1, Layout: layout, OwnerRevision: revision, IdleAfter: 1, DemandTTL: 1000 * tick}
	sh := shard.New(cfg)
	r := &ownerResult{}
	x.pump(sh, k, ownerInput{now: now}, r)
	if !sh.Serving() {
		return nil, "the new owner cannot read the shard"
	}
	return x.ownerPart(sh), r.fail
}

func ownerName(n int) string { return fmt.Sprintf("owner %d", n+1) }
