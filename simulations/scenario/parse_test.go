package scenario_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// full is a file with every field but those of other ways of arriving.
const full = `title: Everything at once
lesson: >
  First line,
  second line.
seed: 7
duration: 60s
shards: 2
regions:
  - {name: eu, round-trip: 20ms}
  - name: us
    limiters: 2
    journal: confirm
    round-trip: {base: 90ms, jitter: 10ms}
    wait: 400ms
    clock: {wall: -60s, slow: 10%}
brokers:
  - name: broker-1
  - {name: broker-2, clock: {wall: 60s, slow: 5%}}
links:
  - {between: [eu, broker-2], round-trip: 300ms}
  - {between: [broker-1, store], round-trip: {base: 1ms, jitter: 1ms}}
store: {round-trip: 3ms}
policies:
  - operation: report.create
    token-bucket: {capacity: 40, refill: 20 per 1s}
    cost: 5
    max-share: 50%
workload:
  - operation: report.create
    arrivals: poisson
    rate: 30 per 1s
    accounts: 3
    zipf: 1.1
    regions: {us: 30, eu: 70}
    rotate: 10s
    cost: {from: 1, to: 5}
    from: 1s
    until: 59s
  - operation: report.create
    arrivals: steady
    rate: 3 per 2s
    regions: [us]
    cost: 2
  - {operation: report.create, arrivals: bursts, rate: 10 per 1s, burst: 50}
  - {operation: report.create, arrivals: diurnal, rate: 10 per 1s, period: 60s, low: 20%}
  - {operation: report.create, arrivals: times, at: [0s, 1s, 1s, 1500ms]}
faults:
  - {at: 30s, policy: {operation: report.create, token-bucket: {capacity: 10}}}
  - {at: 20s, for: 10s, cut: [eu, brokers], one-way: true}
  - {at: 20s, for: 10s, mess: [broker-1, us/2], loss: 20%, duplicate: 10%, late: 5%, delay: 2h}
  - {at: 20s, crash: us/1, back: 5s, journal: older}
  - {at: 20s, crash: brokers}
  - {at: 20s, stop: us, back: 5s}
  - {at: 20s, for: 8s, pause: broker-1}
  - {at: 20s, freeze: us/2}
  - {at: 20s, zombie: eu/1}
  - {at: 20s, for: 2s, expire: broker-1}
  - {at: 20s, for: 10s, store: no-space}
  - {at: 20s, restore: 20s}
  - {at: 10s, policy: {operation: report.create, token-bucket: {capacity: 80, refill: 20 per 1s}}}
  - {at: 40s, attest: eu/1}
  - {at: 40s, wall: broker-1, step: -60s}
expect:
  - {admitted: total, at-least: 500, at-most: 640}
  - {exhausted: eu, from: 20s, until: 30s, at-most: 0}
  - {unavailable: total, strategy: static, at-most: 0}
  - {unknown: total, at: 40s, at-least: 1}
  - {held: us, at-least: 1}
  - {excess: independent, at-least: 40}
  - {utilisation: tokenlease, at-least: 90%}
  - {recovery: tokenlease, at-most: 1500ms}
  - {false-denied: local-async, at-most: 3}
  - {stopped: tokenlease, at-least: 1}
`

// fullPolicy is the one in full.
func fullPolicy(version int64) lease.Policy {
	return lease.Policy{Operation: "report.create", DefaultCost: 5, Rule: lease.Rule{
		Kind: lease.TokenBucket, Version: version, Capacity: 40, MaxSharePercent: 50,
		Refill: lease.Rate{Tokens: 20, Interval: time.Second},
	}}
}

// mustParse parses a file that is right, and forgets its lines.
func mustParse(t *testing.T, in string) *scenario.Scenario {
	t.Helper()
	sc, err := scenario.Parse("s.yaml", []byte(in))
	if err != nil {
		t.Fatalf("%v\n%s", err, in)
	}
	return unlined(sc)
}

// unlined forgets the lines of a scenario.
func unlined(sc *scenario.Scenario) *scenario.Scenario {
	for i := range sc.Links {
		sc.Links[i].Line = 0
	}
	for i := range sc.Workloads {
		sc.Workloads[i].Line = 0
	}
	for i := range sc.Faults {
		sc.Faults[i].Line = 0
	}
	for i := range sc.Expect {
		sc.Expect[i].Line = 0
	}
	return sc
}

// requireEqual compares part of a scenario, item by item where it is a list.
func requireEqual[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d %s, want %d: %+v", len(got), what, len(want), got)
		return
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("%s[%d]:\n got %+v\nwant %+v", what, i, got[i], want[i])
		}
	}
}

