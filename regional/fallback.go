package regional

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// quiet is the least time between two log lines that outages begin.
const quiet = time.Minute

// fallback is the local allowances of the budgets of which no authority is reached.
//
// An allowance is one bucket as long as the budget is in memory: full at its first
// use, and from then on refilled by its rate, over all outages. So however often
// the broker answers in between, it admits no more than its capacity and its refill.
// In each outage it lasts for the time that the policy declares, from its first use
// in that outage on; an outage is over when the broker has answered for the budget.
type fallback struct {
	log *slog.Logger

	mu      sync.Mutex
	used    map[*holder.Budget]allowance
	outage  bool          // one was used since the brokers answered last
	told    bool          // the log has the beginning of this outage
	silence time.Duration // until then the log is not told of another one
	swept   time.Duration // when those that are over were looked for last
}

// allowance is one budget's.
type allowance struct {
	origin time.Duration // its first use of all, at which the bucket's time starts
	began  time.Duration // its first use in the newest outage
	bucket lease.Ledger  // without grants
}

// loan is what was taken of a budget's allowance; the zero value is nothing.
type loan struct {
	tokens int64
	outage time.Duration // when the allowance was first used in its outage
}

func newFallback(log *slog.Logger) *fallback {
	return &fallback{log: log, used: make(map[*holder.Budget]allowance)}
}

// take takes tokens of the budget's allowance under p, or nothing.
func (f *fallback) take(b *holder.Budget, p *lease.Policy, tokens int64, now time.Duration) (loan, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.current(b, p, now)
	if !a.covers(p, tokens, now) {
		return loan{}, false
	}
	a.bucket.Available -= tokens
	f.used[b] = a
	f.begin(b.Key.Operation, now)
	return loan{tokens: tokens, outage: a.began}, true
}

// could says whether take would.
func (f *fallback) could(b *holder.Budget, p *lease.Policy, tokens int64, now time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.current(b, p, now)
	return a.covers(p, tokens, now)
}

// giveBack returns tokens of a loan that were not used, if the outage in which they
// were taken lasts: another outage has no more for what an earlier one left.
func (f *fallback) giveBack(b *holder.Budget, from loan, tokens int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := f.used[b]
	if !ok || a.began != from.outage || a.over(b) {
		return
	}
	a.bucket.Available += min(tokens, a.bucket.Rule.Capacity-a.bucket.Available)
	f.used[b] = a
}

// current is the budget's allowance under p as it is now, as of its first use in this
// outage. It is a copy, which take keeps.
func (f *fallback) current(b *holder.Budget, p *lease.Policy, now time.Duration) allowance {
	rule := lease.Rule{
		Kind: lease.TokenBucket, Version: p.Rule.Version,
		Capacity: p.Local.Capacity, Refill: p.Local.Refill, MaxSharePercent: 100,
	}
	a, ok := f.used[b]
	if !ok {
		return allowance{origin: now, began: now, bucket: lease.NewLedger(b.Key, rule, 0)}
	}
	if a.over(b) {
		a.began = now
	}
	a.bucket.Advance(lease.Time(now - a.origin))
	_ = a.bucket.Install(lease.Time(now-a.origin), rule) // an older version changes nothing
	return a
}

// over says that the broker has answered since the allowance's outage began.
func (a *allowance) over(b *holder.Budget) bool {
	at, ok := b.Answered()
	return ok && at > a.began
}

// covers says that the allowance, as it is now, lasts and has the tokens. It lasts
// while less than its time has passed.
func (a *allowance) covers(p *lease.Policy, tokens int64, now time.Duration) bool {
	return now-a.began < p.Local.For && tokens <= a.bucket.Available
}

// idle says that nothing depends on the allowance: its outage is over, and it is
// full, as one is that was never used.
func (a *allowance) idle(b *holder.Budget, now time.Duration) bool {
	if !a.over(b) {
		return false
	}
	a.bucket.Advance(lease.Time(now - a.origin))
	return a.bucket.Available >= a.bucket.Rule.Capacity
}

// begin notes a use in the log, once an outage.
func (f *fallback) begin(operation string, now time.Duration) {
	if f.outage {
		return
	}
	f.outage = true
	if now >= f.silence {
		f.silence, f.told = now+quiet, true
		f.log.Warn("local allowances admit checks, since the brokers do not answer: more may be admitted than the budgets have", "first_operation", operation)
	}
}

// end notes that the brokers answer, and forgets what is idle, once a second at the
// most.
func (f *fallback) end(now time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.outage {
		return
	}
	if now-f.swept >= time.Second {
		f.swept = now
		maps.DeleteFunc(f.used, func(b *holder.Budget, a allowance) bool { return a.idle(b, now) })
	}
	if f.told {
		f.log.Info("the brokers answer again: local allowances are over for the budgets that they answer for")
	}
	f.outage, f.told = false, false
}

// forget drops the allowance of a budget that leaves memory.
func (f *fallback) forget(b *holder.Budget) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.used, b)
}
