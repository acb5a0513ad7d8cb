package strategies_test

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/strategies"
)

// lent is a world with a quota of 40 tokens, where eu is lent 25 at 1 s and spends
// 20 of them; the lessor has heard of 5. (The first check asks for 4 and its 5; the
// others then ask for 5, as much as was used, and their 15.)
func lent(more ...scenario.Workload) *scenario.Scenario {
	return world(policy(1, 40, 0), append(more, in(0, 5, 4, second))...)
}

func TestLeasesAreKept(t *testing.T) {
	r := expect(t, "no fault", lent(in(1, 5, 8, 15*second)), strategies.ExpiringLeases, numbers{40, 0, 4, 0, 0})
	// eu refreshes at 3 s, when the lessor hears of the rest, and at 5 s, and then no
	// more: at 15.02 s the 5 that it had are available again.
	at := func(when time.Duration) [3]int64 {
		bin := int(when/r.Series.Step) - 1
		return [3]int64{r.Series.Available[bin], r.Series.Held[0][bin], r.Series.Held[1][bin]}
	}
	for _, tc := range []struct {
		at   time.Duration
		want [3]int64
	}{
		{second, [3]int64{40, 0, 0}}, {2 * second, [3]int64{15, 20, 0}}, {4 * second, [3]int64{0, 20, 0}},
		{15 * second, [3]int64{0, 20, 0}},
	} {
		if got := at(tc.at); got != tc.want {
			t.Errorf("available and held at %v are %v, want %v", tc.at, got, tc.want)
		}
	}
}

// What eu has spent when it is cut off, and was not heard of, is lent again when its
// lease expires.
func TestLeaseExpiresInCut(t *testing.T) {
	cut := scenario.Fault{Kind: scenario.Cut, At: 2 * second, Ends: euCut}
	sc := with(lent(in(1, 5, 8, 15*second), in(0, 5, 1, 18*second)), cut)
	// Of 40 there are 35 for us.
	expect(t, "cut", sc, strategies.ExpiringLeases, numbers{55, 15, 1, 1, 0})
	// By a clock at half the speed, the lease of eu lasts until 21 s.
	sc.Regions[0].Clock.SlowPercent = 50
	expect(t, "cut with a slow clock", sc, strategies.ExpiringLeases, numbers{60, 20, 1, 0, 0})
	// Within the lease, nothing is lent twice.
	cut.For = 5 * second
	sc = with(lent(in(1, 5, 8, 5*second)), cut)
	expect(t, "short cut", sc, strategies.ExpiringLeases, numbers{35, 0, 5, 0, 0})
}

// A holder that stood still goes on with what it had.
func TestLeaseOfPausedHolder(t *testing.T) {
	pause := scenario.Fault{Kind: scenario.Pause, At: 2 * second, For: 18 * second, Target: "eu"}
	sc := lent(in(1, 5, 8, 15*second), in(0, 5, 1, 18*second), in(0, 5, 1, 22*second))
	// What arrived in the pause is decided before the lease is seen to have ended; at
	// 22 s there is nothing left anywhere.
	expect(t, "pause", with(sc, pause), strategies.ExpiringLeases, numbers{60, 20, 2, 0, 0})
	// A clock that stood still with it has the lease last until 29 s.
	pause.Kind = scenario.Freeze
	sc = lent(in(1, 5, 8, 15*second), in(0, 5, 1, 20*second+5*ms))
	expect(t, "freeze", with(sc, pause), strategies.ExpiringLeases, numbers{60, 20, 1, 0, 0})
}

func TestLeaseOfDeadHolder(t *testing.T) {
	sc := lent(in(1, 5, 8, 5*second), in(2, 5, 8, 15*second))
	crash := scenario.Fault{Kind: scenario.Crash, At: 2 * second, Target: "eu"}
	// us gets the 15 that were never lent. The 20 of eu come back for ap, of which
	// 15 were spent.
	r := expect(t, "crash", with(sc, crash), strategies.ExpiringLeases, numbers{55, 15, 9, 0, 0})
	if r.UnknownFor < 9*second || r.UnknownFor > 9200*ms {
		t.Errorf("credit was unknown for %v", r.UnknownFor)
	}
	// One that ends in order gives back what it has.
	crash.Kind = scenario.Stop
	expect(t, "stop", with(sc, crash), strategies.ExpiringLeases, numbers{40, 0, 12, 0, 0})
}

// A lessor that takes over lends nothing for the time of a lease, and then knows of
// what holders claimed, but of nothing that was spent.
func TestLessorFailsOver(t *testing.T) {
	sc := with(lent(in(1, 5, 8, 10*second, 25*second)), scenario.Fault{Kind: scenario.Crash, At: 2 * second, Target: "broker-1"})
	r := expect(t, "fail-over", sc, strategies.ExpiringLeases, numbers{60, 20, 0, 8, 0})
	if r.Pending != 0 {
		t.Errorf("%d pending", r.Pending)
	}
}

// A broker that has not noticed that another was elected goes on lending.
func TestTwoLessors(t *testing.T) {
	sc := with(world(policy(1, 40, 0), in(0, 5, 8, 12*second), in(1, 5, 8, 20*second)),
		scenario.Fault{Kind: scenario.Expire, At: second, For: 14 * second, Target: "broker-1"})
	// eu is sent on to broker-2 at 16 s, and gets 4 there.
	expect(t, "two", sc, strategies.ExpiringLeases, numbers{75, 35, 1, 0, 0})
}

// A store that is set back has the lessor lend again what is lent.
func TestLessorIsSetBack(t *testing.T) {
	sc := with(lent(in(1, 5, 8, 5*second)), scenario.Fault{Kind: scenario.Restore, At: 4 * second, Age: 3500 * ms})
	// eu refreshes at 5 s, and gets 4 of the 40 that seem to be there.
	expect(t, "set back", sc, strategies.ExpiringLeases, numbers{55, 15, 1, 0, 0})
}

// A lower capacity binds when no more is out; what is out is not recalled.
func TestLeasesOverLowerCapacity(t *testing.T) {
	sc := with(lent(in(1, 5, 4, 5*second), in(0, 5, 1, 6*second)), scenario.Fault{Kind: scenario.Policy, At: 2 * second, Policy: policy(2, 10, 0)})
	expect(t, "lowered", sc, strategies.ExpiringLeases, numbers{25, 0, 4, 0, 0})
}

// Messages that come late or twice do no harm to running totals.
func TestRepeatedReports(t *testing.T) {
	sc := with(lent(in(1, 5, 8, 15*second)), scenario.Fault{Kind: scenario.Mess, Ends: euCut, Duplicate: 100, Late: 30, Delay: 300 * ms})
	if r := run(t, sc, strategies.ExpiringLeases); r.Excess != 0 || r.Admitted < 35 {
		t.Errorf("%d admitted, %d too much", r.Admitted, r.Excess)
	}
}
