package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// lapsingPolicy writes a policy of a fixed quota of 1000 that reclaims by deadline, as
// soon as a policy may.
func lapsingPolicy(t *testing.T) string {
	t.Helper()
	file := policyFile(t, 1000, "0", 5)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "    max-staleness: 5s\n    reclaim: deadline\n    reclaim-margin: 1s\n"...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// answered runs a command of the program, and reads what it prints as JSON.
func answered[Message proto.Message](t *testing.T, answer Message, args ...string) Message {
	t.Helper()
	out, code := tokenlease(t, append(args, "-o", "json")...)
	if code != exitYes {
		t.Fatalf("%v ended with %d: %s", args, code, out)
	}
	if err := protojson.Unmarshal([]byte(out), answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// grantsOf are the grants that are out, by region.
func grantsOf(t *testing.T, broker string) map[string]*tokenleasev1.Grant {
	t.Helper()
	out := map[string]*tokenleasev1.Grant{}
	for _, g := range answered(t, &tokenleasev1.ListGrantsResponse{}, "grants", "list", "--broker", broker).GetGrants() {
		out[g.GetHolder().GetRegion()] = g
	}
	return out
}

// TestEndToEndSilentLimitersLapse: under reclaim: deadline, what a limiter holds that was
// killed, or stands still, counts as spent without anybody's word. One that goes on again
// spends none of it.
func TestEndToEndSilentLimitersLapse(t *testing.T) {
	broker := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "4")
	apply(t, broker.url, lapsingPolicy(t))
	limiters, journal := map[string]*process{}, t.TempDir()
	for _, region := range []string{"eu", "us", "ap"} {
		limiters[region] = launch(t, freeAddress(t), limiterArgs(broker.url, region, filepath.Join(journal, region))...)
	}
	spent := int64(0)
	hold := func() (held map[string]*tokenleasev1.Grant) {
		for _, region := range []string{"eu", "us"} {
			eventually(t, region+" holds more than it has spent", func() bool {
				got := ask1(t, limiters[region].url).check("acme")
				if got.GetAllowed() {
					spent += 5
				}
				return got.GetAllowed() && got.GetRemainingTokens() >= 5
			})
		}
		return grantsOf(t, broker.url)
	}
	requireSeen(t, broker.url, hold()["eu"].GetGrantId())
	held := hold() // once more, since what nobody uses is handed back
	for _, region := range []string{"eu", "us"} {
		if g := held[region]; g.GetOutstandingTokens() < 5 || g.GetLapsesAfterNs() != 6e9 {
			t.Fatalf("%s has %v", region, g)
		}
	}
	limiters["eu"].kill(syscall.SIGKILL)
	if err := limiters["us"].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	spent += ask1(t, limiters["ap"].url).drain("acme", 5) // all that nobody else has
	eventually(t, "the grants of the silent ones lapse", func() bool {
		now := grantsOf(t, broker.url)
		return now["eu"] == nil && now["us"] == nil
	})
	requireLapsed(t, broker.url, held)

	if err := limiters["us"].cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	us := ask1(t, limiters["us"].url)
	if got := us.check("acme"); got.GetAllowed() || got.GetRemainingTokens() != 0 {
		t.Errorf("the limiter that stood still spends what has lapsed: %v", got)
	}
	spent += us.drain("acme", 5)
	eu := launch(t, freeAddress(t), limiterArgs(broker.url, "eu", filepath.Join(journal, "eu"))...)
	spent += ask1(t, eu.url).drain("acme", 5) // whose journal proves what has ended without it
	if spent > 1000 {
		t.Errorf("%d spent of 1000", spent)
	}
	if got := ask1(t, limiters["ap"].url).check("acme"); got.GetAllowed() {
		t.Errorf("what has lapsed is spent again: %v", got)
	}
	verified(t, broker.url)
}

// requireSeen wants every view of the budget and its grant to say what silence does.
func requireSeen(t *testing.T, broker, grant string) {
	t.Helper()
	for _, view := range []struct{ command, part string }{
		{"grants show " + grant, " 6s "},
		{"grants list", " 6s "},
		{"budgets list", "by clocks"},
		{"budgets show acme op", "deadline after 6s"},
		{"policy list", "deadline after 6s"},
		{"policy show op", "6s after a limiter's newest request about a budget"},
	} {
		if out, code := tokenlease(t, append(strings.Fields(view.command), "--broker", broker)...); code != exitYes || !strings.Contains(out, view.part) {
			t.Errorf("%s ended with %d and does not say %q:\n%s", view.command, code, view.part, out)
		}
	}
}

// requireLapsed wants the grants to have ended as spent, and to be explained.
func requireLapsed(t *testing.T, broker string, held map[string]*tokenleasev1.Grant) {
	t.Helper()
	b := answered(t, &tokenleasev1.ShowBudgetResponse{}, "budgets", "show", "acme", "op", "--broker", broker).GetBudget()
	if b.GetAvailableTokens() != 0 || b.GetOrphanedTokens() != 0 {
		t.Errorf("what has lapsed is not spent: %v", b)
	}
	for region, g := range held {
		out, code := tokenlease(t, "grants", "explain", g.GetGrantId(), "--broker", broker)
		if code != exitYes || !strings.Contains(out, " ended ") || !strings.Contains(out, " lapsed ") {
			t.Errorf("explain of %s ended with %d: %s", region, code, out)
		}
	}
}
