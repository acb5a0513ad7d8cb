package holder

import (
	"math"
	"testing"
	"time"
)

// far is a time that no test reaches.
const far = time.Duration(math.MaxInt64)

// stocked is a budget with credit of a grant, and what the manager knows of it.
func stocked(t testing.TB, credit int64, slots bool) (*Manager, *keyState) {
	t.Helper()
	signals := NewSignals()
	m := New(Config{Shards: 1, Journal: JournalOff, Jitter: func() float64 { return 0 }}, signals)
	k := m.key(NewBudget(rigKey, signals))
	k.budget.setKind(slots)
	k.grant, k.issued = "g1-000-00000001", credit
	if credit > 0 {
		m.admit(k, credit)
	}
	return m, k
}

// expect compares what is in the budget with what should be.
func expect(t *testing.T, k *keyState, credit, held, spent, debt int64) {
	t.Helper()
	if c, h := k.budget.balance(); c != credit || h != held || k.spent() != spent || k.budget.Debt() != debt {
		t.Errorf("credit %d, held %d, spent %d, debt %d; want %d, %d, %d, %d", c, h, k.spent(), k.budget.Debt(), credit, held, spent, debt)
	}
}

func TestCase45ReserveAndSettle(t *testing.T) {
	_, k := stocked(t, 100, false)
	b := k.budget
	if left, ok := b.Hold(1, 900, far, false); ok || left != 100 {
		t.Errorf("900 of 100: %d, %v", left, ok)
	}
	expect(t, k, 100, 0, 0, 0)
	if left, ok := b.Hold(2, 50, far, false); !ok || left != 50 {
		t.Errorf("50 of 100: %d, %v", left, ok)
	}
	expect(t, k, 50, 50, 0, 0)
	if s := b.Settle(2, 60, false); s != (Settled{Known: true, Refused: true}) {
		t.Errorf("60 of 50: %+v", s)
	}
	expect(t, k, 50, 50, 0, 0)
	if s := b.Settle(2, 30, false); s != (Settled{Known: true, Returned: 20}) {
		t.Errorf("30 of 50: %+v", s)
	}
	expect(t, k, 70, 0, 30, 0)
	if s := b.Settle(2, 30, false); s != (Settled{}) {
		t.Errorf("settled again: %+v", s)
	}
	expect(t, k, 70, 0, 30, 0)
}

func TestHoldTakesNothingWithoutRight(t *testing.T) {
	m, k := stocked(t, 10, false)
	b := k.budget
	b.Hold(1, 4, far, false)
	for name, take := range map[string]func() bool{
		"a cost of 0":             func() bool { _, ok := b.Hold(2, 0, far, false); return ok },
		"a negative cost":         func() bool { _, ok := b.Hold(2, -1, far, false); return ok },
		"the lowest cost":         func() bool { _, ok := b.Hold(2, math.MinInt64, far, false); return ok },
		"an id in use":            func() bool { _, ok := b.Hold(1, 1, far, false); return ok },
		"slots of tokens":         func() bool { _, ok := b.Hold(2, 1, far, true); return ok },
		"more than there is":      func() bool { _, ok := b.Hold(2, 7, far, false); return ok },
		"a negative settlement":   func() bool { return !b.Settle(1, -1, true).Refused },
		"a settlement of nothing": func() bool { return b.Settle(3, 1, true).Known },
	} {
		if take() {
			t.Errorf("%s is taken", name)
		}
		expect(t, k, 6, 4, 0, 0)
	}
	m.finalCounters(k)
	if _, ok := b.Hold(2, 1, far, false); ok {
		t.Error("something is held of a grant that has ended")
	}
	expect(t, k, 0, 0, 4, 0)
}

func TestPostpaidTakesCreditAndThenOwes(t *testing.T) {
	m, k := stocked(t, 100, false)
	b := k.budget
	b.Hold(1, 50, far, false)
	b.Hold(2, 20, far, false)
	if s := b.Settle(1, 70, true); s != (Settled{Known: true}) {
		t.Errorf("70 of 50 with 30 in credit: %+v", s)
	}
	expect(t, k, 10, 20, 70, 0)
	b.Hold(3, 5, far, false)
	if s := b.Settle(3, 40, true); s != (Settled{Known: true, Debt: 30}) {
		t.Errorf("40 of 5 with 5 in credit: %+v", s)
	}
	expect(t, k, 0, 20, 80, 30)
	if _, ok := b.Spend(1); ok {
		t.Error("a check is admitted before the debt is paid")
	}
	// Of what a settlement frees the debt is paid first.
	if s := b.Settle(2, 8, true); s != (Settled{Known: true, Debt: 18}) {
		t.Errorf("8 of 20 with 30 owed: %+v", s)
	}
	expect(t, k, 0, 0, 100, 18)
	// And of new credit.
	k.issued += 25
	m.admit(k, 25)
	expect(t, k, 7, 0, 118, 0)
	if s := b.Settle(9, 1, true); s.Known {
		t.Errorf("an unknown hold is settled: %+v", s)
	}
}

