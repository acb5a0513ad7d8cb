package simulations

import (
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// requestTimeout is how long a limiter waits for an answer, beyond the time for
// which it asked the broker to hold the request.
const requestTimeout = 2 * time.Second

// Pings of a limiter's connections, as cmd/tokenlease sets them.
const (
	pingAfter   = 2 * time.Second
	pingTimeout = 2 * time.Second
)

// process is one start of a limiter: the real manager and hot path, driven as
// their runner does.
type process struct {
	w     *World
	site  *site
	name  string
	nonce string
	mode  holder.Journal
	disk  *disk
	past  []holder.PastEpoch // what the journal proved at the start
	epoch uint64             // 0 until it is registered
	alive bool
	clean bool // it ended in order
	clock clock
	entry int            // the broker that it talks to, in scenarios
	asked map[uint64]int // the brokers that were sent the requests on their way

	mgr     *holder.Manager // nil until it runs
	signals *holder.Signals
	budgets []*budget // by number of the key
	waiting int       // checks
	works   []*work   // that it holds something for
	resumes time.Duration
	wake    time.Duration
	pumping bool
	pending func(durable bool) // ends the journal write on its way at a crash
	looks   look               // at the clocks, for a check
	stands  bool               // a check stands still between its look and what it admits
	started time.Duration
	contact time.Duration // first request that was sent, 0 for none
	sent    int
}

func newProcess(s *site) *process {
	w := s.w
	w.nonces++
	p := &process{
		w: w, site: s, mode: s.mode, disk: s.disk, alive: true, started: w.now,
		name:  fmt.Sprintf("%s#%d", s.name, len(s.procs)+1),
		nonce: fmt.Sprintf("nonce%016d", w.nonces),
		clock: s.newClock(), asked: map[uint64]int{},
		budgets: make([]*budget, len(w.keys)), signals: holder.NewSignals(),
	}
	return p
}

// mono is the process's monotonic clock.
func (p *process) mono() time.Duration { return p.clock.mono() }

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
	b := w.brokers[w.rng.IntN(len(w.brokers))]
	w.deliver(p.site.node, b.node, "register", p.name, int64(replaces), func() {
		b.register(p.site.holder, req, func(resp *pb.RegisterResponse) {
			w.deliver(b.node, p.site.node, "registered", p.name, int64(resp.GetCurrentEpoch()), func() {
				p.registered(resp, answered)
				answered = true
			})
		})
	})
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
	p.mgr = holder.New(holder.Config{
		Holder: p.site.holder, Epoch: p.epoch, Shards: w.cfg.Shards, Journal: p.mode, Earlier: p.past,
		SyncInterval: w.cfg.SyncInterval, IdleAfter: w.cfg.IdleAfter, ListEvery: w.cfg.ListEvery,
		HangTime: w.cfg.HangTime, Jitter: w.rng.Float64, Clocks: p.clocks, Retired: p.retired,
	}, p.signals)
	if w.stage == nil {
		for i := range w.keys {
			p.demand(i)
		}
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
	p.lapse()
	effects := p.mgr.Step(p.mono())
	p.lapse()
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
	if mono == never {
		return
	}
	at := p.w.now + p.clock.real(mono)
	if p.wake > 0 && p.wake <= at {
		return
	}
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
	p.asked[s.ID] = p.entry
	if w.stage != nil {
		w.stage.asked++
	}
	w.send(p, s.ID, s.Request)
	patience := requestTimeout + time.Duration(s.Request.GetWaitMs())*time.Millisecond
	w.after(patience, "timeout", p.name, int64(s.ID), func() { p.synced(s.ID, nil, errTimeout) })
	if w.stage != nil && s.Hanging {
		p.ping(s.ID)
	}
}

// ping looks after a while whether the broker that holds a hanging request is
// still there, as the connection's pings do.
func (p *process) ping(id uint64) {
	w := p.w
	w.after(pingAfter, "ping", p.name, int64(id), func() {
		at, awaited := p.asked[id]
		if !awaited || !p.alive {
			return
		}
		b := w.brokers[at%len(w.brokers)]
		if b.down || b.paused() || w.net.isCut(p.site.node, b.node) || w.net.isCut(b.node, p.site.node) {
			w.after(pingTimeout, "lost", p.name, int64(id), func() { p.synced(id, nil, errTimeout) })
			return
		}
		p.ping(id)
	})
}

// synced passes an answer to the manager.
func (p *process) synced(id uint64, resp *pb.SyncResponse, err error) {
	w := p.w
	entry, awaited := p.asked[id]
	if !p.alive || !awaited && err != nil {
		return
	}
	if p.paused() {
		w.after(p.resumes-w.now, "resume", p.name, int64(id), func() { p.synced(id, resp, err) })
		return
	}
	delete(p.asked, id)
	if err != nil && p.entry == entry {
		p.entry++ // the limiter moves on to the next broker
	}
	if resp != nil && !w.restored {
		p.noEvidence(resp)
	}
	p.mgr.Synced(id, resp, err, p.mono())
	p.lapse()
	w.mirror.checkAnswered(p, resp)
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
			p.lapse()
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
	if p.site.current == p && p.w.stage == nil {
		p.site.restartSoon()
	}
}

// pause lets the process stand still. With its clock, if it sleeps.
func (p *process) pause(d time.Duration, sleeps bool) {
	if p.stands {
		return // the margin is for one pause
	}
	p.resumes = max(p.resumes, p.w.now+d)
	if sleeps {
		p.clock.sleep(d)
	}
}

// exit leaves the disk to others.
func (p *process) exit() {
	p.alive = false
	p.abandon()
	if p.disk.lock == p {
		p.disk.lock = nil
	}
	if p.w.stage != nil {
		p.hangUp()
	}
}

// hangUp ends the checks that wait: nobody will answer them.
func (p *process) hangUp() {
	for _, b := range p.budgets {
		if b == nil {
			continue
		}
		for _, c := range b.waiting {
			c.end(pb.Reason_REASON_UNAVAILABLE)
		}
		b.waiting = nil
	}
}

// stop ends the process in order.
func (p *process) stop() {
	if p.alive && p.mgr != nil {
		p.w.stats.Stops++
		p.mgr.Stop()
		p.lapse()
		p.soon()
	}
}
