package store

import "context"

// Faulty is a Store for tests whose transactions go through a hook, which may
// lose, delay, repeat or misreport them as a network and an uncertain commit do.
// Everything else goes to the wrapped store.
type Faulty struct {
	Store

	// Intercept is called for every transaction in place of the wrapped store,
	// by whichever goroutine called Txn. next runs the transaction on the
	// wrapped store, as often and as late as it is called; it is not bound to
	// ctx, so it can still apply after the caller has gone. What Intercept
	// returns is what the caller sees. nil passes everything through. Set it
	// before the store is used.
	Intercept func(ctx context.Context, txn Txn, next func() (TxnResult, error)) (TxnResult, error)
}

// NewFaulty wraps inner; set Intercept to make it faulty.
func NewFaulty(inner Store) *Faulty { return &Faulty{Store: inner} }

// Txn hands the transaction to Intercept.
func (f *Faulty) Txn(ctx context.Context, txn Txn) (TxnResult, error) {
	if f.Intercept == nil {
		return f.Store.Txn(ctx, txn)
	}
	detached := context.WithoutCancel(ctx)
	return f.Intercept(ctx, txn, func() (TxnResult, error) {
		return f.Store.Txn(detached, txn)
	})
}
