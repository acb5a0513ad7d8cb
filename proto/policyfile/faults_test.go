package policyfile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/proto/policyfile"
)

// TestCase32FieldsAndUnits: a fault is told with its line and its field.
func TestCase32FieldsAndUnits(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want []string
	}{
		{"unknown field", least("  costs: 5"), []string{"p.yaml:5: policies[0].costs: is unknown: did you mean cost?"}},
		{"unknown field with underscores", least("  max_cost: 5"), []string{"p.yaml:5: policies[0].max_cost: is unknown: did you mean max-cost?"}},
		{"unknown field that is like none", least("  banana: 5"), []string{
			"p.yaml:5: policies[0].banana: is unknown: want one of operation, token-bucket, fixed-window, rolling-window, concurrency, cost, max-cost, allow-zero-cost, max-share, hold, postpaid, shadow, disabled, disabled-because, max-staleness, reclaim, reclaim-margin, on-unavailable, local"}},
		{"unknown field in the rule", least("    refil: 1 per 1s"), []string{"p.yaml:5: policies[0].token-bucket.refil: is unknown: did you mean refill?"}},
		{"unknown field at the top", "version: 1\n" + least(), []string{"p.yaml:1: version: is unknown: want one of policies, plans, default-plan, accounts"}},
		{"two rules", least("  rolling-window:", "    limit: 3", "    window: 60s"), []string{
			"p.yaml:5: policies[0].rolling-window: is a second rule, beside token-bucket in line 3: want one"}},
		{"three rules, one of them wrong", ruled("concurrency:", "    slots: 3", "  token-bucket: {capacity: 1}", "  fixed-window: {limit: 3}"), []string{
			"p.yaml:5: policies[0].token-bucket: is a second rule, beside concurrency in line 3: want one",
			"p.yaml:6: policies[0].fixed-window.period: is missing",
			"p.yaml:6: policies[0].fixed-window: is a second rule, beside concurrency in line 3: want one"}},
		{"field twice", least("  cost: 1", "  cost: 2"), []string{"p.yaml:6: policies[0].cost: stands twice, first in line 5: remove one"}},
		{"policies twice", least() + least(), []string{"p.yaml:5: policies: stands twice, first in line 1: remove one"}},
		{"operation twice", least() + "- operation: o\n  token-bucket: {capacity: 1}\n", []string{
			`p.yaml:5: policies[1].operation: "o" has a policy already, in line 2: want one for each operation`}},
		{"no operation", "policies:\n- token-bucket: {capacity: 1}\n", []string{"p.yaml:2: policies[0].operation: is missing"}},
		{"no rule", "policies:\n- operation: o\n", []string{"p.yaml:2: policies[0]: has no rule: want one of token-bucket, fixed-window, rolling-window, concurrency"}},
		{"no capacity", "policies:\n- operation: o\n  token-bucket: {refill: 1 per 1s}\n", []string{"p.yaml:3: policies[0].token-bucket.capacity: is missing"}},
		{"empty rule", "policies:\n- operation: o\n  token-bucket:\n", []string{"p.yaml:3: policies[0].token-bucket: is empty: want the fields capacity, refill"}},
		{"rule is a number", "policies:\n- operation: o\n  token-bucket: 40\n", []string{`p.yaml:3: policies[0].token-bucket: is "40": want the fields capacity, refill`}},
		{"capacity too large", strings.Replace(least(), ": 4", ": 1000000000000000001", 1), []string{
			"p.yaml:4: policies[0].token-bucket.capacity: 1000000000000000001 is too large: want at most 1000000000000000000"}},
		{"empty operation", named(""), []string{"p.yaml:2: policies[0].operation: is empty: want a name such as report.create"}},
		{"operation is empty text", named(`""`), []string{"p.yaml:2: policies[0].operation: has 0 bytes: want 1 to 128"}},
		{"operation too long", named(strings.Repeat("o", 129)), []string{"p.yaml:2: policies[0].operation: has 129 bytes: want 1 to 128"}},
		{"operation is a number", named("12"), []string{`p.yaml:2: policies[0].operation: "12" reads as something else than a name: put it in quotes`}},
		{"operation with a line end", named(`"a\nb"`), []string{`p.yaml:2: policies[0].operation: "a\nb" has a control character: remove it`}},
		{"operation is a list", named("[a]"), []string{"p.yaml:2: policies[0].operation: is a list: want a name such as report.create"}},
		{"cost above max-cost", least("  max-cost: 4", "  cost: 5"), []string{"p.yaml:6: policies[0].cost: 5 is above max-cost, which is 4"}},
		{"cost 0", least("  cost: 0"), []string{"p.yaml:5: policies[0].cost: 0 needs allow-zero-cost: true, or want 1 or more"}},
		{"max-cost 0", least("  max-cost: 0"), []string{"p.yaml:5: policies[0].max-cost: 0 is not a limit: want 1 or more, or leave the field out"}},
		{"yes for true", least("  allow-zero-cost: yes"), []string{`p.yaml:5: policies[0].allow-zero-cost: is "yes": want true or false`}},
		{"true in quotes", least(`  allow-zero-cost: "true"`), []string{`p.yaml:5: policies[0].allow-zero-cost: is "true": want true or false`}},
		{"no boolean", least("  allow-zero-cost:"), []string{"p.yaml:5: policies[0].allow-zero-cost: is empty: want true or false"}},
		{"share without percent", least("  max-share: 50"), []string{`p.yaml:5: policies[0].max-share: is "50": want 1% to 100%, in whole percent`}},
		{"share 0", least("  max-share: 0%"), []string{`p.yaml:5: policies[0].max-share: is "0%": want 1% to 100%, in whole percent`}},
		{"share above 100", least("  max-share: 101%"), []string{`p.yaml:5: policies[0].max-share: is "101%": want 1% to 100%, in whole percent`}},
		{"share with a fraction", least("  max-share: 0.5%"), []string{`p.yaml:5: policies[0].max-share: is "0.5%": want 1% to 100%, in whole percent`}},
		{"share with a sign", least("  max-share: +5%"), []string{`p.yaml:5: policies[0].max-share: is "+5%": want 1% to 100%, in whole percent`}},
		{"deadline alone", least("  reclaim: deadline"), []string{
			"p.yaml:5: policies[0].reclaim: deadline needs to know when limiters stop: want the field max-staleness, such as max-staleness: 30s"}},
		{"deadline without max-staleness", least("  reclaim-margin: 15s", "  reclaim: deadline"), []string{
			"p.yaml:6: policies[0].reclaim: deadline needs to know when limiters stop: want the field max-staleness, such as max-staleness: 30s"}},
		{"deadline without a margin", least("  max-staleness: 30s", "  reclaim: deadline"), []string{
			"p.yaml:6: policies[0].reclaim: deadline needs a margin for slow clocks and pauses: want the field reclaim-margin, such as reclaim-margin: 15s"}},
		{"margin alone", least("  reclaim-margin: 15s"), []string{"p.yaml:5: policies[0].reclaim-margin: is out of use: want reclaim: deadline, or remove it"}},
		{"margin with proof", least("  reclaim: proof", "  max-staleness: 30s", "  reclaim-margin: 15s"), []string{
			"p.yaml:7: policies[0].reclaim-margin: is out of use: want reclaim: deadline, or remove it"}},
		{"deadline for slots", ruled("concurrency: {slots: 3}", "  max-staleness: 30s", "  reclaim: deadline", "  reclaim-margin: 15s"), []string{
			"p.yaml:5: policies[0].reclaim: no deadline ends the work that holds a slot: want proof"}},
		{"deadline with postpaid", least("  postpaid: true", "  max-staleness: 30s", "  reclaim: deadline", "  reclaim-margin: 15s"), []string{
			"p.yaml:7: policies[0].reclaim: with a deadline what a silent limiter owes is lost: want proof, or no postpaid"}},
		{"proof in capitals", least("  reclaim: Proof"), []string{`p.yaml:5: policies[0].reclaim: is "Proof": did you mean proof?`}},
		{"reclaim by lease", least("  reclaim: lease"), []string{`p.yaml:5: policies[0].reclaim: is "lease": want one of proof, deadline`}},
		{"a deadline that is misspelled", least("  max-staleness: 30s", "  reclaim: deadine", "  reclaim-margin: 15s"), []string{
			`p.yaml:6: policies[0].reclaim: is "deadine": did you mean deadline?`}},
		{"reclaim is empty", least("  reclaim:"), []string{"p.yaml:5: policies[0].reclaim: is empty: want one of proof, deadline"}},
		{"deadline in one field", least("  reclaim: {deadline: 30s}"), []string{"p.yaml:5: policies[0].reclaim: is a group of fields: want one of proof, deadline"}},
		{"max-staleness with an underscore", least("  max_staleness: 30s"), []string{"p.yaml:5: policies[0].max_staleness: is unknown: did you mean max-staleness?"}},
		{"margin of another name", least("  reclaim-margins: 15s"), []string{"p.yaml:5: policies[0].reclaim-margins: is unknown: did you mean reclaim-margin?"}},
		{"local without numbers", least("  on-unavailable: local"), []string{
			"p.yaml:5: policies[0].on-unavailable: local needs its numbers: want the field local, such as local: {capacity: 5, refill: 1 per 1s, for: 10m}"}},
		{"local and reject", least("  on-unavailable: reject", "  local:", "    capacity: 1", "    for: 1m"), []string{
			"p.yaml:6: policies[0].local: is out of use: want on-unavailable: local, or remove it"}},
		{"local alone", least("  local: {capacity: 1, for: 1m}"), []string{"p.yaml:5: policies[0].local: is out of use: want on-unavailable: local, or remove it"}},
		{"local is a number", least("  on-unavailable: local", "  local: 5"), []string{`p.yaml:6: policies[0].local: is "5": want the fields capacity, refill, for`}},
		{"local with nothing", least("  on-unavailable: local", "  local: {}"), []string{
			"p.yaml:6: policies[0].local.capacity: is missing", "p.yaml:6: policies[0].local.for: is missing"}},
		{"local of nothing", least("  on-unavailable: local", "  local: {capacity: 0, for: 0s}"), []string{
			"p.yaml:6: policies[0].local.capacity: 0 is too small: want at least 1",
			`p.yaml:6: policies[0].local.for: "0s" has no length: want 1s or more`}},
		{"local for too long", least("  on-unavailable: local", "  local: {capacity: 1, for: 367d, fro: 1}"), []string{
			`p.yaml:6: policies[0].local.for: "367d" is too long: want at most 366d`,
			"p.yaml:6: policies[0].local.fro: is unknown: did you mean for?"}},
		{"allow when unavailable", least("  on-unavailable: allow"), []string{`p.yaml:5: policies[0].on-unavailable: is "allow": want one of reject, local`}},
		{"locally when unavailable", least("  on-unavailable: locl"), []string{`p.yaml:5: policies[0].on-unavailable: is "locl": did you mean local?`}},
		{"window without its numbers", ruled("fixed-window: {}"), []string{
			"p.yaml:3: policies[0].fixed-window.limit: is missing", "p.yaml:3: policies[0].fixed-window.period: is missing"}},
		{"limit too large", ruled("fixed-window: {limit: 1000000000000000001, period: day}"), []string{
			"p.yaml:3: policies[0].fixed-window.limit: 1000000000000000001 is too large: want at most 1000000000000000000"}},
		{"adverb for a period", ruled("fixed-window: {limit: 3, period: daily}"), []string{`p.yaml:3: policies[0].fixed-window.period: is "daily": did you mean day?`}},
		{"unknown period", ruled("fixed-window: {limit: 3, period: quarter}"), []string{
			`p.yaml:3: policies[0].fixed-window.period: is "quarter": want one of minute, hour, day, week, month`}},
		{"length for a period", ruled("fixed-window: {limit: 3, period: 1h}"), []string{
			`p.yaml:3: policies[0].fixed-window.period: is "1h": want one of minute, hour, day, week, month`}},
		{"empty period", ruled("fixed-window:", "    limit: 3", "    period:"), []string{
			`p.yaml:5: policies[0].fixed-window.period: is empty: want one of minute, hour, day, week, month`}},
		{"unknown time zone", ruled("fixed-window: {limit: 3, period: day, time-zone: Europe/Bonn}"), []string{
			`p.yaml:3: policies[0].fixed-window.time-zone: "Europe/Bonn" is no time zone: want a name such as Europe/Berlin, or UTC`}},
		{"time zone in lower case", ruled("fixed-window: {limit: 3, period: day, time-zone: america/new_york}"), []string{
			`p.yaml:3: policies[0].fixed-window.time-zone: "america/new_york" is no time zone: did you mean America/New_York?`}},
		{"time zone with blanks", ruled("fixed-window: {limit: 3, period: day, time-zone: America/New York}"), []string{
			`p.yaml:3: policies[0].fixed-window.time-zone: "America/New York" is no time zone: did you mean America/New_York?`}},
		{"abbreviation in lower case", ruled("fixed-window: {limit: 3, period: day, time-zone: utc}"), []string{
			`p.yaml:3: policies[0].fixed-window.time-zone: "utc" is no time zone: did you mean UTC?`}},
		{"the machine's time zone", ruled("fixed-window: {limit: 3, period: day, time-zone: Local}"), []string{
			`p.yaml:3: policies[0].fixed-window.time-zone: Local is another zone on another machine: want a name such as Europe/Berlin`}},
		{"a file for a time zone", ruled("fixed-window: {limit: 3, period: day, time-zone: ../zoneinfo/UTC}"), []string{
			`p.yaml:3: policies[0].fixed-window.time-zone: "../zoneinfo/UTC" is no time zone: want a name such as Europe/Berlin, or UTC`}},
		{"an offset for a time zone", ruled("fixed-window: {limit: 3, period: day, time-zone: 2}"), []string{
			`p.yaml:3: policies[0].fixed-window.time-zone: "2" reads as something else than a name: put it in quotes`}},
		{"empty time zone", ruled("fixed-window:", "    limit: 3", "    period: day", "    time-zone:"), []string{
			"p.yaml:6: policies[0].fixed-window.time-zone: is empty: want a name such as Europe/Berlin"}},
		{"time zone is empty text", ruled(`fixed-window: {limit: 3, period: day, time-zone: ""}`), []string{
			"p.yaml:3: policies[0].fixed-window.time-zone: has 0 bytes: want 1 to 64"}},
		{"zone for time-zone", ruled("fixed-window: {limit: 3, period: day, timezone: UTC}"), []string{
			"p.yaml:3: policies[0].fixed-window.timezone: is unknown: did you mean time-zone?"}},
		{"no window", ruled("rolling-window: {limit: 3}"), []string{"p.yaml:3: policies[0].rolling-window.window: is missing"}},
		{"window 0", ruled("rolling-window: {limit: 3, window: 0s}"), []string{`p.yaml:3: policies[0].rolling-window.window: "0s" has no length: want 1s or more`}},
		{"window without a unit", ruled("rolling-window: {limit: 3, window: 60}"), []string{
			`p.yaml:3: policies[0].rolling-window.window: "60" has no unit: want 60s, 60m, 60h or 60d`}},
		{"window too short", ruled("rolling-window: {limit: 3, window: 999us}"), []string{
			`p.yaml:3: policies[0].rolling-window.window: "999us" is too short: want at least 1ms`}},
		{"window too long", ruled("rolling-window: {limit: 3, window: 367d}"), []string{
			`p.yaml:3: policies[0].rolling-window.window: "367d" is too long: want at most 366d`}},
		{"window of a broken length", ruled("rolling-window: {limit: 3, window: 1.5m}"), []string{
			`p.yaml:3: policies[0].rolling-window.window: "1.5m" is not understood: want 90s`}},
		{"empty window", ruled("rolling-window:", "    limit: 3", "    window:"), []string{
			"p.yaml:5: policies[0].rolling-window.window: is empty: want a length of time such as 90s"}},
		{"capacity of a window", ruled("rolling-window: {capacity: 3, window: 1m}"), []string{
			"p.yaml:3: policies[0].rolling-window.capacity: is unknown: want one of limit, window",
			"p.yaml:3: policies[0].rolling-window.limit: is missing"}},
		{"slots without a group", ruled("concurrency: 10"), []string{`p.yaml:3: policies[0].concurrency: is "10": want the fields slots`}},
		{"no slots", ruled("concurrency: {}"), []string{"p.yaml:3: policies[0].concurrency.slots: is missing"}},
		{"slots with a refill", ruled("concurrency: {slots: 3, refill: 1 per 1s}"), []string{
			"p.yaml:3: policies[0].concurrency.refill: is unknown: want one of slots"}},
		{"too many slots", ruled("concurrency: {slots: 1000000000000000001}"), []string{
			"p.yaml:3: policies[0].concurrency.slots: 1000000000000000001 is too large: want at most 1000000000000000000"}},
		{"slots that are postpaid", ruled("concurrency:", "    slots: 1", "  postpaid: true"), []string{
			"p.yaml:5: policies[0].postpaid: slots cannot be postpaid: remove it"}},
		{"hold 0", least("  hold: 0s"), []string{`p.yaml:5: policies[0].hold: "0s" has no length: want 1s or more`}},
		{"hold too short", least("  hold: 1us"), []string{`p.yaml:5: policies[0].hold: "1us" is too short: want at least 1ms`}},
		{"hold too long", least("  hold: 9999h"), []string{`p.yaml:5: policies[0].hold: "9999h" is too long: want at most 366d`}},
		{"postpaid by yes", least("  postpaid: yes"), []string{`p.yaml:5: policies[0].postpaid: is "yes": want true or false`}},
		{"shadow by 1", least("  shadow: 1"), []string{`p.yaml:5: policies[0].shadow: is "1": want true or false`}},
		{"disabled by nothing", least("  disabled:"), []string{"p.yaml:5: policies[0].disabled: is empty: want true or false"}},
		{"a reason alone", least("  disabled-because: abuse"), []string{
			"p.yaml:5: policies[0].disabled-because: the operation is not disabled: want disabled: true, or remove it"}},
		{"a reason and not disabled", least("  disabled-because: >", "    abuse", "  disabled: false"), []string{
			"p.yaml:5: policies[0].disabled-because: the operation is not disabled: want disabled: true, or remove it"}},
		{"a reason of blanks", least("  disabled: true", `  disabled-because: "  "`), []string{"p.yaml:6: policies[0].disabled-because: has 0 bytes: want 1 to 1024"}},
		{"a reason that is too long", least("  disabled: true", "  disabled-because: "+strings.Repeat("b", 1025)), []string{
			"p.yaml:6: policies[0].disabled-because: has 1025 bytes: want 1 to 1024"}},
		{"a reason that is a date", least("  disabled: true", "  disabled-because: 2026-01-01"), []string{
			`p.yaml:6: policies[0].disabled-because: "2026-01-01" reads as something else than text: put it in quotes`}},
		{"slots with a local allowance", ruled("concurrency: {slots: 1}", "  on-unavailable: local", "  local: {capacity: 1, for: 1m}"), []string{
			"p.yaml:5: policies[0].local: slots have no local allowance, which is spent: remove it, and want on-unavailable: reject"}},
		{"contradictions are told together", ruled("concurrency: {slots: 1}", "  cost: 0", "  postpaid: true", "  disabled-because: abuse", "  on-unavailable: local"), []string{
			"p.yaml:4: policies[0].cost: 0 needs allow-zero-cost: true, or want 1 or more",
			"p.yaml:5: policies[0].postpaid: slots cannot be postpaid: remove it",
			"p.yaml:6: policies[0].disabled-because: the operation is not disabled: want disabled: true, or remove it",
			"p.yaml:7: policies[0].on-unavailable: local needs its numbers: want the field local, such as local: {capacity: 5, refill: 1 per 1s, for: 10m}"}},
		{"policy is a name", "policies:\n- o\n", []string{
			`p.yaml:2: policies[0]: is "o": want the fields operation, token-bucket, fixed-window, rolling-window, concurrency, cost, max-cost, allow-zero-cost, max-share, hold, postpaid, shadow, disabled, disabled-because, max-staleness, reclaim, reclaim-margin, on-unavailable, local`}},
		{"policies are a group", "policies:\n  operation: o\n", []string{"p.yaml:2: policies: is a group of fields: want a list of policies"}},
		{"policies are empty", "policies:\n", []string{"p.yaml:1: policies: is empty: want a list of policies"}},
		{"no policies", "policies: []\n", []string{"p.yaml:1: policies: is an empty list: want at least one policy"}},
		{"the name of a field is a list", "[a]: b\n" + least(), []string{"p.yaml:1: the name of a field is a list: want one of policies, plans, default-plan, accounts"}},
		{"all faults at once", "policies:\n- operation: 1\n  token-bucket:\n    capacity: 1.5\n    refill: 20/s\n  cots: 1\n- cost: 010\n", []string{
			`p.yaml:2: policies[0].operation: "1" reads as something else than a name: put it in quotes`,
			`p.yaml:4: policies[0].token-bucket.capacity: "1.5" is not whole: want a whole number of tokens`,
			`p.yaml:5: policies[0].token-bucket.refill: "20/s" is not a refill: want 20 per 1s`,
			`p.yaml:6: policies[0].cots: is unknown: did you mean cost?`,
			`p.yaml:7: policies[1].cost: "010" begins with a 0, which may be read as octal: want 10`,
			`p.yaml:7: policies[1].operation: is missing`,
			`p.yaml:7: policies[1]: has no rule: want one of token-bucket, fixed-window, rolling-window, concurrency`,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { requireFaults(t, test.in, test.want...) })
	}
}

