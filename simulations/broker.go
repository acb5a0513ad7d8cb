package simulations

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// broker is one broker process: it campaigns for shards and serves those that it
// owns, or believes to own.
type broker struct {
	w       *World
	name    string
	node    node
	clock   clock
	down    bool
	resumes time.Duration // paused until then
	session store.SessionID
	renewed time.Duration   // in scenarios: when the session was last kept alive
	lost    store.SessionID // the newest that was taken away
	expired bool            // the store has ended it, and the broker does not know
	owners  []*owner        // by shard; nil where it does not own
	since   []time.Duration // by shard: since when it campaigns; 0: it does not
}

// owner is a broker's ownership of one shard, current or not.
type owner struct {
	b         *broker
	shard     uint32
	sh        *shard.Shard
	revision  int64
	busy      bool // a transaction is on its way
	over      bool
	wake      time.Duration // of the event that is scheduled; 0: none
	pumping   bool
	watchers  map[*process]bool
	heard     map[string]int64 // versions of policies that it has read, by operation
	campaign  time.Duration    // since when it had campaigned
	loadedYet bool
}

func newBroker(w *World, i int, name string, c clock) *broker {
	b := &broker{
		w: w, name: name, node: w.net.broker(i), clock: c,
		owners: make([]*owner, w.cfg.Shards), since: make([]time.Duration, w.cfg.Shards),
	}
	b.connect()
	for id := range w.cfg.Shards {
		w.after(w.latency(), "campaign", b.name, int64(id), func() { b.elect(id) })
	}
	return b
}

func (b *broker) connect() {
	s, err := b.w.store.NewSession(context.Background(), time.Second)
	if err != nil {
		b.w.failf("no session: %v", err)
		return
	}
	b.w.sessions = append(b.w.sessions, s.ID())
	b.session, b.renewed = s.ID(), b.w.now
}

// moment reads the broker's clocks.
func (b *broker) moment() shard.Moment {
	return shard.Moment{Mono: b.clock.mono(), UnixMs: b.clock.unixMs()}
}

func (b *broker) paused() bool { return b.w.now < b.resumes }

// pause lets the broker stand still. With its clock, if it sleeps.
func (b *broker) pause(d time.Duration, sleeps bool) {
	if b.down {
		return
	}
	b.resumes = max(b.resumes, b.w.now+d)
	if sleeps {
		b.clock.sleep(d)
	}
}

// elect campaigns for a shard, now and again: it takes the ownership key if
// nobody has it. Where the outcome was unknown, the key may be its own already.
func (b *broker) elect(id uint32) {
	w := b.w
	pause := w.paced(200*time.Millisecond, 600*time.Millisecond, 10) // not so slow that a healing world waits for it
	w.after(pause, "campaign", b.name, int64(id), func() { b.elect(id) })
	if b.down || b.paused() || b.owners[id] != nil {
		return
	}
	if b.since[id] == 0 {
		b.since[id] = w.now
	}
	session := b.session
	key, claim := w.layout.Owner(id), b.claim(session)
	b.transact("elect", int64(id), store.Txn{
		If:   []store.Compare{{Key: key, Target: store.CreateRevision}},
		Then: []store.Op{{Kind: store.OpPut, Key: key, Session: session, Value: claim}},
	}, func(res store.TxnResult, err error) {
		switch {
		case err == nil && res.Succeeded:
			b.elected(id, res.Revision, session)
		case err == nil:
			b.lookWhoOwns(id, session)
		}
	})
}

// claim is what the broker writes at an ownership key. It tells its sessions
// apart.
func (b *broker) claim(session store.SessionID) []byte {
	return record.Encode(record.Owner{BrokerID: b.name, URL: fmt.Sprint(session)})
}

// lookWhoOwns reads the ownership key, and serves if it is this session's.
func (b *broker) lookWhoOwns(id uint32, session store.SessionID) {
	get := store.Op{Kind: store.OpGet, Key: b.w.layout.Owner(id)}
	b.transact("look", int64(id), store.Txn{Then: []store.Op{get}}, func(res store.TxnResult, err error) {
		if err != nil || len(res.Results) == 0 || len(res.Results[0].KVs) == 0 {
			return
		}
		if kv := res.Results[0].KVs[0]; string(kv.Value) == string(b.claim(session)) {
			b.elected(id, kv.CreateRevision, session)
		}
	})
}

func (b *broker) elected(id uint32, revision int64, session store.SessionID) {
	if b.down || b.session != session || b.owners[id] != nil {
		return
	}
	b.w.stats.Elections++
	cfg := shard.Config{
		ID: id, Generation: 1, Layout: b.w.layout, OwnerRevision: revision,
		MaxTxnOps: b.w.store.MaxTxnOps(),
	}
	switch {
	case b.w.stage != nil:
	case b.w.cfg.Faults.ForgetIdle:
		cfg.IdleAfter = 500 * time.Millisecond
	default:
		cfg.IdleAfter = 5 * time.Second
	}
	o := &owner{b: b, shard: id, sh: shard.New(cfg), revision: revision, watchers: map[*process]bool{}, heard: map[string]int64{}, campaign: b.since[id]}
	b.since[id] = 0
	b.owners[id] = o
	o.pump()
}

// receive takes a request in.
func (b *broker) receive(p *process, req *pb.SyncRequest, answer func(*pb.SyncResponse, error)) {
	if b.down {
		return
	}
	if b.paused() {
		b.w.after(b.resumes-b.w.now, "received", b.name, 0, func() { b.receive(p, req, answer) })
		return
	}
	o := b.owners[req.GetShard()]
	if refuse := b.w.cfg.Hooks.Refuse; o == nil || refuse != nil && refuse() {
		answer(nil, errUnavailable)
		return
	}
	o.watch(p)
	ticket := o.sh.Sync(req, b.moment(), answer)
	if b.w.percent(b.w.cfg.Faults.Loss) {
		b.w.after(b.w.between(time.Millisecond, time.Second), "cancel", b.name, 0, ticket.Cancel)
	}
	o.soon()
}

