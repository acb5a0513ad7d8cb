package lease_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/lease"
)

func TestAccount(t *testing.T) {
	runScripts(t, []script{
		{"what is spent is settled, what is returned is free", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: account(1, 5, 0), free: 25, out: 10},
			{at: t0, do: account(1, 5, 4), free: 29, out: 6},
			{at: t0, do: account(1, 11, 4), free: 29},
		}},
		{"repeated and reordered", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: account(1, 7, 3), free: 28, out: 5},
			{at: t0, do: account(1, 7, 3), free: 28, out: 5},
			{at: t0, do: account(1, 2, 0), free: 28, out: 5},
			{at: t0, do: account(1, 0, 3), free: 28, out: 5},
			{at: t0, do: account(1, 9, 1), free: 28, out: 3},
		}},
		{"above issued is refused whole", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: account(1, 16, 0), err: errAbove, free: 25, out: 15},
			{at: t0, do: account(1, 0, 16), err: errAbove, free: 25, out: 15},
			{at: t0, do: account(1, 8, 8), err: errAbove, free: 25, out: 15},
			{at: t0, do: account(1, 8, 0), free: 25, out: 7},
			{at: t0, do: account(1, 0, 8), err: errAbove, free: 25, out: 7},
			{at: t0, do: account(1, math.MaxInt64, math.MaxInt64), err: errAbove, free: 25, out: 7},
		}},
		{"negative counters are older than any", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: account(1, 3, 2), free: 27, out: 10},
			{at: t0, do: account(1, -9, math.MinInt64), free: 27, out: 10},
		}},
		{"the time before an account has the room of before", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t2s, do: account(1, 40, 0), free: 0},
			{at: t3s, do: advance(), free: 20},
		}},
		{"the time before a return fills the rest of the room alone", worked(), []step{
			{at: t0, do: open(1, eu, 10), free: 30, out: 10},
			{at: t0, do: open(2, us, 30), free: 0, out: 40},
			{at: t0, do: account(2, 5, 0), free: 0, out: 35},
			{at: t2s, do: account(2, 5, 25), free: 30, out: 10},
			{at: t9s, do: advance(), free: 30, out: 10},
		}},
		{"returned while more than the capacity is out", worked(), []step{
			{at: t0, do: open(1, eu, 30), free: 10, out: 30},
			{at: t0, do: install(perSecond(2, 20, 20)), out: 30},
			{at: t0, do: account(1, 0, 8), out: 22},
			{at: t0, do: account(1, 0, 15), free: 5, out: 15},
			{at: t9s, do: advance(), free: 5, out: 15},
		}},
		{"time steps back: the account counts, the time does not", worked(), []step{
			{at: t2s, do: open(1, eu, 40), free: 0, out: 40},
			{at: t0, do: account(1, 20, 0), free: 0, out: 20},
			{at: t2s, do: advance(), free: 0, out: 20},
			{at: t3s, do: advance(), free: 20, out: 20},
		}},
		{"unknown", worked(), []step{
			{at: t0, do: account(1, 0, 0), err: lease.ErrGone, free: 40},
		}},
	})
}

func TestClose(t *testing.T) {
	runScripts(t, []script{
		{"the rest was never used", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: account(1, 4, 2), free: 27, out: 9},
			{at: t0, do: closeGrant(1, 5, 2), free: 35},
		}},
		{"a late account of a closed grant changes nothing", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: closeGrant(1, 5, 0), free: 35},
			{at: t0, do: account(1, 15, 0), err: lease.ErrGone, free: 35},
			{at: t0, do: closeGrant(1, 5, 0), err: lease.ErrGone, free: 35},
			{at: t0, do: closeProven(1, 0), err: lease.ErrGone, free: 35},
			{at: t0, do: attest(1, 0), err: lease.ErrGone, free: 35},
		}},
		{"above issued: the grant stays", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: closeGrant(1, 16, 0), err: errAbove, free: 25, out: 15},
			{at: t0, do: closeGrant(1, 15, 0), free: 25},
		}},
		{"the time before a close has the room of before", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t2s, do: closeGrant(1, 40, 0), free: 0},
			{at: t2s + t50ms, do: advance(), free: 1},
		}},
		{"clamped to the room under a lower capacity", worked(), []step{
			{at: t0, do: open(1, eu, 30), free: 10, out: 30},
			{at: t0, do: open(2, us, 8), free: 2, out: 38},
			{at: t0, do: install(perSecond(2, 20, 20)), out: 38},
			{at: t0, do: closeGrant(1, 0, 0), free: 12, out: 8},
			{at: t0, do: closeGrant(2, 0, 0), free: 20},
		}},
	})
}

