package measure_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

const second = time.Second

func worked(version, capacity int64) lease.Policy {
	return lease.Policy{Operation: "report.create", DefaultCost: 5, Rule: lease.Rule{
		Kind: lease.TokenBucket, Version: version, Capacity: capacity, MaxSharePercent: 100,
		Refill: lease.Rate{Tokens: 20, Interval: second},
	}}
}

// small is a run of 10 s over two regions, with one check in each of them every
// second, from 0 on.
func small() *scenario.Scenario {
	var at []time.Duration
	for i := range 10 {
		at = append(at, time.Duration(i)*second)
	}
	in := func(region int) scenario.Workload {
		return scenario.Workload{Operation: "report.create", Arrivals: scenario.Times, Times: at,
			Regions: []scenario.Weight{{Region: region, Weight: 1}}}
	}
	return &scenario.Scenario{
		Duration: 10 * second, Regions: []scenario.Region{{Name: "eu", Limiters: 1}, {Name: "us", Limiters: 1}},
		Policies: []lease.Policy{worked(1, 40)}, Workloads: []scenario.Workload{in(0), in(1)},
	}
}

// run ends each check by decide, a millisecond after it arrived.
func run(t *testing.T, sc *scenario.Scenario, decide func(a workload.Arrival) measure.Outcome) *measure.Result {
	t.Helper()
	r := measure.NewRecorder(sc, "tokenlease", 7)
	for _, a := range workload.All(sc, 7) {
		r.Arrived(a)
		if o := decide(a); o != measure.Pending {
			if err := r.Ended(a, a.At+time.Millisecond, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r.Result(sc.Duration)
}

func admitAll(workload.Arrival) measure.Outcome { return measure.Admitted }

func TestCounts(t *testing.T) {
	sc := small()
	got := run(t, sc, func(a workload.Arrival) measure.Outcome {
		switch {
		case a.Region == 0 && a.At < 3*second:
			return measure.Exhausted
		case a.Region == 0 && a.At < 5*second:
			return measure.Unavailable
		case a.At == 9*second:
			return measure.Pending
		case a.At == 8*second:
			return measure.Refused
		}
		return measure.Admitted
	})
	series := got.Series
	got.Series, got.Outcomes = nil, nil
	want := &measure.Result{
		Strategy: "tokenlease", Seed: 7, Checks: 20, Offered: 100, Admitted: 55,
		Exhausted: 3, Unavailable: 2, Refused: 2, Pending: 2, Cap: 40 + 200,
		Regions: []measure.Region{
			{Name: "eu", Checks: 10, Admitted: 15, Exhausted: 3, Unavailable: 2},
			{Name: "us", Checks: 10, Admitted: 40},
		},
	}
	if diff := diffResults(want, got); diff != "" {
		t.Error(diff)
	}
	if series.Step != 50*time.Millisecond || len(series.Admitted[1]) != 200 {
		t.Fatalf("%d bins of %v", len(series.Admitted[1]), series.Step)
	}
	if series.Admitted[1][20] != 5 || series.Admitted[1][21] != 0 || series.Exhausted[0][0] != 1 || series.Unavailable[0][60] != 1 {
		t.Error("what happened is in the wrong bins")
	}
}

func diffResults(want, got *measure.Result) string {
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(got)
	if errA != nil || errB != nil {
		return "not to be written as JSON"
	}
	return cmp.Diff(strings.Split(string(a), ","), strings.Split(string(b), ","))
}

func TestOverAdmission(t *testing.T) {
	sc := small()
	r := measure.NewRecorder(sc, "independent", 1)
	var errs int
	for i := range 10 { // 50 tokens at once, where 40 are allowed
		a := workload.Arrival{Index: i, At: second, Cost: 5}
		r.Arrived(a)
		if err := r.Ended(a, second, measure.Admitted); err != nil {
			errs++
		}
	}
	if err := r.Ended(workload.Arrival{Index: 9}, second, measure.Exhausted); err == nil {
		t.Error("a check may end twice")
	}
	got := r.Result(sc.Duration)
	if errs != 2 || got.Admitted != 50 || got.Excess != 10 || got.ExcessAt != second {
		t.Errorf("%d complaints, %d admitted, excess %d at %v", errs, got.Admitted, got.Excess, got.ExcessAt)
	}
}

// From when a higher capacity is written it is allowed; a lower one binds when it
// is said to.
func TestPolicies(t *testing.T) {
	sc := small()
	r := measure.NewRecorder(sc, "tokenlease", 1)
	index := 0
	spend := func(at time.Duration, tokens int64) error {
		a := workload.Arrival{Index: index, At: at, Cost: tokens}
		index++
		r.Arrived(a)
		return r.Ended(a, at, measure.Admitted)
	}
	r.Policy(2*second, worked(2, 60))
	if err := spend(2*second, 60); err != nil {
		t.Error(err)
	}
	r.Policy(6*second, worked(3, 10))
	if err := spend(6*second, 60); err != nil {
		t.Errorf("until the lower capacity binds, the one before does: %v", err)
	}
	r.Bind(8 * second)
	if err := spend(8*second, 11); err == nil {
		t.Error("the lower capacity does not bind")
	}
	got := r.Result(sc.Duration)
	if got.Cap != 60+200 || got.Excess != 1 {
		t.Errorf("cap %d, excess %d", got.Cap, got.Excess)
	}
	capacity := got.Series.Capacity
	if capacity[39] != 40 || capacity[40] != 60 || capacity[159] != 60 || capacity[160] != 10 {
		t.Errorf("capacity around the changes is %d %d, %d %d", capacity[39], capacity[40], capacity[159], capacity[160])
	}
}

func TestBalances(t *testing.T) {
	sc := small()
	until := func(q scenario.Quantity, at time.Duration, region string) scenario.Expectation {
		return scenario.Expectation{Quantity: q, Until: at, Region: region}
	}
	sc.Expect = []scenario.Expectation{
		until(scenario.Available, 2*second, ""), until(scenario.Held, 2001*time.Millisecond, "us"),
		until(scenario.Held, 5*second, ""), until(scenario.Unknown, 8*second, ""),
		until(scenario.Unknown, 8001*time.Millisecond, ""), until(scenario.Available, 0, ""),
		until(scenario.Unknown, 5*second, "eu"),
	}
	r := measure.NewRecorder(sc, "tokenlease", 1)
	held := []int64{0, 20}
	r.Balance(2*second, measure.Balance{Available: 20, Held: held, Issued: 20})
	held[1] = 99 // it was copied
	r.Balance(4*second, measure.Balance{Available: 10, Held: []int64{10, 0}, Unknown: 20, Issued: 30})
	r.Balance(8*second, measure.Balance{Available: 30, Held: []int64{10, 0}, Issued: 30})
	got := r.Result(10 * second)

	if got.UnknownFor != 4*second || got.UnknownTokenSecond != 80 {
		t.Errorf("unknown for %v, %v token-seconds", got.UnknownFor, got.UnknownTokenSecond)
	}
	// 20 for 2 s, 30 for 4 s and 10 for 2 s are 180 token-seconds, of 30 tokens.
	if got.TimeOut != 6*second || math.Abs(got.Bound-40.0/120) > 1e-9 {
		t.Errorf("out for %v, bound %v", got.TimeOut, got.Bound)
	}
	s := got.Series
	if s.Available[39] != 40 || s.Available[40] != 20 || s.Held[1][79] != 20 || s.Held[0][80] != 10 || s.Unknown[159] != 20 || s.Unknown[160] != 0 {
		t.Errorf("balances are in the wrong bins: %v %v %v", s.Available, s.Held, s.Unknown)
	}
	// What happens at the moment itself does not count yet.
	want := []float64{40, 20, 10, 20, 0, 30, 0}
	for i, f := range measure.Check(sc, map[string]*measure.Result{"tokenlease": got}) {
		if f.Measured != want[i] || (f.Problem == "") != (i < 6) {
			t.Errorf("%v, want %v", f, want[i])
		}
	}
}

// A bound is not claimed where there is none to be had.
func TestBoundIsUnknown(t *testing.T) {
	two := small()
	two.Workloads[0].Accounts = 2
	for _, tc := range []struct {
		name   string
		sc     *scenario.Scenario
		issued int64
		policy bool
		want   float64
	}{
		{"nothing issued", small(), 0, false, 0},
		{"several budgets", two, 10, false, 0},
		{"another policy", small(), 10, true, 0},
		{"hardly out", small(), 1000, false, 1},
	} {
		r := measure.NewRecorder(tc.sc, "tokenlease", 1)
		r.Balance(0, measure.Balance{Held: []int64{10, 0}, Issued: tc.issued})
		if tc.policy {
			r.Policy(second, worked(2, 50))
		}
		if got := r.Result(10 * second); got.Bound != tc.want {
			t.Errorf("%s: bound %v, want %v", tc.name, got.Bound, tc.want)
		}
	}
}

func TestDue(t *testing.T) {
	sc := small()
	at := 1010 * time.Millisecond
	sc.Expect = []scenario.Expectation{{Quantity: scenario.Available, Until: at}}
	r := measure.NewRecorder(sc, "tokenlease", 1)
	var due []time.Duration
	for r.Due() < 1100*time.Millisecond {
		due = append(due, r.Due())
		r.Balance(r.Due(), measure.Balance{})
	}
	if got := due[18:]; !slices.Equal(got, []time.Duration{950 * time.Millisecond, second, at, 1050 * time.Millisecond}) {
		t.Errorf("due at %v", got)
	}
}

func TestSteps(t *testing.T) {
	for _, tc := range []struct{ duration, want time.Duration }{
		{300 * time.Millisecond, time.Millisecond},
		{30 * second, 100 * time.Millisecond},
		{60 * second, 250 * time.Millisecond},
		{75*second + 1, 500 * time.Millisecond},
		{time.Hour, 15 * second},
		{2 * 366 * 24 * time.Hour, 3 * 24 * time.Hour},
	} {
		sc := small()
		sc.Duration = tc.duration
		s := measure.NewRecorder(sc, "tokenlease", 1).Result(tc.duration).Series
		if s.Step != tc.want || len(s.Available) > 300 || len(s.Available) < 100 {
			t.Errorf("%v: %d bins of %v, want %v", tc.duration, len(s.Available), s.Step, tc.want)
		}
	}
}

func TestAgainst(t *testing.T) {
	sc := small()
	oracle := run(t, sc, func(a workload.Arrival) measure.Outcome {
		if a.At >= 8*second {
			return measure.Exhausted
		}
		return measure.Admitted
	})
	got := run(t, sc, func(a workload.Arrival) measure.Outcome {
		switch {
		case a.At < second:
			return measure.Unavailable
		case a.At < 2*second:
			return measure.Pending
		}
		return measure.Admitted
	})
	got.Against(oracle)
	if got.FalseDenied != 4 || got.Utilisation != 80.0/80 {
		t.Errorf("%d falsely denied, utilisation %v", got.FalseDenied, got.Utilisation)
	}
	none := &measure.Result{}
	if none.Against(none); none.Utilisation != 1 {
		t.Errorf("utilisation %v of nothing", none.Utilisation)
	}
}

func BenchmarkRecorder(b *testing.B) {
	sc := small()
	sc.Workloads[0].Rate = lease.Rate{Tokens: 100_000, Interval: second}
	r := measure.NewRecorder(sc, "tokenlease", 1)
	held := []int64{1, 2}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		a := workload.Arrival{Index: i, At: time.Duration(i) * time.Microsecond, Region: i & 1, Cost: 1}
		r.Arrived(a)
		if r.Ended(a, a.At, measure.Exhausted) != nil {
			b.Fatal("refused")
		}
		r.Balance(a.At, measure.Balance{Available: 3, Held: held})
	}
}
