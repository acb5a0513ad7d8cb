package lease_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
)

// Any transitions in any order, with messages that are lost, repeated, late and
// out of order, under policies of every kind that follow one another: the ledger
// keeps every invariant and agrees with the model to the fraction of a token, and to
// the last token of debt. In the
// end, with all settled, it is full again.
func TestLedgerAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawRule(t, 1))
		for range rapid.SampledFrom([]int{5, 20, 60, 150}).Draw(t, "steps") {
			w.step(t)
		}
		w.end(t)
	})
}

// world is a ledger beside its model, and all messages that were ever sent.
type world struct {
	ledger lease.Ledger
	model  *model
	now    lease.Time
	ids    uint64 // grants ever opened
	mail   []message
	period int64 // in which the wall clock was last
}

// message is a holder's cumulative counters.
type message struct {
	id                    lease.GrantID
	spent, returned, owed int64
}

func newWorld(rule lease.Rule) *world {
	return &world{ledger: newLedger(rule), model: newModel(rule)}
}

// tickLength is what the times of windows are multiples of: so fewer of them lie in
// a window than are kept exactly.
const tickLength = 100 * time.Millisecond

func drawRule(t *rapid.T, version int64) lease.Rule {
	rule := lease.Rule{Version: version, MaxSharePercent: rapid.SampledFrom([]int32{100, 50, 1}).Draw(t, "share")}
	rule.Capacity = rapid.OneOf(rapid.Int64Range(0, 60), rapid.SampledFrom([]int64{0, 1, lease.MaxCapacity})).Draw(t, "capacity")
	rule.Kind = rapid.SampledFrom([]lease.Kind{lease.TokenBucket, lease.TokenBucket, lease.RollingWindow, lease.FixedWindow, lease.Concurrency}).Draw(t, "kind")
	switch rule.Kind {
	case lease.TokenBucket:
		rule.Refill = drawRefill(t)
	case lease.RollingWindow:
		rule.Window = time.Duration(rapid.Int64Range(1, 25).Draw(t, "window")) * tickLength
	case lease.FixedWindow:
		rule.Period = rapid.SampledFrom([]lease.Period{lease.Minute, lease.Month}).Draw(t, "period")
		rule.Zone = rapid.SampledFrom([]string{"UTC", "Europe/Berlin"}).Draw(t, "zone")
	case lease.Concurrency:
	}
	return rule
}

func drawRefill(t *rapid.T) lease.Rate {
	rate := lease.Rate{
		Tokens:   rapid.OneOf(rapid.Int64Range(0, 60), rapid.SampledFrom([]int64{0, 65_535, math.MaxInt64})).Draw(t, "refill"),
		Interval: rapid.SampledFrom([]time.Duration{1, 3, 1000, time.Second, time.Minute, lease.MaxInterval}).Draw(t, "interval"),
	}
	if rate.Tokens == 0 && rapid.Bool().Draw(t, "no interval") {
		rate.Interval = 0
	}
	return rate
}

func (w *world) step(t *rapid.T) {
	before := w.ledger.Clone()
	w.tick(t)
	op := rapid.SampledFrom([]string{
		"advance", "open", "open", "top up", "top up", "account", "account", "account", "repeat", "repeat",
		"close", "proven", "attest", "install", "query", "turn", "extend", "extend", "lapse",
	}).Draw(t, "op")
	w.apply(t, op)
	w.requireNextLapse(t)
	if err := lease.CheckStep(&before, &w.ledger); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	if w.ledger.Rule.Kind == lease.TokenBucket && w.ledger.Full() && w.model.lacks.Sign() > 0 {
		t.Fatalf("%s: %v is full, and %v of what was spent is not refilled", op, &w.ledger, w.model.lacks)
	}
	if !w.model.agrees(&w.ledger) {
		t.Fatalf("%s: %v\n%v, %v and %d used where the model has %v free, %d out, %d owed, %v and %d used at %d", op, &before,
			&w.ledger, w.ledger.Recovering, w.ledger.Used, w.model.free, w.model.out(), w.model.debt, w.model.releases(), w.model.used, w.model.now)
	}
}

