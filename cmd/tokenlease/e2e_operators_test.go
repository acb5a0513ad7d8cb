package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

// lines are those of an output, without its heading.
func lines(out string) []string {
	all := strings.Split(strings.TrimSpace(out), "\n")
	return all[1:]
}

// TestEndToEndRetireALostLimiter is case 53, on the real program: a limiter is
// killed with credit, and its operator knows that it will never come back.
func TestEndToEndRetireALostLimiter(t *testing.T) {
	broker := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "4")
	apply(t, broker.url, policyFile(t, 100, "0", 5))
	journal, address := t.TempDir(), freeAddress(t)
	eu := launch(t, address, limiterArgs(broker.url, "eu", journal)...)
	if !ask1(t, eu.url).check("acme").GetAllowed() {
		t.Fatal("denied")
	}
	eu.kill(syscall.SIGKILL)
	reserved, _ := verified(t, broker.url)
	if reserved == 0 {
		t.Fatal("nothing stays reserved for the killed limiter")
	}
	out, _ := tokenlease(t, "grants", "list", "--holder", "eu/l0", "--broker", broker.url)
	id, _, _ := strings.Cut(lines(out)[0], " ")
	retire := []string{"holders", "retire", "eu/l0", "--by", "ann", "--because", "the machine was scrapped", "--broker", broker.url}

	// It was heard a moment ago: not without force. And nobody is asked here.
	if out, code := tokenlease(t, retire...); code != exitUsage {
		t.Errorf("without --yes: %d, %s", code, out)
	}
	if out, code := tokenlease(t, append(retire, "--yes")...); code != exitRefused {
		t.Errorf("without --force: %d, %s", code, out)
	}
	if still, _ := verified(t, broker.url); still != reserved {
		t.Errorf("%d are reserved after refusals, %d before", still, reserved)
	}
	if out, code := tokenlease(t, append(retire, "--yes", "--force")...); code != exitYes || !strings.Contains(out, id) {
		t.Fatalf("retire ended with %d: %s", code, out)
	}
	if reserved, orphaned := verified(t, broker.url); reserved != 0 || orphaned != 0 {
		t.Errorf("%d reserved and %d orphaned after it", reserved, orphaned)
	}
	if out, code := tokenlease(t, append(retire, "--yes", "--force")...); code != exitYes {
		t.Errorf("once more: %d, %s", code, out)
	}
	requireRetirementRecorded(t, broker.url, id)

	// What it may have spent counts as spent, for whoever asks; and if it does come
	// back, its account is of grants that have ended.
	eu = launch(t, address, limiterArgs(broker.url, "eu", journal)...)
	us := launch(t, freeAddress(t), limiterArgs(broker.url, "us", t.TempDir())...)
	left := ask1(t, us.url).drain("acme", 5) + ask1(t, eu.url).drain("acme", 5)
	if left > 100-reserved { // what was spent was in it, or reported before
		t.Errorf("%d were left of 100, of which %d were attested", left, reserved)
	}
	verified(t, broker.url)
}

// requireRetirementRecorded wants the audit, the grant's story and the doctor to say
// what has happened.
func requireRetirementRecorded(t *testing.T, broker, id string) {
	t.Helper()
	out, _ := tokenlease(t, "audit", "export", "--action", "holders.retire", "--broker", broker)
	var entry auditRecord
	first, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(first), &entry); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !entry.Forced || entry.By != "ann" || entry.Because != "the machine was scrapped" || entry.Subject != "eu/l0" {
		t.Errorf("the audit has %+v", entry)
	}
	out, code := tokenlease(t, "grants", "explain", id, "--broker", broker)
	if code != exitYes || !strings.Contains(out, " ended ") || !strings.Contains(out, "the machine was scrapped") {
		t.Errorf("explain ended with %d: %s", code, out)
	}
	if out, code := tokenlease(t, "doctor", "--broker", broker); code != exitYes {
		t.Errorf("the doctor ends with %d: %s", code, out)
	}
}

// TestEndToEndOperatorsLook runs every command that only looks, against the real
// broker: what it answers has to fit what is asked.
func TestEndToEndOperatorsLook(t *testing.T) {
	broker := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "4")
	apply(t, broker.url, policyFile(t, 100, "10 per 1s", 5))
	eu := launch(t, freeAddress(t), limiterArgs(broker.url, "eu", t.TempDir())...)
	if !ask1(t, eu.url).check("acme").GetAllowed() {
		t.Fatal("denied")
	}
	for _, test := range []struct{ command, part string }{
		{"top --once", "acme"}, // while the budget is in use: idle ones leave memory
		{"budgets list --search ACM", "acme"},
		{"budgets show acme op", "cap          100"},
		{"grants list --id g1 --older-than 0s --limit 1", "eu/l0"},
		{"grants show g1", "eu/l0"},
		{"grants explain g1", "opened"},
		{"holders list --region eu", "eu/l0"},
		{"holders show eu/l0", "g1-"},
		{"holders retire eu/l0 --dry-run", "ATTESTED"},
		{"shards list", "http://127.0.0.1:"},
		{"audit list --since 1h", "policies.apply"},
		{"doctor", "all 4 have an owner"},
	} {
		out, code := tokenlease(t, append(strings.Fields(test.command), "--broker", broker.url)...)
		if code != exitYes || !strings.Contains(out, test.part) {
			t.Errorf("%s ended with %d and does not say %q:\n%s", test.command, code, test.part, out)
		}
	}
	out, code := tokenlease(t, "support-bundle", "-", "--broker", broker.url)
	if code != exitYes {
		t.Fatalf("support-bundle ended with %d", code)
	}
	files := unpacked(t, []byte(out))
	if files["problems.txt"] != "" || !strings.Contains(files["metrics.txt"], "tokenlease_broker_") || strings.Contains(files["budgets.json"], "acme") {
		t.Errorf("the bundle has %s, %.200s, %.200s", files["problems.txt"], files["metrics.txt"], files["budgets.json"])
	}
}

// TestCase52GrantsListIsForGrep is case 52: whatever the terminal is said to be, IDs
// are whole and plain.
func TestCase52GrantsListIsForGrep(t *testing.T) {
	clearSettings(t)
	t.Setenv("COLUMNS", "20")
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("CLICOLOR_FORCE", "1")
	server := serveFake()
	t.Cleanup(server.Close)
	p, stdout, stderr := newProgram()
	if code := p.run(t.Context(), []string{"grants", "list", "--broker", server.URL}); code != exitYes || stderr.Len() > 0 {
		t.Fatalf("%d, %s", code, stderr)
	}
	for i, g := range new(fake).grants() {
		line := lines(stdout.String())[i]
		if first, _, _ := strings.Cut(line, " "); first != g.GetGrantId() {
			t.Errorf("line %d has the ID %q, want %q", i, first, g.GetGrantId())
		}
	}
	if strings.ContainsAny(stdout.String(), "\x1b\r…") {
		t.Errorf("there is more than text: %q", stdout)
	}
}
