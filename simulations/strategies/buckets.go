package strategies

import (
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

// bucket is a budget, or a part of one, that is spent from where it is. A ledger
// of which nothing is out is an exact token bucket.
type bucket struct{ lease.Ledger }

func newBucket(rule lease.Rule, now lease.Time) *bucket {
	return &bucket{lease.NewLedger(lease.Key{}, rule, now)}
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
	b.Available -= tokens
	return true
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
	_ = all.of(key, before, now).Install(now, rule) // an older version changes nothing
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
			copied[i] = &bucket{b.Clone()}
		}
	}
	return copied
}

// oracle is one bucket per budget in the middle of everything, asked without
// delay, never unreachable and never restarted: also by checks that arrive where
// no limiter runs. Nobody can do better without admitting too much.
type oracle struct {
	alone
	w       *world
	buckets buckets
}

func newOracle(w *world) *oracle { return &oracle{w: w, buckets: w.newBuckets()} }

func (o *oracle) started(*process)     {}
func (o *oracle) ended(*process, bool) {}

func (o *oracle) check(_ *process, a workload.Arrival) {
	now := lease.Time(o.w.now)
	if o.buckets.of(a.Key, o.w.rules[a.Key], now).take(now, a.Cost) {
		o.w.end(a, measure.Admitted)
		return
	}
	o.w.end(a, measure.Exhausted)
}

func (o *oracle) ruled(key int, before lease.Rule) {
	o.buckets.rule(key, before, o.w.rules[key], lease.Time(o.w.now))
	o.w.rec.Judge(key).Bind(o.w.now)
}

func (o *oracle) balance(b *measure.Balance) {
	b.Available = o.buckets.total(lease.Time(o.w.now), func(key int) lease.Rule { return o.w.rules[key] })
}