// tick moves the caller's now, mostly forth.
func (w *world) tick(t *rapid.T) {
	if w.ledger.Rule.Kind == lease.RollingWindow {
		by := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(-10, 30)).Draw(t, "ticks")
		w.now = max(0, w.now+lease.Time(by)*lease.Time(tickLength))
		return
	}
	interval := int64(max(1, w.ledger.Rule.Refill.Interval))
	by := rapid.OneOf(
		rapid.Just[int64](0), rapid.Int64Range(0, 3), rapid.Int64Range(0, min(interval, int64(time.Hour))),
		rapid.Int64Range(0, int64(time.Hour)), rapid.Int64Range(-int64(2*time.Second), 0),
	).Draw(t, "tick")
	w.now = max(0, w.now+lease.Time(by))
}

func (w *world) apply(t *rapid.T, op string) {
	l, m, now := &w.ledger, w.model, w.now
	switch op {
	case "advance":
		l.Advance(now)
		m.advance(now)
	case "open":
		w.open(t)
	case "install":
		w.install(t)
	case "query":
		w.query(t)
	case "turn": // mostly on, at times by a wall clock that was set back
		w.period = max(1, w.period+rapid.SampledFrom([]int64{0, 0, 1, 1, 2, -1, -3}).Draw(t, "periods"))
		l.Turn(now, w.period, time.Minute)
		m.turn(now, w.period)
	case "repeat":
		if len(w.mail) > 0 {
			w.deliver(t, rapid.SampledFrom(w.mail).Draw(t, "old message"))
		}
	default:
		id := grantID(rapid.Uint64Range(1, w.ids+1).Draw(t, "id"))
		if m.grants[id] == nil {
			w.late(t, op, id)
			return
		}
		w.onGrant(t, op, id)
	}
}

func (w *world) open(t *rapid.T) {
	l, m, now := &w.ledger, w.model, w.now
	holder := rapid.SampledFrom([]lease.Holder{eu, us, ap}).Draw(t, "holder")
	epoch := rapid.Uint64Range(1, 3).Draw(t, "epoch")
	live := slices.ContainsFunc(l.Grants, func(g lease.Grant) bool { return g.Holder == holder && g.Epoch == epoch && !g.Kept })
	tokens, fits := w.amount(t, holder)
	err := l.Open(now, grantID(w.ids+1), holder, epoch, tokens)
	switch {
	case !fits:
		want(t, err, lease.ErrNoRoom)
		m.advance(now)
	case live:
		want(t, err, lease.ErrExists)
		m.advance(now)
	default:
		want(t, err, nil)
		w.ids++
		m.give(now, grantID(w.ids), tokens)
	}
}

// amount is a number of tokens, and whether the holder can have them by the
// model. The model is advanced for that, and the ledger too where it need not
// look.
func (w *world) amount(t *rapid.T, holder lease.Holder) (tokens int64, fits bool) {
	w.model.advance(w.now)
	if rapid.Bool().Draw(t, "looked at before") {
		w.ledger.Advance(w.now)
	}
	var held int64
	for _, g := range w.ledger.Grants {
		if g.Holder == holder {
			held += w.model.grants[g.ID].out()
		}
	}
	most := min(floor(w.model.free), w.model.rule.ShareCap()-held)
	tokens = rapid.OneOf(rapid.Just(max(0, most)), rapid.Int64Range(-1, max(0, most)+1)).Draw(t, "tokens")
	if tokens < 0 {
		w.ledger.Advance(w.now)
	}
	return tokens, tokens >= 0 && tokens <= max(0, most)
}