// watch subscribes the process to hints, as it does at its first contact.
func (o *owner) watch(p *process) {
	if o.watchers[p] {
		return
	}
	o.watchers[p] = true
	o.sh.Subscribe(p.site.holder, p.epoch, func(keys []lease.Key, fenced bool) {
		o.b.w.deliver(o.b.node, p.site.node, "hint", p.name, int64(len(keys)), func() { p.hint(o.shard, keys, fenced) })
	})
}

// soon lets the owner look at its queue a little later, so that requests gather.
func (o *owner) soon() {
	if o.pumping || o.busy {
		return
	}
	o.pumping = true
	o.b.w.after(o.b.w.between(1, time.Millisecond), "pump", o.b.name, int64(o.shard), func() {
		o.pumping = false
		o.pump()
	})
}

// pump runs the next transaction, unless one is on its way.
func (o *owner) pump() {
	if o.over || o.busy {
		return
	}
	w := o.b.w
	if o.b.paused() {
		w.after(o.b.resumes-w.now, "resume", o.b.name, int64(o.shard), o.pump)
		return
	}
	before := o.sh.Stats()
	txn := o.sh.Next(o.moment())
	w.stats.Lapsed += o.sh.Stats().GrantsLapsed - before.GrantsLapsed
	w.stats.LapsedOf += o.sh.Stats().TokensLapsed - before.TokensLapsed
	if txn != nil {
		o.busy = true
		o.commit(*txn)
		return
	}
	switch at, ok := o.sh.WakeAt(); {
	case o.sh.SetBack():
		if !w.restored && w.era.generation == 1 {
			w.failf("%s takes the store for restored, which it was not", o.b.name)
		}
	case o.sh.Lost():
		o.end()
	case ok:
		o.wakeAt(w.now + o.b.clock.real(at))
	}
}

// wakeAt schedules a pump at a point of real time, unless an earlier one is
// scheduled.
func (o *owner) wakeAt(at time.Duration) {
	w := o.b.w
	if o.wake > 0 && o.wake <= at {
		return
	}
	o.wake = at
	w.after(at-w.now, "wake", o.b.name, int64(o.shard), func() {
		if o.wake == at {
			o.wake = 0
			o.pump()
		}
	})
}

func (o *owner) moment() shard.Moment {
	m := o.b.moment()
	if hook := o.b.w.cfg.Hooks.Moment; hook != nil {
		hook(o, &m)
	}
	return m
}

// result passes the outcome of a transaction to the shard.
func (o *owner) result(res store.TxnResult, err error) {
	w := o.b.w
	if o.over {
		return
	}
	if o.b.paused() {
		w.after(o.b.resumes-w.now, "resume", o.b.name, int64(o.shard), func() { o.result(res, err) })
		return
	}
	o.sh.Result(o.moment(), res, err)
	o.loadedYet = o.loadedYet || o.sh.Serving()
	if err != nil {
		w.after(storePause, "pause", o.b.name, int64(o.shard), o.next)
		return
	}
	o.next()
}

// next runs the next transaction after one that has ended.
func (o *owner) next() {
	o.busy = false
	o.pump()
}

// end stops serving the shard.
func (o *owner) end() {
	if !o.over {
		o.over = true
		o.sh.Abandon()
		o.b.owners[o.shard] = nil
	}
}

// loseSession takes all ownership away; the broker notices after a while, and
// goes on as before until then.
func (b *broker) loseSession(notices time.Duration) {
	if b.down {
		return
	}
	w, lost := b.w, b.session
	w.note("%s loses session %d, and notices after %v", b.name, lost, notices)
	b.lost = lost
	w.store.ExpireSession(lost, false)
	w.after(notices, "notice", b.name, 0, func() { b.notice(lost) })
}

// notice lets the broker learn that its session has ended.
func (b *broker) notice(lost store.SessionID) {
	if b.down || b.session != lost {
		return
	}
	if b.paused() {
		b.w.after(b.resumes-b.w.now, "notice", b.name, 0, func() { b.notice(lost) })
		return
	}
	b.w.note("%s notices that session %d has ended", b.name, lost)
	b.w.store.ExpireSession(lost, true)
	for _, o := range b.owners {
		if o != nil {
			o.end()
		}
	}
	b.connect()
	b.w.note("%s has session %d", b.name, b.session)
}

// crash ends the broker; its ownership ends later, as its session does. It is
// back after a while; never if that is 0.
func (b *broker) crash(back, expires time.Duration) {
	if b.down {
		return
	}
	w, lost := b.w, b.session
	w.note("%s crashes; session %d ends after %v", b.name, lost, expires)
	b.down = true
	for id, o := range b.owners {
		if o != nil {
			o.over = true
			b.owners[id] = nil
		}
	}
	w.after(expires, "expire", b.name, 0, func() { w.store.ExpireSession(lost, true) })
	if back > 0 {
		w.after(back, "boot", b.name, 0, func() { b.boot() })
	}
}

func (b *broker) boot() {
	if !b.down {
		return
	}
	slow, wall := b.clock.slow, b.clock.wall
	b.down, b.resumes = false, 0
	b.clock = b.w.newClock()
	b.clock.slow, b.clock.wall = slow, wall
	b.connect()
	b.w.note("%s has session %d", b.name, b.session)
}
