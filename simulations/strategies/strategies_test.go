package strategies_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/strategies"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

const (
	ms     = time.Millisecond
	second = time.Second
)

func policy(version, capacity, refill int64) lease.Policy {
	return lease.Policy{Operation: "report.create", DefaultCost: 5, Rule: lease.Rule{
		Kind: lease.TokenBucket, Version: version, Capacity: capacity, MaxSharePercent: 100,
		Refill: lease.Rate{Tokens: refill, Interval: second},
	}}
}

// world has three regions of one limiter each, 20 ms from two brokers, and one
// budget.
func world(p lease.Policy, workloads ...scenario.Workload) *scenario.Scenario {
	sc := &scenario.Scenario{
		Duration: 30 * second, Shards: 1, Brokers: []scenario.Broker{{Name: "broker-1"}, {Name: "broker-2"}},
		Store: scenario.Delay{Base: 2 * ms}, Policies: []lease.Policy{p}, Workloads: workloads,
	}
	for _, name := range []string{"eu", "us", "ap"} {
		sc.Regions = append(sc.Regions, scenario.Region{
			Name: name, Limiters: 1, RoundTrip: scenario.Delay{Base: 20 * ms}, Wait: 500 * ms,
		})
	}
	return sc
}

// in asks for cost in a region, n times at once at each moment.
func in(region int, cost int64, n int, moments ...time.Duration) scenario.Workload {
	w := scenario.Workload{
		Operation: "report.create", Arrivals: scenario.Times, Cost: cost,
		Regions: []scenario.Weight{{Region: region, Weight: 1}},
	}
	for _, at := range moments {
		for range n {
			w.Times = append(w.Times, at)
		}
	}
	return w
}

func with(sc *scenario.Scenario, faults ...scenario.Fault) *scenario.Scenario {
	sc.Faults = faults
	return sc
}

