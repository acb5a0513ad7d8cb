package simulations

import (
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// register decides on a request against the registration that is current (zero
// for none). changed is false when nothing is to be written: the request
// repeats one that got its epoch, or it replaces an epoch that is not the
// current one. So a late repetition fences nobody.
func register(current record.Registration, req *pb.RegisterRequest) (next record.Registration, resp *pb.RegisterResponse, changed bool) {
	if current.Epoch > 0 && current.StartNonce == req.GetStartNonce() {
		return current, &pb.RegisterResponse{Registered: true, CurrentEpoch: current.Epoch}, false
	}
	if current.Epoch != req.GetReplacesEpoch() {
		return current, &pb.RegisterResponse{CurrentEpoch: current.Epoch}, false
	}
	next = record.Registration{
		Region: req.GetHolder().GetRegion(), Instance: req.GetHolder().GetInstance(),
		Epoch: current.Epoch + 1, StartNonce: req.GetStartNonce(),
	}
	return next, &pb.RegisterResponse{Registered: true, CurrentEpoch: next.Epoch}, true
}

// registration reads the holder's registration and its revision, as a broker
// does.
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

// putRegistration writes a registration if the one that was read still stands.
func (w *World) putRegistration(h lease.Holder, next record.Registration, revision int64) bool {
	res, err := w.store.Apply(store.Txn{
		If:   []store.Compare{{Key: w.layout.Holder(h), Target: store.ModRevision, Revision: revision}},
		Then: []store.Op{{Kind: store.OpPut, Key: w.layout.Holder(h), Value: record.Encode(next)}},
	})
	if err != nil {
		w.failf("registration of %v: %v", h, err)
	}
	return err == nil && res.Succeeded
}

// register serves a registration, in a read and a guarded write with time
// between them. No answer comes when the write was refused, or at times when it
// was not.
func (b *broker) register(h lease.Holder, req *pb.RegisterRequest, answer func(*pb.RegisterResponse)) {
	w := b.w
	if b.down {
		return
	}
	current, revision := w.registration(h)
	next, resp, changed := register(current, req)
	if hook := w.cfg.Hooks.Register; hook != nil {
		hook(w, current, &next, resp, &changed)
	}
	if !changed {
		answer(resp)
		return
	}
	w.after(w.latency(), "register", b.name, int64(next.Epoch), func() {
		if !w.putRegistration(h, next, revision) {
			return
		}
		for _, other := range w.brokers {
			for _, o := range other.owners {
				if o != nil {
					w.deliver("changed", other.name, 0, func() { o.sh.HolderChanged(h) })
				}
			}
		}
		if !w.percent(w.cfg.Faults.Uncertain) {
			answer(resp)
		}
	})
}
