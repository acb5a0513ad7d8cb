package simulations

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// errUnknown is all that an owner hears of a transaction of uncertain outcome.
var errUnknown = errors.New("simulations: the store's answer is lost")

// storeTimeout is how long a broker waits for the store: its commitTimeout.
const storeTimeout = 5 * time.Second

// storePause is the pause after a transaction that failed, as in a broker.
const storePause = 50 * time.Millisecond

// compactEvery is after how many commits the store forgets its history.
const compactEvery = 512

// trouble is how many troubles of each kind the store has.
type trouble struct{ outage, noSpace, uncertain, slow int }

// of is the counter of a kind.
func (t *trouble) of(kind scenario.Trouble) *int {
	switch kind {
	case scenario.Outage:
		return &t.outage
	case scenario.NoSpace:
		return &t.noSpace
	case scenario.Uncertain:
		return &t.uncertain
	case scenario.Slow:
		return &t.slow
	}
	return nil
}

// fate is what becomes of a transaction.
type fate int

const (
	applied     fate = iota
	appliedLost      // applied, but its sender hears an error
	never            // not applied, its sender hears an error
	afterwards       // its sender hears an error, and it is applied later
)

// fate draws what becomes of a transaction.
func (w *World) fate() fate {
	switch {
	case w.trouble.outage > 0:
		return never
	case w.trouble.noSpace > 0:
		return []fate{appliedLost, never}[w.rng.IntN(2)]
	case w.trouble.uncertain > 0, w.percent(w.cfg.Faults.Uncertain):
		return fate(1 + w.rng.IntN(3))
	}
	return applied
}

// toStore is how long a message between a broker and the store takes.
func (b *broker) toStore() time.Duration {
	d := b.w.net.transit(b.node, b.w.net.store())
	if b.w.trouble.slow > 0 {
		d += 500 * time.Millisecond
	}
	return d
}

// transact sends a transaction to the store. Time passes between the decision,
// the commit and the answer; done is called once.
func (b *broker) transact(kind string, n int64, txn store.Txn, done func(store.TxnResult, error)) {
	w, decided := b.w, b.w.now
	what := w.fate()
	forth, back := b.toStore(), b.toStore()
	fail := func(after time.Duration) {
		w.after(after, "unknown", b.name, n, func() { done(store.TxnResult{}, errUnknown) })
	}
	timeout := forth + back
	if !w.net.mixed && w.trouble.noSpace == 0 {
		timeout = storeTimeout
	}
	if w.net.isCut(b.node, w.net.store()) {
		fail(timeout)
		return
	}
	switch what {
	case never:
		fail(timeout)
		return
	case afterwards:
		fail(forth)
		w.after(w.between(0, 6*time.Second), kind, b.name, n, func() { w.apply(b, txn, decided) })
		return
	}
	w.after(forth, kind, b.name, n, func() {
		res := w.apply(b, txn, decided)
		if what == appliedLost || w.net.isCut(w.net.store(), b.node) {
			fail(max(0, timeout-forth))
			return
		}
		w.after(back, "result", b.name, n, func() { done(res, nil) })
	})
}

// commit sends the owner's transaction to the store, at times twice.
func (o *owner) commit(txn store.Txn) {
	w, decided := o.b.w, o.b.w.now
	if w.percent(w.cfg.Faults.Twice) {
		w.after(w.between(time.Millisecond, 5*time.Second), "again", o.b.name, int64(o.shard), func() { w.apply(o.b, txn, decided) })
	}
	w.mirror.checkDrops(o, txn)
	w.mirror.lapses(txn)
	o.b.transact("apply", int64(o.shard), txn, func(res store.TxnResult, err error) {
		if err == nil && res.Succeeded && !o.over {
			o.hear(txn, res)
		}
		o.result(res, err)
	})
}

// apply runs a transaction, which was decided on at some time before, on the store
// and checks what it did.
func (w *World) apply(b *broker, txn store.Txn, decided time.Duration) store.TxnResult {
	res, err := w.store.Apply(txn)
	if err != nil && electing(txn) {
		return store.TxnResult{} // the session has ended
	}
	if err != nil {
		w.failf("%s: the store refuses a transaction: %v", b.name, err)
		return store.TxnResult{}
	}
	if w.cfg.Note != nil {
		w.note("%s commits (%v at %d): %v", b.name, res.Succeeded, res.Revision, describe(txn))
	}
	if res.Succeeded && writes(txn) {
		w.stats.Commits++
		w.mix(uint64(res.Revision))
		w.mirror.applied(txn, decided)
		if w.stats.Commits%compactEvery == 0 {
			_ = w.store.Compact(res.Revision) // nothing but memory is at stake
		}
	}
	return res
}

func writes(txn store.Txn) bool {
	return slices.ContainsFunc(txn.Then, func(op store.Op) bool { return op.Kind == store.OpPut || op.Kind == store.OpDelete })
}

func electing(txn store.Txn) bool { return len(txn.Then) == 1 && txn.Then[0].Session != 0 }

// describe is the transaction in a line.
func describe(txn store.Txn) string {
	var parts []string
	for _, op := range txn.Then {
		switch op.Kind {
		case store.OpPut:
			parts = append(parts, "put "+op.Key+" "+string(op.Value))
		case store.OpDelete:
			parts = append(parts, "delete "+op.Key)
		}
	}
	return strings.Join(parts, "; ")
}
