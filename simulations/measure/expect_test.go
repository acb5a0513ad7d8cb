package measure_test

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

// A run in which eu has no authority from 3 s until 6 s, beside an oracle that
// admits all.
func TestCheck(t *testing.T) {
	sc := small()
	sc.Faults = []scenario.Fault{{Kind: scenario.Cut, At: 3 * second, For: 2900 * time.Millisecond, Ends: [2]string{"eu", "brokers"}}}
	results := map[string]*measure.Result{"oracle": run(t, sc, admitAll)}
	results["tokenlease"] = run(t, sc, func(a workload.Arrival) measure.Outcome {
		if a.Region == 0 && a.At >= 3*second && a.At < 6*second {
			return measure.Unavailable
		}
		return measure.Admitted
	})
	for _, tc := range []struct {
		e    scenario.Expectation
		want string
		ok   bool
	}{
		{scenario.Expectation{Quantity: scenario.Admitted, Until: 10 * second, AtLeast: new(85.0), AtMost: new(85.0)}, "line 42: admitted is 85, want 85", true},
		{scenario.Expectation{Quantity: scenario.Admitted, Region: "eu", From: 2 * second, Until: 4 * second, AtLeast: new(20.0)},
			"line 42: admitted in eu from 2s until 4s is 5, want at least 20", false},
		// The admission of 3 s is at 3.001 s, outside of the window.
		{scenario.Expectation{Quantity: scenario.Admitted, Region: "us", From: 2 * second, Until: 3*second + time.Millisecond, AtMost: new(5.0)},
			"line 42: admitted in us from 2s until 3001ms is 5, want at most 5", true},
		{scenario.Expectation{Quantity: scenario.Unavailable, From: 4 * second, AtLeast: new(1.0), AtMost: new(2.0)},
			"line 42: unavailable from 4s is 2, want 1 to 2", true},
		{scenario.Expectation{Quantity: scenario.Exhausted, AtMost: new(0.0)}, "line 42: exhausted is 0, want at most 0", true},
		{scenario.Expectation{Quantity: scenario.FalseDenied, AtMost: new(2.0)}, "line 42: false-denied is 3, want at most 2", false},
		{scenario.Expectation{Quantity: scenario.FalseDenied, Region: "us", AtMost: new(0.0)}, "line 42: false-denied in us is 0, want at most 0", true},
		{scenario.Expectation{Quantity: scenario.Utilisation, AtLeast: new(85.0)}, "line 42: utilisation is 85%, want at least 85%", true},
		{scenario.Expectation{Quantity: scenario.Utilisation, Region: "eu", Until: 4 * second, AtLeast: new(75.1)},
			"line 42: utilisation in eu until 4s is 75%, want at least 75.1%", false},
		{scenario.Expectation{Quantity: scenario.Recovery, AtMost: new(0.1)}, "line 42: recovery is 0.101s, want at most 0.1s", false},
		{scenario.Expectation{Quantity: scenario.Excess, AtMost: new(0.0)}, "line 42: excess is 0, want at most 0", true},
		{scenario.Expectation{Quantity: scenario.Stopped, AtMost: new(0.0)}, "line 42: stopped is 0, want at most 0", true},
		{scenario.Expectation{Quantity: scenario.Excess, Strategy: "static", AtMost: new(0.0)},
			"line 42: excess of static: static was not run", false},
		{scenario.Expectation{Quantity: scenario.Excess, From: second, AtMost: new(0.0)},
			"line 42: excess from 1s: excess is measured of the whole run: leave out region, from and until", false},
		{scenario.Expectation{Quantity: scenario.Available, Until: 4 * second, AtLeast: new(41.0)},
			"line 42: available at 4s is 40, want at least 41", false},
	} {
		tc.e.Line = 42
		sc.Expect = []scenario.Expectation{tc.e}
		f := measure.Check(sc, results)[0]
		if f.String() != tc.want || f.OK != tc.ok {
			t.Errorf("%v %v, want %v %v", f, f.OK, tc.want, tc.ok)
		}
	}
}

