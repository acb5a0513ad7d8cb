package scenario_test

import (
	"bytes"
	"io/fs"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/scenarios"
)

func TestFormatIsReadBack(t *testing.T) {
	files := []string{
		full, least(), "title: t\nlesson: l\nmixed: true\nseed: 3\n",
		strings.Replace(least("expect:", `  - {admitted: "true", at-least: 1}`), "{name: eu}", `{name: "true"}`, 1),
		strings.Replace(least(), "lesson: l", `lesson: "a \u200b \"b\": # c"`, 1),
		strings.Replace(least(), "lesson: l", "lesson: '# a: "+strings.Repeat("word - ", 50)+"'", 1),
	}
	for _, file := range files {
		want := mustParse(t, file)
		written := scenario.Format(want)
		if got := mustParse(t, string(written)); !reflect.DeepEqual(got, want) {
			t.Errorf("read back:\n got %+v\nwant %+v\n%s", got, want, written)
		}
	}
}

// TestShippedFilesAreReadBack: the scenarios of the program are the same after
// they were written and read again.
func TestShippedFilesAreReadBack(t *testing.T) {
	files, err := fs.Glob(scenarios.Files, "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := scenarios.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := mustParse(t, string(data))
		written := scenario.Format(want)
		if got := mustParse(t, string(written)); !reflect.DeepEqual(got, want) {
			t.Errorf("read back:\n got %+v\nwant %+v\n%s", got, want, written)
		}
	}
}

func TestFormat(t *testing.T) {
	const want = `title: "t"
lesson: >-
  l
seed: 1
duration: 10s
shards: 1
regions:
  - {name: eu, limiters: 1, journal: block, round-trip: 20ms, wait: 500ms}
  - {name: us, limiters: 2, journal: block, round-trip: 20ms, wait: 500ms}
brokers:
  - {name: broker-1}
  - {name: broker-2}
store: {round-trip: 2ms}
policies:
  - {operation: o, token-bucket: {capacity: 4, refill: 1 per 1s}, cost: 1, max-share: 100%}
workload:
  - {operation: o, arrivals: poisson, rate: 1 per 1s, accounts: 1, regions: {eu: 1, us: 1}, cost: {from: 1, to: 1}, until: 10s}
faults:
  - {at: 1s, for: 2s, mess: [us/2, brokers], loss: 5%, late: 1%, delay: 1h}
expect:
  - {recovery: tokenlease, at-most: 100ms}
  - {held: us, at: 5s, at-least: 2}
`
	sc := mustParse(t, least(
		"faults:", "  - {at: 1s, for: 2s, mess: [us/2, brokers], loss: 5%, late: 1%, delay: 1h}",
		"expect:", "  - {recovery: tokenlease, at-most: 100ms}", "  - {held: us, at: 5s, at-least: 2}"))
	if got := string(scenario.Format(sc)); got != want {
		t.Errorf("Format:\n%s\nwant\n%s", got, want)
	}
}

// FuzzParse holds that no file makes Parse panic, that what it accepts is within
// the bounds, and that it survives being written and read again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		full, least(), "title: t\nlesson: l\nmixed: true\n", least("faults:", "  - {at: 1s, crash: eu, back: 1s}"),
		least("brokers: [{name: x}]", "shards: 3"), "expect: [{admitted: total}]", "{[}]", "- - -", "a: &a [*a]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sc, err := scenario.Parse("s.yaml", data)
		if err != nil {
			if sc != nil || err.Error() == "" {
				t.Fatalf("scenario %v with error %q", sc, err)
			}
			return
		}
		requireBounds(t, sc)
		written := scenario.Format(sc)
		again, err := scenario.Parse("s.yaml", written)
		if err != nil {
			t.Fatalf("Parse(Format) = %v\n%s", err, written)
		}
		if !reflect.DeepEqual(unlined(again), unlined(sc)) {
			t.Fatalf("%+v became %+v\n%s", sc, again, written)
		}
		if twice := scenario.Format(again); !bytes.Equal(twice, written) {
			t.Fatalf("Format changed:\n%s\n%s", written, twice)
		}
	})
}