func TestEveryField(t *testing.T) {
	sc := mustParse(t, full)
	if sc.File != "s.yaml" || sc.Title != "Everything at once" || sc.Lesson != "First line, second line." {
		t.Errorf("file %q, title %q, lesson %q", sc.File, sc.Title, sc.Lesson)
	}
	if sc.Seed != 7 || sc.Duration != time.Minute || sc.Shards != 2 || sc.Mixed || sc.Store != (scenario.Delay{Base: 3 * time.Millisecond}) {
		t.Errorf("seed %d, duration %v, shards %d, mixed %v, store %v", sc.Seed, sc.Duration, sc.Shards, sc.Mixed, sc.Store)
	}
	requireEqual(t, "regions", sc.Regions, []scenario.Region{
		{Name: "eu", Limiters: 1, Journal: "block", RoundTrip: scenario.Delay{Base: 20 * time.Millisecond}, Wait: 500 * time.Millisecond},
		{
			Name: "us", Limiters: 2, Journal: "confirm", Wait: 400 * time.Millisecond,
			RoundTrip: scenario.Delay{Base: 90 * time.Millisecond, Jitter: 10 * time.Millisecond},
			Clock:     scenario.Clock{Wall: -time.Minute, SlowPercent: 10},
		},
	})
	requireEqual(t, "brokers", sc.Brokers, []scenario.Broker{
		{Name: "broker-1"}, {Name: "broker-2", Clock: scenario.Clock{Wall: time.Minute, SlowPercent: 5}},
	})
	requireEqual(t, "links", sc.Links, []scenario.Link{
		{Ends: [2]string{"eu", "broker-2"}, RoundTrip: scenario.Delay{Base: 300 * time.Millisecond}},
		{Ends: [2]string{"broker-1", "store"}, RoundTrip: scenario.Delay{Base: time.Millisecond, Jitter: time.Millisecond}},
	})
	requireEqual(t, "policies", sc.Policies, []lease.Policy{fullPolicy(1)})
}

func TestEveryWayOfArriving(t *testing.T) {
	const s = time.Second
	both := []scenario.Weight{{Region: 0, Weight: 1}, {Region: 1, Weight: 1}}
	requireEqual(t, "workloads", mustParse(t, full).Workloads, []scenario.Workload{
		{
			Operation: "report.create", Arrivals: scenario.Poisson, Rate: lease.Rate{Tokens: 30, Interval: s}, LowPercent: 10,
			Accounts: 3, Zipf: 1.1, Regions: []scenario.Weight{{Region: 1, Weight: 30}, {Region: 0, Weight: 70}},
			Rotate: 10 * s, Cost: 1, MaxCost: 5, From: s, Until: 59 * s,
		},
		{
			Operation: "report.create", Arrivals: scenario.Steady, Rate: lease.Rate{Tokens: 3, Interval: 2 * s}, LowPercent: 10,
			Accounts: 1, Regions: []scenario.Weight{{Region: 1, Weight: 1}}, Cost: 2, MaxCost: 2, Until: 60 * s,
		},
		{
			Operation: "report.create", Arrivals: scenario.Bursts, Rate: lease.Rate{Tokens: 10, Interval: s}, LowPercent: 10,
			Burst: 50, Accounts: 1, Regions: both, Cost: 5, MaxCost: 5, Until: 60 * s,
		},
		{
			Operation: "report.create", Arrivals: scenario.Diurnal, Rate: lease.Rate{Tokens: 10, Interval: s}, LowPercent: 20,
			Period: 60 * s, Accounts: 1, Regions: both, Cost: 5, MaxCost: 5, Until: 60 * s,
		},
		{
			Operation: "report.create", Arrivals: scenario.Times, LowPercent: 10, Times: []time.Duration{0, s, s, 1500 * time.Millisecond},
			Accounts: 1, Regions: both, Cost: 5, MaxCost: 5, Until: 60 * s,
		},
	})
}

// TestEveryFault: faults come in order of time, and versions of policies count
// up in that order.
func TestEveryFault(t *testing.T) {
	const s = time.Second
	higher := fullPolicy(2)
	higher.Rule.Capacity, higher.DefaultCost, higher.Rule.MaxSharePercent = 80, 1, 100
	lower := higher
	lower.Rule.Version, lower.Rule.Capacity, lower.Rule.Refill = 3, 10, lease.Rate{}
	requireEqual(t, "faults", mustParse(t, full).Faults, []scenario.Fault{
		{At: 10 * s, Kind: scenario.Policy, Policy: higher},
		{At: 20 * s, For: 10 * s, Kind: scenario.Cut, Ends: [2]string{"eu", "brokers"}, OneWay: true},
		{At: 20 * s, For: 10 * s, Kind: scenario.Mess, Ends: [2]string{"broker-1", "us/2"}, Loss: 20, Duplicate: 10, Late: 5, Delay: 2 * time.Hour},
		{At: 20 * s, Kind: scenario.Crash, Target: "us/1", Back: 5 * s, Journal: "older"},
		{At: 20 * s, Kind: scenario.Crash, Target: "brokers"},
		{At: 20 * s, Kind: scenario.Stop, Target: "us", Back: 5 * s},
		{At: 20 * s, For: 8 * s, Kind: scenario.Pause, Target: "broker-1"},
		{At: 20 * s, Kind: scenario.Freeze, Target: "us/2"},
		{At: 20 * s, Kind: scenario.Zombie, Target: "eu/1"},
		{At: 20 * s, For: 2 * s, Kind: scenario.Expire, Target: "broker-1"},
		{At: 20 * s, For: 10 * s, Kind: scenario.StoreIs, Trouble: scenario.NoSpace},
		{At: 20 * s, Kind: scenario.Restore, Age: 20 * s},
		{At: 30 * s, Kind: scenario.Policy, Policy: lower},
		{At: 40 * s, Kind: scenario.Attest, Target: "eu/1"},
		{At: 40 * s, Kind: scenario.Wall, Target: "broker-1", Step: -60 * s},
	})
}

