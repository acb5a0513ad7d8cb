package simulations

import (
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// process is one start of a limiter: the real manager and hot path, driven as
// their runner does.
type process struct {
	w      *World
	site   *site
	name   string
	nonce  string
	mode   holder.Journal
	disk   *disk
	past   []holder.PastEpoch // what the journal proved at the start
	epoch  uint64             // 0 until it is registered
	alive  bool
	clean  bool // it ended in order
	origin time.Duration

	mgr     *holder.Manager // nil until it runs
	signals *holder.Signals
	budgets []*budget // by number of the key
	resumes time.Duration
	wake    time.Duration
	pumping bool
	pending func(durable bool) // ends the journal write on its way at a crash
	started time.Duration
	contact time.Duration // first request that was sent, 0 for none
	sent    int
}

func newProcess(s *site) *process {
	w := s.w
	w.nonces++
	p := &process{
		w: w, site: s, mode: s.mode, disk: s.disk, alive: true, started: w.now,
		name:    fmt.Sprintf("%s#%d", s.holder.Region, len(s.procs)+1),
		nonce:   fmt.Sprintf("nonce%016d", w.nonces),
		origin:  w.between(time.Second, 1000*time.Hour),
		budgets: make([]*budget, len(w.keys)), signals: holder.NewSignals(),
	}
	return p
}

// mono is the process's monotonic clock.
func (p *process) mono() time.Duration { return p.w.now + p.origin }

func (p *process) paused() bool { return p.w.now < p.resumes }

// boot opens the journal under its lock and asks for an epoch above the last one
// that it knows.
func (p *process) boot() {
	var replaces uint64
	if p.mode != holder.JournalOff {
		p.disk.lock = p
		p.past, replaces = p.disk.past(), p.disk.last
	}
	p.register(replaces)
}

// register asks for an epoch until there is an answer.
func (p *process) register(replaces uint64) {
	w := p.w
	if !p.alive || p.epoch > 0 {
		return
	}
	answered := false
	req := &pb.RegisterRequest{
		Holder:        &pb.Holder{Region: p.site.holder.Region, Instance: p.site.holder.Instance},
		ReplacesEpoch: replaces, StartNonce: p.nonce,
	}
	if err := req.Validate(); err != nil {
		w.failf("%v", err)
	}
	if !p.site.cut() {
		w.deliver("register", p.name, int64(replaces), func() {
			b := w.brokers[w.rng.IntN(len(w.brokers))]
			b.register(p.site.holder, req, func(resp *pb.RegisterResponse) {
				w.deliver("registered", p.name, int64(resp.GetCurrentEpoch()), func() {
					p.registered(resp, answered)
					answered = true
				})
			})
		})
	}
	w.after(w.between(time.Second, 2*time.Second), "ask-again", p.name, int64(replaces), func() {
		if !answered {
			p.register(replaces)
		}
	})
}

// registered takes the answer to a registration. A refusal names the epoch to
// replace.
func (p *process) registered(resp *pb.RegisterResponse, answered bool) {
	w := p.w
	switch {
	case !p.alive || p.epoch > 0 || answered:
		return
	case !resp.GetRegistered():
		w.after(w.latency(), "replace", p.name, int64(resp.GetCurrentEpoch()), func() { p.register(resp.GetCurrentEpoch()) })
		return
	}
	p.epoch = resp.GetCurrentEpoch()
	w.after(w.latency(), "begin", p.name, int64(p.epoch), p.begin)
}

// begin records the epoch in the journal, before anything is asked for, and
// starts the manager.
func (p *process) begin() {
	w := p.w
	if !p.alive {
		return
	}
	if p.mode != holder.JournalOff {
		p.disk.begin(p.epoch)
	}
	if hook := w.cfg.Hooks.Past; hook != nil {
		hook(p)
	}
	p.mgr = holder.New(holder.Config{
		Holder: p.site.holder, Epoch: p.epoch, Shards: w.cfg.Shards, Journal: p.mode, Earlier: p.past,
		SyncInterval: w.cfg.SyncInterval, IdleAfter: w.cfg.IdleAfter, ListEvery: w.cfg.ListEvery,
		HangTime: w.cfg.HangTime, RetryMax: 2 * time.Second,
		Jitter: w.rng.Float64, Retired: p.retired,
	}, p.signals)
	for i := range w.keys {
		p.demand(i)
	}
	p.soon()
}

func (p *process) retired(b *holder.Budget) {
	for i, own := range p.budgets {
		if own != nil && own.Budget == b {
			p.budgets[i] = nil
		}
	}
}

// soon schedules a step of the manager.
func (p *process) soon() {
	if p.pumping || !p.alive {
		return
	}
	p.pumping = true
	p.w.after(p.w.between(1, 2*time.Millisecond), "step", p.name, 0, func() {
		p.pumping = false
		p.pump()
	})
}

// pump steps the manager and carries out what it wants.
func (p *process) pump() {
	w := p.w
	if !p.alive || p.mgr == nil {
		return
	}
	if p.paused() {
		w.after(p.resumes-w.now, "resume", p.name, 0, p.pump)
		return
	}
	effects := p.mgr.Step(p.mono())
	if p.crashPoint() {
		return
	}
	if effects.Journal != nil {
		p.write(effects.Journal)
	}
	for _, s := range effects.Syncs {
		p.sync(s)
		if p.crashPoint() {
			return
		}
	}
	for _, epoch := range effects.Finish {
		if epoch == p.epoch {
			p.clean = true
		}
		if p.mode != holder.JournalOff {
			p.disk.finish(epoch)
		}
	}
	if p.mgr.Ended() {
		p.exit()
		return
	}
	p.wakeAt(effects.WakeAt)
	p.wakeWaiting()
	w.mirror.checkHeld(p)
}

func (p *process) wakeAt(mono time.Duration) {
	const never = 1<<63 - 1
	at := mono - p.origin
	if mono == never || p.wake > 0 && p.wake <= at {
		return
	}
	at = max(at, p.w.now+time.Microsecond)
	p.wake = at
	p.w.after(at-p.w.now, "wake", p.name, 0, func() {
		if p.wake == at {
			p.wake = 0
			p.pump()
		}
	})
}

// sync sends a request, and gives up waiting for its answer after a while.
func (p *process) sync(s holder.Sync) {
	w := p.w
	if p.contact == 0 {
		p.contact = w.now
	}
	p.sent++
	w.note("%s sends %d: %v", p.name, s.ID, s.Request)
	w.send(p, s.ID, s.Request)
	patience := 2*time.Second + time.Duration(s.Request.GetWaitMs())*time.Millisecond
	w.after(patience, "timeout", p.name, int64(s.ID), func() { p.synced(s.ID, nil, errTimeout) })
}

// synced passes an answer to the manager.
func (p *process) synced(id uint64, resp *pb.SyncResponse, err error) {
	w := p.w
	if !p.alive {
		return
	}
	if p.paused() {
		w.after(p.resumes-w.now, "resume", p.name, int64(id), func() { p.synced(id, resp, err) })
		return
	}
	if resp != nil {
		p.noEvidence(resp)
		if hook := w.cfg.Hooks.Answer; hook != nil {
			hook(p, id, resp)
		}
	}
	p.mgr.Synced(id, resp, err, p.mono())
	w.mirror.checkHeld(p)
	if !p.crashPoint() {
		p.soon()
	}
}

// noEvidence holds that an honest history never contradicts itself.
func (p *process) noEvidence(resp *pb.SyncResponse) {
	above := pb.Evidence_EVIDENCE_ABOVE_ISSUED
	for _, a := range resp.GetBudgets() {
		if a.GetEvidence() == above {
			p.w.failf("%s is accused of spending above what was issued: %v", p.name, a)
		}
	}
	for _, a := range resp.GetCloses() {
		if a.GetEvidence() == above {
			p.w.failf("%s is accused of spending above what was issued: %v", p.name, a)
		}
	}
	for _, a := range resp.GetAccounts() {
		if a.GetEvidence() == above {
			p.w.failf("%s is accused of spending above what was issued: %v", p.name, a)
		}
	}
}

func (p *process) hint(shard uint32, keys []lease.Key, fenced bool) {
	if p.alive && p.mgr != nil {
		p.mgr.Hint(shard, keys, fenced)
		p.soon()
	}
}

// write makes a journal write durable, and then tells the manager. A crash in
// between leaves it on disk or not.
func (p *process) write(write *holder.JournalWrite) {
	w := p.w
	if hook := w.cfg.Hooks.Journal; hook != nil && hook(p, write) {
		return
	}
	fails := w.percent(w.cfg.Faults.JournalError)
	p.pending = func(durable bool) {
		p.pending = nil
		if durable {
			p.disk.write(p.epoch, write)
		}
	}
	w.after(w.latency(), "journal", p.name, int64(len(write.Draws)), func() {
		if !p.alive {
			return
		}
		if fails {
			p.pending(w.rng.IntN(2) == 0)
			p.mgr.Journaled(0, errDisk)
			p.soon()
			return
		}
		p.pending = nil
		counter := p.disk.write(p.epoch, write)
		if p.crashPoint() {
			return
		}
		p.mgr.Journaled(counter, nil)
		p.soon()
	})
}

// crashPoint may crash the process here.
func (p *process) crashPoint() bool {
	if p.alive && p.w.percent(p.w.cfg.Faults.CrashPoint) {
		p.crash()
	}
	return !p.alive
}

// crash ends the process as it is.
func (p *process) crash() {
	if !p.alive {
		return
	}
	p.w.stats.Crashes++
	if p.pending != nil {
		p.pending(p.w.rng.IntN(2) == 0)
	}
	p.exit()
	if p.site.current == p {
		p.site.restartSoon()
	}
}

// exit leaves the disk to others.
func (p *process) exit() {
	p.alive = false
	if p.disk.lock == p {
		p.disk.lock = nil
	}
}

// stop ends the process in order.
func (p *process) stop() {
	if p.alive && p.mgr != nil {
		p.w.stats.Stops++
		p.mgr.Stop()
		p.soon()
	}
}
