package holder

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// simple is a budget as one would first write it: numbers, and a map of holds.
type simple struct {
	issued, returned, credit, spent, debt int64
	told, sent                            int64 // owed to the ledger: not confirmed yet, and in the newest report
	owed                                  int64 // of the grant, in all
	slots, ended                          bool
	holds                                 map[uint64]simpleHold
}

type simpleHold struct {
	tokens int64
	until  time.Duration
}

func (s *simple) held() int64 {
	var sum int64
	for _, h := range s.holds {
		sum += h.tokens
	}
	return sum
}

// gain puts n tokens into the credit, debt first.
func (s *simple) gain(n int64) int64 {
	paid := min(n, s.debt)
	s.debt -= paid
	s.spent += paid
	s.credit += n - paid
	return n - paid
}

func (s *simple) settle(id uint64, cost int64, postpaid bool) Settled {
	h, known := s.holds[id]
	if !known {
		return Settled{Debt: s.debt + s.told}
	}
	if s.slots {
		cost = 0
	}
	if cost > h.tokens && !postpaid || cost < 0 {
		return Settled{Known: true, Refused: true, Debt: s.debt + s.told}
	}
	delete(s.holds, id)
	s.spent += min(cost, h.tokens)
	back := s.gain(max(0, h.tokens-cost))
	if excess := cost - h.tokens; excess > 0 {
		now := min(excess, s.credit)
		s.credit -= now
		s.spent += now
		s.debt += excess - now
	}
	return Settled{Known: true, Returned: back, Debt: s.debt + s.told}
}

func (s *simple) expire(now time.Duration) {
	for id, h := range s.holds {
		switch {
		case now < h.until:
			continue
		case s.slots:
			s.gain(h.tokens)
		default:
			s.spent += h.tokens
		}
		delete(s.holds, id)
	}
}

// machine runs a budget and the simple one side by side.
type machine struct {
	m   *Manager
	k   *keyState
	s   simple
	ids uint64
}

func (x *machine) actions() map[string]func(*rapid.T) {
	b := x.k.budget
	return map[string]func(*rapid.T){
		"admit": func(t *rapid.T) {
			n := rapid.Int64Range(0, 20).Draw(t, "tokens")
			x.k.issued += n
			x.m.admit(x.k, n)
			x.s.issued += n
			x.s.ended = false
			x.s.gain(n)
		},
		"spend": func(t *rapid.T) {
			cost := rapid.Int64Range(1, 10).Draw(t, "cost")
			_, ok := b.Spend(cost)
			if ok != (cost <= x.s.credit) {
				t.Fatalf("a spend of %d with %d: %v", cost, x.s.credit, ok)
			}
			if ok {
				x.s.credit -= cost
				x.s.spent += cost
			}
		},
		"hold": func(t *rapid.T) {
			x.ids++
			cost := rapid.Int64Range(0, 10).Draw(t, "cost")
			until := time.Duration(rapid.IntRange(1, 50).Draw(t, "until"))
			_, ok := b.Hold(x.ids, cost, until, x.s.slots)
			if ok != (cost > 0 && cost <= x.s.credit && !x.s.ended) {
				t.Fatalf("a hold of %d with %d: %v", cost, x.s.credit, ok)
			}
			if ok {
				x.s.credit -= cost
				x.s.holds[x.ids] = simpleHold{cost, until}
			}
		},
		"settle": func(t *rapid.T) {
			id := rapid.Uint64Range(1, x.ids+1).Draw(t, "id")
			cost := rapid.Int64Range(-1, 30).Draw(t, "cost")
			postpaid := !x.s.slots && rapid.Bool().Draw(t, "postpaid")
			if got, want := b.Settle(id, cost, postpaid), x.s.settle(id, cost, postpaid); got != want {
				t.Fatalf("settled %+v, want %+v", got, want)
			}
		},
		"expire": func(t *rapid.T) {
			now := time.Duration(rapid.IntRange(0, 60).Draw(t, "now"))
			b.Expire(now)
			x.s.expire(now)
		},
		"give back": func(t *rapid.T) {
			level := rapid.Int64Range(0, 20).Draw(t, "level")
			x.m.giveBack(x.k, level)
			back := max(0, x.s.credit-level)
			x.s.credit -= back
			x.s.returned += back
		},
		"report": func(*rapid.T) {
			x.k.tellOwed()
			x.s.owed += x.s.debt
			x.s.told += x.s.debt
			x.s.sent, x.s.debt = x.s.told, 0
		},
		"answer": func(*rapid.T) {
			x.k.heardOwed()
			x.s.told -= x.s.sent
			x.s.sent = 0
		},
		"end": func(t *rapid.T) {
			c := x.m.finalCounters(x.k)
			held := x.s.held()
			if !x.s.slots {
				x.s.spent, held = x.s.spent+held, 0
			}
			if c.spent != x.s.spent || c.returned != x.s.returned || c.held != held || c.owed != x.s.owed+x.s.debt {
				t.Fatalf("the account: %+v; want %+v, and %d held", c, x.s, held)
			}
			x.m.forgetGrant(x.k)
			x.k.grant = "g1-000-00000001"
			x.s = simple{slots: x.s.slots, ended: true, holds: map[uint64]simpleHold{}}
		},
		"": func(t *rapid.T) {
			credit, held := b.balance()
			if credit != x.s.credit || held != x.s.held() || x.k.spent() != x.s.spent || b.Debt() != x.s.debt+x.s.told || x.k.returned != x.s.returned {
				t.Fatalf("credit %d, held %d, spent %d, debt %d, returned %d; want %+v", credit, held, x.k.spent(), b.Debt(), x.k.returned, x.s)
			}
			if credit+held+x.k.spent()+x.k.returned != x.k.issued {
				t.Fatalf("%d issued; credit %d, held %d, spent %d, returned %d", x.k.issued, credit, held, x.k.spent(), x.k.returned)
			}
			if untold := b.holds.untold(); untold != x.s.debt || untold > 0 && credit > 0 {
				t.Fatalf("%d in credit, %d owed and not told, want %d", credit, untold, x.s.debt)
			}
			ids := slices.Sorted(maps.Keys(x.s.holds))
			if len(ids) != len(b.holds.byID) || len(ids) != len(b.holds.byTime) {
				t.Fatalf("%d holds, %d by time, want %v", len(b.holds.byID), len(b.holds.byTime), ids)
			}
		},
	}
}

// A budget does what the simple one does, in whatever order it is spent, held,
// settled, and its grants end.
func TestHoldsAgainstSimpleModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slots := rapid.Bool().Draw(rt, "slots")
		m, k := stocked(t, 0, slots)
		k.budget.admit(0)
		x := &machine{m: m, k: k, s: simple{slots: slots, holds: map[uint64]simpleHold{}}}
		rt.Repeat(x.actions())
	})
}
