package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// said runs a command of the program and returns what it writes and its exit code.
func said(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command("tokenlease", args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// policiesFile writes a file of policies.
func policiesFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestEndToEndReducedWhileOneRegionIsSilent applies a capacity below what a silent
// limiter holds: it is named until it is retired, with a reason that is kept.
func TestEndToEndReducedWhileOneRegionIsSilent(t *testing.T) {
	broker := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "4")
	at := []string{"--broker", broker.url}
	apply(t, broker.url, policyFile(t, 100, "0", 1))
	eu := launch(t, freeAddress(t), limiterArgs(broker.url, "eu", t.TempDir())...)
	us := launch(t, freeAddress(t), limiterArgs(broker.url, "us", t.TempDir())...)
	for _, r := range []*process{eu, us} {
		eventually(t, "it has credit", func() bool { return ask1(t, r.url).check("acme").GetAllowed() })
	}
	if _, errs, code := said(t, append([]string{"policy", "apply", policyFile(t, 99, "0", 1), "--wait"}, at...)...); code != 0 || !strings.Contains(errs, "Version 2 holds everywhere") {
		t.Fatalf("with both regions well it ends with %d: %s", code, errs)
	}

	eventually(t, "eu holds something that it has not spent", func() bool {
		out, _, _ := said(t, append([]string{"grants", "list", "--region", "eu", "-o", "json"}, at...)...)
		return regexp.MustCompile(`"outstanding_tokens": "[1-9]`).MatchString(out)
	})
	if err := eu.cmd.Process.Signal(syscall.SIGSTOP); err != nil { // silent, and holding credit
		t.Fatal(err)
	}
	reduced := policyFile(t, 0, "0", 1)
	_, errs, code := said(t, append([]string{"policy", "apply", reduced, "--because", "too much", "--wait", "--wait-timeout", "6s"}, at...)...)
	if code != exitNo || !strings.Contains(errs, "version 3 is in force, but does not hold everywhere after 6s:") {
		t.Fatalf("with a silent region it ends with %d: %s", code, errs)
	}
	_, missing, _ := strings.Cut(errs, "does not hold everywhere")
	for _, want := range []string{"under version 2 or older; last heard ", "acme op has ", "out, and a capacity of 0: eu/l0 has "} {
		if !strings.Contains(missing, want) {
			t.Errorf("%q is not in: %s", want, missing)
		}
	}
	if strings.Contains(missing, "us/l0") {
		t.Errorf("us has given its credit back, and is named: %s", missing)
	}
	out, _, code := said(t, append([]string{"policy", "status"}, at...)...)
	if code != exitNo || !regexp.MustCompile(`(?m)^eu/l0 +2 +1 +[1-9]`).MatchString(out) || strings.Contains(out, "us/l0") {
		t.Errorf("the status ends with %d: %s", code, out)
	}

	eu.kill(syscall.SIGKILL)
	if _, errs, code := said(t, append([]string{"holders", "retire", "eu/l0", "--because", "the machine is gone, ticket 4711", "--by", "ann", "--yes", "--force"}, at...)...); code != 0 {
		t.Fatalf("retire ended with %d: %s", code, errs)
	}
	if out, errs, code := said(t, append([]string{"policy", "apply", reduced, "--wait"}, at...)...); code != 0 || out != "" {
		t.Errorf("after it is retired the same ends with %d: %s%s", code, out, errs)
	}
	if out, _, code := said(t, append([]string{"policy", "status"}, at...)...); code != 0 {
		t.Errorf("the status ends with %d: %s", code, out)
	}
	out, _, code = said(t, append([]string{"audit", "list"}, at...)...)
	if code != 0 || !strings.Contains(out, "the machine is gone, ticket 4711") || !strings.Contains(out, "too much") {
		t.Errorf("the audit ends with %d: %s", code, out)
	}
	if reserved, orphaned := verified(t, broker.url); reserved != 0 || orphaned != 0 {
		t.Errorf("%d reserved, %d orphaned", reserved, orphaned)
	}
}

// TestCase30And47AppliedAHundredTimes: the same file, applied again and again, gives
// nobody a token more; a wrong one changes nothing, and the old version serves.
func TestCase30And47AppliedAHundredTimes(t *testing.T) {
	broker := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "4")
	file := policiesFile(t, "policies: [{operation: op, token-bucket: {capacity: 100}}]\nplans: [{plan: a, policies: [{operation: op, token-bucket: {capacity: 60}}]}]\naccounts: [{account: Acme, plan: a}]")
	apply(t, broker.url, file)
	eu := ask1(t, launch(t, freeAddress(t), limiterArgs(broker.url, "eu", t.TempDir())...).url)
	for account, quota := range map[string]int64{"acme": 100, "Acme": 60} { // case 49: two accounts
		if spent := eu.drain(account, 1); spent != quota {
			t.Fatalf("%d of %d could be spent by %s", spent, quota, account)
		}
	}
	for range 100 {
		p, stdout, stderr := newProgram()
		if code := p.run(t.Context(), []string{"policy", "apply", file, "--broker", broker.url}); code != 0 || stdout.Len() > 0 {
			t.Fatalf("ended with %d: %s%s", code, stdout, stderr)
		}
	}
	wrong := policiesFile(t, "policies:\n- {operation: op, token-bucket: {capacity: 1000}}\n- {operation: other, token-bucket: {capacity: 1e3}}\n")
	if _, errs, code := said(t, "policy", "apply", wrong, "--broker", broker.url); code != exitUsage || !strings.Contains(errs, `policies.yaml:3: policies[1].token-bucket.capacity: "1e3" has an exponent`) {
		t.Errorf("a wrong file ends with %d: %s", code, errs)
	}
	for _, account := range []string{"acme", "Acme"} {
		if more := eu.drain(account, 1); more != 0 {
			t.Errorf("%s could spend %d more", account, more)
		}
	}
	if got := eu.check("fresh"); !got.GetAllowed() || got.GetLimitTokens() != 100 || got.GetPolicyVersion() != 1 {
		t.Errorf("the old version does not serve: %v", got)
	}
}

