package strategies

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

// bucket is a budget, or a part of one, of any kind of rule, that is spent from where
// it is. A ledger of which nothing is out is exact.
type bucket struct {
	lease.Ledger

	grants uint64 // that were ever opened
}

func newBucket(rule lease.Rule, now lease.Time) *bucket {
	return &bucket{Ledger: lease.NewLedger(lease.Key{}, whole(rule), now)}
}

// whole is the rule with all of it for one holder.
func whole(rule lease.Rule) lease.Rule {
	rule.MaxSharePercent = 100
	return rule
}

// level is what it has now, in whole tokens.
func (b *bucket) level(now lease.Time) int64 {
	b.Advance(now)
	return b.Available
}

// take spends if there is enough.
func (b *bucket) take(now lease.Time, tokens int64) bool {
	if b.level(now) < tokens {
		return false
	}
	if b.Rule.Kind == lease.TokenBucket {
		b.Available -= tokens
		return true
	}
	return b.Close(now, b.hold(now, tokens), tokens, 0, 0) == nil
}

// hold takes what there is enough of, and keeps it out.
func (b *bucket) hold(now lease.Time, tokens int64) lease.GrantID {
	b.grants++
	id := lease.GrantID{Generation: 1, Sequence: b.grants}
	_ = b.Open(now, id, lease.Holder{Region: "here", Instance: "1"}, b.grants, tokens) // there is enough
	return id
}

// drain takes as much as there is, up to tokens.
func (b *bucket) drain(now lease.Time, tokens int64) { b.Available = max(0, b.level(now)-tokens) }

// buckets are one per budget, made when they are first used: until then they are
// full.
type buckets []*bucket

func (w *world) newBuckets() buckets { return make(buckets, len(w.keys)) }

// of is the bucket of a budget.
func (all buckets) of(key int, rule lease.Rule, now lease.Time) *bucket {
	if all[key] == nil {
		all[key] = newBucket(rule, now)
	}
	return all[key]
}

// rule changes the rule of a budget, as the contract has it: a lower capacity
// cuts, a higher one mints nothing.
func (all buckets) rule(key int, before, rule lease.Rule, now lease.Time) {
	_ = all.of(key, before, now).Install(now, whole(rule)) // an older version changes nothing
}

// total of all levels. ruleOf is the rule of buckets that were never used.
func (all buckets) total(now lease.Time, ruleOf func(key int) lease.Rule) (sum int64) {
	for key, b := range all {
		if b == nil {
			sum += ruleOf(key).Capacity
		} else {
			sum += b.level(now)
		}
	}
	return sum
}

func (all buckets) clone() buckets {
	copied := make(buckets, len(all))
	for i, b := range all {
		if b != nil {
			copied[i] = &bucket{b.Clone(), b.grants}
		}
	}
	return copied
}

// oracle is one bucket per budget in the middle of everything, asked without
// delay, never unreachable and never restarted: also by checks that arrive where
// no limiter runs. Nobody can do better without admitting too much.
type oracle struct {
	alone
	w        *world
	buckets  buckets
	calendar shard.Calendar
}

func newOracle(w *world) *oracle {
	return &oracle{w: w, buckets: w.newBuckets(), calendar: shard.Calendar{}}
}

func (o *oracle) started(*process)     {}
func (o *oracle) ended(*process, bool) {}

func (o *oracle) check(_ *process, a workload.Arrival) {
	now, rule := lease.Time(o.w.now), o.w.rules[a.Key]
	b, judge := o.buckets.of(a.Key, rule, now), o.w.rec.Judge(a.Key)
	if rule.Kind == lease.FixedWindow {
		o.calendar.Turn(&b.Ledger, now, o.w.now.Milliseconds()+wallAtFirst, 0, slog.New(slog.DiscardHandler))
		judge.Turned(rule, b.Began)
	}
	switch {
	case b.level(now) < a.Cost:
		o.w.end(a, measure.Exhausted)
	case rule.Kind == lease.Concurrency:
		o.hold(b, a)
	default:
		b.take(now, a.Cost)
		o.w.end(a, measure.Admitted)
	}
}

// hold gives slots to work until it ends. (They are never lost here, so the time
// that a policy gives to work does not matter unless work takes longer.)
func (o *oracle) hold(b *bucket, a workload.Arrival) {
	id, judge := b.hold(lease.Time(o.w.now), a.Cost), o.w.rec.Judge(a.Key)
	_ = judge.Hold(o.w.now, a.Cost) // what it says is in the result
	_ = o.w.rec.Holds(a, o.w.now)
	o.w.after(min(cmp.Or(a.Work, time.Second), o.w.holds[a.Key]), func() {
		judge.Release(a.Cost)
		_ = b.Close(lease.Time(o.w.now), id, 0, 0, 0) // gone under a rule of another kind
	})
}

// wallAtFirst is what a true wall clock says at the first moment of a scenario.
const wallAtFirst = 1_700_000_000_000

func (o *oracle) ruled(key int, before lease.Rule) {
	o.buckets.rule(key, before, o.w.rules[key], lease.Time(o.w.now))
	o.w.rec.Judge(key).Bind(o.w.now)
}

func (o *oracle) balance(b *measure.Balance) {
	b.Available = o.buckets.total(lease.Time(o.w.now), func(key int) lease.Rule { return o.w.rules[key] })
}
