package explore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

var (
	errLost = errors.New("explore: nobody waits for the answer any more")
	errDisk = errors.New("explore: the journal could not be written")
)

// key is the one budget that there is.
var key = lease.Key{Account: "acme", Operation: "report.create"}

// process is one start of a limiter: the real manager and hot path, at rest.
type process struct {
	slot    uint8
	epoch   uint64
	mgr     *holder.Manager
	signals *holder.Signals
	budget  *holder.Budget
	writing *holder.JournalWrite // on its way to the disk
	open    []uint64             // requests that it waits for, oldest first
	wakeAt  time.Duration
}

// procPart is a process with all that it knows.
type procPart struct {
	memory[procInput, procResult]

	digest digest
	proc   *process
	// What it holds, for the checks.
	grant           string
	unspent, credit int64
	// stale is from which tick on nothing of it can be spent, unless it hears of its
	// broker.
	stale uint8
}

// procInput is what happens to a process.
type procInput struct {
	kind    kind
	now     uint8
	cost    int64    // checks
	id      uint64   // givesUp
	answer  *message // answered
	counter uint64   // written
}

type procResult struct {
	next     *procPart // nil: it has ended
	sent     []*message
	finish   []uint64
	admitted int64
	fail     string
}

// A process is in a slot, by region and start. Its epoch is the number of the
// start: epochs count up.
func slotOf(region int, epoch uint64) uint8 { return uint8(region*maxStarts) + uint8(epoch-1) }

func regionOf(slot uint8) int { return int(slot) / maxStarts }

func holderOf(region int) lease.Holder {
	return lease.Holder{Region: string(rune('a' + region)), Instance: "limiter"}
}

func slotName(slot uint8) string {
	return fmt.Sprintf("%s#%d", holderOf(regionOf(slot)).Region, slot%maxStarts+1)
}

func (x *explorer) procPart(p *process) *procPart {
	part := &procPart{digest: digestOf(p), proc: p, credit: p.budget.Credit()}
	part.grant, part.unspent = p.mgr.Held(key)
	part.stale = x.staleFrom(p)
	return x.procs.one(part.digest, part)
}

// start is a process of an epoch that was just registered, with what its journal
// proves.
func (x *explorer) start(region int, epoch uint64, past []holder.PastEpoch, now uint8) *procResult {
	if hook := x.scope.Hooks.Past; hook != nil {
		past = hook(epoch, past)
	}
	p := &process{slot: slotOf(region, epoch), epoch: epoch, signals: holder.NewSignals()}
	defer x.clocks.of(now)()
	cfg := holder.Config{
		Holder: holderOf(region), Epoch: epoch, Shards: 1, Journal: x.scope.Journal, Earlier: past,
		SyncInterval: 1, ReportWithin: tick, IdleAfter: 1000 * time.Hour, ListEvery: 1000 * time.Hour,
		HangTime: 1, RetryMin: 1, RetryMax: 1, Jitter: func() float64 { return 0 }, Clocks: x.clocks.read,
	}
	if x.scope.Eager {
		cfg.SyncInterval = -1 // any time has passed since the last request
	}
	if x.scope.IdleClose {
		cfg.IdleAfter = tick
	}
	if x.scope.Lists {
		cfg.ListEvery = 2 * tick // half of it passes
	}
	p.mgr = holder.New(cfg, p.signals)
	p.budget = holder.NewBudget(key, p.signals)
	r := &procResult{}
	x.step(p, now, r)
	return r
}

// happens is what an input does to a process.
func (x *explorer) happens(part *procPart, in procInput) *procResult {
	return part.on(in, func() *procResult {
		x.ran.Add(1)
		p, r := deepCopy(part.proc), &procResult{}
		defer x.clocks.of(in.now)()
		switch now := mono(in.now); in.kind {
		case checks:
			r.admitted = x.checks(p, in.cost)
		case hinted:
			p.mgr.Hint(0, []lease.Key{key}, false)
		case stops:
			p.mgr.Stop()
		case answered:
			p.over(in.id)
			p.mgr.Synced(in.id, in.answer.resp, nil, now)
		case givesUp:
			p.over(in.id)
			p.mgr.Synced(in.id, nil, errLost, now)
		case written:
			p.writing = nil
			p.mgr.Journaled(in.counter, nil)
		case writeFails:
			p.writing = nil
			p.mgr.Journaled(0, errDisk)
		case wakes:
		}
		x.step(p, in.now, r)
		return r
	})
}

// checks spends, or leaves a wish. It is what was admitted.
func (x *explorer) checks(p *process, cost int64) int64 {
	if x.spend(p, cost) {
		return cost
	}
	if _, ok := p.budget.Wait(cost); ok {
		p.budget.Leave(cost)
	} else { // it was retired: the key is looked up again
		p.budget = holder.NewBudget(key, p.signals)
	}
	p.budget.Refused(cost)
	return 0
}

func (p *process) over(id uint64) {
	p.open = slices.DeleteFunc(slices.Clone(p.open), func(o uint64) bool { return o == id })
}

// step lets the manager do all that there is to do, as its runner does.
func (x *explorer) step(p *process, now uint8, r *procResult) {
	for range 8 {
		for len(p.signals.Wake()) > 0 {
			<-p.signals.Wake()
		}
		e := p.mgr.Step(mono(now))
		if e.Journal != nil {
			p.writing = e.Journal
		}
		for _, s := range e.Syncs {
			p.open = append(p.open, s.ID)
			x.send(p, s, r)
		}
		r.finish = append(r.finish, e.Finish...)
		p.wakeAt = e.WakeAt
		for x.scope.Greedy[regionOf(p.slot)] {
			if !x.spend(p, 1) {
				break
			}
			r.admitted++
		}
		if p.mgr.Ended() || len(p.signals.Wake()) == 0 {
			break
		}
	}
	if credit := p.budget.Credit(); credit < 0 {
		r.fail = fmt.Sprintf("%s has a credit of %d", slotName(p.slot), credit)
	}
	if !p.mgr.Ended() {
		r.next = x.procPart(p)
	}
}

// send puts the request on the network, if the scope has room for it.
func (x *explorer) send(p *process, s holder.Sync, r *procResult) {
	if s.ID > uint64(x.scope.Requests[regionOf(p.slot)]) {
		return
	}
	req := s.Request
	if hook := x.scope.Hooks.Request; hook != nil {
		req = proto.Clone(req).(*pb.SyncRequest) //nolint:errcheck // a clone has its type
		hook(req)
	}
	r.sent = append(r.sent, x.messageOf(message{slot: p.slot, id: s.ID, req: req}))
}
