package regional

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
	"github.com/tokenlease/tokenlease/regional/journal"
)

// Pauses between attempts to register or to watch: doubling from the first, at
// most the second, drawn at random from the upper half.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// runner does the I/O that the manager decides on. Everything that happens
// reaches the manager through events, in one goroutine.
type runner struct {
	l       *Limiter
	m       *holder.Manager
	epoch   uint64
	cluster string
	events  chan func(now time.Duration)
	group   sync.WaitGroup
	watched map[uint32]bool
	away    bool  // the last request failed
	failure error // of the journal
	stats   holder.Stats
}

// Run registers the limiter and keeps it supplied until ctx ends; then it stops
// spending, hands in the exact final account, and returns. While the broker is
// out of reach it goes on trying.
//
// Errors: ErrFenced, ErrJournal, ErrOtherCluster. Nil for an orderly stop, also
// when the final account could not be confirmed in time: the next start's
// journal accounts for it.
func (l *Limiter) Run(ctx context.Context) error {
	defer l.close()
	m, reg, err := l.start(ctx)
	if err != nil || m == nil {
		return err
	}
	epoch := reg.GetCurrentEpoch()
	r := &runner{l: l, m: m, epoch: epoch, cluster: reg.GetClusterId(), events: make(chan func(time.Duration), 1024), watched: map[uint32]bool{}}
	l.epoch.Store(epoch)
	defer func() { l.cfg.Logger.Info("limiter stopped", "epoch", epoch) }()
	l.cfg.Logger.Info("limiter running", "region", l.cfg.Region, "instance", l.cfg.Instance, "epoch", epoch, "journal", l.cfg.JournalMode)
	return r.run(ctx)
}

func (l *Limiter) close() {
	l.stopped.Store(true)
	if l.journal != nil {
		if err := l.journal.Close(); err != nil {
			l.cfg.Logger.Warn("the journal could not be closed", "error", err)
		}
	}
}

// start registers and opens the epoch in the journal, before anything is asked
// for. It returns no manager when ctx ended first.
func (l *Limiter) start(ctx context.Context) (*holder.Manager, *pb.RegisterResponse, error) {
	reg, nonce := l.register(ctx)
	if reg == nil {
		return nil, nil, nil
	}
	var earlier []holder.PastEpoch
	var err error
	if l.journal != nil {
		if earlier, err = l.openEpoch(reg, nonce); err != nil {
			return nil, nil, err
		}
	}
	m := holder.New(holder.Config{
		Holder: lease.Holder{Region: l.cfg.Region, Instance: l.cfg.Instance}, Epoch: reg.GetCurrentEpoch(),
		Cluster: reg.GetClusterId(), Shards: reg.GetShards(), Journal: l.cfg.JournalMode, Earlier: earlier,
		SyncInterval: l.cfg.SyncInterval, IdleAfter: l.cfg.IdleAfter,
		Jitter: mrand.Float64, Clocks: l.cfg.Clock.Clocks, Retired: l.retired, Logger: l.cfg.Logger,
	}, l.signals)
	return m, reg, nil
}

// register asks for an epoch until a broker gives one. The nonce makes every
// attempt of this start the same request. It returns nil when ctx ended first.
func (l *Limiter) register(ctx context.Context) (*pb.RegisterResponse, string) {
	nonce := randomNonce()
	req := &pb.RegisterRequest{Holder: &pb.Holder{Region: l.cfg.Region, Instance: l.cfg.Instance}, StartNonce: nonce}
	if l.journal != nil {
		req.ReplacesEpoch = l.journal.LastEpoch()
	}
	for failures := 0; ctx.Err() == nil; {
		rctx, cancel := context.WithTimeout(ctx, l.cfg.RequestTimeout)
		resp, err := l.brokers.register(rctx, req)
		cancel()
		switch {
		case err != nil:
			failures++
			l.cfg.Logger.Warn("no broker has registered this limiter yet; trying again", append([]any{"brokers", shownURLs(l.cfg.Brokers), "error", err}, clearHint(l.cfg.Brokers, err)...)...)
			l.pause(ctx, failures)
		case !resp.GetRegistered():
			req.ReplacesEpoch = resp.GetCurrentEpoch()
		default:
			l.obs.answeredAt(l.cfg.Clock.Mono(), nil)
			return resp, nonce
		}
	}
	return nil, ""
}

