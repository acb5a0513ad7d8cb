package broker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const (
	// maxInbox is how many requests may wait for one shard's loop to take them.
	maxInbox = 8192
	// commitTimeout bounds one transaction. After it the outcome is unknown.
	commitTimeout = 5 * time.Second
	// storePause is the pause after a transaction that failed, and between
	// attempts to read a shard whose records cannot be read.
	storePause = 50 * time.Millisecond
)

// runner runs one owned shard: it feeds it what has arrived, runs its
// transactions one after the other, and stops when ownership is lost.
type runner struct {
	shard *shard.Shard
	store store.Store
	clock Clock
	obs   *metrics

	inbox   chan func(*shard.Shard, shard.Moment)
	setBack atomic.Bool   // the store was found to be set back: nothing is served
	seen    shard.Stats   // what the metrics have
	queued  atomic.Int64  // requests that the shard has taken and not yet worked on
	stop    chan struct{} // closed to stop in order
	stopped chan struct{} // closed when the loop has ended
}

func newRunner(s *shard.Shard, st store.Store, clock Clock, obs *metrics) *runner {
	return &runner{
		shard: s, store: st, clock: clock, obs: obs,
		inbox:   make(chan func(*shard.Shard, shard.Moment), maxInbox),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
}

func (r *runner) moment() shard.Moment {
	return shard.Moment{Mono: r.clock.Mono(), UnixMs: r.clock.Now().UnixMilli()}
}

// run is the loop. It ends when ownership is lost or stop is closed; a
// transaction on its way is waited for.
func (r *runner) run() {
	defer close(r.stopped)
	defer func() { r.shard.Abandon() }()
	for {
		r.takeInbox()
		r.queued.Store(int64(r.shard.Queued()))
		select {
		case <-r.stop:
			return
		default:
		}
		txn := r.shard.Next(r.moment())
		switch {
		case txn != nil:
			r.commit(*txn)
		case r.shard.Lost():
			return
		default:
			r.wait()
		}
	}
}

// takeInbox hands over everything that has arrived.
func (r *runner) takeInbox() {
	for {
		select {
		case f := <-r.inbox:
			f(r.shard, r.moment())
		default:
			return
		}
	}
}

// wait sleeps until a request arrives or the shard has something to do.
func (r *runner) wait() {
	var due <-chan time.Time
	if at, ok := r.shard.WakeAt(); ok {
		timer := r.clock.Timer(max(0, at-r.clock.Mono()))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case f := <-r.inbox:
		f(r.shard, r.moment())
	case <-due:
	case <-r.stop:
	}
}

func (r *runner) commit(txn store.Txn) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	start := r.clock.Mono()
	loading := !r.shard.Serving()
	res, err := r.store.Txn(ctx, txn)
	cancel()
	r.shard.Result(r.moment(), res, err)
	now := r.shard.Stats()
	r.obs.commit(r.clock.Mono()-start, len(txn.Then), r.seen, now, err)
	r.seen = now
	r.setBack.Store(r.shard.SetBack())
	unreadable := loading && !r.shard.Serving() && !r.shard.Lost()
	if err != nil || unreadable {
		timer := r.clock.Timer(storePause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.stop:
		}
	}
}

// submit hands f to the loop; false when too much waits.
func (r *runner) submit(f func(*shard.Shard, shard.Moment)) bool {
	select {
	case r.inbox <- f:
		return true
	default:
		return false
	}
}

// insist hands f to the loop, and waits for room if it must.
func (r *runner) insist(f func(*shard.Shard, shard.Moment)) {
	select {
	case r.inbox <- f:
	case <-r.stopped:
	}
}

// halt stops the loop in order and waits for its end.
func (r *runner) halt() {
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	<-r.stopped
}

// result is an answer on its way to its caller.
type result[T any] struct {
	value T
	err   error
}

// ask submits a request and waits for its answer. cancel, if not nil, runs in
// the loop when the caller gives up.
func ask[T any](ctx context.Context, r *runner, start func(*shard.Shard, shard.Moment, func(T, error)) (cancel func())) (T, error) {
	answer := make(chan result[T], 1)
	var cancel func()
	reply := func(value T, err error) { answer <- result[T]{value, err} }
	var none T
	if r.queued.Load() > maxInbox || !r.submit(func(s *shard.Shard, m shard.Moment) { cancel = start(s, m, reply) }) {
		return none, ErrOverloaded
	}
	select {
	case a := <-answer:
		return a.value, a.err
	case <-ctx.Done():
		r.insist(func(*shard.Shard, shard.Moment) {
			if cancel != nil {
				cancel()
			}
		})
		return none, ctx.Err()
	case <-r.stopped:
		select {
		case a := <-answer:
			return a.value, a.err
		default:
			return none, shard.ErrNotOwner
		}
	}
}

// sync runs a SyncRequest at this shard.
func (r *runner) sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncResponse, error) {
	return ask(ctx, r, func(s *shard.Shard, m shard.Moment, reply func(*pb.SyncResponse, error)) func() {
		return s.Sync(req, m, reply).Cancel
	})
}

// resolve runs an attestation at this shard. Metrics tell of it at once.
func (r *runner) resolve(ctx context.Context, what shard.Resolution) (shard.Resolved, error) {
	defer r.obs.resolved.Store(true)
	return ask(ctx, r, func(s *shard.Shard, _ shard.Moment, reply func(shard.Resolved, error)) func() {
		s.Resolve(what, reply)
		return nil
	})
}
