package broker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
)

const (
	// reconcileEvery bounds how long a missed hint delays a change of ownership.
	reconcileEvery = time.Second
	// adoptAfter is how long a shard may stay without an owner before any broker
	// takes it, whoever it belongs to.
	adoptAfter = 3 * time.Second
)

// ownership keeps this broker's share of the shards: it acquires, runs, and
// gives up. Its loop is one goroutine; the maps are read by handlers.
type ownership struct {
	cfg     Config
	layout  record.Layout
	cluster record.Cluster
	log     *slog.Logger
	obs     *metrics

	session store.Session
	orphans map[uint32]time.Duration // since when a shard has no owner
	adopted map[uint32]string        // the broker that a shard was taken in place of
	moves   map[uint32]move          // what operators have chosen, as read last
	badMove map[string]int64         // the revision of choices that were told to be unusable

	ended chan struct{} // closed when run has given everything up

	mu      sync.RWMutex
	runners map[uint32]*runner
	owners  map[uint32]record.Owner
	changed chan struct{} // closed when runners or owners change
}

// owned is a shard's ownership as it is stored.
type owned struct {
	record.Owner
	revision int64 // that created the key
}

func newOwnership(cfg Config, layout record.Layout, cluster record.Cluster, obs *metrics) *ownership {
	return &ownership{
		cfg: cfg, layout: layout, cluster: cluster, log: cfg.Logger, obs: obs,
		orphans: map[uint32]time.Duration{}, adopted: map[uint32]string{}, ended: make(chan struct{}), runners: map[uint32]*runner{},
		badMove: map[string]int64{}, owners: map[uint32]record.Owner{}, changed: make(chan struct{}),
	}
}

// run owns shards until ctx ends, and then gives them up in order.
func (o *ownership) run(ctx context.Context) error {
	defer close(o.ended)
	defer o.giveUpAll()
	for ctx.Err() == nil {
		if err := o.runSession(ctx); err != nil && ctx.Err() == nil {
			o.log.Warn("the broker's session has ended; starting another", "error", err)
			o.pause(ctx, storePause)
		}
	}
	return nil
}

// runSession joins under a new session and reconciles until it is over.
func (o *ownership) runSession(ctx context.Context) error {
	session, err := o.cfg.Store.NewSession(ctx, o.cfg.SessionTTL)
	if err != nil {
		return fmt.Errorf("no session: %w", err)
	}
	o.session = session
	defer o.dropRunners()
	me := record.Broker{ID: o.cfg.ID, URL: o.cfg.AdvertiseURL}
	_, err = o.cfg.Store.Txn(ctx, store.Txn{Then: []store.Op{
		{Kind: store.OpPut, Key: o.layout.Broker(me.ID), Value: record.Encode(me), Session: session.ID()},
	}})
	if err != nil {
		return errors.Join(fmt.Errorf("the broker cannot be announced: %w", err), session.Close(context.WithoutCancel(ctx)))
	}
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hints := o.watch(wctx)
	for {
		if err := o.reconcile(ctx); err != nil && ctx.Err() == nil {
			o.log.Warn("ownership cannot be read", "error", err)
		}
		timer := o.cfg.Clock.Timer(reconcileEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-session.Done():
			timer.Stop()
			return errors.New("the session is over")
		case <-hints:
		case <-timer.C:
		case <-o.anyStopped():
		}
		timer.Stop()
	}
}

// watch turns changes of brokers, owners, moves, generation, policies and registrations
// into hints.
// What matters is read again after each; nothing is decided from the events.
func (o *ownership) watch(ctx context.Context) <-chan struct{} {
	hints := make(chan struct{}, 1)
	nudge := func([]store.Event) {
		select {
		case hints <- struct{}{}:
		default:
		}
	}
	go o.follow(ctx, o.layout.Brokers(), nudge)
	go o.follow(ctx, o.layout.Owners(), nudge)
	go o.follow(ctx, o.layout.Moves(), nudge)
	go o.follow(ctx, o.layout.Cluster(), func([]store.Event) {
		o.each(func(s *shard.Shard, _ shard.Moment) { s.ClusterChanged() })
	})
	for _, prefix := range []string{o.layout.PolicySet(), o.layout.Policies()} { // each change writes the first
		go o.follow(ctx, prefix, func([]store.Event) {
			o.each(func(s *shard.Shard, _ shard.Moment) { s.PoliciesChanged() })
		})
	}
	go o.follow(ctx, o.layout.Holders(), func(events []store.Event) {
		if events == nil {
			o.each(func(s *shard.Shard, _ shard.Moment) { s.HoldersChanged() })
		}
		for _, e := range events {
			reg, err := record.Decode[record.Registration](e.KV)
			if e.Deleted || err != nil {
				continue
			}
			o.each(func(s *shard.Shard, _ shard.Moment) { s.HolderChanged(reg.Holder()) })
		}
	})
	return hints
}

