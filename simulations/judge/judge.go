package judge

import (
	"fmt"
	"math"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// Judge decides whether what was admitted of one budget conforms. It knows nothing
// of grants. The package comment has its rules.
type Judge struct {
	rules []lease.Rule // as they were written
	bound int64        // the newest version that binds
	kind  lease.Kind   // in force
	// fresh: the ledger has no record, so its next one starts anew, under whatever
	// kind is in force then.
	fresh    bool
	runs     []run
	turn     turn
	held     int64 // slots
	excess   int64
	excessAt time.Duration
}

// New judges a budget that starts full.
func New(rule lease.Rule) *Judge {
	j := &Judge{rules: []lease.Rule{rule}, bound: rule.Version, kind: rule.Kind, fresh: true}
	j.runs = []run{newRun(rule, 0)}
	return j
}

// Admit takes an admission of tokens, and says if it is one too many.
func (j *Judge) Admit(now time.Duration, tokens int64) (err error) {
	for i := range j.runs {
		over, rest, allowed := j.runs[i].admit(now, tokens, j.turn.began)
		if over == 0 && rest == 0 {
			continue
		}
		err = fmt.Errorf("over-admission: %.3f tokens above %s", float64(over)+rest, allowed)
		if rest > 0 {
			over = plus(over, 1)
		}
		j.exceeded(now, over)
	}
	return err
}

// Hold takes slots that work holds from now on, and says if they are too many.
func (j *Judge) Hold(now time.Duration, slots int64) error {
	j.held = plus(j.held, slots)
	return j.Check(now)
}

// Release takes slots of work that has ended, or whose time is over.
func (j *Judge) Release(slots int64) { j.held = max(j.held, math.MinInt64+slots) - slots }

// Held is how many slots are held.
func (j *Judge) Held() int64 { return j.held }

// Check says if more slots are held than there are now: a version that binds may
// have taken some away.
func (j *Judge) Check(now time.Duration) error {
	if j.held <= j.Capacity() {
		return nil
	}
	over := j.held - j.Capacity()
	j.exceeded(now, over)
	return fmt.Errorf("%d slots are held where there are %d", j.held, j.Capacity())
}

func (j *Judge) exceeded(now time.Duration, over int64) {
	if over > j.excess {
		j.excess, j.excessAt = over, now
	}
}

// Capacity is what the budget admits at once at present, in tokens, under the
// versions that are the guarantee.
func (j *Judge) Capacity() int64 { return j.runs[len(j.runs)-1].capacity() }

// Left is what could still be admitted at once at now under all that is the
// guarantee, in whole tokens: no more can be out or available then. Of slots it is
// their number, held or not.
func (j *Judge) Left(now time.Duration) int64 {
	least := j.runs[0].left(now, j.turn.began)
	for i := range j.runs[1:] {
		least = min(least, j.runs[1+i].left(now, j.turn.began))
	}
	return least
}

// Excess is by how much the admissions of some interval, or the slots held at some
// moment, were above what is allowed, in whole tokens, rounded up, at the worst
// moment, and when that was.
func (j *Judge) Excess() (tokens int64, at time.Duration) { return j.excess, j.excessAt }

// Written tells the judge of another version of the policy.
func (j *Judge) Written(now time.Duration, rule lease.Rule) {
	j.rules = append(j.rules, rule)
	for i := range j.runs {
		j.runs[i].widen(now, rule)
	}
}

// Ledger shows the judge the state of the ledger, whenever it has changed.
func (j *Judge) Ledger(now time.Duration, l *lease.Ledger) { j.LedgerOf(now, now, l) }

// LedgerOf is Ledger for a change that was decided on earlier than it was made: what
// a rule of another kind earns counts from then on.
func (j *Judge) LedgerOf(now, decided time.Duration, l *lease.Ledger) {
	if l.Rule.Kind == lease.FixedWindow {
		j.turned(turn{period: l.Rule.Period, zone: l.Rule.Zone, began: l.Began})
	}
	j.become(now, decided, l.Rule)
	j.fresh = false
	if l.Rule.Version > j.bound && l.Available+l.Reserved() <= l.Rule.Capacity {
		j.bind(now, l.Rule)
	}
}

// Bind lets the newest version that was written bind from now on, for strategies
// without a ledger.
func (j *Judge) Bind(now time.Duration) {
	if newest := j.rules[len(j.rules)-1]; newest.Version > j.bound {
		j.become(now, now, newest)
		j.bind(now, newest)
	}
}

// Turned tells the judge in which period of the calendar the budget is, for
// strategies without a ledger: when that began, in milliseconds since 1970.
func (j *Judge) Turned(rule lease.Rule, began int64) {
	j.turned(turn{period: rule.Period, zone: rule.Zone, began: began})
}

// become puts a rule in force. One of another kind starts as if all that is not out
// had been spent when it was decided on.
func (j *Judge) become(now, decided time.Duration, rule lease.Rule) {
	if rule.Kind == j.kind {
		return
	}
	j.kind = rule.Kind
	for i := range j.runs {
		r := &j.runs[i]
		left := rule.Capacity // a budget without a record is full
		if !j.fresh {
			left = r.left(now, j.turn.began)
		}
		r.open(rule, left, decided, j.turn.began)
	}
}

func (j *Judge) bind(now time.Duration, rule lease.Rule) {
	j.bound = rule.Version
	r := newRun(rule, now)
	for _, other := range j.rules {
		if other.Version > rule.Version {
			r.widen(now, other) // written, and not yet in force
		}
	}
	j.runs = append(j.runs, r)
}

// Restored tells the judge that an older version of the policy is in force again,
// since the store was set back. Its calendar may have been set back as well.
func (j *Judge) Restored(now time.Duration, rule lease.Rule) {
	j.fresh = true
	for i := range j.runs {
		j.runs[i].widen(now, rule)
		j.runs[i].calendar.keep(j.turn.began, j.turn.began)
	}
}

// Dropped tells the judge that the ledger's record went: the budget is full.
func (j *Judge) Dropped() { j.fresh = true }

// Full says that a budget which recovers as fast as any version allows is full.
func (j *Judge) Full(now time.Duration) bool {
	for i := range j.runs {
		if !j.runs[i].full(now, j.turn.began) {
			return false
		}
	}
	return j.held == 0
}

// turn is where a fixed window is: which period of which calendar.
type turn struct {
	period lease.Period
	zone   string
	began  int64 // in milliseconds since 1970; 0: not known
}

// turned takes the period that the ledger is in. One of another calendar, or the
// first that is known, takes over what was admitted before.
func (j *Judge) turned(to turn) {
	was := j.turn
	j.turn = to
	if was.period == to.period && was.zone == to.zone && was.began != 0 {
		return
	}
	for i := range j.runs {
		if j.fresh && was.began != 0 {
			was.began = -1 // periods may have passed that nobody saw
		}
		j.runs[i].calendar.keep(was.began, to.began)
	}
}