func TestDebtDoesNotOverflow(t *testing.T) {
	_, k := stocked(t, 10, false)
	for id := range uint64(3) {
		k.budget.Hold(id, 1, far, false)
	}
	for id := range uint64(3) {
		k.budget.Settle(id, math.MaxInt64, true)
		k.tellOwed()
	}
	if d := k.budget.Debt(); d != math.MaxInt64 || k.owed != math.MaxInt64 {
		t.Errorf("debt %d, %d told", d, k.owed)
	}
	k.heardOwed()
	if d := k.budget.Debt(); d != 0 {
		t.Errorf("debt %d", d)
	}
}

// What was told is the ledger's: nothing here pays it, it is told once, and a debt that
// comes later is told with it.
func TestDebtThatIsToldIsNotPaidHere(t *testing.T) {
	m, k := stocked(t, 10, false)
	b := k.budget
	b.Hold(1, 4, far, false)
	b.Hold(2, 6, far, false)
	b.Settle(1, 12, true)
	expect(t, k, 0, 6, 4, 8)
	k.tellOwed()
	if k.owed != 8 || k.sentOwed != 8 {
		t.Errorf("%d of 8 are told", k.owed)
	}
	if s := b.Settle(2, 1, true); s != (Settled{Known: true, Returned: 5, Debt: 8}) {
		t.Errorf("1 of 6 with 8 told as owed: %+v", s)
	}
	expect(t, k, 5, 0, 5, 8)
	b.Hold(3, 5, far, false)
	b.Settle(3, 8, true)
	k.issued += 2
	m.admit(k, 2)
	expect(t, k, 0, 0, 12, 9) // of the 3 that are not told, 2 are paid
	k.heardOwed()
	expect(t, k, 0, 0, 12, 1)
	k.tellOwed()
	k.tellOwed()
	if k.owed != 9 {
		t.Errorf("%d of 9 are told", k.owed)
	}
	k.heardOwed()
	k.heardOwed()
	expect(t, k, 0, 0, 12, 0)
}

// A budget without a grant keeps what it owes for the next one, and the end of a grant
// takes along what it owes.
func TestDebtIsOfAGrant(t *testing.T) {
	m, k := stocked(t, 10, false)
	b := k.budget
	b.Hold(1, 10, far, false)
	b.Settle(1, 14, true)
	k.tellOwed()
	k.issued += 10
	m.admit(k, 10)
	b.Hold(2, 10, far, false)
	b.Settle(2, 15, true)
	if c := m.finalCounters(k); c.owed != 9 || c.wire().GetOwedTokens() != 9 {
		t.Errorf("the account tells %d as owed, want 9", c.owed)
	}
	m.forgetGrant(k)
	if d := b.Debt(); d != 0 || k.owed != 0 {
		t.Errorf("%d are owed of a grant that has ended", d)
	}
	b.holds.debt.Store(3)
	k.tellOwed()
	if k.owed != 0 || k.owing() {
		t.Error("a debt is told without a grant")
	}
	k.grant = "g1-000-00000002"
	if !k.owing() {
		t.Error("a debt is not told with the next grant")
	}
	if k.tellOwed(); k.owed != 3 {
		t.Errorf("%d are told as owed, want 3", k.owed)
	}
	b.setKind(true)
	if d := b.Debt(); d != 0 {
		t.Errorf("%d slots are owed", d)
	}
}

func TestSlotsComeBackWhole(t *testing.T) {
	_, k := stocked(t, 3, true)
	b := k.budget
	if _, ok := b.Hold(1, 2, far, false); ok {
		t.Error("tokens of slots")
	}
	b.Hold(1, 2, far, true)
	expect(t, k, 1, 2, 0, 0)
	if s := b.Settle(1, 2, false); s != (Settled{Known: true, Returned: 2}) {
		t.Errorf("%+v", s)
	}
	expect(t, k, 3, 0, 0, 0)
}

