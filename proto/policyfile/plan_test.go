package policyfile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// whole is a file with every kind of thing, as Format writes it.
const whole = `policies:
  - operation: o
    token-bucket:
      capacity: 4
      refill: 0
    cost: 1
    max-share: 100%
    reclaim: proof
    on-unavailable: reject
plans:
  - plan: free
  - plan: premium
    policies:
      - operation: o
        rolling-window:
          limit: 3
          window: 1m
        cost: 1
        max-share: 50%
        reclaim: proof
        on-unavailable: local
        local:
          capacity: 5
          refill: 1 per 1s
          for: 10m
      - operation: report.render
        concurrency:
          slots: 10
        cost: 1
        max-share: 100%
        reclaim: proof
        on-unavailable: reject
default-plan: free
accounts:
  - account: Acme
    plan: premium
  - account: acme
    plan: free
  - account: "007"
    policies:
      - operation: o
        token-bucket:
          capacity: 400
          refill: 20 per 1s
        cost: 1
        max-share: 100%
        disabled: true
        disabled-because: "abuse: ticket 4711"
        reclaim: proof
        on-unavailable: reject
`

func TestWholeDocument(t *testing.T) {
	doc, err := policyfile.Parse("p.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(policyfile.Format(doc)); got != whole {
		t.Errorf("Format:\n%s\nwant\n%s", got, whole)
	}
	if len(doc.Policies) != 1 || len(doc.Plans) != 2 || len(doc.Plans[1].GetPolicies()) != 2 || doc.DefaultPlan == nil || *doc.DefaultPlan != "free" {
		t.Fatalf("Parse = %v", doc)
	}
	if got := doc.Plans[1].GetPolicies()[0].GetRollingWindow().GetLimitTokens(); got != 3 {
		t.Errorf("the limit of the plan is %d", got)
	}
	var names []string
	for _, account := range doc.Accounts {
		names = append(names, account.GetAccount()+" on "+account.GetPlan())
	}
	if got := strings.Join(names, ", "); got != "Acme on premium, acme on free, 007 on " {
		t.Errorf("accounts %s", got) // case 49: two of them differ in case alone
	}
	for _, p := range everyPolicy(doc) {
		requireJSON(t, p)
	}
}

// TestPartsOfADocument: each part may stand alone, and what was not said is not the
// same as nothing.
func TestPartsOfADocument(t *testing.T) {
	for _, test := range []struct {
		in   string
		want policyfile.Document
	}{
		{"default-plan: free", policyfile.Document{DefaultPlan: new("free")}},
		{`default-plan: ""`, policyfile.Document{DefaultPlan: new("")}},
		{"default-plan: ''", policyfile.Document{DefaultPlan: new("")}},
		{"plans: [{plan: free}]", policyfile.Document{Plans: []*tokenleasev1.Plan{{Name: "free"}}}},
		{"accounts: [{account: Acme, plan: free}]", policyfile.Document{Accounts: []*tokenleasev1.AccountPolicies{{Account: "Acme", Plan: "free"}}}},
		{"accounts: [{account: 'null', plan: '1.5'}]", policyfile.Document{Accounts: []*tokenleasev1.AccountPolicies{{Account: "null", Plan: "1.5"}}}},
	} {
		doc, err := policyfile.Parse("p.yaml", []byte(test.in))
		if err != nil {
			t.Errorf("%s: %v", test.in, err)
			continue
		}
		requireSame(t, doc, test.want)
		again, err := policyfile.Parse("p.yaml", policyfile.Format(doc))
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, again, test.want)
	}
}

// TestCase49NamesThatYAMLTakesForSomethingElse: an account keeps the name that was
// written, or is refused.
func TestCase49NamesThatYAMLTakesForSomethingElse(t *testing.T) {
	for _, name := range []string{"true", "False", "007", "1e3", "null", "~", "1.5", "0x10", ".inf", ".nan", "2026-01-01", "-1", "1_000", "0b1", "0o7", "<<"} {
		requireFaults(t, "accounts: [{account: "+name+", plan: a}]",
			`p.yaml:1: accounts[0].account: "`+name+`" reads as something else than a name: put it in quotes`)
		requireAccount(t, `"`+name+`"`, name)
		requireAccount(t, `'`+name+`'`, name)
	}
	for _, name := range []string{"yes", "no", "on", "off", "Y", "Acme", "acme", "a b", "größe", "key:12ab", "1a", "e3"} {
		requireAccount(t, name, name)
	}
}

