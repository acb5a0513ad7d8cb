package simulations

import (
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

var (
	errUnavailable = errors.New("simulations: no broker took the request")
	errTimeout     = errors.New("simulations: no answer in time")
)

// deliver carries one message: perhaps never, perhaps twice, perhaps late. Copies
// run on their own, in any order among all other messages.
func (w *World) deliver(kind, who string, n int64, run func()) {
	f := &w.cfg.Faults
	copies := 1
	if w.percent(f.Duplicate) {
		copies++
		w.stats.Repeated++
	}
	for range copies {
		w.stats.Messages++
		switch {
		case w.percent(f.Loss):
			w.stats.Lost++
		case w.percent(f.Late):
			w.stats.Late++
			w.stash = append(w.stash, run)
		case w.percent(f.Slow):
			longest := []time.Duration{100 * time.Millisecond, time.Second, 8 * time.Second}[w.rng.IntN(3)]
			w.after(w.between(20*time.Millisecond, longest), kind, who, n, run)
		default:
			w.after(w.latency(), kind, who, n, run)
		}
	}
}

// release delivers a message that was held back.
func (w *World) release() {
	if len(w.stash) == 0 {
		return
	}
	at := w.rng.IntN(len(w.stash))
	run := w.stash[at]
	w.stash[at] = w.stash[len(w.stash)-1]
	w.stash = w.stash[:len(w.stash)-1]
	w.after(w.latency(), "late", "", 0, run)
}

// send carries a request of a process to the brokers, and its answers back. Each
// copy that arrives is a message of its own: answers of all are delivered.
func (w *World) send(p *process, id uint64, req *pb.SyncRequest) {
	if err := req.Validate(); err != nil {
		w.failf("%s sends an invalid request: %v", p.name, err)
		return
	}
	if hook := w.cfg.Hooks.Request; hook != nil {
		req = proto.CloneOf(req)
		hook(w, p, req)
	}
	frozen := proto.CloneOf(req)
	if p.site.cut() {
		return
	}
	w.deliver("request", p.name, int64(id), func() {
		if p.site.cut() {
			return
		}
		b := w.route(frozen.GetShard())
		w.note("%s receives %v", b.name, frozen)
		arrived := proto.CloneOf(frozen)
		if hook := w.cfg.Hooks.Receive; hook != nil {
			hook(w, p, arrived)
		}
		b.receive(p, arrived, func(resp *pb.SyncResponse, err error) {
			w.reply(p, id, resp, err)
		})
	})
}

// reply carries an answer back.
func (w *World) reply(p *process, id uint64, resp *pb.SyncResponse, err error) {
	if resp != nil {
		resp = proto.CloneOf(resp)
		if hook := w.cfg.Hooks.Response; hook != nil {
			hook(w, p, resp)
		}
	}
	w.deliver("answer", p.name, int64(id), func() {
		if !p.site.cut() {
			w.note("%s hears of %d: %v %v", p.name, id, resp, err)
			p.synced(id, resp, err)
		}
	})
}

// route picks the broker that a request reaches: mostly the newest owner of the
// shard, at times any.
func (w *World) route(shard uint32) *broker {
	if w.percent(w.cfg.Faults.Astray) {
		return w.brokers[w.rng.IntN(len(w.brokers))]
	}
	best := w.brokers[0]
	for _, b := range w.brokers {
		if o := b.owners[shard]; o != nil && (best.owners[shard] == nil || o.revision > best.owners[shard].revision) {
			best = b
		}
	}
	return best
}
