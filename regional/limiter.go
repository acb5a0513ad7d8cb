package regional

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/holder"
	"github.com/tokenlease/tokenlease/regional/journal"
	"github.com/tokenlease/tokenlease/regional/replay"
	"github.com/tokenlease/tokenlease/regional/turns"
)

// Errors with which Run ends.
var (
	// ErrFenced means that another start of this holder has replaced this one, or
	// that a restore was declared. It must not run on: two processes share a name, or
	// an operator retired it, or its past is lost.
	ErrFenced = errors.New("regional: another start of this limiter has replaced this one, an operator has retired it, or a restore of the brokers' store was declared (`tokenlease restore status` tells); after a restore start it again, and otherwise give each running limiter an instance name of its own")
	// ErrJournal means that the journal failed. Credit is handed back; start again
	// once the disk is well.
	ErrJournal = errors.New("regional: the journal failed")
	// ErrOtherCluster means that the brokers belong to another cluster than the
	// journal.
	ErrOtherCluster = errors.New("regional: the brokers belong to another cluster than the journal")
)

// Limiter is the limiter of one region.
type Limiter struct {
	cfg     Config
	journal *journal.Journal // nil when it is off
	signals *holder.Signals
	budgets *xsync.Map[lease.Key, *holder.Budget]
	waiters atomic.Int64
	stopped atomic.Bool
	epoch   atomic.Uint64
	brokers *brokers
	obs     *metrics

	guard        *guard
	lines        *turns.Lines[lease.Key]
	replays      *replay.Table[payload, verdict]
	fallback     *fallback
	reservations *reservations
	debtors      debtors
	holdNumbers  atomic.Uint64 // drawn so far
	policyAsks   chan lease.Key
	policyAsked  atomic.Int64 // monotonic time of the newest of them
}

// New opens the journal, if one is configured, and holds it until Run ends. The
// limiter answers unavailable until Run has registered it.
//
// Errors: what Validate finds, or those of journal.Open; in particular
// journal.ErrLocked when another limiter of this name is running.
func New(cfg Config) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	l := &Limiter{
		cfg: cfg, signals: holder.NewSignals(), budgets: xsync.NewMap[lease.Key, *holder.Budget](),
		brokers: newBrokers(cfg.Clients), obs: newMetrics(cfg.Registerer),

		guard:        newGuard(cfg.MaxConcurrentChecks, cfg.MaxChecksPerSecond, cfg.Clock.Mono),
		lines:        turns.New[lease.Key](cfg.MaxQueue, cfg.MaxQueueTotal),
		fallback:     newFallback(cfg.Logger),
		reservations: newReservations(cfg.MaxReservations, cfg.ReplayFor),
		policyAsks:   make(chan lease.Key, 16),
	}
	l.replays = replay.New[payload, verdict](cfg.ReplayFor, cfg.MaxReplays, cfg.Clock.Mono, l.obs.counters["replays_forgotten_total"].Inc)
	l.policyAsked.Store(int64(cfg.Clock.Mono() - policyAskEvery))
	l.obs.heard.Store(int64(cfg.Clock.Mono()))
	l.observe()
	if cfg.JournalMode == holder.JournalOff {
		return l, nil
	}
	j, err := journal.Open(journal.Config{Path: journalPath(cfg), Region: cfg.Region, Instance: cfg.Instance, Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("regional: %w", err)
	}
	l.journal = j
	return l, nil
}

// Epoch is this start's fencing token; 0 before it is registered.
func (l *Limiter) Epoch() uint64 { return l.epoch.Load() }

// Ready says that the limiter is registered and running.
func (l *Limiter) Ready() bool { return l.Epoch() != 0 && !l.stopped.Load() }

// Budget is a handle on the budget of an account and an operation. Keep it: its
// checks skip the look-up, and while it exists the budget stays in memory. Checks of
// a key that cannot be are answered invalid.
func (l *Limiter) Budget(account, operation string) *Budget {
	h := &Budget{limiter: l, key: lease.Key{Account: account, Operation: operation}}
	for {
		b := l.known(h.key)
		if b.Pin() {
			h.budget = b
			return h
		}
	}
}

// Check decides one check of the key's default cost, as Budget.Check does.
func (l *Limiter) Check(ctx context.Context, account, operation string) decision.Answer {
	key := lease.Key{Account: account, Operation: operation}
	return l.check(ctx, key, l.known(key), decision.Cost{})
}

// CheckN decides one check of the given cost, as Budget.CheckN does.
func (l *Limiter) CheckN(ctx context.Context, account, operation string, cost int64) (d decision.Answer) {
	key := lease.Key{Account: account, Operation: operation}
	b := l.known(key)
	if l.spend(b, cost, &d) {
		return d
	}
	return l.check(ctx, key, b, decision.Tokens(cost))
}

// AllowN is CheckN without waiting or details.
func (l *Limiter) AllowN(account, operation string, cost int64) bool {
	b := l.known(lease.Key{Account: account, Operation: operation})
	return b.SpendAllowed(cost) || l.allow(b, cost)
}

// known is the budget of the key, a new one without credit if there is none. That
// of a key that cannot be is of nobody: it is not kept, and never asked for.
func (l *Limiter) known(key lease.Key) *holder.Budget {
	if b, ok := l.budgets.Load(key); ok {
		return b
	}
	if keyProblem(key) != "" {
		return holder.NewBudget(key, holder.NewSignals())
	}
	b, _ := l.budgets.LoadOrStore(key, holder.NewBudget(key, l.signals))
	return b
}

// askPolicy has the manager ask for the policy of a key, of which a caller knows a
// newer version. However many say so, the brokers are asked ten times a second at
// the most.
func (l *Limiter) askPolicy(key lease.Key) {
	now, last := int64(l.cfg.Clock.Mono()), l.policyAsked.Load()
	if now-last < int64(policyAskEvery) || !l.policyAsked.CompareAndSwap(last, now) {
		return
	}
	select {
	case l.policyAsks <- key:
	default: // Run is busy, or does not run
	}
}

const policyAskEvery = 100 * time.Millisecond

// retired forgets a budget that the manager has taken out of use.
func (l *Limiter) retired(b *holder.Budget) {
	l.budgets.Delete(b.Key)
	l.fallback.forget(b)
}
