package workload_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

func world(workloads ...scenario.Workload) *scenario.Scenario {
	return &scenario.Scenario{
		Duration:  100 * time.Second,
		Regions:   []scenario.Region{{Name: "eu", Limiters: 2}, {Name: "us", Limiters: 1}, {Name: "ap", Limiters: 3}},
		Policies:  []lease.Policy{{Operation: "report.create", DefaultCost: 5}},
		Workloads: workloads,
	}
}

func perSecond(n int64) lease.Rate { return lease.Rate{Tokens: n, Interval: time.Second} }

func TestSameSeedSameArrivals(t *testing.T) {
	sc := world(
		scenario.Workload{Operation: "report.create", Rate: perSecond(30), Accounts: 20, Zipf: 1.1, Cost: 1, MaxCost: 9},
		scenario.Workload{Operation: "report.read", Arrivals: scenario.Bursts, Rate: perSecond(7), Burst: 5},
	)
	first := workload.All(sc, 7)
	if again := workload.All(sc, 7); !reflect.DeepEqual(first, again) {
		t.Error("the same seed gave other arrivals")
	}
	if other := workload.All(sc, 8); reflect.DeepEqual(first, other) {
		t.Error("another seed gave the same arrivals")
	}
	for i, a := range first {
		if a.Index != i || i > 0 && a.At < first[i-1].At || a.At < 0 || a.At >= sc.Duration {
			t.Fatalf("arrival %d is out of order or range: %+v", i, a)
		}
	}
}

// What one workload draws does not change with what is beside it.
func TestWorkloadsAreIndependent(t *testing.T) {
	w := scenario.Workload{Operation: "report.create", Rate: perSecond(10), Accounts: 3, MaxCost: 9}
	other := scenario.Workload{Operation: "other", Arrivals: scenario.Diurnal, Rate: perSecond(20), Period: 10 * time.Second}
	alone := workload.All(world(w), 3)
	var beside []workload.Arrival
	for _, a := range workload.All(world(w, other), 3) {
		if a.Key < 3 {
			a.Index = len(beside)
			beside = append(beside, a)
		}
	}
	if !reflect.DeepEqual(alone, beside) {
		t.Error("another workload changed this one")
	}
}

// A seeded run has exact counts; they are also near the mean that was asked for.
func TestRates(t *testing.T) {
	for _, tc := range []struct {
		name string
		w    scenario.Workload
		want int
	}{
		{"poisson, 4,000 on average", scenario.Workload{Rate: perSecond(40)}, 3878},
		{"a part of the run, 400 on average", scenario.Workload{Rate: perSecond(40), From: 80 * time.Second, Until: 90 * time.Second}, 392},
		{"steady", scenario.Workload{Arrivals: scenario.Steady, Rate: perSecond(40)}, 4000},
		{"steady, in gaps of a third", scenario.Workload{Arrivals: scenario.Steady, Rate: perSecond(3)}, 300},
		{"bursts", scenario.Workload{Arrivals: scenario.Bursts, Rate: perSecond(4), Burst: 20}, 400},
		{"diurnal, 55% of 4,000 on average", scenario.Workload{Arrivals: scenario.Diurnal, Rate: perSecond(40),
			Period: 50 * time.Second, LowPercent: 10}, 2157},
		{"no rate", scenario.Workload{}, 0},
	} {
		if got := len(workload.All(world(tc.w), 1)); got != tc.want {
			t.Errorf("%s: %d arrivals, want %d", tc.name, got, tc.want)
		}
	}
}