func TestRecovery(t *testing.T) {
	cut := scenario.Fault{Kind: scenario.Cut, At: second, For: 2500 * time.Millisecond}
	for _, tc := range []struct {
		name   string
		faults []scenario.Fault
		dead   func(a workload.Arrival) bool
		want   time.Duration
		never  bool
	}{
		{"no fault", nil, func(a workload.Arrival) bool { return a.Region == 0 }, 0, false},
		{"both go on", []scenario.Fault{cut}, func(workload.Arrival) bool { return false }, 501 * time.Millisecond, false},
		{"eu waits", []scenario.Fault{cut}, func(a workload.Arrival) bool { return a.Region == 0 && a.At < 6*second }, 2501 * time.Millisecond, false},
		{"us never again", []scenario.Fault{cut}, func(a workload.Arrival) bool { return a.Region == 1 && a.At > 3*second }, 501 * time.Millisecond, true},
		{"nothing arrives later", []scenario.Fault{{Kind: scenario.Cut, At: second, For: 8500 * time.Millisecond}},
			func(workload.Arrival) bool { return false }, 0, false},
		{"it lasts", []scenario.Fault{{Kind: scenario.Cut, At: second}}, func(a workload.Arrival) bool { return a.At > second }, 0, false},
		{"a moment", []scenario.Fault{{Kind: scenario.Wall, At: 3100 * time.Millisecond}}, func(workload.Arrival) bool { return false },
			901 * time.Millisecond, false},
		{"a region is gone", []scenario.Fault{cut, {Kind: scenario.Crash, At: 2 * second, Target: "us"}},
			func(a workload.Arrival) bool { return a.Region == 1 && a.At >= 2*second }, 501 * time.Millisecond, false},
		{"started again", []scenario.Fault{{Kind: scenario.Crash, At: 2 * second, Back: 2200 * time.Millisecond, Target: "us"}},
			func(a workload.Arrival) bool { return a.Region == 1 && a.At >= 2*second && a.At < 5*second }, 801 * time.Millisecond, false},
		{"operators' acts", []scenario.Fault{{Kind: scenario.Policy, At: 3100 * time.Millisecond}},
			func(workload.Arrival) bool { return false }, 0, false},
	} {
		sc := small()
		sc.Faults = tc.faults
		got := run(t, sc, func(a workload.Arrival) measure.Outcome {
			if tc.dead(a) {
				return measure.Unavailable
			}
			return measure.Admitted
		})
		if got.Recovery != tc.want || got.Never != tc.never {
			t.Errorf("%s: %v, never %v; want %v, %v", tc.name, got.Recovery, got.Never, tc.want, tc.never)
		}
	}
}

// A region in which the oracle admits nothing any more is not waited for.
func TestRecoveryBesideTheOracle(t *testing.T) {
	sc := small()
	sc.Faults = []scenario.Fault{{Kind: scenario.Cut, At: second, For: 2500 * time.Millisecond}}
	until := func(end time.Duration) *measure.Result {
		return run(t, sc, func(a workload.Arrival) measure.Outcome {
			if a.Region == 1 && a.At > end {
				return measure.Exhausted
			}
			return measure.Admitted
		})
	}
	got := until(3 * second)
	if got.Against(until(3 * second)); got.Never || got.Recovery != 501*time.Millisecond {
		t.Errorf("recovery %v, never %v, where the oracle admits nothing", got.Recovery, got.Never)
	}
	if got.Against(until(5 * second)); !got.Never {
		t.Error("recovered, though the oracle admits more")
	}
}

func TestNeverRecovered(t *testing.T) {
	sc := small()
	sc.Expect = []scenario.Expectation{{Line: 1, Quantity: scenario.Recovery, AtMost: new(1e9)}}
	got := measure.Check(sc, map[string]*measure.Result{"tokenlease": {Never: true}})
	if want := "line 1: recovery is never, want at most 1000000000s"; got[0].OK || got[0].String() != want {
		t.Errorf("%v %v", got[0], got[0].OK)
	}
}

func TestSpans(t *testing.T) {
	sc := small()
	policy := worked(2, 10)
	sc.Faults = []scenario.Fault{
		{Kind: scenario.Cut, At: 3 * second, For: second, Ends: [2]string{"eu", "brokers"}},
		{Kind: scenario.Cut, At: 3 * second, Ends: [2]string{"eu", "brokers"}, OneWay: true},
		{Kind: scenario.Mess, At: second, For: 100 * second, Ends: [2]string{"us/1", "store"}},
		{Kind: scenario.Mess, At: second},
		{Kind: scenario.Crash, At: second, Back: 2 * second, Target: "us/1"},
		{Kind: scenario.Stop, At: second, Target: "us"},
		{Kind: scenario.StoreIs, At: second, For: second, Trouble: scenario.Outage},
		{Kind: scenario.Policy, At: 4 * second, Policy: policy},
		{Kind: scenario.Restore, At: 5 * second, Age: second},
		{Kind: scenario.Wall, At: 5 * second, Target: "broker-1", Step: -1500 * time.Millisecond},
		{Kind: scenario.Expire, At: 6 * second, For: second, Target: "broker-1"},
	}
	want := []measure.Span{
		{From: second, Until: 10 * second, Label: "mess us/1 - store"},
		{From: second, Until: 10 * second, Label: "mess"},
		{From: second, Until: 3 * second, Label: "crash us/1"},
		{From: second, Until: 10 * second, Label: "stop us"},
		{From: second, Until: 2 * second, Label: "store outage"},
		{From: 3 * second, Until: 4 * second, Label: "cut eu - brokers"},
		{From: 3 * second, Until: 10 * second, Label: "cut eu > brokers"},
		{From: 4 * second, Until: 4 * second, Label: "policy report.create: 10"},
		{From: 5 * second, Until: 5 * second, Label: "store restored"},
		{From: 5 * second, Until: 5 * second, Label: "wall broker-1 -1.5 s"},
		{From: 6 * second, Until: 7 * second, Label: "expire broker-1"},
	}
	got := measure.Spans(sc)
	if len(got) != len(want) {
		t.Fatalf("%d spans, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("span %d: %v, want %v", i, got[i], want[i])
		}
	}
}