func run(t testing.TB, sc *scenario.Scenario, name string) *measure.Result {
	t.Helper()
	r, err := strategies.Run(sc, 1, name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// numbers are what a case is about: tokens, and checks.
type numbers struct {
	admitted, excess                int64
	exhausted, unavailable, refused int64
}

func expect(t *testing.T, what string, sc *scenario.Scenario, name string, want numbers) *measure.Result {
	t.Helper()
	r := run(t, sc, name)
	if got := (numbers{r.Admitted, r.Excess, r.Exhausted, r.Unavailable, r.Refused}); got != want {
		t.Errorf("%s, %s: %+v, want %+v", what, name, got, want)
	}
	return r
}

func TestUnknownStrategy(t *testing.T) {
	_, err := strategies.Run(world(policy(1, 40, 20)), 1, "ideal")
	if err == nil || !strings.Contains(err.Error(), "want one of oracle, independent") {
		t.Error(err)
	}
}

// The worked example: 40 tokens, and eight checks of 5 in each of three regions at
// once.
func TestBurstInEachRegion(t *testing.T) {
	sc := world(policy(1, 40, 20), in(0, 5, 8, second), in(1, 5, 8, second), in(2, 5, 8, second))
	for name, want := range map[string]numbers{
		strategies.Oracle:      {40, 0, 16, 0, 0},
		strategies.Independent: {120, 80, 0, 0, 0},
		strategies.Static:      {30, 0, 18, 0, 0}, // 14, 13 and 13 are two checks each
		strategies.LocalAsync:  {120, 80, 0, 0, 0},
		// The first check in each region brings 9. The next request in eu brings the
		// 13 that are left, and makes 17; there are 4 left in each of the others.
		strategies.ExpiringLeases: {30, 0, 18, 0, 0},
	} {
		expect(t, "burst", sc, name, want)
	}
}

// Eight checks in one region: the others have no use for their part.
func TestHotRegion(t *testing.T) {
	sc := world(policy(1, 40, 20), in(0, 5, 8, second))
	for name, want := range map[string]numbers{
		strategies.Oracle:         {40, 0, 0, 0, 0},
		strategies.Independent:    {40, 0, 0, 0, 0},
		strategies.Static:         {10, 0, 6, 0, 0},
		strategies.LocalAsync:     {40, 0, 0, 0, 0},
		strategies.ExpiringLeases: {40, 0, 0, 0, 0},
	} {
		expect(t, "hot region", sc, name, want)
	}
}

// A cost that the whole budget could meet, and a part of it never can.
func TestCosts(t *testing.T) {
	sc := world(policy(1, 40, 20), in(0, 15, 1, second), in(1, 41, 1, second))
	for name, want := range map[string]numbers{
		strategies.Oracle:         {15, 0, 0, 0, 1},
		strategies.Static:         {0, 0, 0, 0, 2},
		strategies.ExpiringLeases: {15, 0, 0, 0, 1},
	} {
		expect(t, "cost", sc, name, want)
	}
}

// The parts of a static split refill at a third of the rate each: 14 of 40 tokens
// at once in eu, and then one every 150 ms.
func TestStaticRefill(t *testing.T) {
	w := in(0, 1, 14, second)
	for i := range 20 {
		w.Times = append(w.Times, second+time.Duration(i+1)*75*ms)
	}
	expect(t, "refill", world(policy(1, 40, 20), w), strategies.Static, numbers{24, 0, 10, 0, 0})
}

func TestOracleNeedsNoLimiter(t *testing.T) {
	sc := with(world(policy(1, 40, 20), in(0, 5, 4, second, 4*second, 7*second)),
		scenario.Fault{Kind: scenario.Crash, At: 3 * second, Back: 3 * second, Target: "eu"})
	expect(t, "crash", sc, strategies.Oracle, numbers{60, 0, 0, 0, 0})
	expect(t, "crash", sc, strategies.Independent, numbers{40, 0, 0, 4, 0})
}

// A limiter that starts again, or is started twice, has a full bucket.
func TestIndependentForgets(t *testing.T) {
	quota := policy(1, 40, 0)
	sc := world(quota, in(0, 5, 8, second, 9*second))
	expect(t, "no fault", sc, strategies.Independent, numbers{40, 0, 8, 0, 0})
	expect(t, "crash", with(sc, scenario.Fault{Kind: scenario.Crash, At: 2 * second, Back: second, Target: "eu/1"}),
		strategies.Independent, numbers{80, 40, 0, 0, 0})
	expect(t, "zombie", with(sc, scenario.Fault{Kind: scenario.Zombie, At: 2 * second, Target: "eu/1"}),
		strategies.Independent, numbers{60, 20, 4, 0, 0}) // every second check goes to the new one
}

// Checks wait for a limiter that is paused; those of its end stay pending.
func TestPause(t *testing.T) {
	sc := with(world(policy(1, 40, 0), in(0, 5, 1, 3*second, 29*second)),
		scenario.Fault{Kind: scenario.Pause, At: 2 * second, For: 2 * second, Target: "eu"},
		scenario.Fault{Kind: scenario.Pause, At: 28 * second, Target: "eu"})
	r := expect(t, "pause", sc, strategies.Independent, numbers{5, 0, 0, 0, 0})
	if r.Pending != 1 || r.Series.Admitted[0][40] != 5 {
		t.Errorf("%d pending, and %d admitted as the pause ends", r.Pending, r.Series.Admitted[0][40])
	}
}

// Lowering a capacity binds all of these at once; raising it mints nothing.
func TestPolicyChange(t *testing.T) {
	sc := world(policy(1, 40, 0), in(0, 5, 8, 2*second, 4*second))
	lower := with(sc, scenario.Fault{Kind: scenario.Policy, At: second, Policy: policy(2, 20, 0)})
	expect(t, "lower", lower, strategies.Oracle, numbers{20, 0, 12, 0, 0})
	expect(t, "lower", lower, strategies.Static, numbers{5, 0, 15, 0, 0}) // 7 are in eu
	higher := with(sc, scenario.Fault{Kind: scenario.Policy, At: second, Policy: policy(2, 80, 0)})
	expect(t, "higher", higher, strategies.Oracle, numbers{40, 0, 8, 0, 0})
	expect(t, "higher", higher, strategies.LocalAsync, numbers{40, 0, 8, 0, 0})
}

// messy is a scenario with a bit of everything.
func messy() *scenario.Scenario {
	sc := world(policy(1, 40, 20))
	for i := range sc.Regions {
		sc.Regions[i].Limiters, sc.Regions[i].RoundTrip.Jitter = 2, 10*ms
	}
	sc.Regions[2].Clock.SlowPercent = 20
	sc.Workloads = []scenario.Workload{
		{Operation: "report.create", Rate: lease.Rate{Tokens: 40, Interval: second}, Accounts: 3, Zipf: 1, Cost: 1, MaxCost: 4},
		{Operation: "report.create", Arrivals: scenario.Bursts, Rate: lease.Rate{Tokens: 20, Interval: second}, Burst: 20},
	}
	ends := [2]string{"eu", "brokers"}
	sc.Faults = []scenario.Fault{
		{Kind: scenario.Mess, At: 0, Ends: [2]string{"us", "brokers"}, Loss: 10, Duplicate: 10, Late: 10, Delay: 20 * second},
		{Kind: scenario.Cut, At: 2 * second, For: 3 * second, Ends: ends},
		{Kind: scenario.Cut, At: 6 * second, For: 2 * second, Ends: ends, OneWay: true},
		{Kind: scenario.Crash, At: 4 * second, Back: 2 * second, Target: "us/1"},
		{Kind: scenario.Stop, At: 5 * second, Back: 3 * second, Target: "ap"},
		{Kind: scenario.Zombie, At: 7 * second, Target: "eu/2"},
		{Kind: scenario.Freeze, At: 9 * second, For: 3 * second, Target: "ap/1"},
		{Kind: scenario.Policy, At: 10 * second, Policy: policy(2, 20, 30)},
		{Kind: scenario.Crash, At: 11 * second, Back: 8 * second, Target: "broker-1"},
		{Kind: scenario.Policy, At: 15 * second, Policy: policy(3, 60, 10)},
		{Kind: scenario.StoreIs, At: 17 * second, For: 7 * second, Trouble: scenario.Outage},
		{Kind: scenario.Restore, At: 21 * second, Age: 3 * second},
		{Kind: scenario.Expire, At: 25 * second, For: 2 * second, Target: "broker-2"},
		{Kind: scenario.Pause, At: 26 * second, For: 2 * second, Target: "brokers"},
		{Kind: scenario.Wall, At: 26 * second, Target: "eu", Step: second},
		{Kind: scenario.Attest, At: 27 * second, Target: "us/1"},
	}
	return sc
}

func TestSameSeedSameResult(t *testing.T) {
	for _, name := range strategies.Names {
		first, _ := json.Marshal(run(t, messy(), name))
		again, _ := json.Marshal(run(t, messy(), name))
		if string(first) != string(again) {
			t.Errorf("%s: the same seed gave another result", name)
		}
		other, err := strategies.Run(messy(), 2, name)
		if err != nil {
			t.Fatal(err)
		}
		if second, _ := json.Marshal(other); string(first) == string(second) {
			t.Errorf("%s: another seed gave the same result", name)
		}
	}
}

// Whatever happens, each check ends once or is pending, and the oracle alone never
// admits too much.
func TestMess(t *testing.T) {
	for _, name := range strategies.Names {
		r := run(t, messy(), name)
		var admitted int64
		for _, o := range r.Outcomes {
			if o == measure.Admitted {
				admitted++
			}
		}
		if sum := admitted + r.Exhausted + r.Unavailable + r.Refused + r.Pending; sum != r.Checks || r.Checks != int64(len(workload.All(messy(), 1))) {
			t.Errorf("%s: %d of %d checks have an outcome", name, sum, r.Checks)
		}
		if name == strategies.Oracle && r.Excess > 0 {
			t.Errorf("the oracle admits %d tokens too much", r.Excess)
		}
	}
}

// The oracle admits exactly what an ideal bucket of rational numbers admits.
func TestOracleIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy(1, rapid.Int64Range(0, 30).Draw(t, "capacity"), rapid.Int64Range(0, 9).Draw(t, "refill"))
		p.Rule.Refill.Interval = time.Duration(rapid.Int64Range(1, 3_000_000_000).Draw(t, "interval"))
		sc := world(p)
		for region := range sc.Regions {
			var at time.Duration
			w := in(region, 1, 0)
			w.MaxCost = 7
			for range rapid.IntRange(0, 15).Draw(t, "checks") {
				at += time.Duration(rapid.Int64Range(0, 1_500_000_000).Draw(t, "gap"))
				w.Times = append(w.Times, at)
			}
			sc.Workloads = append(sc.Workloads, w)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		r, err := strategies.Run(sc, seed, strategies.Oracle)
		if err != nil || r.Excess > 0 {
			t.Fatalf("excess %d, %v", r.Excess, err)
		}
		full := new(big.Rat).SetInt64(p.Rule.Capacity)
		level, now := new(big.Rat).Set(full), time.Duration(0)
		for i, a := range workload.All(sc, seed) {
			level.Add(level, big.NewRat(p.Rule.Refill.Tokens*int64(a.At-now), int64(p.Rule.Refill.Interval)))
			if level.Cmp(full) > 0 {
				level.Set(full)
			}
			now = a.At
			cost := new(big.Rat).SetInt64(a.Cost)
			fits := level.Cmp(cost) >= 0
			if fits {
				level.Sub(level, cost)
			}
			if (r.Outcomes[i] == measure.Admitted) != fits {
				t.Fatalf("check %d of %d at %v: %v, with %v there", i, a.Cost, a.At, r.Outcomes[i], level)
			}
		}
	})
}