// requireAccount reads a file with an account, and compares its name.
func requireAccount(t *testing.T, written, want string) {
	t.Helper()
	doc, err := policyfile.Parse("p.yaml", []byte("accounts:\n  - account: "+written+"\n    plan: a\n"))
	if err != nil {
		t.Fatalf("%s: %v", written, err)
	}
	if got := doc.Accounts[0].GetAccount(); got != want {
		t.Errorf("%s became %q", written, got)
	}
	again, err := policyfile.Parse("p.yaml", policyfile.Format(doc))
	if err != nil || again.Accounts[0].GetAccount() != want {
		t.Errorf("%q did not come back: %v, %v", want, again, err)
	}
}

// TestCase32PlansAndAccounts: faults of plans and accounts are told with line and
// field.
func TestCase32PlansAndAccounts(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"an empty file", "", "p.yaml:1: the file is empty: want policies, plans or accounts"},
		{"no fields", "{}", "p.yaml:1: the file has no fields: want policies, plans or accounts"},
		{"a list", "- plan: a", "p.yaml:1: is a list: want the fields policies, plans, default-plan, accounts"},
		{"a plan for plans", "plan: [{plan: a}]", "p.yaml:1: plan: is unknown: did you mean plans?"},
		{"empty plans", "plans:", "p.yaml:1: plans: is empty: want a list of plans"},
		{"no plans", "plans: []", "p.yaml:1: plans: is an empty list: want at least one plan"},
		{"plans by name", "plans: {premium: {}}", "p.yaml:1: plans: is a group of fields: want a list of plans"},
		{"no name", "plans:\n- policies: [{operation: o, token-bucket: {capacity: 1}}]", "p.yaml:2: plans[0].plan: is missing"},
		{"name for plan", "plans:\n- name: a", "p.yaml:2: plans[0].name: is unknown: want one of plan, policies\np.yaml:2: plans[0].plan: is missing"},
		{"empty policies of a plan", "plans:\n- plan: a\n  policies:", "p.yaml:3: plans[0].policies: is empty: want a list of policies"},
		{"a plan twice", "plans:\n- plan: a\n- plan: b\n- plan: a", `p.yaml:4: plans[2].plan: "a" stands already, in line 2: want each plan once`},
		{"an operation twice in a plan", "plans:\n- plan: a\n  policies:\n  - {operation: o, token-bucket: {capacity: 1}}\n  - {operation: o, token-bucket: {capacity: 1}}",
			`p.yaml:5: plans[0].policies[1].operation: "o" has a policy already, in line 4: want one for each operation`},
		{"a unit mistake in a plan", "plans:\n- plan: a\n  policies:\n  - operation: o\n    token-bucket: {capacity: 1, refill: 20/s}",
			`p.yaml:5: plans[0].policies[0].token-bucket.refill: "20/s" is not a refill: want 20 per 1s`},
		{"a plan with blanks", "plans: [{plan: a b}]", `p.yaml:1: plans[0].plan: "a b" is no name of a plan: want letters, digits, '.', '_' and '-' alone`},
		{"a plan that is a path", "plans: [{plan: ..}]", `p.yaml:1: plans[0].plan: ".." is no name of a plan: want a name such as premium`},
		{"a plan that is a number", "plans: [{plan: 12}]", `p.yaml:1: plans[0].plan: "12" reads as something else than a name: put it in quotes`},
		{"a plan that is too long", "plans: [{plan: " + strings.Repeat("a", 65) + "}]", "p.yaml:1: plans[0].plan: has 65 bytes: want 1 to 64"},
		{"default plan for plans", "default: a", "p.yaml:1: default: is unknown: want one of policies, plans, default-plan, accounts"},
		{"empty default plan", "default-plan:", "p.yaml:1: default-plan: is empty: want a name such as premium"},
		{"null default plan", "default-plan: null", `p.yaml:1: default-plan: "null" reads as something else than a name: put it in quotes`},
		{"two default plans", "default-plan: [a, b]", "p.yaml:1: default-plan: is a list: want a name such as premium"},
		{"default plan twice", "default-plan: a\ndefault-plan: b", "p.yaml:2: default-plan: stands twice, first in line 1: remove one"},
		{"no account", "accounts:\n- plan: a", "p.yaml:2: accounts[0].account: is missing"},
		{"an empty account", "accounts: [{account: '', plan: a}]", "p.yaml:1: accounts[0].account: has 0 bytes: want 1 to 256"},
		{"a control character", `accounts: [{account: "a\u0007", plan: a}]`, `p.yaml:1: accounts[0].account: "a\a" has a control character: remove it`},
		{"an account with nothing", "accounts:\n- account: Acme", "p.yaml:2: accounts[0]: has nothing of its own: want a plan or policies, or remove the account"},
		{"an account twice", "accounts:\n- {account: Acme, plan: a}\n- {account: acme, plan: a}\n- {account: Acme, plan: b}",
			`p.yaml:4: accounts[2].account: "Acme" stands already, in line 2: want each account once`},
		{"an account's empty plan", "accounts:\n- account: Acme\n  plan:", "p.yaml:3: accounts[0].plan: is empty: want a name such as premium"},
		{"limits for policies", "accounts:\n- {account: Acme, limits: []}", "p.yaml:2: accounts[0].limits: is unknown: want one of account, plan, policies"},
		{"all at once", "accounts:\n- {account: 007, plan: a b, policies: [{operation: o, token-bucket: {capacity: 1.5}}]}\nplans:\n- plan: c\n- plan: c\ndefault-plan: 1",
			`p.yaml:2: accounts[0].account: "007" reads as something else than a name: put it in quotes` + "\n" +
				`p.yaml:2: accounts[0].plan: "a b" is no name of a plan: want letters, digits, '.', '_' and '-' alone` + "\n" +
				`p.yaml:2: accounts[0].policies[0].token-bucket.capacity: "1.5" is not whole: want a whole number of tokens` + "\n" +
				`p.yaml:5: plans[1].plan: "c" stands already, in line 4: want each plan once` + "\n" +
				`p.yaml:6: default-plan: "1" reads as something else than a name: put it in quotes`},
		{"a second document", whole + "---\n" + whole, "p.yaml:51: a second document begins here: want one document in a file"},
	} {
		t.Run(test.name, func(t *testing.T) { requireFaults(t, test.in, strings.Split(test.want, "\n")...) })
	}
}

