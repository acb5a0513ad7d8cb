package scenario_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// least is a file that has only what is required, and more lines of it, which
// begin in line 13.
func least(more ...string) string {
	return strings.Join(append([]string{
		"title: t",
		"lesson: l",
		"duration: 10s",
		"regions:",
		"  - {name: eu}",
		"  - {name: us, limiters: 2}",
		"policies:",
		"  - operation: o",
		"    token-bucket: {capacity: 4, refill: 1 per 1s}",
		"workload:",
		"  - operation: o",
		"    rate: 1 per 1s",
	}, more...), "\n") + "\n"
}

// instead is least() with something else in place of one of its parts.
func instead(old, value string) string { return strings.Replace(least(), old, value, 1) }

// refusal is a value and what is said of it, behind the name of the file.
type refusal struct {
	value string
	want  []string
}

// requireRefusals parses the files that the values make, and compares all that is
// wrong with each.
func requireRefusals(t *testing.T, file func(value string) string, refusals []refusal) {
	t.Helper()
	for _, r := range refusals {
		t.Run(r.value, func(t *testing.T) {
			sc, err := scenario.Parse("s.yaml", []byte(file(r.value)))
			var faults strictyaml.Faults
			if !errors.As(err, &faults) || sc != nil {
				t.Fatalf("Parse = %v, %v, want faults", sc, err)
			}
			var got []string
			for _, f := range faults {
				got = append(got, strings.TrimPrefix(f.String(), "s.yaml:"))
			}
			if strings.Join(got, "\n") != strings.Join(r.want, "\n") {
				t.Errorf("faults of\n%s\n got %s\nwant %s", file(r.value), strings.Join(got, "\n     "), strings.Join(r.want, "\n     "))
			}
		})
	}
}

func TestWrongTitles(t *testing.T) {
	requireRefusals(t, func(v string) string { return instead("title: t", v) }, []refusal{
		{"title: 12", []string{`1: title: "12" reads as something else than text: put it in quotes`}},
		{"title:", []string{"1: title: is empty: want a text"}},
		{"title: [a]", []string{"1: title: is a list: want a text"}},
		{`title: ""`, []string{"1: title: has 0 bytes: want 1 to 100"}},
		{`title: "a\bb"`, []string{`1: title: "a\bb" has a control character: remove it`}},
		{"title: " + strings.Repeat("x", 101), []string{"1: title: has 101 bytes: want 1 to 100"}},
	})
}

func TestWrongDurations(t *testing.T) {
	requireRefusals(t, func(v string) string { return instead("duration: 10s", v) }, []refusal{
		{"duration: 0s", []string{`3: duration: "0s" has no length: want 1s or more`}},
		{"duration: 10", []string{`3: duration: "10" has no unit: want 10s, 10m, 10h or 10d`}},
		{"duration: 25h", []string{`3: duration: "25h" is too long: want at most 1d`}},
		{"duration: -1s", []string{`3: duration: "-1s" is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s`}},
		{"duration:", []string{"3: duration: is empty: want a length of time such as 90s"}},
		{"duration: [1s]", []string{"3: duration: is a list: want a length of time such as 90s"}},
		{"duration: 1.5m", []string{`3: duration: "1.5m" is not understood: want 90s`}},
		{"duration: 1 minute", []string{`3: duration: "1 minute" is not understood: want 1m`}},
	})
}