// requireBounds checks what runs rely on.
func requireBounds(t *testing.T, sc *scenario.Scenario) {
	t.Helper()
	if sc.Mixed {
		return
	}
	limiters := 0
	for _, r := range sc.Regions {
		limiters += r.Limiters
		if r.Limiters < 1 || r.Clock.SlowPercent < 0 || r.Clock.SlowPercent > 50 {
			t.Fatalf("region %+v", r)
		}
	}
	if limiters < 1 || limiters > scenario.MaxLimiters || len(sc.Brokers) < 1 || len(sc.Brokers) > scenario.MaxBrokers ||
		sc.Shards < 1 || sc.Shards > scenario.MaxShards || sc.Duration < scenario.MinDuration || sc.Duration > scenario.MaxDuration {
		t.Fatalf("%d limiters, %d brokers, %d shards, %v", limiters, len(sc.Brokers), sc.Shards, sc.Duration)
	}
	for _, p := range sc.Policies {
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		refilled := 0.0
		if p.Rule.Refill.Tokens > 0 {
			refilled = float64(p.Rule.Refill.Tokens) * (float64(sc.Duration) / float64(p.Rule.Refill.Interval))
		}
		if float64(p.Rule.Capacity)+refilled > math.MaxInt64/2 {
			t.Fatalf("policy %+v admits more than an int64", p)
		}
	}
	for _, w := range sc.Workloads {
		requireWorkload(t, sc, w)
	}
	last := time.Duration(0)
	for _, fault := range sc.Faults {
		if fault.At < last || fault.At >= sc.Duration || fault.At+fault.For > sc.Duration || fault.At+fault.Back > sc.Duration {
			t.Fatalf("fault %+v of %v", fault, sc.Duration)
		}
		last = fault.At
		if fault.Kind == scenario.Policy && (fault.Policy.Validate() != nil || fault.Policy.Rule.Version < 2) {
			t.Fatalf("policy %+v", fault.Policy)
		}
		for _, name := range []string{fault.Target, fault.Ends[0], fault.Ends[1]} {
			if _, ok := sc.Party(name); !ok && name != "" {
				t.Fatalf("fault %+v at nobody", fault)
			}
		}
	}
}

func requireWorkload(t *testing.T, sc *scenario.Scenario, w scenario.Workload) {
	t.Helper()
	if w.Accounts < 1 || w.Accounts > scenario.MaxBudgets || w.Cost < 0 || w.Cost > w.MaxCost || len(w.Regions) == 0 ||
		w.Until <= w.From || w.Until > sc.Duration {
		t.Fatalf("workload %+v", w)
	}
	for _, x := range w.Regions {
		if x.Region < 0 || x.Region >= len(sc.Regions) || x.Weight < 1 {
			t.Fatalf("weights %+v", w.Regions)
		}
	}
	if w.Cost > 0 && float64(w.MaxCost)*100 > math.MaxInt64/2 {
		t.Fatalf("workload %+v asks for more than an int64", w)
	}
	switch w.Arrivals {
	case scenario.Times:
		if len(w.Times) == 0 || len(w.Times) > scenario.MaxArrivals {
			t.Fatalf("%d moments", len(w.Times))
		}
	default:
		checks := float64(w.Rate.Tokens) * (float64(w.Until-w.From) / float64(w.Rate.Interval))
		if w.Rate.Tokens < 1 || w.Rate.Interval < 1 || checks > scenario.MaxArrivals*1.000001 {
			t.Fatalf("rate %+v makes %v checks", w.Rate, checks)
		}
	}
	if (w.Arrivals == scenario.Bursts) != (w.Burst > 0) || (w.Arrivals == scenario.Diurnal) != (w.Period > 0) {
		t.Fatalf("workload %+v", w)
	}
}