// follow watches a prefix until ctx ends, again after each failure. What changed
// before a watch began is not among its events, so hint is called without any
// each time that one has begun.
func (o *ownership) follow(ctx context.Context, prefix string, hint func([]store.Event)) {
	key, end := record.All(prefix)
	for ctx.Err() == nil {
		wctx, cancel := context.WithCancel(ctx)
		batches := o.cfg.Store.Watch(wctx, key, end, 0)
		hint(nil)
		for batch := range batches {
			if len(batch.Events) > 0 {
				hint(batch.Events)
			}
		}
		cancel()
		o.pause(ctx, storePause)
	}
}

func (o *ownership) pause(ctx context.Context, d time.Duration) {
	timer := o.cfg.Clock.Timer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// each runs f in the loop of every owned shard.
func (o *ownership) each(f func(*shard.Shard, shard.Moment)) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, r := range o.runners {
		r.submit(f)
	}
}

// reconcile brings what is owned to what should be.
func (o *ownership) reconcile(ctx context.Context) error {
	var brokers []record.Broker
	err := readAll(ctx, o.cfg.Store, o.layout.Brokers(), func(b record.Broker, _ store.KeyValue) { brokers = append(brokers, b) })
	if err != nil {
		return err
	}
	owners := map[uint32]owned{}
	err = readAll(ctx, o.cfg.Store, o.layout.Owners(), func(owner record.Owner, kv store.KeyValue) {
		owners[owner.Shard] = owned{Owner: owner, revision: kv.CreateRevision}
	})
	if err != nil {
		return err
	}
	were := o.moves
	moves, err := o.readMoves(ctx)
	if err != nil {
		return err
	}
	o.reap()
	o.moves = moves
	for id := range o.cluster.Shards {
		if moves[id] != were[id] {
			delete(o.adopted, id) // whoever it was taken in place of is given it anew, or was not asked for
		}
		if err := o.settle(ctx, id, owners, chosen(id, brokers, moves[id].to)); err != nil {
			return err
		}
	}
	o.publish(owners)
	return nil
}

// move is an operator's choice: the broker that has the shard, and the revision at which
// that was said.
type move struct {
	to       string
	revision int64
}

// readMoves reads what operators have chosen. A choice is a preference: one that cannot
// be read is told once, and does not keep shards from their owners.
func (o *ownership) readMoves(ctx context.Context) (map[uint32]move, error) {
	key, end := record.All(o.layout.Moves())
	res, err := o.cfg.Store.Range(ctx, store.RangeRequest{Key: key, End: end})
	if err != nil {
		return nil, err
	}
	moves := map[uint32]move{}
	for _, kv := range res.KVs {
		m, err := moveOf(o.layout, kv)
		switch {
		case err == nil:
			moves[m.Shard] = move{to: m.BrokerID, revision: kv.ModRevision}
		case o.badMove[kv.Key] != kv.ModRevision:
			o.badMove[kv.Key] = kv.ModRevision
			o.log.Error("which broker is to have a shard cannot be read; the shard goes where the cluster chooses until it is moved anew", "error", err)
		}
	}
	return moves, nil
}

// settle decides about one shard. owners is corrected where it changes.
func (o *ownership) settle(ctx context.Context, id uint32, owners map[uint32]owned, wanted string) error {
	owner, held := owners[id]
	if held && owner.BrokerID == o.cfg.ID && o.runner(id) == nil {
		if err := o.disown(ctx, id, owner.revision); err != nil {
			return err
		}
		delete(owners, id)
		held = false
	}
	if held {
		delete(o.orphans, id)
	}
	mine := wanted == o.cfg.ID
	switch {
	case o.runner(id) != nil && held && !mine && wanted != "" && wanted != o.adopted[id]:
		o.log.Info("giving up a shard to the broker it belongs to", "shard", id, "broker", wanted)
		o.giveUp(ctx, id)
		delete(owners, id)
	case !held && mine:
		delete(o.adopted, id)
		return o.acquire(ctx, id, owners)
	case !held && o.ownerless(id) >= adoptAfter:
		o.adopted[id] = wanted // kept until it belongs to yet another
		return o.acquire(ctx, id, owners)
	}
	return nil
}

// disown deletes an ownership of this broker under which nothing runs: it is
// left from an earlier session, or from an acquisition of unknown outcome. Kept,
// it would keep the shard from everybody for as long as its session lives.
func (o *ownership) disown(ctx context.Context, id uint32, revision int64) error {
	key := o.layout.Owner(id)
	_, err := o.cfg.Store.Txn(ctx, store.Txn{
		If:   []store.Compare{{Key: key, Target: store.CreateRevision, Revision: revision}},
		Then: []store.Op{{Kind: store.OpDelete, Key: key}},
	})
	if err != nil {
		return fmt.Errorf("a left ownership of shard %d cannot be deleted: %w", id, err)
	}
	return nil
}

// ownerless is for how long the shard has been seen without an owner.
func (o *ownership) ownerless(id uint32) time.Duration {
	now := o.cfg.Clock.Mono()
	since, seen := o.orphans[id]
	if !seen {
		o.orphans[id] = now
		return 0
	}
	return now - since
}