// A hold is good while now is before its end. Then tokens count as spent, and slots
// go back.
func TestHoldsEndInTime(t *testing.T) {
	for _, slots := range []bool{false, true} {
		_, k := stocked(t, 10, slots)
		b := k.budget
		news := b.News()
		b.Hold(1, 1, 30*time.Second, slots)
		b.Hold(2, 2, 10*time.Second, slots)
		b.Hold(3, 3, 20*time.Second, slots)
		for _, c := range []struct {
			at                  time.Duration
			held, spent, credit int64
		}{
			{0, 6, 0, 4},
			{10*time.Second - 1, 6, 0, 4},
			{10 * time.Second, 4, 2, 6},
			{25 * time.Second, 1, 5, 9},
			{5 * time.Second, 1, 5, 9},
			{30 * time.Second, 0, 6, 10},
		} {
			b.Expire(c.at)
			if slots {
				expect(t, k, c.credit, c.held, 0, 0)
			} else {
				expect(t, k, 4, c.held, c.spent, 0)
			}
		}
		if s := b.Settle(2, 0, false); s.Known {
			t.Errorf("settled after its end: %+v", s)
		}
		select {
		case <-news:
			if !slots {
				t.Error("news of nothing")
			}
		default:
			if slots {
				t.Error("slots came back, and nobody was told")
			}
		}
	}
}

func TestSettlementTellsThoseThatWait(t *testing.T) {
	_, k := stocked(t, 10, false)
	k.budget.Hold(1, 10, far, false)
	news, _ := k.budget.Wait(1)
	k.budget.Settle(1, 10, false)
	select {
	case <-news:
		t.Error("news of nothing")
	default:
	}
	k.budget.Leave(1)
	k.issued += 10
	k.budget.admit(10)
	k.bound += 10
	k.budget.Hold(2, 10, far, false)
	news, _ = k.budget.Wait(1)
	k.budget.Settle(2, 9, false)
	select {
	case <-news:
	default:
		t.Error("credit came back, and nobody was told")
	}
}

// A hold is of one grant. When that ends, it has no claim: nothing of it comes back
// to the next one.
func TestHoldsEndWithTheirGrant(t *testing.T) {
	m, k := stocked(t, 10, false)
	b := k.budget
	b.Hold(1, 4, far, false)
	b.Spend(1)
	if c := m.finalCounters(k); c.spent != 5 || c.held != 0 {
		t.Errorf("the account of a grant of 10 with 1 spent and 4 held: spent %d, held %d", c.spent, c.held)
	}
	m.forgetGrant(k)
	k.grant, k.issued = "g1-000-00000002", 10
	m.admit(k, 10)
	if s := b.Settle(1, 0, true); s.Known || s.Returned != 0 {
		t.Errorf("%+v", s)
	}
	expect(t, k, 10, 0, 0, 0)

	m, k = stocked(t, 10, true)
	k.budget.Hold(1, 4, far, true)
	if c := m.finalCounters(k); c.spent != 0 || c.held != 4 {
		t.Errorf("the account of 10 slots with 4 held: spent %d, held %d", c.spent, c.held)
	}
	if s := k.budget.Settle(1, 0, false); s.Known || k.budget.Credit() != 0 {
		t.Errorf("%+v, credit %d", s, k.budget.Credit())
	}
}

func TestSealKeepsWhatIsHeld(t *testing.T) {
	_, k := stocked(t, 10, false)
	b := k.budget
	b.Hold(1, 4, far, false)
	if _, retired := b.retire(); retired || b.seal() {
		t.Error("sealed or retired with something held")
	}
	b.Settle(1, 20, true)
	if !b.seal() { // the account of its grant tells it
		t.Errorf("not sealed with %d owed", b.Debt())
	}
	if _, ok := b.Hold(2, 1, far, false); ok {
		t.Error("held after it was sealed")
	}
	k.tellOwed()
	b.admit(1)
	if _, ok := b.Hold(2, 1, far, false); !ok {
		t.Error("not held of new credit")
	}
}

// What a hold takes below the mark, and debt, signal the manager.
func TestHoldsSignalTheManager(t *testing.T) {
	_, k := stocked(t, 10, false)
	b := k.budget
	signaled := func() bool {
		was := b.signaled.Load()
		b.signals.takeAll()
		b.signaled.Store(false)
		return was
	}
	b.low.Store(5)
	b.Hold(1, 5, far, false)
	if signaled() {
		t.Error("a signal at the mark")
	}
	b.Hold(2, 1, far, false)
	if !signaled() {
		t.Error("no signal below the mark")
	}
	b.holds.ease.Store(2)
	b.Settle(2, 0, false)
	if signaled() {
		t.Error("a signal with 5 held, and 2 as the mark")
	}
	b.Hold(3, 1, far, false)
	signaled()
	b.Settle(1, 5, false)
	if !signaled() {
		t.Error("no signal with 1 held, and 2 as the mark")
	}
	b.holds.ease.Store(-1)
	b.Settle(3, 0, false)
	if signaled() {
		t.Error("a signal without a mark")
	}
	b.Hold(4, 1, far, false)
	signaled()
	b.Settle(4, 100, true)
	if !signaled() {
		t.Error("no signal with debt")
	}
}
