package simulations

import (
	"context"
	"fmt"
	"slices"
	"time"

	registry "github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// era is the generation of the cluster, which the declaration of a restore
// raises.
type era struct {
	generation uint32
	unknown    bool          // declared, and not attested
	attested   time.Duration // when
	copied     *backup       // for a restore; nil: none yet
	changes    int           // restores and declarations
}

// backup is a copy of the store.
type backup struct {
	contents *store.Snapshot
	newest   store.SessionID // that had begun
}

func (w *World) backup() *backup {
	return &backup{contents: w.store.Snapshot(), newest: w.sessions[len(w.sessions)-1]}
}

// found writes the cluster record.
func (w *World) found() {
	w.era.generation = 1
	cluster := record.Cluster{ID: "simulated", Shards: w.cfg.Shards, Generation: 1}
	if _, err := w.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpPut, Key: w.layout.Cluster(), Value: record.Encode(cluster)}}}); err != nil {
		w.failf("cluster: %v", err)
	}
}

// restoreSome takes a copy of the store, or goes back to the last one, or attests
// the last restore.
func (w *World) restoreSome() {
	switch {
	case w.restored: // and not declared yet
	case w.era.unknown && len(w.earlier()) == 0 && !w.earlierWork() && w.rng.IntN(2) == 0:
		w.attestRestore()
	case w.era.copied == nil || w.rng.IntN(3) == 0:
		w.era.copied = w.backup()
	case w.rng.IntN(2) == 0:
		w.setBackFound(w.era.copied)
	default:
		w.setBackDeclared(w.era.copied)
	}
}

// setBackFound restores the store from a copy, while no limiter reaches a broker:
// what a broker granted from the copy would be beyond the contract. Owners that
// know better find it out by themselves, and others do not. Then it is declared.
func (w *World) setBackFound(copied *backup) {
	w.setBack(copied)
	d := w.between(time.Millisecond, 20*time.Second)
	for _, s := range w.sites {
		for _, b := range w.brokers {
			w.net.cut(s.node, b.node, d)
			w.net.cut(b.node, s.node, d)
		}
	}
	w.after(d, "declare", "", 0, func() {
		if w.restored {
			w.declare()
		}
	})
}

// setBack restores the store from a copy, and tells nobody.
func (w *World) setBack(copied *backup) {
	w.restored = true
	w.goBack(copied)
	w.mirror.generation = w.copiedEra().Generation
	if w.stage != nil {
		w.mirror.reread()
	}
}

// copiedEra is the generation that the store says it is in.
func (w *World) copiedEra() record.Era {
	era, _, err := w.layout.TakeEra(w.read(w.layout.EraOps()))
	if err != nil {
		w.failf("%v", err)
	}
	return era
}

// setBackDeclared restores the store from a copy, and declares it before any
// broker is served from it.
func (w *World) setBackDeclared(copied *backup) {
	w.goBack(copied)
	w.declare()
}

// declare lets the operator declare that the store was set back.
func (w *World) declare() {
	if w.fail != nil {
		return
	}
	w.stats.SetBack++
	w.era.changes++
	w.restored = false
	w.nonces++
	declared, err := registry.DeclareRestore(context.Background(), w.txn, w.layout, &pb.DeclareRestoreRequest{
		Nonce: fmt.Sprintf("nonce%016d", w.nonces), ReplacedGeneration: w.copiedEra().Generation, AboveGeneration: w.era.generation,
		DeclaredBy: "operator", Because: "the store is a copy",
	}, w.now.Milliseconds(), func() uint32 { return 1 + uint32(w.rng.IntN(1000)) })
	if err != nil {
		w.failf("a restore cannot be declared: %v", err)
		return
	}
	w.note("the store was set back, and generation %d is declared", declared.GetGeneration())
	w.era.generation, w.era.unknown = declared.GetGeneration(), true
	w.mirror.generation = w.era.generation
	w.mirror.forget()
	w.oldPolicies()
	w.hintEra()
}

