package shard

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// Errors with which requests fail. After any of them the caller may ask again.
var (
	// ErrNotOwner means that this broker no longer owns the shard.
	ErrNotOwner = errors.New("shard: another broker owns the shard now")
	// ErrUncertain means that it is not known whether the commit was applied.
	ErrUncertain = errors.New("shard: the outcome of the commit is unknown; ask again")
	// ErrSetBack means that somebody has seen a newer state of the shard than
	// the store has: the store was restored from an older copy.
	ErrSetBack = errors.New("shard: the store is older than what holders have seen: it was restored from a copy, and nothing more is granted from it; run `tokenlease restore declare`")
	// ErrCanceled means that the caller gave up.
	ErrCanceled = errors.New("shard: canceled by the caller")
	// ErrRecord means that a stored record cannot be read or breaks an invariant.
	ErrRecord = errors.New("shard: a stored record is not usable")
)

// Config of a shard. Zero durations take the defaults.
type Config struct {
	ID         uint32
	Generation uint32 // of a store without a cluster record. Default 1
	Layout     record.Layout
	// OwnerRevision is the create revision of the ownership key that this owner
	// holds.
	OwnerRevision int64
	// MaxTxnOps is the store's limit of operations in a transaction. Default 128.
	MaxTxnOps int
	// DemandTTL is how long the wish of a silent holder counts when credit is
	// shared. It never changes what is reserved. Default 30 s.
	DemandTTL time.Duration
	// IdleAfter is how long a ledger is kept in memory untouched. A full one with
	// nothing out loses its record as well. Default 10 s.
	IdleAfter time.Duration
	Logger    *slog.Logger // nil discards
}

// Moment is a reading of the runner's clocks.
type Moment struct {
	Mono   time.Duration // monotonic, since any origin; decides
	UnixMs int64         // wall clock, for display, and for where the periods of fixed windows lie
}

type state int

const (
	loading state = iota // reads before it serves
	serving
	lost    // another broker owns the shard
	setBack // the store is older than what holders have seen, and its restore not declared
)

// Shard is the state of one shard at its owner. It belongs to one goroutine.
type Shard struct {
	cfg Config
	log *slog.Logger
	// evidenceAgain is when a contradiction is logged again, on the monotonic clock.
	evidenceAgain time.Duration
	lapsedAgain   time.Duration // likewise, what has lapsed
	lapsedTold    Stats         // what of that was logged
	retiredAgain  time.Duration // likewise, a request of an epoch that was attested to be gone
	state         state

	era      record.Era // that was read last; every transaction compares it
	staleEra bool
	behind   error  // the store is set back in this generation; nil: not known to be
	cleared  uint32 // as in the head

	headRevision int64 // revision of the last commit
	nextGrant    uint64
	base, now    lease.Time    // ledger time at origin, and now
	origin       time.Duration // set by the first read of this owner
	started      bool          // the clock runs
	stored       time.Duration // when, on the monotonic clock, ledger time was last stored
	beaten       time.Duration // likewise, when beat did something
	polled       time.Duration // likewise, when policies were last read
	moment       Moment
	wall         int64 // the latest wall clock that was used, in milliseconds since 1970
	calendar     Calendar

	policies      policies
	stalePolicies bool
	taken         int64 // the policy version that has spread to what is stored
	spreading     bool  // a spreadJob is on its way
	remindUntil   time.Duration
	ledgers       map[lease.Key]*entry
	order         []*entry // all ledgers, for sweeps
	swept         int
	lastSweep     time.Duration
	scanning      bool   // a scanJob is on its way
	scanned       string // where the next scan starts; empty: from the first budget
	lapses        lapses // when grants lapse, of ledgers in memory
	fences        map[lease.Holder]*fence
	templates     map[string]*lease.Ledger // by operation; see start
	unwritten     []string                 // templates that are not stored as they are

	queue  []job
	woken  []job
	parked []*syncJob
	flight *batch
	subs   []*Subscription
	stats  Stats

	// What operators are shown. Nothing is decided from it, and a reading of the
	// store does not lose it.
	heard           map[lease.Holder]time.Duration // when each was, on the monotonic clock
	heardBefore     map[lease.Holder]int64         // as it is stored, in milliseconds since 1970
	roundTrips      map[lease.Holder]roundTrip
	listening       bool
	listeningSince  time.Duration // since when
	listeningUnixMs int64
	stories         stories
}

// Stats counts what the shard has done since it was created.
type Stats struct {
	Commits, Reads, Requests, Refused, Uncertain int64 // transactions with changes, without; answered requests
	GrantsOpened, GrantsEnded, TokensIssued      int64
	GrantsLapsed, TokensLapsed                   int64 // by deadline, and what counted as spent by that
	Evidence                                     int64 // contradictions reported
	RetiredHeard                                 int64 // requests of epochs that were attested to be gone
}