func TestCase47WholeFilesAreRefused(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want []string
	}{
		{"nothing", "", []string{"p.yaml:1: the file is empty: want policies, plans or accounts"}},
		{"comments alone", "# nothing\n", []string{"p.yaml:1: the file is empty: want policies, plans or accounts"}},
		{"an empty document", "---\n", []string{"p.yaml:2: is empty: want the fields policies, plans, default-plan, accounts"}},
		{"a list at the top", "- operation: o\n", []string{"p.yaml:1: is a list: want the fields policies, plans, default-plan, accounts"}},
		{"a word", "policies\n", []string{`p.yaml:1: is "policies": want the fields policies, plans, default-plan, accounts`}},
		{"a second document", least() + "---\n" + least(), []string{"p.yaml:5: a second document begins here: want one document in a file"}},
		{"a second document that is empty", least() + "---\n", []string{"p.yaml:5: a second document begins here: want one document in a file"}},
		{"a wrong second document", least() + "---\n[", []string{"p.yaml:6: this is not YAML, here or just below: did not find expected node content"}},
		{"tabs", "policies:\n\t- operation: o\n", []string{"p.yaml:2: the indentation has a tab: YAML indents with spaces"}},
		{"an open quote", "policies:\n- operation: \"o\n", []string{"p.yaml:2: this is not YAML, here or just below: found unexpected end of stream"}},
		{"wrong indentation", "policies:\n- operation: o\n token-bucket:\n", []string{"p.yaml:2: this is not YAML, here or just below: did not find expected key"}},
		{"an anchor and an alias", strings.Replace(least(), ": 4", ": &a 4", 1) + "  cost: *a\n", []string{
			`p.yaml:4: policies[0].token-bucket.capacity: the anchor "&a" is not allowed: write the value wherever it is needed`,
			`p.yaml:5: policies[0].cost: the alias "*a" is not allowed: write the value itself`,
		}},
		{"a merge", least("  <<: {cost: 5}"), []string{`p.yaml:5: policies[0]."<<": merging is not allowed: write the fields out`}},
		{"a tag", least("  cost: !!int 5"), []string{`p.yaml:5: policies[0].cost: the tag "!!int" is not allowed: write the value alone`}},
		{"an unknown alias", least("  cost: *a"), []string{"p.yaml:1: this is not YAML, here or just below: unknown anchor 'a' referenced"}},
		{"not UTF-8", "policies:\n- operation: \xff\n", []string{"p.yaml:2: the line is not UTF-8: save the file as UTF-8"}},
		{"UTF-16", "\xff\xfep\x00", []string{"p.yaml:1: the line is not UTF-8: save the file as UTF-8"}},
		{"a control character", "policies:\n- operation: a\x00b\n", []string{"p.yaml:2: the line has a control character: remove it"}},
		{"too large", strings.Repeat("#", policyfile.MaxFileBytes+1), []string{"p.yaml:1: the file has 1048577 bytes: at most 1048576 are read"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { requireFaults(t, test.in, test.want...) })
	}
}

