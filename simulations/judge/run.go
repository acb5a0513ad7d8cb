package judge

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// kinds in the order of terms.
var kinds = [...]lease.Kind{lease.TokenBucket, lease.RollingWindow, lease.FixedWindow, lease.Concurrency}

// terms are what the versions of one kind in a run allow together.
type terms struct {
	known    bool
	capacity int64
	rate     lease.Rate
	window   time.Duration
}

// run is a run of versions, from some version to the newest, and the bound that it
// sets: of the kind that is in force.
type run struct {
	kind  lease.Kind
	terms [len(kinds)]terms

	bucket   bucket
	window   window
	calendar calendar
}

func newRun(rule lease.Rule, now time.Duration) run {
	var r run
	r.learn(rule)
	r.open(rule, rule.Capacity, now, 0)
	return r
}

// of are the terms of a kind.
func (r *run) of(kind lease.Kind) *terms { return &r.terms[slices.Index(kinds[:], kind)] }

// learn takes another version into the terms of its kind.
func (r *run) learn(rule lease.Rule) {
	t := r.of(rule.Kind)
	if !t.known {
		t.rate, t.window = rule.Refill, rule.Window
	}
	t.known = true
	t.capacity = max(t.capacity, rule.Capacity)
	t.window = min(t.window, rule.Window)
	if faster(rule.Refill, t.rate) {
		t.rate = rule.Refill
	}
}

// open starts the bound of the rule's kind, of which no more than left could be
// admitted at once at that moment; what is more counts as admitted then.
func (r *run) open(rule lease.Rule, left int64, at time.Duration, began int64) {
	r.learn(rule)
	r.kind = rule.Kind
	r.bucket, r.window, r.calendar = bucket{}, window{}, calendar{}
	t := r.of(rule.Kind)
	lacks := max(0, rule.Capacity-left)
	switch rule.Kind {
	case lease.TokenBucket:
		r.bucket = newBucket(max(t.capacity, left), t.rate, at)
		r.bucket.deficit = product(lacks, int64(r.bucket.rate.Interval))
	case lease.RollingWindow:
		r.window = window{limit: max(t.capacity, left), length: t.window}
		r.window.admit(at, lacks)
	case lease.FixedWindow:
		r.calendar = calendar{limit: max(t.capacity, left)}
		r.calendar.admit(began, lacks)
	case lease.Concurrency:
		// Tokens are spent by those alone who have not heard of the change: of what
		// was out when it was made.
		r.bucket = newBucket(left, lease.Rate{}, at)
	}
}

// widen takes another version into the run.
func (r *run) widen(now time.Duration, rule lease.Rule) {
	r.learn(rule)
	if rule.Kind != r.kind {
		return
	}
	switch rule.Kind {
	case lease.TokenBucket:
		r.bucket.widen(now, rule)
	case lease.RollingWindow:
		r.window.limit = max(r.window.limit, rule.Capacity)
		r.window.length = min(r.window.length, rule.Window)
	case lease.FixedWindow:
		r.calendar.limit = max(r.calendar.limit, rule.Capacity)
	case lease.Concurrency: // gives no tokens to those who have not heard of it
	}
}

// admit says by how much an admission is above what is allowed, and what is. rest
// is a fraction of a token.
func (r *run) admit(now time.Duration, tokens, began int64) (over int64, rest float64, allowed string) {
	switch r.kind {
	case lease.RollingWindow:
		over = r.window.admit(now, tokens)
		allowed = fmt.Sprintf("%d in %v", r.window.limit, r.window.length)
	case lease.FixedWindow:
		over = r.calendar.admit(began, tokens)
		allowed = fmt.Sprintf("%d in the period that began at %d", r.calendar.limit, began)
	case lease.TokenBucket, lease.Concurrency:
		interval := int64(r.bucket.rate.Interval)
		above := r.bucket.admit(now, tokens)
		if above.isZero() {
			return 0, 0, ""
		}
		whole, part := above.divide(interval)
		over, rest = whole, float64(part)/float64(interval)
		allowed = fmt.Sprintf("capacity %d and refill %d/%v", r.bucket.capacity, r.bucket.rate.Tokens, r.bucket.rate.Interval)
	}
	return over, rest, allowed
}

// left is what could be admitted at once now, in whole tokens.
func (r *run) left(now time.Duration, began int64) int64 {
	switch r.kind {
	case lease.RollingWindow:
		return max(0, r.window.limit-r.window.sum(now))
	case lease.FixedWindow:
		return max(0, r.calendar.limit-r.calendar.of(began))
	case lease.TokenBucket:
		return r.bucket.left(now)
	case lease.Concurrency: // what is out may be all slots, or what was out before
	}
	return max(r.of(lease.Concurrency).capacity, r.bucket.capacity)
}

// full says that nothing was admitted that counts now.
func (r *run) full(now time.Duration, began int64) bool {
	switch r.kind {
	case lease.RollingWindow:
		return r.window.sum(now) == 0
	case lease.FixedWindow:
		return r.calendar.of(began) == 0
	case lease.TokenBucket:
		r.bucket.advance(now)
		return r.bucket.deficit.isZero()
	case lease.Concurrency:
	}
	return true
}

// capacity is the highest of all versions.
func (r *run) capacity() (most int64) {
	for i := range r.terms {
		most = max(most, r.terms[i].capacity)
	}
	return most
}

// bucket is an exact one, kept as what it lacks to be full.
type bucket struct {
	capacity int64
	rate     lease.Rate
	deficit  wide // numerator over rate.Interval
	at       time.Duration
}

func newBucket(capacity int64, rate lease.Rate, at time.Duration) bucket {
	if rate.Tokens == 0 {
		rate.Interval = 1
	}
	return bucket{capacity: capacity, rate: rate, at: at}
}

// advance refills up to now.
func (b *bucket) advance(now time.Duration) {
	if now <= b.at {
		return
	}
	b.deficit = b.deficit.minus(product(int64(now-b.at), b.rate.Tokens))
	b.at = now
}

// admit is by how much it lacks more than its capacity, over the interval.
func (b *bucket) admit(now time.Duration, tokens int64) (over wide) {
	b.advance(now)
	interval := int64(b.rate.Interval)
	b.deficit = b.deficit.plus(product(tokens, interval))
	return b.deficit.minus(product(b.capacity, interval))
}

func (b *bucket) left(now time.Duration) int64 {
	b.advance(now)
	whole, rest := b.deficit.divide(int64(b.rate.Interval))
	if rest > 0 {
		whole++
	}
	return max(0, b.capacity-whole)
}

// widen takes a rule that allows more.
func (b *bucket) widen(now time.Duration, rule lease.Rule) {
	b.advance(now)
	b.capacity = max(b.capacity, rule.Capacity)
	if faster(rule.Refill, b.rate) {
		whole, rest := b.deficit.divide(int64(b.rate.Interval))
		part, _ := product(rest, int64(rule.Refill.Interval)).divide(int64(b.rate.Interval))
		b.deficit = product(whole, int64(rule.Refill.Interval)).plus(wide{lo: uint64(part)})
		b.rate = rule.Refill
	}
}

func faster(a, b lease.Rate) bool {
	hiA, loA := bits.Mul64(uint64(a.Tokens), uint64(max(1, b.Interval)))
	hiB, loB := bits.Mul64(uint64(b.Tokens), uint64(max(1, a.Interval)))
	return hiA > hiB || hiA == hiB && loA > loB
}
