package holder

import (
	"log/slog"
	"math"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Journal says what the journal proves (contract C4.2).
type Journal string

// The journal modes.
const (
	// JournalBlock: a block of credit is durable in the journal before it can be
	// spent. The default.
	JournalBlock Journal = "block"
	// JournalConfirm: its write counter is acknowledged by the broker as well.
	JournalConfirm Journal = "confirm"
	// JournalOff: nothing is kept; after a crash all credit stays reserved until
	// it is resolved.
	JournalOff Journal = "off"
)

// Config of a manager. Durations that are 0 take the defaults.
type Config struct {
	Holder  lease.Holder
	Epoch   uint64 // as registered
	Shards  uint32 // of the cluster
	Cluster string // its ID
	Journal Journal
	// Earlier are epochs that the journal proves.
	Earlier []PastEpoch

	// SyncInterval is how often an active budget is looked at, and the least time
	// between two requests of one that nobody waits for. Default 100 ms.
	SyncInterval time.Duration
	// ReportWithin is how long spent credit goes unreported at the most, as far as
	// the broker is reached. Default 1 s.
	ReportWithin time.Duration
	// IdleAfter is how long a budget may go unused before its grant is closed.
	// Default 10 s.
	IdleAfter time.Duration
	// HangTime is how long a starved request waits at the broker. Default 10 s.
	HangTime time.Duration
	// ListEvery is how often the grants of a shard are compared. Default 60 s.
	ListEvery time.Duration
	// RetryMin and RetryMax bound the pause after a failed request. It doubles,
	// and is drawn at random from its upper half. Defaults 50 ms and 2 s.
	RetryMin, RetryMax time.Duration
	// MaxInFlight is how many requests that do not hang may be on their way to one
	// shard. Default 4.
	MaxInFlight int
	// MaxReports is how many budgets one request carries. Default 1,000.
	MaxReports int

	// Jitter draws from [0, 1). It must not be nil.
	Jitter func() float64
	// Clocks reads the host's clocks. It may be called concurrently, and must not be
	// nil.
	Clocks func() Clocks
	// Retired is called when a budget is taken out of use: forget it.
	Retired func(*Budget)
	Logger  *slog.Logger // nil discards
}

// PastEpoch is what the journal proves of an earlier epoch.
type PastEpoch struct {
	Epoch   uint64
	Counter uint64 // the journal's write counter
	Drawn   []Draw
}

// Draw is a grant's bound on what may have been spent.
type Draw struct {
	GrantID string
	Tokens  int64
}

// phase of a manager's life.
type phase int

const (
	running phase = iota
	ending        // stopped or fenced: spends nothing, hands in its account
	ended
)

// Manager decides what one epoch of a holder asks for, returns and settles.
// Feed it with its event methods and then call Step. It belongs to one
// goroutine.
type Manager struct {
	cfg     Config
	log     *slog.Logger
	signals *Signals
	phase   phase
	fenced  bool

	sequence uint64
	requests uint64
	shards   []*shardState
	keys     map[lease.Key]*keyState
	active   []*keyState // looked at in every tick
	asleep   []idleKey   // looked at ReportWithin after they were put here
	idle     []idleKey
	nextTick time.Duration
	past     []*pastAccount
	warned   map[string]bool // orphaned grants that the log has named
	// lostAgain is when a grant that the broker has ended is named in the log again.
	lostAgain time.Duration

	journal journalState
	flights map[uint64]*flight
	stats   Stats
}

// Stats counts what the manager has done.
type Stats struct {
	Syncs, SyncFailures, Denials, Evidence int64
	GrantsOpened, GrantsClosed             int64
	TokensIssued, TokensReturned           int64
	Orphans                                int64 // grants of earlier epochs that no journal here proves
}

// shardState is what the manager knows of one shard.
type shardState struct {
	id        uint32
	contacted bool  // something was sent to it in this epoch
	head      int64 // the highest head seen
	counter   uint64
	rtt       time.Duration // smoothed
	heard     time.Duration // when the newest request was sent that it has answered
	inFlight  int
	failedAt  time.Duration // when a request failed last
	hanging   int
	failures  int
	notBefore time.Duration // no request before this

	waiting  [queues][]*keyState // budgets for the next requests, in order
	closing  []*closing
	kept     []*closing        // confirmed, with slots that stay reserved
	open     []uint64          // requests on their way, oldest first
	closed   map[string]uint64 // grants that were ended here, by the newest request whose answer may still name them
	ended    []endedGrant      // of these, those confirmed to be gone, in order
	lost     []string          // likewise, the newest of those that the broker has ended, in order
	account  *account          // this epoch's final account
	past     []*account
	nextList time.Duration
	tellNow  bool                // the journal's counter must be told
	refused  map[string]*closing // grants that the ledger contradicts, with their counters
	orphans  int64               // grants of earlier epochs in the last list
}

// endedGrant is a grant that the broker has confirmed to be gone. Requests up to
// last were on their way then: the broker may have answered one of them before
// it ended the grant, and that answer may arrive after the confirmation.
type endedGrant struct {
	id   string
	last uint64
}

// closing is a grant that the holder has ended, until the broker confirms.
type closing struct {
	key             lease.Key
	id              string
	spent, returned int64
	held            int64  // slots that may be in use
	owed            int64  // used beyond reservations
	flight          uint64 // the request that carries it; 0: none
}

type idleKey struct {
	k     *keyState
	since time.Duration
}

// flight is a request on its way.
type flight struct {
	shard    *shardState
	sent     time.Duration
	clocks   Clocks // read before it was sent
	hanging  bool
	keys     []*keyState
	closes   []*closing
	accounts []*account
	listed   bool
}

// New is the manager of one registered epoch.
func New(cfg Config, signals *Signals) *Manager {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&cfg.SyncInterval, 100*time.Millisecond)
	set(&cfg.ReportWithin, time.Second)
	set(&cfg.IdleAfter, 10*time.Second)
	set(&cfg.HangTime, 10*time.Second)
	set(&cfg.ListEvery, time.Minute)
	set(&cfg.RetryMin, 50*time.Millisecond)
	set(&cfg.RetryMax, 2*time.Second)
	if cfg.MaxInFlight == 0 {
		cfg.MaxInFlight = 4
	}
	if cfg.MaxReports == 0 {
		cfg.MaxReports = 1000
	}
	m := &Manager{
		cfg: cfg, log: cfg.Logger, signals: signals,
		keys: map[lease.Key]*keyState{}, warned: map[string]bool{}, flights: map[uint64]*flight{},
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	for id := range cfg.Shards {
		m.shards = append(m.shards, &shardState{id: id, closed: map[string]uint64{}})
	}
	m.takePast()
	if cfg.Epoch > 1 { // earlier epochs may have left something anywhere
		for _, sh := range m.shards {
			sh.contacted = true
			sh.nextList = time.Duration(float64(cfg.SyncInterval) * 10 * cfg.Jitter())
		}
	}
	return m
}

// Sync is a request to send.
type Sync struct {
	ID      uint64
	Hanging bool
	Request *pb.SyncRequest
}

// JournalWrite is what is to be made durable. One is on its way at most.
type JournalWrite struct {
	Draws  []Draw
	Forget []string
}

// Effects is what a step wants done.
type Effects struct {
	Syncs   []Sync
	Journal *JournalWrite
	Finish  []uint64      // epochs whose final account is confirmed: the journal may drop them
	WakeAt  time.Duration // call Step then at the latest
}

// Fenced says that this epoch has been replaced.
func (m *Manager) Fenced() bool { return m.fenced }

// Ended says that the final account is confirmed by every shard.
func (m *Manager) Ended() bool { return m.phase == ended }

// Stats is a copy of the counters.
func (m *Manager) Stats() Stats { return m.stats }

// Contacted are the shards that this epoch has dealt with: those worth watching.
func (m *Manager) Contacted() []uint32 {
	var ids []uint32
	for _, sh := range m.shards {
		if sh.contacted {
			ids = append(ids, sh.id)
		}
	}
	return ids
}

// Hint takes a hint of a shard: sync these budgets soon; fenced asks whether this
// epoch is still served.
func (m *Manager) Hint(shard uint32, keys []lease.Key, fenced bool) {
	if fenced && m.phase == running && shard < uint32(len(m.shards)) {
		m.shards[shard].tellNow = true
	}
	for _, key := range keys {
		if k := m.keys[key]; k != nil && m.phase == running {
			k.hinted = true
			m.activate(k)
			m.nextTick = 0
		}
	}
}

// Step looks at everything that has changed and says what to do.
func (m *Manager) Step(now time.Duration) Effects {
	taken := m.signals.takeAll()
	for _, b := range taken {
		b.signaled.Store(false)
		if m.phase != running {
			m.stopBudget(b)
			continue
		}
		k := m.key(b)
		m.look(k, now)
		if !k.active {
			m.place(k, now)
		}
	}
	if m.phase == running && now >= m.nextTick {
		m.tick(now)
	}
	var e Effects
	e.Journal = m.journalWrite()
	for _, sh := range m.shards {
		m.send(sh, now, &e)
	}
	e.Finish = m.finished()
	e.WakeAt = m.wakeAt()
	return e
}

// key is the state of the budget, made at its first signal.
func (m *Manager) key(b *Budget) *keyState {
	if b.state == nil {
		b.state = &keyState{budget: b, shard: m.shards[lease.ShardOf(b.Key, m.cfg.Shards)]}
		m.keys[b.Key] = b.state
	}
	return b.state
}

func (m *Manager) activate(k *keyState) {
	if !k.active {
		k.active = true
		m.active = append(m.active, k)
	}
}

// tick looks at every active budget, wakes those that have slept, and retires
// those that have gone idle.
func (m *Manager) tick(now time.Duration) {
	m.nextTick = now + m.cfg.SyncInterval
	n := 0
	for ; n < len(m.asleep) && now-m.asleep[n].since >= m.cfg.ReportWithin; n++ {
		k := m.asleep[n].k
		k.asleep = false
		m.activate(k)
	}
	m.asleep = m.asleep[n:]
	active := m.active
	m.active = nil
	for _, k := range active {
		k.active = false
		m.measure(k, now)
		m.look(k, now)
		m.place(k, now)
	}
	m.retireIdle(now)
}

// place decides when the budget is looked at next: at the next tick while it is
// restless, in a while if there is something to report or to wait for, or something
// held that comes to its end, and when it is used again otherwise. So of a million
// budgets that are used now and then each is looked at a few times per use, not at
// every tick.
func (m *Manager) place(k *keyState, now time.Duration) {
	switch {
	case k.gone || k.active:
	case k.queued != notQueued: // its answer is an event
		if k.held() > 0 || k.bounded > 0 {
			m.sleep(k, now)
		}
	case m.restless(k):
		m.activate(k)
		k.budget.holds.ease.Store(-1)
	case k.asleep, k.flight != 0 || k.spent() != k.sentSpent || k.held() > 0 || k.sentHeld != 0 || k.drawing > k.drawn || k.policyUntold():
		m.sleep(k, now)
	case k.bounded > 0 && k.grant != "": // so that what it has does not lapse unnoticed
		if now-k.lastUse < m.cfg.IdleAfter || k.broken {
			m.sleep(k, now)
			return
		}
		m.giveUp(k, now)
	default:
		k.budget.low.Store(math.MaxInt64) // the next spend or hold signals
		switch {
		case k.held() > 0:
			m.sleep(k, now) // held before the mark was set
		case now-k.lastUse >= m.cfg.IdleAfter && !k.broken:
			m.giveUp(k, now)
		default:
			m.idle = append(m.idle, idleKey{k, k.lastUse})
		}
	}
}

// sleep has the budget looked at in a while, or when much of what is held is held
// no more. Where spending is to be told sooner than that, whatever is spent signals.
func (m *Manager) sleep(k *keyState, now time.Duration) {
	if !k.asleep {
		k.asleep = true
		m.asleep = append(m.asleep, idleKey{k, now})
	}
	ease := k.sentHeld - k.reportAt()
	if m.reportWithin(k) < m.cfg.ReportWithin {
		ease = math.MaxInt64
		k.budget.low.Store(math.MaxInt64)
	}
	k.budget.holds.ease.Store(ease)
}

// retireIdle closes the grants of budgets that nobody has used for IdleAfter.
func (m *Manager) retireIdle(now time.Duration) {
	n := 0
	for ; n < len(m.idle) && now-m.idle[n].since >= m.cfg.IdleAfter; n++ {
		k := m.idle[n].k
		if k.active || k.asleep || k.lastUse != m.idle[n].since || k.gone || k.broken {
			continue
		}
		m.giveUp(k, now)
	}
	m.idle = m.idle[n:]
}

// giveUp retires a budget that seems idle, if its shard was reached a moment ago, so that
// what it holds gets to others: given up while nobody hears of that, it would be of no
// use to anybody. Otherwise the shard is asked, and the budget is looked at again: soon, or,
// where the last request has failed, after as long as if it had just been used.
func (m *Manager) giveUp(k *keyState, now time.Duration) {
	sh := k.shard
	nothing := k.grant == "" && k.unknown(now)
	switch {
	case !nothing && sh.failures > 0 && k.bounded == 0:
		sh.tellNow = true
		k.lastUse = now
		m.idle = append(m.idle, idleKey{k, now})
	case !nothing && (sh.failures > 0 || now-sh.heard > 2*m.cfg.ReportWithin):
		sh.tellNow = true
		m.sleep(k, now)
	case !m.retire(k, now):
		m.activate(k)
	}
}

// retire closes the grant of a budget that seems idle, and takes it out of use unless
// somebody has an interest in it. It says false if it is in use after all.
func (m *Manager) retire(k *keyState, now time.Duration) bool {
	if k.flight != 0 || k.spent() != k.seen {
		return false
	}
	if !k.budget.seal() {
		k.lastUse = now // something is held
		return false
	}
	m.closeGrant(k) // which tells all that is owed, if there is a grant
	owed, ok := k.budget.retire()
	if !ok {
		return true
	}
	if owed > 0 {
		m.log.Warn("a debt is given up: the broker had ended its grant before it was told, and the budget was not used again",
			"account", k.budget.Key.Account, "operation", k.budget.Key.Operation, "tokens", owed)
	}
	k.gone = true
	delete(m.keys, k.budget.Key)
	if m.cfg.Retired != nil {
		m.cfg.Retired(k.budget)
	}
	return true
}

// wakeAt is when there is something to do without an event.
func (m *Manager) wakeAt() time.Duration {
	at := time.Duration(math.MaxInt64)
	if m.phase == running && len(m.active) > 0 {
		at = m.nextTick
	}
	if m.phase == running && len(m.asleep) > 0 {
		at = min(at, max(m.nextTick, m.asleep[0].since+m.cfg.ReportWithin)) // looked at in ticks
	}
	if m.phase == running && len(m.idle) > 0 {
		at = min(at, max(m.nextTick, m.idle[0].since+m.cfg.IdleAfter)) // likewise
	}
	for _, sh := range m.shards {
		if sh.inFlight >= m.cfg.MaxInFlight {
			continue
		}
		if m.pending(sh) {
			at = min(at, sh.notBefore)
		}
		if sh.contacted && m.phase == running {
			at = min(at, max(sh.nextList, sh.notBefore))
		}
	}
	return at
}

// Held is the budget's live grant and what this epoch could still spend of it,
// in the hot path or not yet there; empty and 0 for none.
func (m *Manager) Held(key lease.Key) (grantID string, unspent int64) {
	k := m.keys[key]
	if k == nil || k.grant == "" || k.broken {
		return "", 0
	}
	return k.grant, k.unspent()
}
