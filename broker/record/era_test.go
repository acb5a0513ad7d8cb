package record

import (
	"errors"
	"testing"

	"github.com/tokenlease/tokenlease/broker/store"
)

// eraOf reads the era of a store.
func eraOf(t *testing.T, st *store.Memory, l Layout) (Era, error) {
	t.Helper()
	res, err := st.Apply(store.Txn{Then: append(l.EraOps(), store.Op{Kind: store.OpGet, Key: "after"})})
	if err != nil {
		t.Fatal(err)
	}
	e, rest, err := l.TakeEra(res.Results)
	if len(rest) != 1 {
		t.Errorf("%d results are left", len(rest))
	}
	return e, err
}

// holds says whether the guard of an era passes.
func holds(t *testing.T, st *store.Memory, l Layout, e Era) bool {
	t.Helper()
	res, err := st.Apply(store.Txn{If: e.Guard(l), Then: []store.Op{{Kind: store.OpGet, Key: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	return res.Succeeded
}

// The guard of each era passes in it alone, also in another history with the same
// revisions.
func TestEraGuard(t *testing.T) {
	l, st := NewLayout("/test"), store.NewMemory()
	put := func(c Cluster) {
		t.Helper()
		ops := []store.Op{{Kind: store.OpPut, Key: l.Cluster(), Value: Encode(c)}}
		if c.Generation > 1 {
			ops = append(ops, store.Op{Kind: store.OpPut, Key: l.Declaration(c.Generation), Value: Encode(Declaration{Generation: c.Generation})})
		}
		if _, err := st.Apply(store.Txn{Then: ops}); err != nil {
			t.Fatal(err)
		}
	}
	var eras []Era
	enter := func() {
		t.Helper()
		e, err := eraOf(t, st, l)
		if err != nil {
			t.Fatal(err)
		}
		for i, earlier := range eras {
			if holds(t, st, l, earlier) {
				t.Errorf("the guard of era %d passes in %+v", i, e)
			}
		}
		if !holds(t, st, l, e) {
			t.Errorf("the guard of %+v does not pass in it", e)
		}
		eras = append(eras, e)
	}
	enter() // no record
	put(Cluster{Generation: 1})
	enter()
	copied := st.Snapshot()
	put(Cluster{Generation: 7})
	enter()
	put(Cluster{Generation: 7, Attested: 7})
	enter()
	st.Restore(copied)
	put(Cluster{Generation: 5})
	enter()
	put(Cluster{Generation: 5, Attested: 5})
	enter()
	for i, want := range []struct {
		generation uint32
		unknown    bool
	}{{1, false}, {1, false}, {7, true}, {7, false}, {5, true}, {5, false}} {
		if eras[i].Generation != want.generation || eras[i].Unknown() != want.unknown || eras[i].Fences(3) != (want.generation > 1) {
			t.Errorf("era %d is %+v", i, eras[i])
		}
	}
}

// A generation without its declaration is not entered.
func TestEraWithoutItsDeclaration(t *testing.T) {
	l, st := NewLayout("/test"), store.NewMemory()
	_, err := st.Apply(store.Txn{Then: []store.Op{{Kind: store.OpPut, Key: l.Cluster(), Value: Encode(Cluster{Generation: 7})}}})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := eraOf(t, st, l); !errors.Is(err, ErrUnreadable) {
		t.Errorf("%+v, %v", e, err)
	}
}

// A copy from between a declaration and its attestation: what was guarded in the
// history that went on to attest does not pass in the one that declared again, at
// the very revision of that attestation.
func TestEraGuardOverACopyOfADeclaration(t *testing.T) {
	l, st := NewLayout("/test"), store.NewMemory()
	write := func(c Cluster, d Declaration) {
		t.Helper()
		if _, err := st.Apply(store.Txn{Then: []store.Op{
			{Kind: store.OpPut, Key: l.Cluster(), Value: Encode(c)},
			{Kind: store.OpPut, Key: l.Declaration(d.Generation), Value: Encode(d)},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	write(Cluster{ID: "c", Generation: 7}, Declaration{Generation: 7})
	copied := st.Snapshot()
	write(Cluster{ID: "c", Generation: 7, Attested: 7}, Declaration{Generation: 7, AttestedUnixMs: 1})
	attested, err := eraOf(t, st, l)
	if err != nil || !holds(t, st, l, attested) {
		t.Fatalf("the era does not hold in its own history: %v", err)
	}
	st.Restore(copied)
	write(Cluster{ID: "c", Generation: 9}, Declaration{Generation: 9})
	if again, err := eraOf(t, st, l); err != nil || again.Revision != attested.Revision {
		t.Fatalf("the revisions are not the same: %+v, %+v, %v", again, attested, err)
	}
	if holds(t, st, l, attested) {
		t.Error("a transaction of generation 7 applies in generation 9")
	}
}