func BenchmarkRun(b *testing.B) {
	for _, name := range strategies.Names {
		sc := messy()
		sc.Workloads[0].Rate.Tokens = 10_000
		b.Run(name, func(b *testing.B) {
			var checks int64
			for b.Loop() {
				checks += run(b, sc, name).Checks
			}
			b.ReportMetric(float64(checks)/b.Elapsed().Seconds(), "checks/s")
		})
	}
}

// The central place moves on when its broker has been silent for a session's
// length, and not for an outage of the store, which stops nobody.
func TestLeadership(t *testing.T) {
	checks := func() *scenario.Scenario {
		return world(policy(1, 40, 0), in(0, 5, 7, second), in(1, 5, 1, 10*second), in(2, 5, 8, 11*second))
	}
	stays := numbers{40, 0, 8, 0, 0}
	moves := numbers{75, 35, 1, 0, 0} // the next broker knows of the last 5 alone
	for _, tc := range []struct {
		name  string
		fault scenario.Fault
		want  numbers
	}{
		{"store out of service", scenario.Fault{Kind: scenario.StoreIs, At: 2 * second, For: 20 * second, Trouble: scenario.Outage}, stays},
		{"slow store", scenario.Fault{Kind: scenario.StoreIs, At: 2 * second, For: 20 * second, Trouble: scenario.Slow}, stays},
		{"short cut", scenario.Fault{Kind: scenario.Cut, At: 2 * second, For: 4 * second, Ends: [2]string{"broker-1", "store"}}, stays},
		{"cut", scenario.Fault{Kind: scenario.Cut, At: 2 * second, Ends: [2]string{"broker-1", "store"}}, moves},
		{"the other cut", scenario.Fault{Kind: scenario.Cut, At: 2 * second, Ends: [2]string{"broker-2", "store"}}, stays},
		{"expired", scenario.Fault{Kind: scenario.Expire, At: 2 * second, For: second, Target: "broker-1"}, moves},
		{"all expired", scenario.Fault{Kind: scenario.Expire, At: 2 * second, For: second, Target: "brokers"}, moves},
		{"the other expired", scenario.Fault{Kind: scenario.Expire, At: 2 * second, For: second, Target: "broker-2"}, stays},
		{"paused until then", scenario.Fault{Kind: scenario.Pause, At: 2 * second, For: 7 * second, Target: "broker-1"}, moves},
		{"another crashed", scenario.Fault{Kind: scenario.Crash, At: 2 * second, Target: "broker-2"}, stays},
		{"back before it was missed", scenario.Fault{Kind: scenario.Crash, At: 2 * second, Back: second, Target: "brokers"}, moves},
	} {
		expect(t, tc.name, with(checks(), tc.fault), strategies.LocalAsync, tc.want)
	}
}

