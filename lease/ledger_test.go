package lease_test

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

func TestAdvance(t *testing.T) {
	runScripts(t, []script{
		{"a full budget earns nothing", worked(), []step{
			{at: t9s, do: advance(), free: 40},
		}},
		{"refill is continuous, in whole tokens", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t0, do: account(1, 40, 0), free: 0},
			{at: t50ms - 1, do: advance(), free: 0},
			{at: t50ms, do: advance(), free: 1},
			{at: t50ms + 1, do: advance(), free: 1},
			{at: t1s, do: advance(), free: 20},
			{at: t2s - 1, do: advance(), free: 39},
			{at: t2s, do: advance(), free: 40},
			{at: t3s, do: advance(), free: 40},
		}},
		{"what is out leaves no room", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t9s, do: advance(), free: 25, out: 15},
		}},
		{"time without room is not banked", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t9s, do: account(1, 40, 0), free: 0},
			{at: t9s + t50ms, do: advance(), free: 1},
		}},
		{"time steps back: nothing is earned twice", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t0, do: account(1, 40, 0), free: 0},
			{at: t1s, do: advance(), free: 20},
			{at: t0, do: advance(), free: 20},
			{at: t1s, do: advance(), free: 20},
			{at: t1s + t50ms, do: advance(), free: 21},
		}},
		{"no refill", perSecond(1, 4, 0), []step{
			{at: t0, do: open(1, eu, 3), free: 1, out: 3},
			{at: t0, do: closeGrant(1, 3, 0), free: 1},
			{at: 100 * 365 * 24 * time.Hour, do: advance(), free: 1},
		}},
		{"capacity 0", perSecond(1, 0, 20), []step{
			{at: t9s, do: advance(), free: 0},
			{at: t9s, do: open(1, eu, 1), err: lease.ErrNoRoom},
			{at: t9s, do: open(1, eu, 0)},
		}},
	})
}

func TestOpenAndTopUp(t *testing.T) {
	half := worked()
	half.MaxSharePercent = 50
	runScripts(t, []script{
		{"credit moves from free to out", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: topUp(1, 5), free: 20, out: 20},
			{at: t0, do: topUp(1, 0), free: 20, out: 20},
			{at: t0, do: open(2, us, 21), err: lease.ErrNoRoom, free: 20, out: 20},
			{at: t0, do: topUp(1, 21), err: lease.ErrNoRoom, free: 20, out: 20},
			{at: t0, do: open(2, us, 20), free: 0, out: 40},
		}},
		{"negative amounts", worked(), []step{
			{at: t0, do: open(1, eu, -1), err: lease.ErrNoRoom, free: 40},
			{at: t0, do: open(1, eu, 5), free: 35, out: 5},
			{at: t0, do: topUp(1, -1), err: lease.ErrNoRoom, free: 35, out: 5},
		}},
		{"one live grant per holder epoch", worked(), []step{
			{at: t0, do: open(1, eu, 5), free: 35, out: 5},
			{at: t0, do: open(2, eu, 5), err: lease.ErrExists, free: 35, out: 5},
			{at: t0, do: openEpoch(2, eu, 2, 5), free: 30, out: 10},
			{at: t0, do: closeGrant(1, 0, 0), free: 35, out: 5},
			{at: t0, do: open(3, eu, 5), free: 30, out: 10},
		}},
		{"a grant that is gone", worked(), []step{
			{at: t0, do: topUp(1, 5), err: lease.ErrGone, free: 40},
			{at: t0, do: open(1, eu, 5), free: 35, out: 5},
			{at: t0, do: closeGrant(1, 0, 0), free: 40},
			{at: t0, do: topUp(1, 5), err: lease.ErrGone, free: 40},
		}},
		{"refill that is due can be handed out", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t0, do: account(1, 40, 0), free: 0},
			{at: t50ms, do: topUp(1, 1), free: 0, out: 1},
			{at: t50ms, do: open(2, us, 1), err: lease.ErrNoRoom, free: 0, out: 1},
		}},
		{"the share of one holder counts all its epochs", half, []step{
			{at: t0, do: open(1, eu, 21), err: lease.ErrNoRoom, free: 40},
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: topUp(1, 6), err: lease.ErrNoRoom, free: 25, out: 15},
			{at: t0, do: openEpoch(2, eu, 2, 6), err: lease.ErrNoRoom, free: 25, out: 15},
			{at: t0, do: openEpoch(2, eu, 2, 5), free: 20, out: 20},
			{at: t0, do: open(3, us, 20), free: 0, out: 40},
			{at: t0, do: account(1, 15, 0), free: 0, out: 25},
			{at: t1s, do: topUp(2, 15), free: 0, out: 40},
		}},
	})
}