func TestCloseProven(t *testing.T) {
	runScripts(t, []script{
		{"what was not drawn is free", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: closeProven(1, 6), free: 34},
		}},
		{"more was settled than the journal says was drawn", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: account(1, 8, 0), free: 25, out: 7},
			{at: t0, do: closeProven(1, 6), free: 32},
		}},
		{"a return of drawn credit landed before the crash", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: account(1, 2, 9), free: 34, out: 4},
			{at: t0, do: closeProven(1, 15), free: 34},
		}},
		{"some of what was drawn was returned", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: account(1, 2, 5), free: 30, out: 8},
			{at: t0, do: closeProven(1, 7), free: 33},
		}},
		{"nothing was drawn", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: closeProven(1, math.MinInt64), free: 40},
		}},
		{"beyond issued", worked(), []step{
			{at: t0, do: open(1, eu, 15), free: 25, out: 15},
			{at: t0, do: closeProven(1, math.MaxInt64), free: 25},
		}},
		{"the time before has the room of before", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t2s, do: closeProven(1, 30), free: 10},
		}},
	})
}

func TestAttest(t *testing.T) {
	runScripts(t, []script{
		{"counts as spent now and comes back by refill alone", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t0, do: account(1, 5, 3), free: 3, out: 32},
			{at: t9s, do: attest(1, 32), free: 8}, // refill of the 5 that were settled
			{at: t9s, do: advance(), free: 8},
			{at: t9s + t50ms, do: advance(), free: 9},
			{at: t9s + t2s, do: advance(), free: 40},
		}},
		{"without refill it never comes back", perSecond(1, 4, 0), []step{
			{at: t0, do: open(1, eu, 3), free: 1, out: 3},
			{at: t9s, do: attest(1, 3), free: 1},
			{at: t9s + t9s, do: advance(), free: 1},
		}},
	})
}

func TestAboveIssuedErrorTellsWhatWasReportedAndKnown(t *testing.T) {
	l := newLedger(worked())
	if err := errors.Join(
		l.Open(0, grantID(1), eu, 1, 15),
		l.Account(0, grantID(1), 12, 0, 0),
	); err != nil {
		t.Fatal(err)
	}
	err := l.Account(0, grantID(1), 3, 8, 0)
	var above *lease.AboveIssuedError
	if !errors.As(err, &above) {
		t.Fatalf("error %v", err)
	}
	if above.Spent != 3 || above.Returned != 8 || above.Grant != *l.Grant(grantID(1)) {
		t.Errorf("evidence %+v", above)
	}
	for _, part := range []string{"g1-003-00000001 of eu/a", "spent 3 and returned 8", "spent 12 and returned 0", "the 15 issued"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}

func TestSortGrants(t *testing.T) {
	grants := []lease.Grant{{ID: grantID(3)}, {ID: grantID(1)}, {ID: lease.GrantID{Generation: 2, Shard: 1}}, {ID: grantID(2)}}
	lease.SortGrants(grants)
	for i, want := range []lease.GrantID{grantID(1), grantID(2), grantID(3), {Generation: 2, Shard: 1}} {
		if grants[i].ID != want {
			t.Errorf("place %d has %v, want %v", i, grants[i].ID, want)
		}
	}
}