// TestJSONIsReadAsStrictly: what is refused in a file is refused in JSON.
func TestJSONIsReadAsStrictly(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{`{"operation":"o","token-bucket":{"capacity":1.5}}`, `body:1: token-bucket.capacity: "1.5" is not whole: want a whole number of tokens`},
		{`{"operation":"o","token-bucket":{"capacity":1e3}}`, `body:1: token-bucket.capacity: "1e3" has an exponent: want a whole number with all its digits`},
		{`{"operation":"o","token-bucket":{"capacity":"5"}}`, `body:1: token-bucket.capacity: "5" is text: want a whole number without quotes`},
		{`{"operation":"o","token-bucket":{"capacity":null}}`, `body:1: token-bucket.capacity: "null" is empty: want a whole number`},
		{`{"operation":"o","token-bucket":{"capacity":010}}`, `body:1: the body is not JSON, at byte 46: invalid character '1' after object key:value pair`},
		{"{\"operation\":\"o\",\n\"token-bucket\":{\"capacity\":1,\n\"capacity\":1}}", `body:3: token-bucket.capacity: stands twice, first in line 2: remove one`},
		{`{"operation":12,"token-bucket":{"capacity":1}}`, `body:1: operation: "12" reads as something else than a name: put it in quotes`},
		{`{"operation":"o","token-bucket":{"capacity":1},"shadow":"true"}`, `body:1: shadow: is "true": want true or false`},
		{`{"operation":"o","Cost":1,"token-bucket":{"capacity":1}}`, `body:1: Cost: is unknown: did you mean cost?`},
		{`{"operation":"o","token-bucket":[]}`, `body:1: token-bucket: is a list: want the fields capacity, refill`},
		{`{"operation":"\ud800","token-bucket":{"capacity":1}}`, `body:1: the body is not UTF-8: half a character is escaped before byte 21`},
		{`{} {}`, `body:1: the body is not JSON, at byte 4: invalid character '{' after top-level value`},
		{``, `body:1: the body is empty: want a JSON object`},
	} {
		parser := strictyaml.New("body")
		if node := parser.JSON([]byte(test.in)); node != nil {
			policyfile.ReadPolicy(parser, node, "")
		}
		var faults policyfile.Faults
		if err := parser.Err(); !errors.As(err, &faults) || err.Error() != test.want {
			t.Errorf("%s:\n got %v\nwant %s", test.in, err, test.want)
		}
	}
}
