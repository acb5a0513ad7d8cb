package lease_test

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

func TestInstall(t *testing.T) {
	runScripts(t, []script{
		{"lowering cuts what is free", worked(), []step{
			{at: t0, do: open(1, eu, 5), free: 35, out: 5},
			{at: t0, do: install(perSecond(2, 10, 20)), free: 5, out: 5},
		}},
		{"lowering below what is out", worked(), []step{
			{at: t0, do: open(1, eu, 30), free: 10, out: 30},
			{at: t0, do: install(perSecond(2, 10, 20)), out: 30},
			{at: t9s, do: advance(), out: 30},
			{at: t9s, do: topUp(1, 1), err: lease.ErrNoRoom, out: 30},
			{at: t9s, do: topUp(1, 0), out: 30},
			{at: t9s, do: account(1, 20, 0), out: 10},
			{at: t9s + t50ms, do: account(1, 21, 0), out: 9},
			{at: t9s + 2*t50ms, do: advance(), free: 1, out: 9},
		}},
		{"raising mints nothing", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t9s, do: install(perSecond(2, 100, 20)), free: 0, out: 40},
			{at: t9s, do: open(2, us, 1), err: lease.ErrNoRoom, free: 0, out: 40},
			{at: t9s + t50ms, do: open(2, us, 1), free: 0, out: 41},
			{at: t9s + t9s, do: advance(), free: 59, out: 41},
		}},
		{"a full budget that is raised fills by refill", worked(), []step{
			{at: t9s, do: install(perSecond(2, 50, 20)), free: 40},
			{at: t9s + t50ms, do: advance(), free: 41},
		}},
		{"the time before has the rate of before", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t0, do: account(1, 40, 0), free: 0},
			{at: t1s, do: install(perSecond(2, 40, 1)), free: 20},
			{at: t2s, do: install(perSecond(3, 40, 10)), free: 21},
			{at: t3s, do: advance(), free: 31},
		}},
		{"the time before has the capacity of before", perSecond(1, 10, 20), []step{
			{at: t9s, do: install(perSecond(2, 40, 20)), free: 10},
		}},
		{"the fraction moves to the new interval, rounded down", perSecond(1, 40, 1), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t0, do: account(1, 40, 0), free: 0},
			{at: 500 * time.Millisecond, do: install(everyMinute(2, 40, 60)), free: 0}, // half a token
			{at: t1s - 1, do: advance(), free: 0},
			{at: t1s, do: advance(), free: 1},
			{at: t1s + 999_999_999, do: install(rated(3, 40, lease.Rate{Tokens: 1, Interval: 10})), free: 1}, // 0.9
			{at: t1s + 999_999_999 + 1, do: advance(), free: 2},
		}},
		{"a rule without refill drops the fraction", perSecond(1, 40, 1), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t0, do: account(1, 40, 0), free: 0},
			{at: t1s - 1, do: install(rated(2, 40, lease.Rate{})), free: 0},
			{at: t9s, do: install(perSecond(3, 40, 1)), free: 0},
			{at: t9s + t1s - 1, do: advance(), free: 0},
			{at: t9s + t1s, do: advance(), free: 1},
			{at: t9s + t2s - 1, do: install(perSecond(4, 40, 0)), free: 1},
			{at: t9s + t2s - 1, do: install(perSecond(5, 40, 1)), free: 1},
			{at: t9s + t2s, do: advance(), free: 1},
		}},
		{"a fraction needs room", perSecond(1, 40, 1), []step{
			{at: t0, do: open(1, eu, 1), free: 39, out: 1},
			{at: t0, do: account(1, 1, 0), free: 39},
			{at: t1s - 1, do: install(perSecond(2, 39, 1)), free: 39},
			{at: t1s - 1, do: install(perSecond(3, 40, 1)), free: 39},
			{at: t1s, do: advance(), free: 39},
			{at: t2s - 1, do: advance(), free: 40},
		}},
		{"an older version is refused and not even time passes", worked(), []step{
			{at: t0, do: open(1, eu, 40), free: 0, out: 40},
			{at: t0, do: account(1, 40, 0), free: 0},
			{at: t0, do: install(perSecond(3, 40, 10)), free: 0},
			{at: t1s, do: install(perSecond(2, 90, 90)), err: lease.ErrOlderRule, free: 0},
			{at: t1s, do: advance(), free: 10},
		}},
		{"the version in force again changes nothing, whatever it says", worked(), []step{
			{at: t0, do: open(1, eu, 5), free: 35, out: 5},
			{at: t0, do: install(worked()), free: 35, out: 5},
			{at: t0, do: install(perSecond(1, 4, 4)), free: 35, out: 5},
		}},
		{"time steps back", worked(), []step{
			{at: t2s, do: open(1, eu, 40), free: 0, out: 40},
			{at: t2s, do: account(1, 40, 0), free: 0},
			{at: t0, do: install(perSecond(2, 40, 10)), free: 0},
			{at: t2s, do: advance(), free: 0},
			{at: t3s, do: advance(), free: 10},
		}},
	})
}

// everyMinute is a token bucket that refills so many tokens a minute.
func everyMinute(version, capacity, tokens int64) lease.Rule {
	return rated(version, capacity, lease.Rate{Tokens: tokens, Interval: time.Minute})
}

func rated(version, capacity int64, rate lease.Rate) lease.Rule {
	rule := perSecond(version, capacity, 1)
	rule.Refill = rate
	return rule
}

// A third of a token a nanosecond, or one in three intervals: nothing is ever
// lost or won by the number of looks.
func TestFractionsAreExact(t *testing.T) {
	for _, rate := range []lease.Rate{
		{Tokens: 1, Interval: 3}, {Tokens: 2, Interval: 3}, {Tokens: 7, Interval: 1000},
		{Tokens: 65_535, Interval: time.Second}, {Tokens: 1, Interval: lease.MaxInterval},
	} {
		often, once := newLedger(rated(1, 1_000_000, rate)), newLedger(rated(1, 1_000_000, rate))
		often.Available, once.Available = 0, 0
		for now := lease.Time(0); now < 10_000; now += 7 {
			often.Advance(now)
		}
		often.Advance(10_000)
		once.Advance(10_000)
		if !same(often, once) {
			t.Errorf("rate %v: %v by small steps, %v at once", rate, &often, &once)
		}
	}
}