func TestLongValuesAreNotRepeated(t *testing.T) {
	long := strings.Repeat("é", 5000)
	files := []string{
		least("  cost: " + long),
		least("  " + long + ": 5"),
		least("  reclaim: " + long),
		least("    refill: " + long),
		least("  cost: &" + strings.Repeat("a", 5000) + " 1"),
		named(long),
	}
	for _, file := range files {
		_, err := policyfile.Parse("p.yaml", []byte(file))
		if err == nil || len(err.Error()) > 400 {
			t.Errorf("the error is missing or has more than 400 bytes: %.500v", err)
		}
	}
}

func TestFortyBytesAreQuotedWhole(t *testing.T) {
	whole := strings.Repeat("x", 40)
	requireFaults(t, least("  reclaim: "+whole), `p.yaml:5: policies[0].reclaim: is "`+whole+`": want one of proof, deadline`)
	requireFaults(t, least("  reclaim: "+whole+"x"), `p.yaml:5: policies[0].reclaim: is "`+whole+`"...: want one of proof, deadline`)
}

func TestFiftyFaultsAreAllShown(t *testing.T) {
	_, err := policyfile.Parse("p.yaml", []byte("policies:\n"+strings.Repeat("- 1\n", 50)))
	if err == nil || strings.Count(err.Error(), "\n") != 49 {
		t.Errorf("the text has not 50 lines: %v", err)
	}
}

func TestManyFaultsAreCounted(t *testing.T) {
	_, err := policyfile.Parse("p.yaml", []byte("policies:\n"+strings.Repeat("- operation: o\n  token-bucket: {capacity: -1}\n", 60)))
	var faults policyfile.Faults
	if !errors.As(err, &faults) || len(faults) != 119 {
		t.Fatalf("found %d faults, want 119", len(faults))
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 51 || lines[50] != "p.yaml: and 69 more" {
		t.Errorf("the text has %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}
