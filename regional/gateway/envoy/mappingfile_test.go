package envoy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
)

// oneRule is a file of one rule with a few lines of it replaced.
func oneRule(changes ...string) string {
	return strings.NewReplacer(changes...).Replace(`rules:
  - domain: api
    entries:
      - key: operation
        value: report.create
      - key: account
    account:
      entry: account
    operation: report.create
    cost: 5
    late: false
`)
}

func TestCase48MappingFaults(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"empty", "", "m.yaml:1: the file is empty: want a list of rules"},
		{"no rules", "unmatched: deny\n", "m.yaml:1: rules: is missing"},
		{"empty rules", "rules: []\n", "m.yaml:1: rules: is an empty list: want at least one rule"},
		{"unknown field", oneRule("cost: 5", "costs: 5"), "m.yaml:10: rules[0].costs: is unknown: did you mean cost?"},
		{"twice", oneRule("late: false", "cost: 5"), "m.yaml:11: rules[0].cost: stands twice, first in line 10: remove one"},
		{"unmatched", "unmatched: denny\n" + oneRule(), `m.yaml:1: unmatched: is "denny": did you mean deny?`},
		{"headers", "response-headers: yes\n" + oneRule(), `m.yaml:1: response-headers: is "yes": want true or false`},
		{"no domain", oneRule("domain: api", "domain:"), "m.yaml:2: rules[0].domain: is empty: want a name such as api"},
		{"no account", oneRule("    account:\n      entry: account\n", ""), "m.yaml:2: rules[0].account: is missing"},
		{"account of nothing", oneRule("      entry: account\n", "      prefix: x\n"), "m.yaml:8: rules[0].account: says no account: want entry, the key of an entry, or fixed, a name"},
		{"account of both", oneRule("entry: account", "entry: account\n      fixed: all"), "m.yaml:8: rules[0].account: has both entry and fixed: want one of them"},
		{"a fixed account with a prefix", oneRule("entry: account", "fixed: all\n      prefix: x"), "m.yaml:8: rules[0].account.prefix: is for an account from an entry: write it into fixed"},
		{"a blank", oneRule("entry: account", `fixed: "all "`), `m.yaml:8: rules[0].account.fixed: "all " begins or ends with a blank: remove it`},
		{"no such entry", oneRule("entry: account", "entry: acount"), `m.yaml:8: rules[0].account.entry: "acount" is not an entry of the rule: want the key of one`},
		{"an entry of one value", oneRule("entry: account", "entry: operation"), `m.yaml:8: rules[0].account.entry: "operation" is an entry with the one value "report.create": write that name itself, or leave the value of the entry out`},
		{"no operation", oneRule("operation: report.create", "operation: {}"), "m.yaml:9: rules[0].operation.entry: is missing"},
		{"operation as a number", oneRule("operation: report.create", "operation: 12"), `m.yaml:9: rules[0].operation: "12" reads as something else than a name: put it in quotes`},
		{"cost", oneRule("cost: 5", "cost: 1.5"), `m.yaml:10: rules[0].cost: "1.5" is not whole: want a whole number of tokens, or policy`},
		{"no cost", oneRule("cost: 5", "cost: 0"), "m.yaml:10: rules[0].cost: 0 is too small: want at least 1"},
		{"late by policy", oneRule("cost: 5", "cost: policy", "late: false", "late: true"), "m.yaml:2: rules[0].cost: policy is not for late rules: want a number of tokens, which is what was used if no hits are named"},
		{"a key twice", oneRule("value: report.create", "value: a\n      - key: operation"), `m.yaml:6: rules[0].entries[1].key: "operation" stands twice in the rule: a descriptor that repeats a key is always refused`},
		{"an empty value", oneRule("value: report.create", `value: ""`), `m.yaml:5: rules[0].entries[0].value: has 0 bytes: want 1 to 256`},
		{"no entries", oneRule("      - key: operation\n        value: report.create\n      - key: account\n", "      []\n"), "m.yaml:4: rules[0].entries: is an empty list: want at least one entry"},
		{"a list of rules in a rule", "rules:\n  - []\n", "m.yaml:2: rules[0]: is a list: want the fields domain, entries, account, operation, cost, late"},
		{"never reached", oneRule() + `  - domain: api
    entries: [{key: operation, value: report.create}, {key: account, value: acme}]
    account: {fixed: acme}
    operation: report.create
`, "m.yaml:12: rules[1]: is never reached: rules[0], in line 2, matches all of it before"},
		{"one prefix, two entries", oneRule() + `  - domain: web
    entries: [{key: address}]
    account: {entry: address}
    operation: report.create
`, `m.yaml:12: rules[1].account: takes accounts from the entry "address", and rules[0], in line 2, from "account", with the same prefix "": one could pass for the other, so give one of them a prefix of its own`},
		{"a second document", oneRule() + "---\nrules: []\n", "m.yaml:12: a second document begins here: want one document in a file"},
		{"not UTF-8", "rules: \xff\n", "m.yaml:1: the line is not UTF-8: save the file as UTF-8"},
	}
	for _, test := range tests {
		m, err := envoy.ParseMapping("m.yaml", []byte(test.file))
		var faults strictyaml.Faults
		if !errors.As(err, &faults) || m != nil {
			t.Errorf("%s: got %v", test.name, err)
			continue
		}
		found := false
		for _, f := range faults {
			found = found || f.String() == test.want
		}
		if !found {
			t.Errorf("%s: got\n%v\nwant\n%s", test.name, err, test.want)
		}
	}
}

func TestMappingThatIsFine(t *testing.T) {
	for name, file := range map[string]string{
		"one rule":           oneRule(),
		"cost of the policy": oneRule("cost: 5", "cost: policy"),
		"the special first": `rules:
  - domain: api
    entries: [{key: account, value: acme}]
    account: {fixed: acme}
    operation: a
  - domain: api
    entries: [{key: account}]
    account: {entry: account}
    operation: a
`,
		"prefixes": oneRule("entry: account", `{entry: account, prefix: "t:"}`, "account:\n      ", "account: ") + `  - domain: web
    entries: [{key: address}]
    account: {entry: address, prefix: "address:"}
    operation: report.create
`,
	} {
		if _, err := envoy.ParseMapping("m.yaml", []byte(file)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, file)
		}
	}
}

func TestMappingOfTooManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 1001 {
		name := strings.Repeat("x", 1+i%100) + strings.Repeat("y", 1+i/100)
		b.WriteString("  - {domain: " + name + ", entries: [{key: a}], account: {entry: a}, operation: o}\n")
	}
	_, err := envoy.ParseMapping("m.yaml", []byte(b.String()))
	if err == nil || err.Error() != "m.yaml:2: rules: has 1001 rules: want at most 1000" {
		t.Errorf("got %v", err)
	}
}
