package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestCase45EndToEnd reserves and settles with the program's own commands: nothing is
// held by what is denied, and what is below a reservation is free again.
func TestCase45EndToEnd(t *testing.T) {
	broker := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "1")
	apply(t, broker.url, policyFile(t, 100, "0", 1))
	eu := launch(t, freeAddress(t), limiterArgs(broker.url, "eu", t.TempDir())...)
	run := func(want int, args ...string) string {
		t.Helper()
		out, code := tokenlease(t, append(args, "--limiter", eu.url)...)
		if code != want {
			t.Fatalf("%v ended with %d, want %d: %s", args, code, want, out)
		}
		return out
	}

	run(exitNo, "reserve", "acme", "op", "--cost", "900")
	var reserved struct {
		ID string `json:"reservation_id"`
	}
	if err := json.Unmarshal([]byte(run(exitYes, "reserve", "acme", "op", "--cost", "50", "-o", "json")), &reserved); err != nil {
		t.Fatal(err)
	}
	run(exitNo, "settle", "acme", "op", reserved.ID, "--cost", "60")
	if out := run(exitYes, "settle", "acme", "op", reserved.ID, "--cost", "30"); !strings.Contains(out, "\nyes       20 ") {
		t.Errorf("settled: %s", out)
	}
	run(exitYes, "settle", "acme", "op", reserved.ID, "--cost", "30") // again, which changes nothing

	// 70 are left, and no more. A repeated decision spends nothing.
	run(exitYes, "check", "acme", "op", "--cost", "69", "--decision-id", "d")
	if out := run(exitYes, "check", "acme", "op", "--cost", "69", "--decision-id", "d"); !strings.Contains(out, "replayed") {
		t.Errorf("checked again: %s", out)
	}
	run(exitRefused, "check", "acme", "op", "--cost", "68", "--decision-id", "d")
	run(exitYes, "check", "acme", "op")
	run(exitNo, "check", "acme", "op")
	if out, code := tokenlease(t, "budgets", "show", "acme", "op", "--broker", broker.url); code != exitYes || !strings.Contains(out, "100, no refill") {
		t.Errorf("budgets show ended with %d: %s", code, out)
	}
}
