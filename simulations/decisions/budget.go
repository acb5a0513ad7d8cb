package decisions

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"
	_ "time/tzdata" // zones for machines without a database of their own

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/judge"
)

// budget is one budget while it is judged.
type budget struct {
	info     *keyInfo
	versions []*version    // in order
	slack    time.Duration // see the package comment
	clockErr time.Duration
	judge    *judge.Judge
	scale    int64            // of tokens: see scaled
	now      int              // the version in force, an index
	bound    int              // the newest that binds
	written  int              // how many the judge has
	open     map[string]int64 // reservations, by their hashes
	early    map[string]event // ends of reservations that count before these do
	swept    int              // how many of those were kept when they were looked through last
	zones    map[string]*time.Location

	tooShort, noZone bool // it could not be judged, at least for a while
	violation        *Violation
	listed           int // its place in the report, from 1 on
}

func newBudget(info *keyInfo, clockErr time.Duration) *budget {
	b := &budget{
		info: info, slack: 2*clockErr + info.took, clockErr: clockErr, open: map[string]int64{}, early: map[string]event{}, zones: map[string]*time.Location{},
	}
	for _, number := range slices.Sorted(maps.Keys(info.versions)) {
		b.versions = append(b.versions, info.versions[number])
	}
	if len(b.versions) > 0 {
		b.scale = scaleOf(b.versions)
		b.judge = judge.New(b.adapted(b.versions[0].rule))
		b.written = 1
	}
	return b
}

// take judges an event.
func (b *budget) take(e *event) {
	if b.judge == nil {
		return // settlements alone
	}
	now := time.Duration(e.at)
	b.advance(now)
	slots := b.rule().Kind == lease.Concurrency
	switch e.what {
	case admit:
		b.admit(now, e, e.tokens)
	case reserve:
		if end, ok := b.early[e.reservation]; ok {
			delete(b.early, e.reservation)
			if !slots { // which may have been free all the time
				b.settle(now, &end, e.tokens)
			}
			break
		}
		b.open[e.reservation] = e.tokens
		if slots {
			b.verdict(now, e, b.judge.Hold(now, e.tokens))
		}
	case settle, expire:
		tokens, ok := b.open[e.reservation]
		if !ok {
			b.earlier(e)
			return
		}
		delete(b.open, e.reservation)
		if slots {
			b.judge.Release(tokens)
		} else {
			b.settle(now, e, tokens)
		}
	}
	b.bind(now)
}

// settle judges what a reservation of tokens has come to at its end. Where less came
// back than was left over, its grant had ended before, and when it was spent is not
// known; nor is it of one that was never settled.
func (b *budget) settle(now time.Duration, end *event, tokens int64) {
	if spent := tokens - end.returned; end.what == settle && spent > 0 && spent <= end.tokens {
		b.admit(now, end, spent)
	}
}

// earlier keeps the end of a reservation that may be yet to come: slots are free as
// early as they can have been. What comes no more is forgotten.
func (b *budget) earlier(e *event) {
	b.early[e.reservation] = *e
	if len(b.early) < 2*b.swept+1000 {
		return
	}
	maps.DeleteFunc(b.early, func(_ string, kept event) bool { return plus(kept.at, int64(b.slack)) < e.at })
	b.swept = len(b.early)
}

func (b *budget) rule() lease.Rule { return b.versions[b.now].rule }

// advance brings the judge to the versions that are, or may be, in force at now.
func (b *budget) advance(now time.Duration) {
	for b.written < len(b.versions) {
		v := b.versions[b.written]
		anew := anotherKind(b.versions[b.written-1].rule, v.rule)
		switch {
		case anew && int64(now) >= plus(v.first, int64(b.slack)):
			b.anew(b.versions[b.written-1].rule, v.rule)
			b.now, b.bound = b.written, -1
		case !anew && int64(now) >= b.earliest(v):
			b.judge.Written(time.Duration(max(0, b.earliest(v))), b.adapted(v.rule))
		default:
			return
		}
		b.written++
	}
}

// earliest is when a version can have come into force.
func (b *budget) earliest(v *version) int64 {
	if v.applied == 0 {
		return math.MinInt64
	}
	return min(v.applied-int64(b.clockErr)-int64(time.Millisecond), v.first-int64(b.slack))
}

// anotherKind says that what the one rule has admitted says nothing about the other.
func anotherKind(a, b lease.Rule) bool {
	return a.Kind != b.Kind || a.Period != b.Period || a.Zone != b.Zone
}

// anew starts with a rule of another kind, of which as much may be out as the one
// before allows.
func (b *budget) anew(before, rule lease.Rule) {
	held := b.judge.Held()
	first := rule
	first.Version--
	first.Capacity = max(rule.Capacity, before.Capacity)
	b.judge = judge.New(b.adapted(first))
	b.judge.Written(0, b.adapted(rule))
	if rule.Kind == lease.Concurrency {
		_ = b.judge.Hold(0, held)
	}
}

// bind lets the newest version bind, once it is in force for sure and no more can be
// out than it allows.
func (b *budget) bind(now time.Duration) {
	newest := b.written - 1
	if newest == b.bound || int64(now) < plus(b.versions[newest].first, int64(b.slack)) {
		return
	}
	b.now = newest
	if rule := b.adapted(b.versions[newest].rule); b.judge.Left(now) <= rule.Capacity {
		b.judge.Bind(now)
		b.bound = newest
	}
}

