package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// unpacked are the files of a bundle.
func unpacked(t *testing.T, data []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for tape := tar.NewReader(zip); ; {
		header, err := tape.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(tape)
		if err != nil {
			t.Fatal(err)
		}
		name, found := strings.CutPrefix(header.Name, "tokenlease-support/")
		if !found {
			t.Errorf("%s is in no folder", header.Name)
		}
		files[name] = string(text)
	}
}

// planted are secrets where they can turn up, none of which may be in a bundle.
const (
	plantedPassword = "hunter2-in-a-url"
	plantedVariable = "very-secret-value"
	plantedFile     = "tls-files-are-nobodys-business.pem"
	plantedKey      = "-----BEGIN PRIVATE KEY-----\nMIIplanted\n-----END PRIVATE KEY-----"
)

// plant starts a fake whose operators and variables were careless.
func plant(t *testing.T) (url string) {
	t.Helper()
	clearSettings(t)
	t.Setenv("TOKENLEASE_LOG_LEVEL", plantedFile)
	t.Setenv("ETCD_PASSWORD", plantedVariable)
	server := serveFake(func(f *fake) {
		f.faults = []string{"the record at /tokenlease/shards/000/budgets/hidden/report.create cannot be read; account ghost"}
		f.audit = []*tokenleasev1.AuditEntry{
			{Id: "2026-grants.resolve-acme", Action: "policies.apply", By: "ann", Because: "for acme, not acmeville: " + plantedKey, Subject: "account acme, policy x",
				BeforeJson: `{"account":"acme","n":9007199254740993,"was":[{"text":"account ghost"}]}`, UnixMs: 1_790_000_003_000},
			{Id: "9", Action: "restore.declare", By: "bob", Because: "password=" + plantedVariable + " and " + plantedVariable, UnixMs: 1_790_000_004_000},
		}
	})
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "http://", "http://ann:"+plantedPassword+"@", 1)
}

// bundleOf runs the command and reads what it wrote.
func bundleOf(t *testing.T, args ...string) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	p, stdout, stderr := newProgram()
	if code := p.run(t.Context(), append([]string{"support-bundle", file}, args...)); code != exitYes || stdout.Len() > 0 {
		t.Fatalf("ended with %d: %s%s", code, stdout, stderr)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is for others as well: %v, %v", info.Mode(), err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return unpacked(t, data)
}