// attestRestore is the operator's word that no process of before the restore runs
// or can ever resume.
func (w *World) attestRestore() {
	if !w.era.unknown || w.fail != nil {
		return
	}
	for _, p := range w.earlier() {
		w.failf("%s, of epoch %d, lives on after a restore was declared", p.name, p.epoch)
		return
	}
	_, err := registry.AttestRestore(context.Background(), w.txn, w.layout, &pb.AttestRestoreRequest{
		Generation: w.era.generation, AttestedBy: "operator", Because: "all have ended",
	}, w.now.Milliseconds())
	if err != nil {
		w.failf("a restore cannot be attested: %v", err)
		return
	}
	w.era.unknown, w.era.attested = false, w.now
	w.hintEra()
}

// earlier are the living processes of earlier generations.
func (w *World) earlier() []*process {
	var ps []*process
	for _, s := range w.sites {
		for _, p := range s.procs {
			if p.alive && p.epoch > 0 && p.epoch < lease.EpochFloor(w.era.generation) {
				ps = append(ps, p)
			}
		}
	}
	return ps
}

// earlierWork says that work of earlier generations goes on.
func (w *World) earlierWork() bool {
	return slices.ContainsFunc(w.works, func(k *work) bool { return k.p.epoch < lease.EpochFloor(w.era.generation) })
}

// goBack replaces the contents of the store by those of the copy. Sessions that
// the copy does not know are gone, and their brokers notice after a while; those
// that have ended since live again, until their time is over.
func (w *World) goBack(copied *backup) {
	w.era.changes++
	clear(w.served)
	w.store.Restore(copied.contents)
	current := map[store.SessionID]bool{}
	for _, b := range w.brokers {
		current[b.session] = !b.down && b.lost != b.session
		if lost := b.session; lost > copied.newest {
			b.lost = lost
			w.after(w.between(0, 5*time.Second), "notice", b.name, 0, func() { b.notice(lost) })
		}
	}
	for _, id := range w.sessions {
		if !current[id] {
			w.after(w.between(0, 5*time.Second), "expire", "", int64(id), func() { w.store.ExpireSession(id, false) })
		}
	}
}

// oldPolicies tells the judges which versions are in force again.
func (w *World) oldPolicies() {
	res := w.read([]store.Op{{Kind: store.OpRange, Key: w.layout.Policies(), End: store.PrefixEnd(w.layout.Policies())}})
	for _, kv := range res[0].KVs {
		p := decode[lease.Policy](w, kv)
		for i, key := range w.keys {
			if key.Operation == p.Operation {
				w.judges[i].Restored(w.now, p.Rule)
			}
		}
	}
}

// reapply puts the newest policies in force again where the store has older ones.
func (w *World) reapply() {
	if w.era.generation > 1 {
		for _, p := range w.cfg.Policies {
			w.putPolicy(p)
		}
	}
	w.hintPolicies()
}

// hintEra tells the brokers of a declaration or an attestation, as their watch
// does.
func (w *World) hintEra() {
	for _, b := range w.brokers {
		w.after(w.latency(), "era", b.name, int64(w.era.generation), func() {
			for _, o := range b.owners {
				if o != nil {
					o.sh.ClusterChanged()
					o.soon()
				}
			}
		})
	}
}

// txn runs an operator's transaction at once.
func (w *World) txn(_ context.Context, txn store.Txn) (store.TxnResult, error) {
	return w.store.Apply(txn)
}

// read runs operations that read.
func (w *World) read(ops []store.Op) []store.OpResult {
	res, err := w.store.Apply(store.Txn{Then: ops})
	if err != nil {
		w.failf("reading the store: %v", err)
		return make([]store.OpResult, len(ops))
	}
	return res.Results
}

// forget drops all that was stored under earlier generations: nothing follows from
// it any more.
func (m *mirror) forget() {
	clear(m.grants)
	clear(m.fences)
	clear(m.clock)
	for _, b := range m.ledgers {
		b.exists, b.dropped = false, false
		b.ledger = &lease.Ledger{Key: b.ledger.Key}
	}
}