// openEpoch binds the journal to the cluster, takes what it proves of earlier
// epochs, and records the start of this one.
func (l *Limiter) openEpoch(reg *pb.RegisterResponse, nonce string) ([]holder.PastEpoch, error) {
	if err := l.journal.BindCluster(reg.GetClusterId()); err != nil {
		if errors.Is(err, journal.ErrForeign) {
			return nil, fmt.Errorf("%w: %w", ErrOtherCluster, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrJournal, err)
	}
	epochs, err := l.journal.Epochs()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJournal, err)
	}
	if err := l.journal.Begin(reg.GetCurrentEpoch(), nonce); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJournal, err)
	}
	earlier := make([]holder.PastEpoch, 0, len(epochs))
	for _, e := range epochs {
		past := holder.PastEpoch{Epoch: e.Number, Counter: e.Counter}
		for _, d := range e.Drawn {
			past.Drawn = append(past.Drawn, holder.Draw{GrantID: d.GrantID, Tokens: d.Tokens})
		}
		earlier = append(earlier, past)
	}
	return earlier, nil
}

func (l *Limiter) pause(ctx context.Context, failures int) {
	d := firstPause
	for i := 1; i < failures && d < lastPause; i++ {
		d *= 2
	}
	d = min(d, lastPause)
	timer := l.cfg.Clock.Timer(d/2 + time.Duration(mrand.Float64()*float64(d/2)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// run is the loop: an event, a step, its effects.
func (r *runner) run(ctx context.Context) error {
	io, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer r.group.Wait()
	defer cancel()
	done := ctx.Done()
	var giveUp <-chan time.Time
	for {
		effects := r.m.Step(r.l.cfg.Clock.Mono())
		r.dispatch(io, effects)
		if r.m.Ended() {
			return r.outcome()
		}
		if r.m.Fenced() {
			r.l.stopped.Store(true)
		}
		timer := r.l.cfg.Clock.Timer(max(0, effects.WakeAt-r.l.cfg.Clock.Mono()))
		select {
		case <-timer.C:
		case <-r.l.signals.Wake():
		case event := <-r.events:
			r.takeEvents(event)
		case key := <-r.l.policyAsks:
			r.m.Hint(0, []lease.Key{key}, false)
		case <-done:
			done = nil
			r.l.stopped.Store(true)
			r.m.Stop()
			limit := r.l.cfg.Clock.Timer(r.l.cfg.StopTimeout)
			defer limit.Stop()
			giveUp = limit.C
		case <-giveUp:
			timer.Stop()
			r.l.cfg.Logger.Warn("the final account was not confirmed in time, as after a crash: the next start's journal accounts for it, and the last block counts as spent")
			return r.outcome()
		}
		timer.Stop()
	}
}

// outcome is what Run returns.
func (r *runner) outcome() error {
	switch {
	case r.failure != nil:
		return fmt.Errorf("%w: %w", ErrJournal, r.failure)
	case r.m.Fenced():
		return ErrFenced
	}
	return nil
}

// takeEvents applies everything that has happened, so that one step sees it
// all.
func (r *runner) takeEvents(event func(time.Duration)) {
	for {
		event(r.l.cfg.Clock.Mono())
		select {
		case event = <-r.events:
		default:
			return
		}
	}
}

// happened hands an event to the loop, unless the loop has ended.
func (r *runner) happened(ctx context.Context, event func(now time.Duration)) {
	select {
	case r.events <- event:
	case <-ctx.Done():
	}
}

func (r *runner) dispatch(ctx context.Context, e holder.Effects) {
	for _, s := range e.Syncs {
		r.group.Go(func() { r.sync(ctx, s) })
	}
	if e.Journal != nil {
		r.group.Go(func() { r.write(ctx, *e.Journal) })
	}
	for _, epoch := range e.Finish {
		if r.l.journal == nil {
			continue
		}
		if err := r.l.journal.Finish(epoch); err != nil {
			r.l.cfg.Logger.Warn("the journal keeps an epoch whose account is confirmed", "epoch", epoch, "error", err)
		}
	}
	for _, id := range r.m.Contacted() {
		if !r.watched[id] {
			r.watched[id] = true
			r.group.Go(func() { r.watch(ctx, id) })
		}
	}
	r.l.obs.manager(&r.stats, r.m.Stats())
}

func (r *runner) sync(ctx context.Context, s holder.Sync) {
	timeout := r.l.cfg.RequestTimeout + time.Duration(s.Request.GetWaitMs())*time.Millisecond
	rctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := r.l.cfg.Clock.Mono()
	resp, err := r.l.brokers.sync(rctx, s.Request)
	if err != nil && ctx.Err() == nil {
		r.l.cfg.Logger.Debug("a sync failed", "shard", s.Request.GetShard(), "error", err)
	}
	if err == nil {
		r.l.obs.answeredAt(r.l.cfg.Clock.Mono(), resp)
	}
	if !s.Hanging {
		r.l.obs.syncSeconds.Observe((r.l.cfg.Clock.Mono() - start).Seconds())
	}
	r.happened(ctx, func(now time.Duration) {
		r.reached(err)
		r.m.Synced(s.ID, resp, err, now)
	})
}

// reached tells when the brokers go out of reach, and when they are back.
func (r *runner) reached(err error) {
	if away := err != nil; away != r.away && !r.m.Ended() {
		r.away = away
		if away {
			r.l.cfg.Logger.Warn("a request to the brokers failed: what is held is spent, and then checks are answered as unavailable", "error", err)
		} else {
			r.l.cfg.Logger.Info("the brokers answer again")
			r.l.fallback.end(r.l.cfg.Clock.Mono())
		}
	}
}

// write makes the manager's draws durable.
func (r *runner) write(ctx context.Context, w holder.JournalWrite) {
	start := r.l.cfg.Clock.Mono()
	counter, err := r.writeJournal(w)
	r.l.obs.journalSeconds.Observe((r.l.cfg.Clock.Mono() - start).Seconds())
	r.happened(ctx, func(time.Duration) {
		if err != nil {
			r.l.cfg.Logger.Error("the journal failed; this limiter stops and hands its credit back", "error", err)
			r.failure = err
			r.l.stopped.Store(true)
		}
		r.m.Journaled(counter, err)
	})
}

func (r *runner) writeJournal(w holder.JournalWrite) (uint64, error) {
	if len(w.Forget) > 0 {
		if err := r.l.journal.Forget(r.epoch, w.Forget); err != nil {
			return 0, err
		}
	}
	if len(w.Draws) == 0 {
		return r.l.journal.Counter(r.epoch)
	}
	draws := make([]journal.Drawn, 0, len(w.Draws))
	for _, d := range w.Draws {
		draws = append(draws, journal.Drawn{GrantID: d.GrantID, Tokens: d.Tokens})
	}
	return r.l.journal.Draw(r.epoch, draws)
}

// watch follows the hints of one shard until the loop ends.
func (r *runner) watch(ctx context.Context, id uint32) {
	req := &pb.WatchRequest{
		Holder: &pb.Holder{Region: r.l.cfg.Region, Instance: r.l.cfg.Instance}, Epoch: r.epoch, Shard: id, ClusterId: r.cluster,
	}
	for failures := 0; ctx.Err() == nil; failures++ {
		err := r.l.brokers.watch(ctx, req, func(hint *pb.WatchResponse) {
			failures = 0
			r.l.obs.answeredAt(r.l.cfg.Clock.Mono(), nil)
			r.hint(ctx, id, hint)
		})
		if ctx.Err() == nil {
			r.l.cfg.Logger.Debug("a watch has ended", "shard", id, "error", err)
			r.l.pause(ctx, failures+1)
		}
	}
}

func (r *runner) hint(ctx context.Context, id uint32, hint *pb.WatchResponse) {
	if len(hint.GetKeys()) == 0 && !hint.GetFenced() {
		return
	}
	keys := make([]lease.Key, 0, len(hint.GetKeys()))
	for _, k := range hint.GetKeys() {
		keys = append(keys, lease.Key{Account: k.GetAccount(), Operation: k.GetOperation()})
	}
	r.happened(ctx, func(time.Duration) { r.m.Hint(id, keys, hint.GetFenced()) })
}

func journalPath(cfg Config) string {
	return filepath.Join(cfg.JournalDir, journal.DefaultFile)
}

// randomNonce is unique to this start: 32 hexadecimal digits.
func randomNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