// job is one request on its way. run applies what it can to memory; after the
// commit finish answers it. restart forgets what run did, and says false when
// some of it has been committed already.
type job interface {
	run(s *Shard, b *batch) progress
	finish(s *Shard)
	fail(err error)
	restart() bool
}

// progress says what is to become of a job that ran.
type progress int

const (
	again    progress = iota // reads are missing, or the batch is full: run it in the next
	complete                 // answer it after the commit
	hanging                  // it waits for credit among the parked
)

// New is a shard that this process owns by cfg.OwnerRevision. It serves after
// its first transaction, which reads it.
func New(cfg Config) *Shard {
	if cfg.MaxTxnOps == 0 {
		cfg.MaxTxnOps = 128
	}
	if cfg.DemandTTL == 0 {
		cfg.DemandTTL = 30 * time.Second
	}
	if cfg.IdleAfter == 0 {
		cfg.IdleAfter = 10 * time.Second
	}
	s := &Shard{cfg: cfg, log: cfg.Logger, calendar: Calendar{}, heard: map[lease.Holder]time.Duration{}, heardBefore: map[lease.Holder]int64{}, roundTrips: map[lease.Holder]roundTrip{}, stories: newStories()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.log = s.log.With("shard", cfg.ID)
	s.forget()
	return s
}

// forget drops everything that was read from the store.
func (s *Shard) forget() {
	s.state = loading
	s.policies = noPolicies()
	s.spreading = false
	s.ledgers = map[lease.Key]*entry{}
	s.order, s.swept = nil, 0
	s.scanning = false
	s.lapses = nil
	s.fences = map[lease.Holder]*fence{}
	s.templates, s.unwritten = map[string]*lease.Ledger{}, nil
}

// Lost says that another broker owns the shard: it commits nothing any more.
func (s *Shard) Lost() bool { return s.state == lost }

// SetBack says that the store was found to be older than what holders have
// seen, and that no restore was declared since.
func (s *Shard) SetBack() bool { return s.behind != nil }

// Serving says that the shard has been read and takes requests.
func (s *Shard) Serving() bool { return s.state == serving }

// Stats is a copy of the counters.
func (s *Shard) Stats() Stats { return s.stats }

// PoliciesChanged hints that policies may have changed: they are read again.
func (s *Shard) PoliciesChanged() { s.stalePolicies = true }

// ClusterChanged hints that a restore may have been declared or attested.
func (s *Shard) ClusterChanged() { s.staleEra = true }

// HolderChanged hints that the holder may have registered again.
func (s *Shard) HolderChanged(h lease.Holder) {
	if f := s.fences[h]; f != nil {
		f.verified = 0
	}
}

// HoldersChanged hints that any holder may have registered again.
func (s *Shard) HoldersChanged() {
	for _, f := range s.fences {
		f.verified = 0
	}
}

// Budgets is the number of budgets in memory.
func (s *Shard) Budgets() int { return len(s.ledgers) }

// Queued is the number of requests that wait for a transaction, those that hang
// not counted.
func (s *Shard) Queued() int { return len(s.queue) + len(s.woken) }

// dropCanceled answers requests whose callers have left while the shard is read.
func (s *Shard) dropCanceled() {
	s.queue = slices.DeleteFunc(s.queue, func(j job) bool {
		sync, ok := j.(*syncJob)
		if !ok || !sync.canceled {
			return false
		}
		sync.fail(ErrCanceled)
		return true
	})
}

// Waiting is the number of requests that are not answered yet.
func (s *Shard) Waiting() int { return len(s.queue) + len(s.woken) + len(s.parked) }

// WakeAt is the moment, on the monotonic clock, at which Next has something to
// do though nothing has been submitted; ok is false for none.
func (s *Shard) WakeAt() (at time.Duration, ok bool) {
	switch s.state {
	case setBack:
		return s.polled + pollEvery, true
	case loading, lost:
		return 0, false
	}
	for _, j := range s.parked {
		if !ok || j.wakeAt < at {
			at, ok = j.wakeAt, true
		}
	}
	if len(s.order) > 0 && (!ok || s.nextSweep() < at) {
		at, ok = s.nextSweep(), true
	}
	if next, lapsing := s.nextLapse(); lapsing && (!ok || next < at) {
		at, ok = next, true
	}
	if next := s.nextBeat(); !ok || next < at {
		at, ok = next, true
	}
	return at, ok
}

// Next is the transaction to run now, or nil when there is nothing to do. The
// caller runs it once and passes the outcome to Result before it calls Next
// again.
func (s *Shard) Next(m Moment) *store.Txn {
	s.tick(m)
	switch s.state {
	case loading:
		s.dropCanceled()
		return s.loadTxn()
	case lost:
		s.failAll(ErrNotOwner)
		return nil
	case setBack:
		if s.staleEra || m.Mono-s.polled >= pollEvery {
			s.state = loading // a restore may have been declared
			return s.loadTxn()
		}
		s.failAll(s.behind)
		return nil
	}
	b := s.newBatch()
	s.beat(b)
	s.checkEra(b)
	s.readPolicies(b)
	s.writeTemplates(b)
	s.wakeParked(m)
	s.runQueue(b)
	s.lapse(b)
	s.sweep(b)
	if b.empty() {
		return nil
	}
	s.flight = b
	return b.txn(s)
}

// tick advances ledger time. A clock that steps back moves nothing.
func (s *Shard) tick(m Moment) {
	s.moment = m
	s.seen(m.UnixMs)
	if s.state == serving {
		s.now = max(s.now, s.base.Add(m.Mono-s.origin))
	}
}

func (s *Shard) runQueue(b *batch) {
	s.queue, s.woken = append(s.queue, s.woken...), nil
	var keep []job
	for i, j := range s.queue {
		if b.full() {
			keep = append(keep, s.queue[i:]...)
			break
		}
		switch j.run(s, b) {
		case again:
			keep = append(keep, j)
		case complete:
			b.done = append(b.done, j)
		case hanging:
			s.parked = append(s.parked, j.(*syncJob)) //nolint:errcheck // nothing else hangs
		}
	}
	s.queue = keep
}

// Result takes the outcome of the transaction that Next returned, sampled after
// its answer arrived. An error means that the outcome is unknown.
func (s *Shard) Result(m Moment, res store.TxnResult, err error) {
	s.moment = m
	if s.state == loading {
		s.loaded(m, res, err)
		return
	}
	b := s.flight
	s.flight = nil
	switch {
	case err != nil:
		s.stats.Uncertain++
		s.log.Warn("commit of unknown outcome; reading the shard again", "error", err)
		s.doubt(b, ErrUncertain)
	case !res.Succeeded:
		s.stats.Refused++
		s.log.Warn("commit refused; reading the shard again")
		s.doubt(b, ErrUncertain)
	default:
		s.committed(b, res)
	}
}

func (s *Shard) committed(b *batch, res store.TxnResult) {
	if b.writes() {
		s.headRevision, s.stored = res.Revision, s.moment.Mono
		s.stats.Commits++
	} else {
		s.stats.Reads++
	}
	if b.setBack != nil {
		s.fallBack(b.setBack)
		s.forget() // what is in memory is of another history than whatever is declared
		s.state = setBack
		s.failJobs(b.done, s.behind)
		s.failAll(s.behind)
		return
	}
	s.chronicle(b)
	b.clean()
	for i, r := range b.reads {
		if err := r.take(res.Results[b.firstRead+i]); err != nil {
			s.log.Error("a stored record is not usable", "error", err)
		}
	}
	for _, j := range b.done {
		j.finish(s)
	}
	s.stats.Requests += int64(len(b.done))
	b.deliverHints()
}

// doubt drops the memory after a commit that is not known to have been applied.
// Requests of which nothing was applied yet start over after the next read.
func (s *Shard) doubt(b *batch, err error) {
	s.forget()
	s.failJobs(b.done, err)
	queue := slices.Concat(s.queue, s.woken)
	for _, j := range s.parked {
		queue = append(queue, j)
	}
	s.queue, s.woken, s.parked = nil, nil, nil
	for _, j := range queue {
		if j.restart() {
			s.queue = append(s.queue, j)
		} else {
			j.fail(err)
		}
	}
}

func (s *Shard) failAll(err error) {
	s.failJobs(s.queue, err)
	s.failJobs(s.woken, err)
	for _, j := range s.parked {
		j.fail(err)
	}
	s.queue, s.woken, s.parked = nil, nil, nil
}

func (s *Shard) failJobs(jobs []job, err error) {
	for _, j := range jobs {
		j.fail(err)
	}
}

// Abandon fails everything that waits: the owner stops.
func (s *Shard) Abandon() {
	if s.flight != nil {
		s.failJobs(s.flight.done, ErrUncertain)
		s.flight = nil
	}
	s.state = lost
	s.failAll(ErrNotOwner)
}

// OwnerRevision is the create revision of the ownership key that every commit
// compares.
func (s *Shard) OwnerRevision() int64 { return s.cfg.OwnerRevision }