func TestMoments(t *testing.T) {
	ms := time.Millisecond
	for _, tc := range []struct {
		name string
		w    scenario.Workload
		want []time.Duration
	}{
		{"steady, of an odd rate", scenario.Workload{Arrivals: scenario.Steady, Rate: perSecond(3), Until: 1001 * ms},
			[]time.Duration{0, 333_333_333, 666_666_666, 1000 * ms}},
		{"bursts", scenario.Workload{Arrivals: scenario.Bursts, Rate: perSecond(10), Burst: 2, From: 5 * ms, Until: 250 * ms},
			[]time.Duration{5 * ms, 5 * ms, 205 * ms, 205 * ms}},
		{"given", scenario.Workload{Arrivals: scenario.Times, Times: []time.Duration{0, 7, 7, 9 * ms}}, []time.Duration{0, 7, 7, 9 * ms}},
		{"given, some out of range", scenario.Workload{Arrivals: scenario.Times, From: 1, Until: 9 * ms,
			Times: []time.Duration{0, 1, 9 * ms}}, []time.Duration{1}},
	} {
		var got []time.Duration
		for _, a := range workload.All(world(tc.w), 1) {
			got = append(got, a.At)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Arrivals of one moment are in the order of their workloads.
func TestTies(t *testing.T) {
	at := []time.Duration{10, 10, 20}
	sc := world(
		scenario.Workload{Operation: "a", Arrivals: scenario.Times, Times: at},
		scenario.Workload{Operation: "b", Arrivals: scenario.Times, Times: at},
	)
	var got []int
	for _, a := range workload.All(sc, 1) {
		got = append(got, a.Key)
	}
	if want := []int{0, 0, 1, 1, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}

// The limiters of a region take turns, whatever the region of the arrival before.
func TestLimitersTakeTurns(t *testing.T) {
	sc := world(scenario.Workload{Rate: perSecond(10)})
	turns := make([]int, len(sc.Regions))
	for _, a := range workload.All(sc, 1) {
		if want := turns[a.Region] % sc.Regions[a.Region].Limiters; a.Limiter != want {
			t.Fatalf("arrival %d is at limiter %d of region %d, want %d", a.Index, a.Limiter, a.Region, want)
		}
		turns[a.Region]++
	}
}

// 7 of 10 arrive in the hot region, which moves on every 10 seconds.
func TestRotatingRegion(t *testing.T) {
	sc := world(scenario.Workload{
		Arrivals: scenario.Steady, Rate: perSecond(100), From: 10 * time.Second, Rotate: 10 * time.Second,
		Regions: []scenario.Weight{{Region: 1, Weight: 7}, {Region: 0, Weight: 3}},
	})
	counts := make([][3]int, 4)
	for _, a := range workload.All(sc, 1) {
		if turn := int(a.At/(10*time.Second)) - 1; turn < len(counts) {
			counts[turn][a.Region]++
		}
	}
	for turn, got := range counts {
		hot, cold := (turn+1)%3, turn%3
		if got[hot]+got[cold] != 1000 || got[hot] < 650 || got[hot] > 750 {
			t.Errorf("turn %d: %v, want about 700 in region %d and 300 in %d", turn, got, hot, cold)
		}
	}
}

// With exponent 1 the second account is asked for half as often as the first.
func TestZipf(t *testing.T) {
	sc := world(scenario.Workload{Rate: perSecond(1000), Accounts: 50, Zipf: 1})
	counts := make([]int, 50)
	var all float64
	for _, a := range workload.All(sc, 1) {
		counts[a.Key]++
		all++
	}
	sum := 4.4992 // of 1/i up to 50
	for _, i := range []int{1, 2, 3, 10, 50} {
		want := all / sum / float64(i)
		if got := float64(counts[i-1]); got < want*0.92 || got > want*1.08 {
			t.Errorf("account %d was asked for %v times of %v, want about %.0f", i, got, all, want)
		}
	}
}

func TestKeys(t *testing.T) {
	sc := world(
		scenario.Workload{Operation: "b", Accounts: 2},
		scenario.Workload{Operation: "a"},
		scenario.Workload{Operation: "b", Accounts: 3},
	)
	want := []lease.Key{
		{Account: "acme-0000", Operation: "b"}, {Account: "acme-0001", Operation: "b"},
		{Account: "acme", Operation: "a"}, {Account: "acme-0002", Operation: "b"},
	}
	if got := workload.Keys(sc); !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}

func TestCosts(t *testing.T) {
	for _, tc := range []struct {
		w           scenario.Workload
		least, most int64
	}{
		{scenario.Workload{Operation: "report.create"}, 5, 5},
		{scenario.Workload{Operation: "report.create", Cost: 3}, 3, 3},
		{scenario.Workload{Operation: "report.create", Cost: 3, MaxCost: 6}, 3, 6},
		{scenario.Workload{Operation: "unheard of"}, 1, 1},
	} {
		tc.w.Rate = perSecond(5)
		seen := map[int64]int{}
		for _, a := range workload.All(world(tc.w), 1) {
			seen[a.Cost]++
		}
		for cost := tc.least; cost <= tc.most; cost++ {
			if seen[cost] < 80 {
				t.Errorf("cost %d to %d: %v, want all about as often", tc.least, tc.most, seen)
			}
			delete(seen, cost)
		}
		if len(seen) > 0 {
			t.Errorf("cost %d to %d: also %v", tc.least, tc.most, seen)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	sc := world(scenario.Workload{Rate: perSecond(1000), Accounts: 1000, Zipf: 1, Cost: 1, MaxCost: 9})
	sc.Duration = 1_000_000 * time.Second
	s := workload.New(sc, 1)
	for b.Loop() {
		if _, ok := s.Next(); !ok {
			b.Fatal("too few")
		}
	}
}

func ExampleNew() {
	sc := world(scenario.Workload{Operation: "report.create", Arrivals: scenario.Steady, Rate: perSecond(2), Until: time.Second})
	s := workload.New(sc, 1)
	for a, ok := s.Next(); ok; a, ok = s.Next() {
		fmt.Println(a.At, workload.Keys(sc)[a.Key].Operation, a.Cost)
	}
	// Output:
	// 0s report.create 5
	// 500ms report.create 5
}