func TestOpenKeepsGrantsInOrder(t *testing.T) {
	l := newLedger(worked())
	for i, holder := range []lease.Holder{us, ap, eu} {
		if err := l.Open(lease.Time(t1s), grantID(uint64(9-i)), holder, 4, 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Check(); err != nil {
		t.Error(err)
	}
	want := lease.Grant{ID: grantID(7), Holder: eu, Epoch: 4, Issued: 2, Opened: lease.Time(t1s)}
	if got := l.Grants[0]; got != want {
		t.Errorf("first grant %+v, want %+v", got, want)
	}
	if g := l.Live(ap, 4); g == nil || g.ID != grantID(8) {
		t.Errorf("live grant of ap: %+v", g)
	}
	if err := l.Open(0, grantID(10), ap, 5, 2); err != nil || l.Grants[3].Opened != lease.Time(t1s) {
		t.Errorf("a grant was opened before the ledger's time: %+v, %v", l.Grants[3], err)
	}
	if l.Live(ap, 3) != nil || l.Grant(grantID(1)) != nil {
		t.Error("a grant was found that never was")
	}
}

func TestTopUpStopsAtMaxCounter(t *testing.T) {
	l := newLedger(worked())
	l.Available = 30
	l.Grants = []lease.Grant{{ID: grantID(1), Holder: eu, Epoch: 1, Issued: lease.MaxCounter - 5, Spent: lease.MaxCounter - 5}}
	for _, s := range []step{
		{at: t0, do: topUp(1, 6), err: lease.ErrNoRoom, free: 30},
		{at: t0, do: topUp(1, 5), free: 25, out: 5},
		{at: t0, do: topUp(1, 1), err: lease.ErrNoRoom, free: 25, out: 5},
		{at: t0, do: account(1, lease.MaxCounter, 0), free: 25},
		{at: t0, do: account(1, lease.MaxCounter+1, 0), err: errAbove, free: 25},
	} {
		if err := runStep(&l, s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHeadroom(t *testing.T) {
	half := worked()
	half.MaxSharePercent = 50
	l := newLedger(half)
	check := func(at time.Duration, h lease.Holder, want int64) {
		t.Helper()
		if got := l.Headroom(lease.Time(at), h); got != want {
			t.Errorf("headroom of %v at %v is %d, want %d", h, at, got, want)
		}
	}
	check(t0, eu, 20)
	if err := l.Open(0, grantID(1), eu, 1, 15); err != nil {
		t.Fatal(err)
	}
	check(t0, eu, 5)
	check(t0, us, 20)
	if err := l.Open(0, grantID(2), us, 1, 20); err != nil {
		t.Fatal(err)
	}
	check(t0, ap, 5)
	check(t0, us, 0)
	if err := l.Account(lease.Time(t0), grantID(2), 20, 0, 0); err != nil {
		t.Fatal(err)
	}
	check(t50ms, ap, 6)
	if err := l.Install(lease.Time(t50ms), perSecond(2, 10, 20)); err != nil {
		t.Fatal(err)
	}
	check(t9s, eu, 0) // more than the share is out
	check(t9s, ap, 0)
}

func TestFull(t *testing.T) {
	l := newLedger(worked())
	for i, tc := range []struct {
		at   time.Duration
		do   act
		full bool
	}{
		{t0, advance(), true},
		{t0, open(1, eu, 5), false},
		{t0, account(1, 5, 0), false},
		{t1s, advance(), false}, // nothing is out and all is there, but the grant lives
		{t1s, closeGrant(1, 5, 0), true},
		{t1s, open(2, eu, 1), false},
		{t1s, closeGrant(2, 1, 0), false},
		{t1s + t50ms - 1, advance(), false},
		{t1s + t50ms, advance(), true},
		{t1s + t50ms, install(perSecond(2, 50, 20)), false}, // raised: mints nothing
		{t9s, advance(), true},
		{t9s, install(perSecond(3, 10, 20)), true},
	} {
		if err := tc.do(&l, lease.Time(tc.at)); err != nil {
			t.Fatal(err)
		}
		if l.Full() != tc.full {
			t.Errorf("step %d: full is %v for %v", i+1, l.Full(), &l)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	l := newLedger(worked())
	if err := l.Open(0, grantID(1), eu, 1, 5); err != nil {
		t.Fatal(err)
	}
	copied := l.Clone()
	if err := l.Account(lease.Time(t1s), grantID(1), 3, 1, 0); err != nil {
		t.Fatal(err)
	}
	if g := copied.Grant(grantID(1)); g.Spent != 0 || copied.Updated != 0 {
		t.Errorf("the copy changed too: %v", &copied)
	}
}

func TestString(t *testing.T) {
	l := newLedger(worked())
	if err := l.Open(0, grantID(1), eu, 1, 5); err != nil {
		t.Fatal(err)
	}
	const want = "acme/report.create v1: available 35+0/1000000000, reserved 5, capacity 40, 1 grants, at 0"
	if got := l.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
