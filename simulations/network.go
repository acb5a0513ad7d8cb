package simulations

import (
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

var (
	errUnavailable = errors.New("simulations: no broker took the request")
	errTimeout     = errors.New("simulations: no answer in time")
)

// node is an end of the network: a site, a broker or the store.
type node int

// network is what lies between each two nodes, in each direction.
type network struct {
	w       *World
	sites   int
	brokers int
	links   []link // by sender, then by receiver
	mixed   bool   // delays of all links are drawn alike, and faults of messages by Config.Faults
}

// link is one direction between two nodes.
type link struct {
	delay scenario.Delay // of a round trip
	cuts  int            // that are in force
	messy []mess         // likewise
}

// mess says what becomes of messages, in percent.
type mess struct {
	loss, duplicate, late int
	delay                 time.Duration
}

func newNetwork(w *World, sites, brokers int) *network {
	nodes := sites + brokers + 1
	return &network{w: w, sites: sites, brokers: brokers, links: make([]link, nodes*nodes), mixed: true}
}

func (n *network) site(i int) node   { return node(i) }
func (n *network) broker(i int) node { return node(n.sites + i) }
func (n *network) store() node       { return node(n.sites + n.brokers) }
func (n *network) nodes() int        { return n.sites + n.brokers + 1 }

func (n *network) link(from, to node) *link { return &n.links[int(from)*n.nodes()+int(to)] }

// isCut says that messages in this direction are lost.
func (n *network) isCut(from, to node) bool { return n.link(from, to).cuts > 0 }

// cut loses the messages from one node to another for a while; for ever if that
// is 0.
func (n *network) cut(from, to node, d time.Duration) {
	l := n.link(from, to)
	l.cuts++
	if d > 0 {
		n.w.after(d, "mend", "", int64(to), func() { l.cuts = max(0, l.cuts-1) })
	}
}

// mend ends all cuts and all mess.
func (n *network) mend() {
	for i := range n.links {
		n.links[i].cuts, n.links[i].messy = 0, nil
	}
}

// transit draws how long a message takes.
func (n *network) transit(from, to node) time.Duration {
	if n.mixed {
		return n.w.latency()
	}
	d := n.link(from, to).delay
	if d.Jitter == 0 {
		return d.Base / 2
	}
	return (d.Base + time.Duration(n.w.rng.ExpFloat64()*float64(d.Jitter))) / 2
}

// deliver carries one message: perhaps never, perhaps twice, perhaps late. Copies
// run on their own, in any order among all other messages.
func (w *World) deliver(from, to node, kind, who string, n int64, run func()) {
	arrive := func() {
		if !w.net.isCut(from, to) {
			run()
		}
	}
	if w.net.isCut(from, to) {
		w.stats.Lost++
		return
	}
	if !w.net.mixed {
		w.deliverOver(w.net.link(from, to), w.net.transit(from, to), kind, who, n, arrive)
		return
	}
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
			if w.rng.IntN(2) == 0 {
				w.stash = append(w.stash, arrive)
				break
			}
			w.after(w.between(0, max(1, w.cfg.Chaos-w.now)), kind, who, n, arrive)
		case w.percent(f.Slow):
			longest := []time.Duration{100 * time.Millisecond, time.Second, 8 * time.Second}[w.rng.IntN(3)]
			w.after(w.between(20*time.Millisecond, longest), kind, who, n, arrive)
		default:
			w.after(w.latency(), kind, who, n, arrive)
		}
	}
}

// deliverOver carries a message of a scenario.
func (w *World) deliverOver(l *link, transit time.Duration, kind, who string, n int64, arrive func()) {
	w.stats.Messages++
	copies, lost := 1, false
	for _, m := range l.messy {
		lost = lost || w.percent(m.loss)
		if w.percent(m.duplicate) {
			copies++
		}
	}
	if lost {
		w.stats.Lost++
		return
	}
	for range copies {
		d := transit
		for _, m := range l.messy {
			if w.percent(m.late) {
				w.stats.Late++
				d += w.between(0, max(1, m.delay))
			}
		}
		w.after(d, kind, who, n, arrive)
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

// send carries a request of a process to a broker, and its answers back. Each
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
	entry := w.entry(p, frozen.GetShard())
	w.deliver(p.site.node, entry.node, "request", p.name, int64(id), func() {
		w.note("%s receives %v", entry.name, frozen)
		entry.take(p, proto.CloneOf(frozen), func(resp *pb.SyncResponse, err error) {
			w.reply(entry, p, id, resp, err)
		})
	})
}

// reply carries an answer back.
func (w *World) reply(from *broker, p *process, id uint64, resp *pb.SyncResponse, err error) {
	if resp != nil {
		resp = proto.CloneOf(resp)
	}
	w.deliver(from.node, p.site.node, "answer", p.name, int64(id), func() {
		w.note("%s hears of %d: %v %v", p.name, id, resp, err)
		p.synced(id, resp, err)
	})
}

// entry is the broker that a process sends a request to: in a swarm mostly the
// newest owner of the shard; in a scenario the one that it has settled on.
func (w *World) entry(p *process, shard uint32) *broker {
	if w.stage != nil {
		return w.brokers[p.entry%len(w.brokers)]
	}
	return w.route(shard)
}

// take serves a request, or passes it on to the shard's owner, as any broker
// does. In a swarm it comes to the owner at once, or goes astray.
func (b *broker) take(p *process, req *pb.SyncRequest, answer func(*pb.SyncResponse, error)) {
	w := b.w
	if w.stage == nil || b.down || b.paused() || b.owners[req.GetShard()] != nil {
		b.receive(p, req, answer)
		return
	}
	owner := w.newest(req.GetShard())
	if owner == nil || owner == b {
		answer(nil, errUnavailable)
		return
	}
	w.deliver(b.node, owner.node, "forward", b.name, int64(req.GetShard()), func() {
		owner.receive(p, req, func(resp *pb.SyncResponse, err error) {
			w.deliver(owner.node, b.node, "relay", owner.name, int64(req.GetShard()), func() {
				if !b.down {
					answer(resp, err)
				}
			})
		})
	})
}

// route picks the broker that a request reaches: mostly the newest owner of the
// shard, at times any.
func (w *World) route(shard uint32) *broker {
	if w.percent(w.cfg.Faults.Astray) {
		return w.brokers[w.rng.IntN(len(w.brokers))]
	}
	if owner := w.newest(shard); owner != nil {
		return owner
	}
	return w.brokers[0]
}

// newest is the newest owner of the shard; nil for none.
func (w *World) newest(shard uint32) *broker {
	var best *broker
	for _, b := range w.brokers {
		if o := b.owners[shard]; o != nil && (best == nil || o.revision > best.owners[shard].revision) {
			best = b
		}
	}
	return best
}
