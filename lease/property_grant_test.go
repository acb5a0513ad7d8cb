package lease_test

import (
	"errors"
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
)

// late is any message for a grant that has ended, or never was.
func (w *world) late(t *rapid.T, op string, id lease.GrantID) {
	before := w.ledger.Clone()
	var err error
	switch op {
	case "top up":
		err = w.ledger.TopUp(w.now, id, 1)
	case "account":
		err = w.ledger.Account(w.now, id, 1, 1, 1)
	case "close":
		err = w.ledger.CloseHeld(w.now, id, 0, 0, 1, 1)
	case "proven":
		err = w.ledger.CloseProven(w.now, id, 0)
	case "attest":
		_, err = w.ledger.Attest(w.now, id)
	case "lapse":
		_, err = w.ledger.Lapse(w.now, id)
	case "extend":
		if w.ledger.Extend(w.now, id, 1) || w.ledger.Prolong(w.now, id, 1) {
			t.Fatal("a deadline of a grant that is gone has changed")
		}
		err = lease.ErrGone
	}
	want(t, err, lease.ErrGone)
	if !same(before, w.ledger) {
		t.Fatalf("late %s changed %v to %v", op, &before, &w.ledger)
	}
}

func (w *world) onGrant(t *rapid.T, op string, id lease.GrantID) {
	l, m, now := &w.ledger, w.model, w.now
	g := m.grants[id]
	counter := rapid.OneOf(rapid.Int64Range(-1, g.issued), rapid.Int64Range(0, max(0, g.issued/2)), rapid.Int64())
	switch op {
	case "top up":
		tokens, fits := w.amount(t, l.Grant(id).Holder)
		if err := l.TopUp(now, id, tokens); fits {
			want(t, err, nil)
			m.give(now, id, tokens)
		} else {
			want(t, err, lease.ErrNoRoom)
		}
	case "account":
		msg := message{id, counter.Draw(t, "spent"), counter.Draw(t, "returned"), drawOwed(t, g.owed)}
		w.mail = append(w.mail, msg)
		if rapid.Bool().Draw(t, "arrives") {
			w.deliver(t, msg)
		}
	case "close":
		w.close(t, message{id, counter.Draw(t, "spent"), counter.Draw(t, "returned"), drawOwed(t, g.owed)}, max(0, counter.Draw(t, "held")))
	case "proven":
		drawn := counter.Draw(t, "drawn")
		want(t, l.CloseProven(now, id, drawn), nil)
		used := min(max(g.spent, drawn), g.issued-g.returned)
		if m.rule.Kind == lease.Concurrency {
			m.keep(now, id, used-g.spent)
			return
		}
		m.end(now, id, g.issued-g.returned-used)
	case "attest":
		counted, err := l.Attest(now, id)
		want(t, err, nil)
		if counted != g.out() {
			t.Fatalf("attested %d, want %d", counted, g.out())
		}
		m.end(now, id, 0)
	case "extend":
		w.extend(t, id)
	case "lapse":
		counted, err := l.Lapse(now, id)
		if g.lasts == 0 || now < g.lapses {
			want(t, err, lease.ErrNotLapsed)
			return
		}
		want(t, err, nil)
		if counted != g.out() {
			t.Fatalf("%d lapsed, want %d", counted, g.out())
		}
		m.end(now, id, 0)
	}
}

// extend moves the deadline of a grant, or has all of them start over.
func (w *world) extend(t *rapid.T, id lease.GrantID) {
	l, g := &w.ledger, w.model.grants[id]
	lasts := rapid.SampledFrom([]time.Duration{0, 1, 10, time.Second, time.Minute, 2 * lease.MaxHold}).Draw(t, "lasts")
	at := max(w.now, l.Updated)
	if g.kept {
		if l.Extend(w.now, id, lasts) || l.Prolong(w.now, id, lasts) {
			t.Fatal("a grant of slots that may be in use has got a deadline")
		}
		return
	}
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0: // answered again: the holder has one of the answers
		if g.lasts == 0 || lasts != 0 && lasts < g.lasts {
			lasts = g.lasts
		}
		if l.Prolong(w.now, id, lasts) != (lasts != g.lasts) {
			t.Fatal("it is not told whether the length has changed")
		}
	case 1:
		l.Restart(w.now)
		for _, other := range w.model.grants {
			other.lapses = at.Add(other.lasts)
		}
		return
	default:
		if l.Extend(w.now, id, lasts) != (lasts != g.lasts) {
			t.Fatal("it is not told whether the length has changed")
		}
	}
	g.lasts, g.lapses = lasts, at.Add(lasts)
}

// requireNextLapse checks which deadline comes first.
func (w *world) requireNextLapse(t *rapid.T) {
	var first lease.Time
	found := false
	for _, g := range w.model.grants {
		if g.lasts > 0 && (!found || g.lapses < first) {
			first, found = g.lapses, true
		}
	}
	if at, ok := w.ledger.NextLapse(); ok != found || at != first {
		t.Fatalf("the first deadline is %d, %v, want %d, %v", at, ok, first, found)
	}
}

// close ends a grant of which held was given to work.
func (w *world) close(t *rapid.T, msg message, held int64) {
	if rapid.Bool().Draw(t, "nothing is held") {
		held = 0
	}
	m, id, counted := w.model, msg.id, msg.spent
	if m.rule.Kind != lease.Concurrency && held > 0 { // sums beyond an int64 are above all that is issued
		counted = min(max(0, msg.spent), math.MaxInt64-held) + held
	}
	fits := m.account(w.now, id, counted, msg.returned, msg.owed)
	err := w.ledger.CloseHeld(w.now, id, msg.spent, msg.returned, msg.owed, held)
	if !fits {
		wantAbove(t, err)
		return
	}
	want(t, err, nil)
	if m.rule.Kind == lease.Concurrency {
		m.keep(w.now, id, held)
		return
	}
	m.end(w.now, id, m.grants[id].out())
}

// drawOwed is what a report tells as owed, where so much is known: mostly nothing more.
func drawOwed(t *rapid.T, known int64) int64 {
	if rapid.IntRange(0, 3).Draw(t, "owes") > 0 {
		return rapid.Int64Range(0, known).Draw(t, "old owed")
	}
	return rapid.OneOf(
		rapid.Int64Range(known, known+min(60, lease.MaxCounter-known)), rapid.SampledFrom([]int64{-1, math.MaxInt64, math.MinInt64}),
	).Draw(t, "owed")
}

// deliver hands a message over, now or again or long after.
func (w *world) deliver(t *rapid.T, msg message) {
	err := w.ledger.Account(w.now, msg.id, msg.spent, msg.returned, msg.owed)
	switch {
	case w.model.grants[msg.id] == nil:
		want(t, err, lease.ErrGone)
	case w.model.account(w.now, msg.id, msg.spent, msg.returned, msg.owed):
		want(t, err, nil)
	default:
		wantAbove(t, err)
	}
}

func want(t *rapid.T, err, target error) {
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}

func wantAbove(t *rapid.T, err error) {
	if _, ok := errors.AsType[*lease.AboveIssuedError](err); !ok {
		t.Fatalf("error %v, want an account above issued", err)
	}
}