// TestEndToEndPlainConfiguration sets plans and assigns accounts over HTTP, and the
// limiter of a region decides by them.
func TestEndToEndPlainConfiguration(t *testing.T) {
	broker := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "4", "--plain-config")
	apply(t, broker.url, policyFile(t, 100, "0", 1))
	eu := ask1(t, launch(t, freeAddress(t), limiterArgs(broker.url, "eu", t.TempDir())...).url)
	ask := func(method, path, body string, status int) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, broker.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != status || !json.Valid(answer) {
			t.Errorf("%s %s %s: %d %s, want %d", method, path, body, resp.StatusCode, answer, status)
		}
		return string(answer)
	}
	limit := func(account string) int64 { return eu.check(account).GetLimitTokens() }
	if limit("Acme") != 100 || limit("acme") != 100 {
		t.Error("the policy for everybody does not rule")
	}
	ask("POST", "/v1/config/plan", `{"plan":"premium","limits":[{"operation":"op","token-bucket":{"capacity":400}}]}`, 201)
	ask("POST", "/v1/config/plan", `{"account":"Acme","plan":"premium","by":"ann","because":"they have signed"}`, 201)
	eventually(t, "the plan rules the account", func() bool { return limit("Acme") == 400 })
	if got := limit("acme"); got != 100 {
		t.Errorf("case 49: acme has the limit %d", got)
	}
	if got := ask("GET", "/v1/config/limit?account=Acme&operation=op", "", 200); !strings.Contains(got, `"from":"plan","plan":"premium"`) || !strings.Contains(got, `"capacity":400`) {
		t.Errorf("the limit is %s", got)
	}
	if got := ask("PUT", "/v1/config/plan", `{"plan":"premium","limits":[],"price":"9.99"}`, 400); !strings.Contains(got, "price: payment is not handled here") {
		t.Errorf("a price: %s", got)
	}
	ask("PUT", "/v1/config/plan", `{"plan":"premium","limits":[{"operation":"op","token-bucket":{"capacity":1.5}}]}`, 400)
	ask("DELETE", "/v1/config/plan?plan=premium", "", 409)
	ask("DELETE", "/v1/config/plan?account=Acme", "", 200)
	eventually(t, "the policy for everybody rules again", func() bool { return limit("Acme") == 100 })
	out, _, _ := said(t, "policy", "history", "--broker", broker.url)
	if !strings.Contains(out, "they have signed") {
		t.Errorf("the history: %s", out)
	}
	verified(t, broker.url)

	without := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "4")
	resp, err := http.Get(without.url + "/v1/config/limits")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("without --plain-config: %d", resp.StatusCode)
	}
}