func TestWrongFieldsAtTheTop(t *testing.T) {
	requireRefusals(t, func(v string) string { return least(v) }, []refusal{
		{"seed: -1", []string{`13: seed: "-1" is negative: want 0 or more`}},
		{"seed: 1.5", []string{`13: seed: "1.5" is not whole: want a whole number`}},
		{"shards: 0", []string{"13: shards: 0 is too small: want at least 1"}},
		{"shards: 65", []string{"13: shards: 65 is too large: want at most 64"}},
		{"mixed: yes", []string{`13: mixed: is "yes": want true or false`}},
		{"sed: 1", []string{"13: sed: is unknown: did you mean seed?"}},
		{"banana: 1", []string{"13: banana: is unknown: want one of title, lesson, seed, mixed, duration, shards, regions, brokers, links, store, policies, workload, faults, expect"}},
		{"store: 2ms", []string{`13: store: is "2ms": want the fields round-trip`}},
		{"store: {}", []string{"13: store.round-trip: is missing"}},
		{"store: {round-trip: {jitter: 1ms}}", []string{"13: store.round-trip.base: is missing"}},
		{"store: {round-trip: 11m}", []string{`13: store.round-trip: "11m" is too long: want at most 10m`}},
		{"links: [{between: [broker-1, broker-1], round-trip: 1s}]", []string{"13: links[0].between: names broker-1 twice: want two ends"}},
		{"brokers: []", []string{"13: brokers: is an empty list: want at least one broker"}},
		{"brokers: [{clock: {wall: 1s}}]", []string{"13: brokers[0].name: is missing"}},
		{"brokers: [{name: eu}]", []string{`13: brokers[0].name: "eu" is the name of regions[0] already, in line 5: want another`}},
		{"brokers: [{name: b}, {name: b}]", []string{`13: brokers[1].name: "b" is the name of brokers[0] already, in line 13: want another`}},
		{"brokers: [{name: b, clock: {slow: 51%}}]", []string{`13: brokers[0].clock.slow: is "51%": want 0% to 50%, in whole percent`}},
		{"brokers: [{name: b, clock: {fast: 1%}}]", []string{"13: brokers[0].clock.fast: a fast clock breaks the premise of the cap (contract C2): want slow"}},
		{"brokers: [{name: b, clock: {wall: soon}}]", []string{`13: brokers[0].clock.wall: "soon" is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s`}},
		{"brokers: [{name: b, clock: {wall: 367d}}]", []string{`13: brokers[0].clock.wall: "367d" is too long: want at most 366d`}},
		{"links: [{between: [eu, us], round-trip: 1s}]", []string{"13: links[0].between: eu and us send each other nothing: want brokers at one end"}},
		{"links: [{between: [eu], round-trip: 1s}]", []string{"13: links[0].between: names 1: want two ends, such as [eu, brokers]"}},
		{"links: [{between: eu, round-trip: 1s}]", []string{`13: links[0].between: is "eu": want two ends, such as [eu, brokers]`}},
		{"links: [{between: [eu, broker-3]}]", []string{`13: links[0].between[1]: "broker-3" is unknown: want one of eu, us, eu/1, broker-1, broker-2, brokers`, "13: links[0].round-trip: is missing"}},
		{"links: [{between: [eu, broker-1], round-trip: 1s}, {between: [broker-1, eu], round-trip: 2s}]", []string{"13: links[1]: broker-1 and eu have a link already, in line 13: remove one"}},
		{"links: [{between: [eu, store], round-trip: 1s}]", []string{"13: links[0].between: eu and store send each other nothing: want brokers at one end"}},
		{"links: [{between: [store, store], round-trip: 1s}]", []string{"13: links[0].between: names store twice: want two ends"}},
	})
}

func TestWrongRegions(t *testing.T) {
	requireRefusals(t, func(v string) string { return instead("{name: eu}", v) }, []refusal{
		{"{name: eu/1}", []string{`5: regions[0].name: "eu/1" has a /, which stands between a region and its limiter: remove it`}},
		{"{name: 1a}", []string{`5: regions[0].name: "1a" has other characters than names here: want a letter, then letters, digits, - _ and .`}},
		{"{name: 12}", []string{`5: regions[0].name: "12" reads as something else than a name: put it in quotes`}},
		{"{name: store}", []string{`5: regions[0].name: "store" has a meaning of its own: want another name`}},
		{"{name: total}", []string{`5: regions[0].name: "total" has a meaning of its own: want another name`}},
		{"{name: us}", []string{`6: regions[1].name: "us" is the name of regions[0] already, in line 5: want another`}},
		{"{name: broker-1}", []string{`5: regions[0].name: "broker-1" is the name of a broker, unless brokers are named: want another`}},
		{"{}", []string{"5: regions[0].name: is missing"}},
		{"eu", []string{`5: regions[0]: is "eu": want the fields name, limiters, journal, round-trip, wait, clock`}},
		{"{name: eu, limiters: 0}", []string{"5: regions[0].limiters: 0 is too small: want at least 1"}},
		{"{name: eu, limiters: 51}", []string{"5: regions[0].limiters: 51 is too large: want at most 50"}},
		{"{name: eu, limiters: 49}", []string{"5: regions: have 51 limiters in all: want at most 50"}},
		{"{name: eu, journal: blok}", []string{`5: regions[0].journal: is "blok": did you mean block?`}},
		{"{name: eu, journal: none}", []string{`5: regions[0].journal: is "none": want one of block, confirm, off`}},
		{"{name: eu, wait: 1}", []string{`5: regions[0].wait: "1" has no unit: want 1s, 1m, 1h or 1d`}},
		{"{name: eu, round-trip: 20}", []string{`5: regions[0].round-trip: "20" has no unit: want 20s, 20m, 20h or 20d`}},
		{"{name: eu, round-trip: [1s]}", []string{"5: regions[0].round-trip: is a list: want a length of time such as 90s"}},
		{"{name: eu, clock: {slow: -10%}}", []string{`5: regions[0].clock.slow: is "-10%": want 0% to 50%, in whole percent`}},
		{"{name: eu, clock: 3s}", []string{`5: regions[0].clock: is "3s": want the fields wall, slow`}},
	})
}