func TestEveryExpectation(t *testing.T) {
	const s = time.Second
	const ours = "tokenlease"
	requireEqual(t, "expectations", mustParse(t, full).Expect, []scenario.Expectation{
		{Quantity: scenario.Admitted, Strategy: ours, Until: 60 * s, AtLeast: new(float64(500)), AtMost: new(float64(640))},
		{Quantity: scenario.Exhausted, Strategy: ours, Region: "eu", From: 20 * s, Until: 30 * s, AtMost: new(float64(0))},
		{Quantity: scenario.Unavailable, Strategy: "static", Until: 60 * s, AtMost: new(float64(0))},
		{Quantity: scenario.Unknown, Strategy: ours, Until: 40 * s, AtLeast: new(float64(1))},
		{Quantity: scenario.Held, Strategy: ours, Region: "us", Until: 60 * s, AtLeast: new(float64(1))},
		{Quantity: scenario.Excess, Strategy: "independent", Until: 60 * s, AtLeast: new(float64(40))},
		{Quantity: scenario.Utilisation, Strategy: ours, Until: 60 * s, AtLeast: new(float64(90))},
		{Quantity: scenario.Recovery, Strategy: ours, Until: 60 * s, AtMost: new(1.5)},
		{Quantity: scenario.FalseDenied, Strategy: "local-async", Until: 60 * s, AtMost: new(float64(3))},
		{Quantity: scenario.Stopped, Strategy: ours, Until: 60 * s, AtLeast: new(float64(1))},
	})
}

func TestDefaults(t *testing.T) {
	sc := mustParse(t, least())
	if sc.Seed != 1 || sc.Shards != 1 || sc.Store != (scenario.Delay{Base: 2 * time.Millisecond}) {
		t.Errorf("seed %d, shards %d, store %v", sc.Seed, sc.Shards, sc.Store)
	}
	requireEqual(t, "brokers", sc.Brokers, []scenario.Broker{{Name: "broker-1"}, {Name: "broker-2"}})
	requireEqual(t, "workloads", sc.Workloads, []scenario.Workload{{
		Operation: "o", Arrivals: scenario.Poisson, Rate: lease.Rate{Tokens: 1, Interval: time.Second}, LowPercent: 10, Accounts: 1,
		Regions: []scenario.Weight{{Region: 0, Weight: 1}, {Region: 1, Weight: 1}}, Cost: 1, MaxCost: 1, Until: 10 * time.Second,
	}})
	if sc.Links != nil || sc.Faults != nil || sc.Expect != nil {
		t.Errorf("links %v, faults %v, expectations %v", sc.Links, sc.Faults, sc.Expect)
	}
}

func TestMixed(t *testing.T) {
	sc := mustParse(t, "title: t\nlesson: l\nmixed: true\nseed: 3\n")
	if want := (&scenario.Scenario{File: "s.yaml", Title: "t", Lesson: "l", Seed: 3, Mixed: true, Shards: 1, Store: sc.Store}); !reflect.DeepEqual(sc, want) {
		t.Errorf("Parse = %+v, want %+v", sc, want)
	}
	if sc := mustParse(t, least()+"mixed: false\n"); sc.Mixed {
		t.Error("mixed: false is mixed")
	}
}

func TestParties(t *testing.T) {
	sc := mustParse(t, full)
	tests := []struct {
		name string
		want scenario.Party
	}{
		{"eu", scenario.Party{Limiters: []scenario.Limiter{{Region: 0, Index: 0}}}},
		{"us", scenario.Party{Limiters: []scenario.Limiter{{Region: 1, Index: 0}, {Region: 1, Index: 1}}}},
		{"us/2", scenario.Party{Limiters: []scenario.Limiter{{Region: 1, Index: 1}}}},
		{"broker-2", scenario.Party{Brokers: []int{1}}},
		{"brokers", scenario.Party{Brokers: []int{0, 1}}},
		{"store", scenario.Party{Store: true}},
	}
	for _, test := range tests {
		if got, ok := sc.Party(test.name); !ok || !reflect.DeepEqual(got, test.want) {
			t.Errorf("Party(%q) = %+v, %v, want %+v", test.name, got, ok, test.want)
		}
	}
	for _, name := range []string{"", "ap", "us/0", "us/3", "us/01", "us/", "/1", "broker-1/1", "store/1"} {
		if got, ok := sc.Party(name); ok {
			t.Errorf("Party(%q) = %+v, want nobody", name, got)
		}
	}
}
