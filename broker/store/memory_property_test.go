package store_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/broker/store"
)

// oracle is Memory in its simplest form: a map for each revision.
type oracle struct{ states []map[string]store.KeyValue } // states[i] is revision i+1

func (o *oracle) apply(txn store.Txn) (succeeded bool, rev int64) {
	now := maps.Clone(o.states[len(o.states)-1])
	rev = int64(len(o.states))
	for _, c := range txn.If {
		value := now[c.Key].ModRevision
		if c.Target == store.CreateRevision {
			value = now[c.Key].CreateRevision
		}
		if value != c.Revision {
			return false, rev
		}
	}
	changed := false
	for _, op := range txn.Then {
		old, exists := now[op.Key]
		switch op.Kind {
		case store.OpPut:
			kv := store.KeyValue{Key: op.Key, Value: op.Value, CreateRevision: rev + 1, ModRevision: rev + 1}
			if exists {
				kv.CreateRevision = old.CreateRevision
			}
			now[op.Key] = kv
			changed = true
		case store.OpDelete:
			delete(now, op.Key)
			changed = changed || exists
		}
	}
	if changed {
		o.states = append(o.states, now)
		rev++
	}
	return true, rev
}

func show(kvs []store.KeyValue) string {
	var b strings.Builder
	for _, kv := range kvs {
		fmt.Fprintf(&b, "%s=%s(%d,%d) ", kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision)
	}
	return b.String()
}

func drawTxn(t *rapid.T, rev int64) store.Txn {
	var txn store.Txn
	keys := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	for range rapid.IntRange(0, 2).Draw(t, "compares") {
		txn.If = append(txn.If, store.Compare{
			Key:      keys.Draw(t, "compared"),
			Target:   store.CompareTarget(rapid.IntRange(0, 1).Draw(t, "target")),
			Revision: rapid.SampledFrom([]int64{0, rev - 1, rev}).Draw(t, "revision"),
		})
	}
	for _, key := range rapid.SliceOfNDistinct(keys, 1, 3, rapid.ID).Draw(t, "changed") {
		kind := rapid.SampledFrom([]store.OpKind{store.OpPut, store.OpDelete}).Draw(t, "kind")
		op := store.Op{Kind: kind, Key: key}
		if kind == store.OpPut {
			op.Value = []byte{byte(rapid.IntRange('0', '9').Draw(t, "value"))}
		}
		txn.Then = append(txn.Then, op)
	}
	return txn
}

// Memory gives the results of the oracle, now and at every older revision that
// is kept, through compactions and restores of its own snapshot.
func TestMemoryMatchesOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := store.NewMemory()
		o := &oracle{states: []map[string]store.KeyValue{{}}}
		oldest := int64(1)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				rev := rapid.Int64Range(oldest, m.Revision()).Draw(t, "compact")
				if err := m.Compact(rev); err == nil {
					oldest = rev
				}
			case 1:
				m.Restore(m.Snapshot())
			default:
				txn := drawTxn(t, m.Revision())
				res, err := m.Apply(txn)
				succeeded, rev := o.apply(txn)
				if err != nil || res.Succeeded != succeeded || res.Revision != rev {
					t.Fatalf("%+v = %+v, %v, want %v at %d", txn, res, err, succeeded, rev)
				}
			}
		}
		for rev := oldest; rev <= m.Revision(); rev++ {
			want := slices.SortedFunc(maps.Values(o.states[rev-1]), func(a, b store.KeyValue) int { return cmp.Compare(a.Key, b.Key) })
			got, err := m.Range(t.Context(), store.RangeRequest{End: "\x00", Revision: rev})
			if err != nil || show(got.KVs) != show(want) {
				t.Fatalf("at revision %d of %d: %s, %v, want %s", rev, m.Revision(), show(got.KVs), err, show(want))
			}
		}
	})
}