func (w *world) install(t *rapid.T) {
	version := w.ledger.Rule.Version + rapid.Int64Range(-1, 2).Draw(t, "version step")
	rule := drawRule(t, version)
	err := w.ledger.Install(w.now, rule)
	switch {
	case version < w.model.rule.Version:
		want(t, err, lease.ErrOlderRule)
	case version == w.model.rule.Version:
		want(t, err, nil)
	default:
		want(t, err, nil)
		w.model.install(w.now, rule)
	}
}

// query asks what changes nothing but the clock.
func (w *world) query(t *rapid.T) {
	l := &w.ledger
	w.model.advance(w.now)
	tokens := rapid.Int64Range(0, l.Rule.Capacity+1).Draw(t, "tokens")
	wait, ok := l.Retry(w.now, tokens)
	// What is promised holds if all that is out is spent now, to the nanosecond.
	ideal := l.Clone()
	for _, g := range l.Grants {
		if _, err := ideal.Attest(w.now, g.ID); err != nil {
			t.Fatal(err)
		}
	}
	w.promised(t, &ideal, tokens, wait, ok)
	if l.Full() && !w.model.full() || !l.Full() && w.model.full() && l.Cut == 0 && l.Updated >= l.Past {
		t.Fatalf("full is %v for %v", l.Full(), l)
	}
}

// promised checks the guidance for tokens of the ledger, which has nothing out.
func (w *world) promised(t *rapid.T, ideal *lease.Ledger, tokens int64, wait time.Duration, ok bool) {
	due := w.now.Add(wait)
	switch kind := ideal.Rule.Kind; {
	case kind == lease.FixedWindow || kind == lease.Concurrency:
		if ok && wait == 0 && ideal.Available < tokens || tokens > ideal.Rule.ShareCap() && ok {
			t.Fatalf("%d can be had at once of %v", tokens, ideal)
		}
	case ok && wait > 0:
		if ideal.Advance(due - 1); ideal.Available >= tokens {
			t.Fatalf("a wait of %v for %d of %v is too long", wait, tokens, ideal)
		}
		fallthrough
	case ok:
		if ideal.Advance(due); ideal.Available < tokens {
			t.Fatalf("a wait of %v for %d of %v is too short", wait, tokens, ideal)
		}
	case tokens <= ideal.Rule.ShareCap():
		if ideal.Advance(math.MaxInt64); ideal.Available >= tokens {
			t.Fatalf("no wait for %d of %v", tokens, ideal)
		}
	}
}

// end settles all that is out and lets time pass: nothing is lost for ever, unless
// nothing is refilled.
func (w *world) end(t *rapid.T) {
	l := &w.ledger
	for _, g := range slices.Clone(l.Grants) {
		if _, err := l.Attest(w.now, g.ID); err != nil {
			t.Fatal(err)
		}
	}
	if l.Debt > 0 && (l.Rule.Capacity == 0 || l.Debt/l.Rule.Capacity > 10_000) {
		return // it is not paid in the time that there is
	}
	switch l.Rule.Kind {
	case lease.RollingWindow:
		l.Advance(l.Updated.Add(time.Duration(2+l.Debt/max(1, l.Rule.Capacity)) * l.Rule.Window))
	case lease.FixedWindow:
		l.Turn(w.now, l.Began+1, time.Minute) // which may be the first that it is told
		l.Turn(w.now, l.Began+1, time.Minute)
		for l.Debt > 0 {
			l.Turn(w.now, l.Began+1, time.Minute)
		}
		l.Turn(w.now, l.Began+1, time.Minute)
	case lease.TokenBucket:
		wait, ok := l.Rule.Refill.Wait(l.Debt + l.Rule.Capacity)
		if !ok || l.Rule.Refill.Tokens == 0 || l.Cut > 0 {
			return
		}
		l.Advance(l.Updated.Add(wait))
	case lease.Concurrency:
	}
	if !fullAtLast(l) {
		t.Fatalf("not full in the end: %v, %v and %d used", l, l.Recovering, l.Used)
	}
}
