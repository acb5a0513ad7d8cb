package shard

import (
	"slices"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// Sizes of what a batch writes, in bytes, estimated from above so that a
// transaction stays within etcd's limit of 1.5 MiB.
const (
	maxBatchBytes = 1 << 20
	recordBytes   = 512 // a record without its names
	grantRefBytes = 64  // a grant's key in a budget's record, without the holder's name
	releaseBytes  = 64  // what a rolling window remembers
)

// maxBatchHints is how many hints keep a batch from taking another step. A policy that
// is removed writes nothing, and would otherwise hint the holders of all budgets at
// once.
const maxBatchHints = 4096

// batch collects what one transaction writes and reads.
type batch struct {
	limit   int // operations, without the head
	ops     int // writes so far
	bytes   int
	entries []*entry
	fences  []*fence
	extra   []store.Op // audit entries
	drops   []*entry   // full ledgers whose record goes
	reads   []read
	done    []job // answered after the commit
	hints   []hint
	setBack error // a holder has seen what the store does not have
	clock   bool  // ledger time is to be stored, whatever else is

	at        lease.Time // ledger time of the batch
	installed []*entry   // came under another version of their policy
	recalled  []recalled
	ended     []ending

	firstRead int
}

// read is one operation that reads, and who takes its result.
type read struct {
	op   store.Op
	take func(store.OpResult) error
}

func (s *Shard) newBatch() *batch { return &batch{limit: s.cfg.MaxTxnOps - 1, at: s.now} }

// worst is the most operations that one step of a job writes: a budget, a grant
// opened or ended, a fence, an audit entry.
const worst = 4

// full says that the batch may not hold another step of a job.
func (b *batch) full() bool {
	return b.ops+len(b.reads)+worst > b.limit || b.bytes > maxBatchBytes || len(b.hints) >= maxBatchHints
}

// writes says that the transaction changes something: at least the head.
func (b *batch) writes() bool { return b.ops > 0 || b.clock }

func (b *batch) empty() bool {
	return !b.writes() && len(b.reads) == 0 && len(b.done) == 0 && b.setBack == nil
}

// room says that so many reads fit.
func (b *batch) room(reads int) bool { return b.ops+len(b.reads)+reads <= b.limit }

// read adds a read, and says false if it does not fit any more.
func (b *batch) read(op store.Op, take func(store.OpResult) error) bool {
	if !b.room(1) {
		return false
	}
	b.reads = append(b.reads, read{op, take})
	return true
}

// touch marks the budget as changed.
func (b *batch) touch(e *entry) {
	if !e.dirty {
		e.dirty, e.fresh = true, false
		b.entries = append(b.entries, e)
		b.charge(recordBytes + 3*(len(e.key.Account)+len(e.key.Operation)) + len(e.ledger.Grants)*(grantRefBytes+128) + len(e.ledger.Recovering)*releaseBytes)
	}
}

// touchGrant marks a grant of the budget as changed.
func (b *batch) touchGrant(e *entry, id lease.GrantID) {
	b.touch(e)
	if !slices.Contains(e.puts, id) {
		e.puts = append(e.puts, id)
		b.charge(recordBytes + 3*(len(e.key.Account)+len(e.key.Operation)))
	}
}

// endGrant marks a grant of the budget as ended: by what, and with how many tokens
// that count as spent.
func (b *batch) endGrant(s *Shard, e *entry, g lease.Grant, what What, spent int64, detail string) {
	b.ended = append(b.ended, ending{key: e.key, was: g, opened: e.opened[g.ID], what: what, spent: spent, detail: detail})
	b.touch(e)
	if at := slices.Index(e.puts, g.ID); at >= 0 {
		e.puts = slices.Delete(e.puts, at, at+1)
		b.ops--
	}
	delete(e.opened, g.ID)
	delete(e.installed, g.ID)
	e.ends = append(e.ends, s.cfg.Layout.Grants(s.cfg.ID)+record.GrantPath(g.Holder, g.Epoch, g.ID))
	b.charge(recordBytes)
	s.stats.GrantsEnded++
}

// touchFence marks a fence as changed.
func (b *batch) touchFence(s *Shard, f *fence) {
	s.fences[f.Holder] = f
	if !f.dirty {
		f.dirty = true
		b.fences = append(b.fences, f)
		b.charge(recordBytes + 32*len(f.Told))
	}
}

func (b *batch) add(op store.Op) {
	b.extra = append(b.extra, op)
	b.charge(len(op.Key) + len(op.Value))
}

func (b *batch) drop(e *entry) {
	b.drops = append(b.drops, e)
	b.charge(recordBytes)
}

// charge counts one more operation of about so many bytes.
func (b *batch) charge(bytes int) {
	b.ops++
	b.bytes += bytes
}

// txn is the guarded transaction of the batch. With nothing to write it is a
// guarded read, which costs the store no commit.
func (b *batch) txn(s *Shard) *store.Txn {
	txn := &store.Txn{If: s.guard()}
	if b.writes() {
		head := record.Head{ClockNs: int64(s.now), NextGrant: s.nextGrant, Cleared: s.cleared, PolicyVersion: s.taken, CommittedUnixMs: s.wall}
		txn.Then = append(txn.Then, put(s.cfg.Layout.Head(s.cfg.ID), head))
	}
	for _, e := range b.entries {
		txn.Then = b.appendEntry(s, txn.Then, e)
	}
	for _, f := range b.fences {
		stored := record.FromFence(&f.Fence, s.lastHeard(f.Holder))
		stored.Attested = f.attested
		txn.Then = append(txn.Then, put(s.cfg.Layout.Fence(s.cfg.ID, f.Holder), stored))
	}
	for _, e := range b.drops {
		txn.Then = append(txn.Then, store.Op{Kind: store.OpDelete, Key: s.cfg.Layout.Budget(s.cfg.ID, e.key)})
	}
	txn.Then = append(txn.Then, b.extra...)
	b.firstRead = len(txn.Then)
	for _, r := range b.reads {
		txn.Then = append(txn.Then, r.op)
	}
	return txn
}

func (b *batch) appendEntry(s *Shard, ops []store.Op, e *entry) []store.Op {
	ops = append(ops, put(s.cfg.Layout.Budget(s.cfg.ID, e.key), record.FromLedger(&e.ledger).In(s.era.Generation)))
	for _, id := range e.puts {
		g := e.ledger.Grant(id)
		ops = append(ops, put(s.cfg.Layout.Grants(s.cfg.ID)+record.GrantPath(g.Holder, g.Epoch, g.ID), e.record(*g)))
	}
	for _, key := range e.ends {
		ops = append(ops, store.Op{Kind: store.OpDelete, Key: key})
	}
	return ops
}

// record is a grant of the budget as it is stored.
func (e *entry) record(g lease.Grant) record.Grant {
	r := record.FromGrant(e.key, g, e.opened[g.ID])
	r.PolicyVersion = e.installed[g.ID]
	return r
}

func put(key string, value any) store.Op {
	return store.Op{Kind: store.OpPut, Key: key, Value: record.Encode(value)}
}

// clean marks everything in the batch as recorded.
func (b *batch) clean() {
	for _, e := range b.entries {
		e.dirty, e.recorded, e.puts, e.ends = false, true, nil, nil
	}
	for _, f := range b.fences {
		f.dirty = false
	}
}
