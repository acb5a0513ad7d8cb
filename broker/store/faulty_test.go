package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tokenlease/tokenlease/broker/store"
)

// The four faults that Faulty is for, each on a guarded put.
func TestFaulty(t *testing.T) {
	lost := errors.New("lost")
	type next = func() (store.TxnResult, error)
	var delayed next
	cases := []struct {
		name      string
		intercept func(context.Context, store.Txn, next) (store.TxnResult, error)
		applied   bool // when Txn returns
		wantErr   bool
	}{
		{"pass", nil, true, false},
		{"drop", func(context.Context, store.Txn, next) (store.TxnResult, error) {
			return store.TxnResult{}, lost
		}, false, true},
		{"delay", func(_ context.Context, _ store.Txn, run next) (store.TxnResult, error) {
			delayed = run
			return store.TxnResult{}, lost
		}, false, true},
		{"duplicate", func(_ context.Context, _ store.Txn, run next) (store.TxnResult, error) {
			first, err := run()
			if again, err := run(); err != nil || again.Succeeded {
				t.Errorf("the repetition of a guarded transaction = %+v, %v", again, err)
			}
			return first, err
		}, true, false},
		{"apply and fail", func(_ context.Context, _ store.Txn, run next) (store.TxnResult, error) {
			_, err := run()
			return store.TxnResult{}, errors.Join(lost, err)
		}, true, true},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			m := store.NewMemory()
			faulty := store.NewFaulty(m)
			faulty.Intercept = tc.intercept
			ctx, cancel := context.WithCancel(t.Context())
			_, err := faulty.Txn(ctx, store.Txn{
				If:   []store.Compare{{Key: "k", Target: store.ModRevision}},
				Then: []store.Op{put("k", "1")},
			})
			cancel()
			if (err != nil) != tc.wantErr {
				t.Errorf("error %v", err)
			}
			if applied := m.Revision() > 1; applied != tc.applied {
				t.Errorf("applied %v, want %v", applied, tc.applied)
			}
		})
	}
	if res, err := delayed(); err != nil || !res.Succeeded {
		t.Errorf("the delayed transaction after its caller has gone = %+v, %v", res, err)
	}
}
