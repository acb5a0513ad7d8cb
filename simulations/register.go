package simulations

import (
	"context"
	"errors"
	"fmt"
	"iter"

	registry "github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

var errStopped = errors.New("simulations: the world has ended")

// register serves a registration with the broker's own code, which waits for
// each of its transactions: it runs as a coroutine, and time passes whenever it
// waits. No answer comes after an error, nor from a broker that has crashed.
func (b *broker) register(h lease.Holder, req *pb.RegisterRequest, answer func(*pb.RegisterResponse)) {
	if b.down {
		return
	}
	var (
		w    = b.w
		era  = w.era.changes
		put  bool // the last transaction has written an epoch
		resp *pb.RegisterResponse
		res  store.TxnResult
		err  error
	)
	next, stop := iter.Pull(func(yield func(store.Txn) bool) {
		resp, err = registry.Register(context.Background(), func(_ context.Context, txn store.Txn) (store.TxnResult, error) {
			if !yield(txn) {
				return store.TxnResult{}, errStopped
			}
			return res, err
		}, w.layout, req, b.clock.unixMs())
	})
	w.stops = append(w.stops, stop)
	var run func()
	run = func() {
		txn, waits := next()
		switch {
		case waits:
			b.transact("register", 0, txn, func(got store.TxnResult, failed error) {
				res, err = got, failed
				put = failed == nil && got.Succeeded && writes(txn)
				run()
			})
		case err == nil && !b.down:
			if era == w.era.changes {
				w.registered(h, req, resp, put)
			}
			answer(resp)
		}
	}
	run()
}

// registered checks that each epoch goes to one start, and that a registration
// which is repeated gets no other epoch; and it hints the brokers.
func (w *World) registered(h lease.Holder, req *pb.RegisterRequest, resp *pb.RegisterResponse, put bool) {
	nonce := req.GetStartNonce()
	if !resp.GetRegistered() {
		return
	}
	who := lease.GrantHolder{Holder: h, Epoch: resp.GetCurrentEpoch()}
	if other := w.starts[who]; other != "" && other != nonce && !w.restored {
		w.failf("epoch %d of %v was given to two starts", who.Epoch, h)
	}
	fresh := w.starts[who] == ""
	w.starts[who] = nonce
	asked := fmt.Sprintf("%s replaces %d", nonce, req.GetReplacesEpoch())
	before := w.served[asked]
	if put && fresh && before != 0 && !w.restored {
		w.failf("a registration of %v that got epoch %d got epoch %d when it was repeated", h, before, who.Epoch)
	}
	w.served[asked] = who.Epoch
	for _, b := range w.brokers {
		for _, o := range b.owners {
			if o != nil {
				w.deliver(w.net.store(), b.node, "changed", b.name, 0, func() { o.sh.HolderChanged(h) })
			}
		}
	}
}

// registration reads the holder's registration and its revision.
func (w *World) registration(h lease.Holder) (reg record.Registration, revision int64) {
	res, err := w.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpGet, Key: w.layout.Holder(h)}}})
	if err != nil {
		w.failf("registration of %v: %v", h, err)
		return reg, 0
	}
	if kvs := res.Results[0].KVs; len(kvs) > 0 {
		reg, err = record.Decode[record.Registration](kvs[0])
		if err != nil {
			w.failf("%v", err)
		}
		revision = kvs[0].ModRevision
	}
	return reg, revision
}

// retire is the operator's word that the holder's current epoch is gone.
func (w *World) retire(h lease.Holder, epoch uint64) {
	reg, revision := w.registration(h)
	if reg.Epoch != epoch || reg.Retired {
		return
	}
	reg.Retired = true
	_, err := w.store.Apply(store.Txn{
		If:   []store.Compare{{Key: w.layout.Holder(h), Target: store.ModRevision, Revision: revision}},
		Then: []store.Op{{Kind: store.OpPut, Key: w.layout.Holder(h), Value: record.Encode(reg)}},
	})
	if err != nil {
		w.failf("registration of %v: %v", h, err)
	}
}
