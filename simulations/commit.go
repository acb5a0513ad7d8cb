package simulations

import (
	"errors"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/broker/store"
)

// errUnknown is all that an owner hears of a transaction of uncertain outcome.
var errUnknown = errors.New("simulations: the store's answer is lost")

// fate is what becomes of a transaction.
type fate int

const (
	applied     fate = iota
	appliedLost      // applied, but its owner hears an error
	never            // not applied, its owner hears an error
	afterwards       // its owner hears an error, and it is applied later
)

// commit sends the owner's transaction to the store. Time passes between the
// decision, the commit and the answer.
func (o *owner) commit(txn store.Txn) {
	w := o.b.w
	if hook := w.cfg.Hooks.Txn; hook != nil {
		hook(o, &txn)
	}
	what := applied
	if w.percent(w.cfg.Faults.Uncertain) {
		what = fate(1 + w.rng.IntN(3))
	}
	if w.percent(w.cfg.Faults.Twice) {
		w.after(w.between(time.Millisecond, 5*time.Second), "again", o.b.name, int64(o.shard), func() { w.apply(o, txn) })
	}
	if hook := w.cfg.Hooks.Early; hook != nil && hook(o, txn, what) {
		return
	}
	go1, go2 := w.latency(), w.latency()
	var res store.TxnResult
	err := error(nil)
	switch what {
	case applied:
	case appliedLost:
		err = errUnknown
	case never:
		w.after(go1+go2, "unknown", o.b.name, int64(o.shard), func() { o.outcome(txn, store.TxnResult{}, errUnknown) })
		return
	case afterwards:
		w.after(go1, "unknown", o.b.name, int64(o.shard), func() { o.outcome(txn, store.TxnResult{}, errUnknown) })
		w.after(w.between(0, 6*time.Second), "apply", o.b.name, int64(o.shard), func() { w.apply(o, txn) })
		return
	}
	w.after(go1, "apply", o.b.name, int64(o.shard), func() {
		res = w.apply(o, txn)
		w.after(go2, "result", o.b.name, int64(o.shard), func() { o.outcome(txn, res, err) })
	})
}

// outcome is result behind the hook that misreads it.
func (o *owner) outcome(txn store.Txn, res store.TxnResult, err error) {
	if hook := o.b.w.cfg.Hooks.Result; hook != nil {
		hook(o, txn, &res, &err)
	}
	if err != nil {
		res = store.TxnResult{}
	}
	o.result(res, err)
}

// apply runs a transaction on the store and checks what it did.
func (w *World) apply(o *owner, txn store.Txn) store.TxnResult {
	res, err := w.store.Apply(txn)
	if err != nil {
		w.failf("%s: the store refuses a transaction: %v", o.b.name, err)
		return store.TxnResult{}
	}
	if w.cfg.Note != nil {
		w.note("%s commits (%v at %d): %v", o.b.name, res.Succeeded, res.Revision, describe(txn))
	}
	if res.Succeeded {
		w.stats.Commits++
		w.mix(uint64(res.Revision))
		w.mirror.applied(txn)
	}
	return res
}

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