// acquire creates the ownership key, if there is none, and runs the shard under
// the revision that created it.
func (o *ownership) acquire(ctx context.Context, id uint32, owners map[uint32]owned) error {
	key := o.layout.Owner(id)
	me := record.Owner{Shard: id, BrokerID: o.cfg.ID, URL: o.cfg.AdvertiseURL, SinceUnixMs: o.cfg.Clock.Now().UnixMilli()}
	res, err := o.cfg.Store.Txn(ctx, store.Txn{
		If:   []store.Compare{{Key: key, Target: store.CreateRevision, Revision: 0}},
		Then: []store.Op{{Kind: store.OpPut, Key: key, Value: record.Encode(me), Session: o.session.ID()}},
	})
	if err != nil {
		return fmt.Errorf("shard %d cannot be acquired: %w", id, err)
	}
	if !res.Succeeded {
		return nil // another broker was faster
	}
	s := shard.New(shard.Config{
		ID: id, Layout: o.layout, OwnerRevision: res.Revision,
		MaxTxnOps: o.cfg.Store.MaxTxnOps(), Logger: o.log,
	})
	r := newRunner(s, o.cfg.Store, o.cfg.Clock, o.obs)
	o.mu.Lock()
	o.runners[id] = r
	o.mu.Unlock()
	delete(o.orphans, id)
	owners[id] = owned{Owner: me, revision: res.Revision}
	o.obs.acquired.Inc()
	o.log.Info("shard acquired", "shard", id)
	go r.run()
	return nil
}

// giveUp stops the shard's loop and deletes its ownership key, if it is still
// this broker's.
func (o *ownership) giveUp(ctx context.Context, id uint32) {
	r := o.remove(id)
	if r == nil {
		return
	}
	r.halt()
	o.obs.released.Inc()
	if err := o.disown(ctx, id, r.shard.OwnerRevision()); err != nil {
		o.log.Warn("a shard was given up, but nobody can take it yet; trying again", "shard", id, "error", err)
	}
}

// giveUpAll ends ownership in order, so that other brokers take over at once.
func (o *ownership) giveUpAll() {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	o.dropRunners()
	if o.session != nil {
		if err := o.session.Close(ctx); err != nil {
			o.log.Warn("the session could not be closed; it ends by itself", "error", err)
		}
	}
}

// dropRunners stops every loop. The ownership keys go with the session.
func (o *ownership) dropRunners() {
	o.mu.Lock()
	runners := o.runners
	o.runners = map[uint32]*runner{}
	o.mu.Unlock()
	for _, r := range runners {
		r.halt()
	}
	o.notify()
}

// reap forgets runners whose loop has ended: ownership was lost.
func (o *ownership) reap() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, r := range o.runners {
		select {
		case <-r.stopped:
			delete(o.runners, id)
			o.obs.lost.Inc()
			o.log.Warn("shard lost", "shard", id)
		default:
		}
	}
}

// anyStopped receives when a loop has ended by itself.
func (o *ownership) anyStopped() <-chan struct{} {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, r := range o.runners {
		select {
		case <-r.stopped:
			return r.stopped
		default:
		}
	}
	return nil
}

func (o *ownership) runner(id uint32) *runner {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.runners[id]
}

// serving is a copy of what this broker runs.
func (o *ownership) serving() map[uint32]*runner {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return maps.Clone(o.runners)
}

func (o *ownership) remove(id uint32) *runner {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.runners[id]
	delete(o.runners, id)
	return r
}

func (o *ownership) publish(owners map[uint32]owned) {
	o.mu.Lock()
	o.owners = make(map[uint32]record.Owner, len(owners))
	for id, owner := range owners {
		o.owners[id] = owner.Owner
	}
	o.mu.Unlock()
	o.notify()
	o.obs.owned.Set(float64(o.count()))
	o.obs.unowned.Set(float64(int(o.cluster.Shards) - len(owners)))
}

func (o *ownership) count() int {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return len(o.runners)
}

func (o *ownership) notify() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
}

// route is where requests for the shard go: a runner here, or another broker.
func (o *ownership) route(id uint32) (local *runner, remote record.Owner, changed <-chan struct{}) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.runners[id], o.owners[id], o.changed
}

// preferred is the broker that a shard belongs to: the one with the highest
// score for it (rendezvous hashing; Thaler and Ravishankar, 1998), so that a
// broker that comes or goes moves only its own share. Empty for no brokers.
func preferred(id uint32, brokers []record.Broker) string {
	var best string
	var top uint64
	for _, b := range brokers {
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%d\x00%s", id, b.ID)
		score := h.Sum64()
		score ^= score >> 33
		score *= 0xff51afd7ed558ccd // FNV alone spreads its last bytes too little
		score ^= score >> 33
		if best == "" || score > top || score == top && b.ID < best {
			best, top = b.ID, score
		}
	}
	return best
}

// readAll reads and decodes everything under a prefix.
func readAll[T any](ctx context.Context, st store.Store, prefix string, take func(T, store.KeyValue)) error {
	key, end := record.All(prefix)
	res, err := st.Range(ctx, store.RangeRequest{Key: key, End: end})
	if err != nil {
		return err
	}
	for _, kv := range res.KVs {
		value, err := record.Decode[T](kv)
		if err != nil {
			return err
		}
		take(value, kv)
	}
	return nil
}