func TestWrongFiles(t *testing.T) {
	requireRefusals(t, func(v string) string { return v }, []refusal{
		{"", []string{"1: the file is empty: want a title, a lesson and a world"}},
		{"- a\n", []string{"1: is a list: want the fields title, lesson, seed, mixed, duration, shards, regions, brokers, links, store, policies, workload, faults, expect"}},
		{"title: t\nlesson: l\nmixed: true\nduration: 5s\nregions: []\n", []string{"4: duration: is drawn from the seed where mixed: true stands: remove one of them", "5: regions: is drawn from the seed where mixed: true stands: remove one of them"}},
		{instead("  - {name: eu}\n  - {name: us, limiters: 2}\n", ""), []string{"4: regions: is empty: want a list of regions"}},
		{instead("\n  - {name: eu}\n  - {name: us, limiters: 2}\n", " []\n"), []string{"4: regions: is an empty list: want at least one region"}},
		{instead("workload:\n  - operation: o\n    rate: 1 per 1s\n", ""), []string{"1: workload: is missing"}},
		{instead("operation: o\n    rate", "rate"), []string{"11: workload[0].operation: is missing"}},
		{instead("operation: o\n    rate", "operation: p\n    rate"), []string{`11: workload[0].operation: "p" has no policy at first: want o`}},
		{least("  - {operation: o, rate: 250000 per 1s}", "  - {operation: o, rate: 250000 per 1s}", "  - {operation: o, rate: 250000 per 1s}"), []string{"14: workload[2].rate: makes about 5000010 checks in all: want at most 5000000"}},
		{least("  - {operation: o, rate: 1 per 1s, accounts: 2000}", "  - {operation: q, rate: 1 per 1s, accounts: 1}"), []string{`14: workload[2].operation: "q" has no policy at first: want o`, "14: workload[2].accounts: makes 2001 budgets in all: want at most 2000"}},
		{strings.Replace(least("faults:", "  - {at: 1s, crash: eu, back: 1s, journal: kept}"), "{name: eu}", "{name: eu, journal: off}", 1), []string{"14: faults[0].journal: there is none in a region with journal: off: remove it"}},
	})
}

// TestOneFaultIsNotToldTwice: a name that could not be read is not missed wherever it is used.
func TestOneFaultIsNotToldTwice(t *testing.T) {
	requireRefusals(t, func(v string) string { return v }, []refusal{
		{strings.Replace(least("faults:", "  - {at: 1s, crash: eu}", "  - {at: 1s, cut: [eu, brokers]}"), "{name: eu}", "{nam: eu}", 1), []string{"5: regions[0].nam: is unknown: did you mean name?", "5: regions[0].name: is missing"}},
		{strings.Replace(least("faults:", "  - {at: 1s, policy: {operation: o, token-bucket: {capacity: 1}}}"), "operation: o\n    token", "oporation: o\n    token", 1), []string{"8: policies[0].oporation: is unknown: did you mean operation?", "8: policies[0].operation: is missing"}},
	})
}