// admit judges what was spent.
func (b *budget) admit(now time.Duration, e *event, tokens int64) {
	rule := b.rule()
	switch rule.Kind {
	case lease.RollingWindow:
		if rule.Window <= b.slack {
			b.tooShort = true
			return
		}
	case lease.FixedWindow:
		began, known := b.period(now, rule)
		if !known {
			return
		}
		b.judge.Turned(rule, began)
	case lease.Concurrency:
		return // of before its kind was changed
	case lease.TokenBucket:
	}
	b.verdict(now, e, b.judge.Admit(now, times(tokens, b.scale)))
}

// period is when the period began that now is in for sure, in milliseconds.
func (b *budget) period(now time.Duration, rule lease.Rule) (began int64, known bool) {
	zone, ok := b.zones[rule.Zone]
	if !ok {
		zone, _ = time.LoadLocation(rule.Zone) // nil where it fails
		b.zones[rule.Zone] = zone
	}
	if zone == nil {
		b.noZone = true
		return 0, false
	}
	begins := func(at time.Duration) int64 {
		start, _ := rule.Period.Bounds(time.Unix(0, int64(at)).In(zone))
		return start.UnixMilli()
	}
	began = begins(now)
	// A limiter's clock and the broker's may be off in opposite directions.
	return began, began == begins(now-b.slack) && began == begins(now+2*b.clockErr)
}

// verdict notes a violation.
func (b *budget) verdict(now time.Duration, e *event, err error) {
	if err == nil || b.violation != nil {
		return
	}
	excess, _ := b.judge.Excess()
	rule := b.rule()
	b.violation = &Violation{
		Account: b.info.key.Account, Operation: b.info.key.Operation, First: time.Unix(0, int64(now)).UTC(),
		Tokens: b.unscaled(excess), Order: e.order, Rule: inWords(rule), Version: rule.Version,
	}
}

// told is the violation with its worst moment.
func (b *budget) told() Violation {
	v := *b.violation
	v.Worst, v.WorstAt = v.Tokens, v.First
	if excess, at := b.judge.Excess(); b.unscaled(excess) > v.Worst {
		v.Worst, v.WorstAt = b.unscaled(excess), time.Unix(0, int64(at)).UTC()
	}
	return v
}

func (b *budget) notes(r *Report) {
	name := fmt.Sprintf("%s of %s", b.info.key.Operation, b.info.key.Account)
	if b.tooShort {
		r.note("%s: the slack of %v is as long as its window: it is not judged", name, b.slack)
	}
	if b.noZone {
		r.note("%s: a time zone is not known here: it is not judged", name)
	}
}

// adapted is the rule with the slack in its favour. Of a bucket, tokens are scaled.
func (b *budget) adapted(rule lease.Rule) lease.Rule {
	switch rule.Kind {
	case lease.TokenBucket:
		rule.Capacity, rule.Refill.Tokens = times(rule.Capacity, b.scale), times(rule.Refill.Tokens, b.scale)
		if rule.Refill.Tokens > 0 {
			rule.Capacity = plus(rule.Capacity, earned(rule.Refill, b.slack))
		}
	case lease.RollingWindow:
		rule.Window = max(1, rule.Window-b.slack)
		rule.Capacity = times(rule.Capacity, b.scale)
	case lease.FixedWindow:
		rule.Capacity = times(rule.Capacity, b.scale)
	case lease.Concurrency:
	}
	return rule
}

// scaleOf is by how much tokens are multiplied, so that what a bucket earns in the
// slack, which is rounded up, is no whole token more.
func scaleOf(versions []*version) int64 {
	most := int64(1)
	for _, v := range versions {
		most = max(most, v.rule.Capacity, v.rule.Refill.Tokens)
	}
	for scale := int64(1_000_000); scale > 1; scale /= 10 {
		if most <= math.MaxInt64/16/scale {
			return scale
		}
	}
	return 1
}

// unscaled is a number of tokens, rounded up.
func (b *budget) unscaled(excess int64) int64 {
	if b.rule().Kind == lease.Concurrency {
		return excess
	}
	return excess/b.scale + min(1, excess%b.scale)
}

// earned is what a refill brings in a time, rounded up.
func earned(rate lease.Rate, d time.Duration) int64 {
	hi, lo := bits.Mul64(uint64(rate.Tokens), uint64(d))
	interval := uint64(rate.Interval)
	if hi >= interval {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(hi, lo, interval)
	if quotient >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(quotient) + int64(min(1, rest))
}

// times is a*b for numbers that are not negative, at most the largest.
func times(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}

// inWords is a rule for people.
func inWords(rule lease.Rule) string {
	switch rule.Kind {
	case lease.RollingWindow:
		return fmt.Sprintf("%d in any %v", rule.Capacity, rule.Window)
	case lease.FixedWindow:
		return fmt.Sprintf("%d a %s, %s", rule.Capacity, rule.Period, rule.Zone)
	case lease.Concurrency:
		return fmt.Sprintf("%d slots", rule.Capacity)
	case lease.TokenBucket:
	}
	if rule.Refill.Tokens == 0 {
		return fmt.Sprintf("capacity %d, no refill", rule.Capacity)
	}
	return fmt.Sprintf("capacity %d, refill %d per %v", rule.Capacity, rule.Refill.Tokens, rule.Refill.Interval)
}
