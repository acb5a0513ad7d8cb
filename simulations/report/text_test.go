package report

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func printed(t *testing.T, runs []Run, verbose bool) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, runs, verbose); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTextOfOneScenarioIsTheFullAccount(t *testing.T) {
	const want = `A region is lost, and comes back with its journal
file simulations/scenarios/lost-region.yaml, seed 7, hash 9f86d081884c7d65
40s simulated: 1,200 checks ask for 2,400 tokens, the cap is 840 tokens

                        tokenlease  oracle  independent  static  local-async  expiring-leases
admitted, tokens               760     800        2,000     600          800              800
of the cap                   90.5%   95.2%       238.1%   71.4%        95.2%            95.2%
worst excess, tokens             0       0           80       0           21               14
worst excess at                  -       -           2s       -          21s            33.5s
utilisation                  95.0%  100.0%       250.0%   75.0%       100.0%           100.0%
utilisation bound            98.8%       -            -       -            -                -
false denials                   13       0            0     400            0                0
exhausted (429)                110       0            0       0            0                0
unavailable (503)               40       0            0       0            0                0
syncs per check             0.0342       0            0       0            0                0
unknown credit for             10s      0s           0s      0s           0s               0s
unknown, token-seconds         123       0            0       0            0                0
recovery                     1.25s      0s           0s      0s           0s            never

ok      line 40: worst excess at most 0: 0
ok      line 41: recovery at most 2: 1.25

1 scenario, 1 ok, 0 FAILED; 12,345 events in 20ms, 617,250 events/s
`
	if diff := cmp.Diff(want, printed(t, []Run{invented(3, 40)}, false)); diff != "" {
		t.Error(diff)
	}
}

func TestTextOfManyScenariosIsATable(t *testing.T) {
	second := invented(2, 100)
	second.Scenario.File = `scenarios\worked-example.yml`
	second.Scenario.Title = "Another"
	second.Results = second.Results[:4] // without local-async and expiring-leases
	const want = `                                                          inde-          local-  expiring-
scenario        result  admitted  excess   used  bound  pendent  static   async     leases
lost-region         ok       760       0  95.0%  98.8%       80       0      21         14
worked-example      ok     1,900       0  95.0%  98.8%      200       0       -          -

admitted, excess, used (utilisation) and bound are those of tokenlease: tokens, tokens above the
cap in the worst interval, share of what the oracle admits, and what that share can be at the
most, min(1, B/(R*tau)). The columns after them are the worst excess of other strategies, tokens.

2 scenarios, 2 ok, 0 FAILED; 24,690 events in 40ms, 617,250 events/s
`
	got := printed(t, []Run{invented(3, 40), second}, false)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	verbose := printed(t, []Run{invented(3, 40), second}, true)
	if !strings.HasSuffix(verbose, got) {
		t.Error("the verbose summary does not end with the table")
	}
	for _, part := range []string{"A region is lost", "Another\n", "recovery"} {
		if !strings.Contains(verbose, part) {
			t.Errorf("the verbose summary has no %q", part)
		}
	}
}

func TestTextMovesColumnsTogetherWhereNamesAreLong(t *testing.T) {
	run := invented(3, 10_000)
	run.Scenario.File = "broker-fail-over-skewed-clocks.yaml"
	run.Findings[0].OK = false
	lines := strings.Split(printed(t, []Run{run, run}, false), "\n")
	var rows []string
	for _, line := range lines {
		if strings.HasPrefix(line, "broker-") {
			rows = append(rows, line)
		}
	}
	const want = "broker-fail-over-skewed-clocks FAILED  190,000      0 95.0% 98.8%  20,000      0  5,001     3,334"
	if diff := cmp.Diff([]string{want, want}, rows); diff != "" {
		t.Error(diff)
	}
}

func TestTextTellsFailuresInFull(t *testing.T) {
	unmet, broken := invented(3, 40), invented(3, 40)
	unmet.Findings[1].OK = false
	broken.Scenario.Title = "Broken"
	broken.Results[0].Broken = "over-admission: 3 tokens\n  replay: tokenlease simulate x.yaml --seed 7\x1b[2J\n"
	got := printed(t, []Run{invented(3, 40), unmet, broken}, false)
	for _, part := range []string{
		"FAILED  line 41: recovery at most 2: 1.25\n",
		"Broken\n",
		"FAILED: a rule was found broken\n  over-admission: 3 tokens\n  \"replay: tokenlease simulate x.yaml --seed 7\\x1b[2J\"\n",
		"3 scenarios, 1 ok, 2 FAILED;",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	if n := strings.Count(got, "worst excess at  "); n != 2 {
		t.Errorf("%d scenarios in full, want the 2 that failed", n)
	}
}

func TestTextHidesRareRowsAndShowsThem(t *testing.T) {
	run := invented(3, 40)
	for _, name := range []string{"refused for good", "not yet answered", "stopped shards"} {
		if strings.Contains(printed(t, []Run{run}, false), name) {
			t.Errorf("%s is shown though zero", name)
		}
	}
	run.Results[0].Stopped, run.Results[2].Refused, run.Results[3].Pending = 1, 2, 3
	for _, name := range []string{"refused for good", "not yet answered", "stopped shards"} {
		if !strings.Contains(printed(t, []Run{run}, false), name) {
			t.Errorf("%s is not shown", name)
		}
	}
}

func TestTextObeysNothing(t *testing.T) {
	run := invented(3, 40)
	run.Scenario.Title = "title\x1b[31m"
	run.Scenario.File = "a\tb\n.yaml"
	run.Findings[0].Text = "line 1\r\u202eok"
	got := printed(t, []Run{run, run}, true)
	for _, r := range got {
		if r != '\n' && (r < ' ' || r == '\u202e') {
			t.Fatalf("%q is in %q", r, got)
		}
	}
	if !strings.Contains(got, `"title\x1b[31m"`) {
		t.Error("the title is gone")
	}
}

func TestTextCutsNothing(t *testing.T) {
	run := invented(3, 1_000_000_000_000)
	got := printed(t, []Run{run, run}, true)
	for line := range strings.Lines(got) {
		if width := utf8.RuneCountInString(line) - 1; width > textWidth {
			t.Errorf("%d columns: %s", width, line)
		}
	}
	for _, r := range run.Results {
		for _, q := range shown(run) {
			if !strings.Contains(got, q.cell(r)) {
				t.Errorf("%s of %s, %s, is missing", q.name, r.Strategy, q.cell(r))
			}
		}
	}
}