// Without any broker the budget is still counted where it is spent.
func TestNoBrokerIsFit(t *testing.T) {
	sc := with(world(policy(1, 40, 0), in(0, 5, 8, 10*second), in(1, 5, 8, 10*second), in(2, 5, 1, 12*second)),
		scenario.Fault{Kind: scenario.Cut, At: 2 * second, Ends: [2]string{"brokers", "store"}})
	expect(t, "no broker", sc, strategies.LocalAsync, numbers{85, 45, 0, 0, 0})
	expect(t, "no broker", sc, strategies.ExpiringLeases, numbers{0, 0, 0, 17, 0})
}

// A link may be longer than its region's, and messages are late while they are
// disturbed alone.
func TestLinks(t *testing.T) {
	sc := world(policy(1, 40, 0), in(0, 5, 1, second), in(1, 5, 1, second))
	sc.Links = []scenario.Link{{Ends: [2]string{"us", "broker-1"}, RoundTrip: scenario.Delay{Base: 300 * ms}}}
	r := expect(t, "links", sc, strategies.ExpiringLeases, numbers{10, 0, 0, 0, 0})
	if r.Series.Admitted[0][10] != 5 || r.Series.Admitted[1][13] != 5 {
		t.Error("eu is not served after 20 ms, or us after 300 ms")
	}
	sc = with(world(policy(1, 40, 0), in(0, 5, 1, second, 2*second), in(1, 5, 1, second)),
		scenario.Fault{Kind: scenario.Mess, For: 1500 * ms, Ends: euCut, Loss: 100})
	sc.Workloads[0].Times = append(sc.Workloads[0].Times, 4*second)
	expect(t, "mess", sc, strategies.ExpiringLeases, numbers{15, 0, 0, 1, 0})
}

// Two starts of one limiter are two holders, which the policy allows one share.
func TestShare(t *testing.T) {
	p := policy(1, 40, 0)
	p.Rule.MaxSharePercent = 50
	sc := with(world(p, in(0, 5, 8, second), in(0, 21, 1, second)), scenario.Fault{Kind: scenario.Zombie, Target: "eu"})
	// The first check at each brings 9, of 20. Then one gets the 7 that its spending
	// left room for, and the other 5.
	expect(t, "share", sc, strategies.ExpiringLeases, numbers{25, 0, 3, 0, 1})
}