func TestSupportBundleHasNoSecrets(t *testing.T) {
	url := plant(t)
	t.Setenv("TOKENLEASE_BROKER", url)
	files := bundleOf(t)
	for name, text := range files {
		for _, secret := range []string{plantedPassword, plantedVariable, plantedFile, "MIIplanted", "acme\"", "for acme,", "account acme", "ghost", "hidden", "zeta"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", name, secret, text)
			}
		}
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) {
			t.Errorf("%s is no JSON", name)
		}
	}
	for _, name := range []string{
		"versions.json", "doctor.json", "broker-1/cluster.json", "broker-1/who-am-i.json", "shards.json", "holders.json", "restore.json",
		"policies.json", "budgets.json", "grants.json", "top-busiest.json", "top-starved.json", "audit.jsonl", "metrics.txt", "problems.txt",
	} {
		if _, ok := files[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if !strings.Contains(files["versions.json"], "TOKENLEASE_LOG_LEVEL") {
		t.Errorf("the names of variables are missing: %s", files["versions.json"])
	}
	if !strings.Contains(files["audit.jsonl"], "not acmeville") {
		t.Errorf("a longer word was replaced: %s", files["audit.jsonl"])
	}
	if !strings.Contains(files["audit.jsonl"], "9007199254740993") {
		t.Errorf("a number lost digits: %s", files["audit.jsonl"])
	}
	for name, part := range map[string]string{
		"budgets.json": `"reclaim_margin_ns": "15000000000"`, "grants.json": `"lapses_after_ns": "45000000000"`,
		"holders.json": `"round_trip_ns": "12345678"`, "top-starved.json": `"reclaim": "RECLAIM_DEADLINE"`,
	} {
		if !strings.Contains(files[name], part) {
			t.Errorf("%s has no %s:\n%s", name, part, files[name])
		}
	}
	requireSameWord(t, files)
}

// requireSameWord wants one word for the account acme in every file.
func requireSameWord(t *testing.T, files map[string]string) {
	t.Helper()
	_, after, _ := strings.Cut(files["budgets.json"], `"account": "`)
	word, _, _ := strings.Cut(after, `"`)
	if !strings.HasPrefix(word, "account-") {
		t.Fatalf("budgets.json calls the account %q", word)
	}
	for _, name := range []string{"grants.json", "audit.jsonl", "top-busiest.json"} {
		if !strings.Contains(files[name], word) {
			t.Errorf("%s has not the word %s for the account:\n%s", name, word, files[name])
		}
	}
}

func TestSupportBundleWithAccounts(t *testing.T) {
	t.Setenv("TOKENLEASE_BROKER", plant(t))
	files := bundleOf(t, "--with-accounts")
	for name, part := range map[string]string{"budgets.json": `"account": "acme"`, "audit.jsonl": `account acme`, "top-busiest.json": `"zeta"`} {
		if !strings.Contains(files[name], part) {
			t.Errorf("%s has no %q:\n%s", name, part, files[name])
		}
	}
	for name, text := range files {
		if strings.Contains(text, plantedPassword) || strings.Contains(text, "MIIplanted") || strings.Contains(text, plantedVariable) {
			t.Errorf("%s has a secret", name)
		}
	}
}

// TestSupportBundleWithoutABroker has what is known here, and says so.
func TestSupportBundleWithoutABroker(t *testing.T) {
	clearSettings(t)
	gone := serveFake()
	gone.Close()
	p, stdout, stderr := newProgram()
	if code := p.run(t.Context(), []string{"support-bundle", "-", "--broker", gone.URL}); code != exitUnreachable {
		t.Errorf("ended with %d: %s", code, stderr)
	}
	files := unpacked(t, stdout.Bytes())
	if !strings.Contains(files["problems.txt"], "cannot reach the broker") || !strings.Contains(files["doctor.json"], `"healthy": false`) || len(files) != 3 {
		t.Errorf("there are %d files; problems: %s", len(files), files["problems.txt"])
	}
}

func TestSupportBundleOverwritesNothing(t *testing.T) {
	clearSettings(t)
	file := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _, stderr := newProgram()
	if code := p.run(t.Context(), []string{"support-bundle", file}); code != exitUsage || !strings.Contains(stderr.String(), "is there already: name another file") {
		t.Errorf("ended with %d: %s", code, stderr)
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "mine" {
		t.Errorf("the file has %q, %v", kept, err)
	}
	p, _, stderr = newProgram()
	p.screen = &fakeConsole{shows: true}
	if code := p.run(t.Context(), []string{"support-bundle", "-"}); code != exitUsage {
		t.Errorf("onto a terminal: %d: %s", code, stderr)
	}
}

// TestConcealerHidesEveryAccount fills each message of which a bundle has answers,
// and looks for what is left of the names.
func TestConcealerHidesEveryAccount(t *testing.T) {
	c := newConcealer(false)
	policy := &tokenleasev1.Policy{Account: "acme", DisabledBecause: "acme complained"}
	key := &tokenleasev1.BudgetKey{Account: "acme"}
	for _, m := range []proto.Message{
		&tokenleasev1.ListBudgetsResponse{Budgets: []*tokenleasev1.Budget{{Key: key, Policy: policy, Grants: []*tokenleasev1.Grant{{Budget: key}}}}},
		&tokenleasev1.ListAccountsResponse{Accounts: []*tokenleasev1.AccountPolicies{{Account: "acme", Policies: []*tokenleasev1.Policy{policy}}}},
		&tokenleasev1.ListPolicyHistoryResponse{Versions: []*tokenleasev1.PolicyVersion{{Because: "acme!", Changes: []*tokenleasev1.PolicyChange{
			{Subject: "account acme", Before: policy, AfterText: "acme"}}}}},
		&tokenleasev1.ShowPolicyStatusResponse{BudgetsAbove: []*tokenleasev1.BudgetAbove{{Key: key}}},
		&tokenleasev1.ListPoliciesResponse{Disabled: []*tokenleasev1.DisabledOperation{{Because: "by acme"}}},
		&tokenleasev1.ExplainGrantResponse{Grant: &tokenleasev1.Grant{Budget: key}, Advice: []string{"ask acme"}},
	} {
		c.learn(m)
		data, err := encode(formatJSON, c.message(m))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("acme")) || !bytes.Contains(data, []byte("account-")) {
			t.Errorf("%s", data)
		}
	}
	if again := newConcealer(false).name("acme"); again == c.name("acme") {
		t.Error("two bundles have the same word for an account")
	}
	if got, want := c.text("an account named acmé and acme's"), "an account named acmé and "+c.name("acme")+"'s"; got != want {
		t.Errorf("text: %s, want %s", got, want)
	}
}

func TestWithoutSecrets(t *testing.T) {
	for in, want := range map[string]string{
		"a " + plantedKey + " b":             "a [removed] b",
		"-----BEGIN PRIVATE KEY-----\ncut":   "[removed]",
		"http://ann:pw@host/x, https://b@c/": "http://[removed]@host/x, https://[removed]@c/",
		"http://host:7600/metrics":           "http://host:7600/metrics",
		`{"password": "abcdef"}`:             `{"password": "[removed]"}`,
		"Authorization: Bearer abcdef":       "Authorization: [removed]",
		"with bearer abc.def\nnext":          "with bearer [removed]\nnext",
		"secret: none of it":                 "secret: [removed] of it",
	} {
		if got := string(withoutSecrets([]byte(in))); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// What leads to the next page, and what errors and the doctor tell, name no account
// either, also where it stands in a key of the store and was never listed.
func TestConcealerHidesTokensAndKeys(t *testing.T) {
	c := newConcealer(false)
	token := base64.RawURLEncoding.EncodeToString([]byte("/tokenlease/accounts/acme\x00"))
	m := &tokenleasev1.ListAccountsResponse{Accounts: []*tokenleasev1.AccountPolicies{{Account: "acme"}, {Account: "a b/c"}}, NextPageToken: token}
	c.learn(m)
	data, err := encode(formatJSON, c.message(m))
	if err != nil || bytes.Contains(data, []byte(token)) || !bytes.Contains(data, []byte(removed)) {
		t.Errorf("%s, %v", data, err)
	}
	for in, want := range map[string]string{
		"the record at /tokenlease/shards/003/budgets/acme/report.create is damaged": "the record at /tokenlease/shards/003/budgets/" + c.name("acme") + "/report.create is damaged",
		"/tokenlease/accounts/a%20b%2Fc: damaged":                                    "/tokenlease/accounts/" + c.name("a b/c") + ": damaged",
		"of a%20b%2Fc": "of " + c.name("a b/c"),
		"/tokenlease/shards/003/budgets/never%20listed/x": "/tokenlease/shards/003/budgets/" + c.name("never listed") + "/x",
	} {
		if got := c.text(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	b := &bundle{hide: c}
	b.problem("budgets.json", errors.New("the record at /tokenlease/shards/003/budgets/acme/report.create is damaged"))
	b.addProblems()
	b.addDiagnosis(&diagnosis{Findings: []finding{{What: "acme is above its cap", Next: "ask acme"}}})
	if len(b.files) != 2 {
		t.Fatalf("%d files", len(b.files))
	}
	for _, f := range b.files {
		if bytes.Contains(f.data, []byte("acme")) || !bytes.Contains(f.data, []byte(c.name("acme"))) {
			t.Errorf("%s: %s", f.name, f.data)
		}
	}
}
