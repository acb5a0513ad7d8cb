package forwardauth_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
	"github.com/tokenlease/tokenlease/regional/gateway/forwardauth"
)

const wholeFile = `proxies: [10.0.0.0/8, "fd00::/8", 192.0.2.1, "2001:db8::1"]
account-header: X-Account
anonymous:
  header: Forwarded
  ipv4-prefix: 24
  ipv6-prefix: 56
  max-hops: 4
  max-keys: 100
  idle-after: 1h
rules:
  - path: /api/reports
    method: POST
    operation: report.create
    cost: 5
  - path: /
    operation: api
    cost: 0
unmatched: allow
method-header: X-Original-Method
uri-header: X-Original-URI
ignore-case: true
cost-header: X-Cost
deny-as-403: true
`

func TestReadConfig(t *testing.T) {
	got, err := forwardauth.ReadConfig("auth.yaml", []byte(wholeFile))
	if err != nil {
		t.Fatal(err)
	}
	prefix := netip.MustParsePrefix
	want := forwardauth.Config{
		Proxies:       []netip.Prefix{prefix("10.0.0.0/8"), prefix("fd00::/8"), prefix("192.0.2.1/32"), prefix("2001:db8::1/128")},
		AccountHeader: "X-Account",
		Anonymous: &clientkey.Config{
			Header: clientkey.Forwarded, IPv4Bits: 24, IPv6Bits: 56, MaxHops: 4, MaxKeys: 100, IdleAfter: time.Hour,
		},
		Rules: []forwardauth.Rule{
			{Path: "/api/reports", Method: "POST", Operation: "report.create", Cost: decision.Tokens(5)},
			{Path: "/", Operation: "api", Cost: decision.Tokens(0)},
		},
		Unmatched: forwardauth.UnmatchedAllow, MethodHeader: "X-Original-Method", URIHeader: "X-Original-URI",
		FoldCase: true, CostHeader: "X-Cost", DenyAs403: true,
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("the file reads otherwise (-want +got):\n%s", diff)
	}
	if _, err := forwardauth.New(got); err == nil || err.Error() != "forwardauth: there is no decider" {
		t.Errorf("without a decider: %v", err)
	}
	got.Decider = newFake()
	if _, err := forwardauth.New(got); err != nil {
		t.Errorf("with a decider: %v", err)
	}
}

// TestCase32ConfigFileFaults: a fault is told with its line and its field.
func TestCase32ConfigFileFaults(t *testing.T) {
	least := "proxies: [10.0.0.0/8]\naccount-header: X-Account\n"
	for _, tc := range []struct{ name, in, want string }{
		{"nothing", "", "a.yaml:1: the file is empty: want the proxies, an account header, and rules"},
		{"unknown field", least + "acount: x\noperation: o\n", "a.yaml:3: acount: is unknown: want one of proxies, account-header, anonymous, operation, operation-header, rules, unmatched, method-header, uri-header, ignore-case, cost-header, deny-as-403"},
		{"misspelt field", least + "unmatchd: deny\noperation: o\n", "a.yaml:3: unmatchd: is unknown: did you mean unmatched?"},
		{"a field twice", least + "operation: o\noperation: o\n", "a.yaml:4: operation: stands twice, first in line 3: remove one"},
		{"no proxies", "account-header: X\noperation: o\n", "a.yaml:1: proxies: is missing"},
		{"an empty list", "proxies: []\naccount-header: X\noperation: o\n", "a.yaml:1: proxies: is an empty list: want at least one proxy"},
		{"no address", "proxies: [localhost]\naccount-header: X\noperation: o\n", `a.yaml:1: proxies[0]: "localhost" is neither an address nor a prefix: want one such as 10.0.0.0/8`},
		{"host bits", "proxies: [10.0.0.1/8]\naccount-header: X\noperation: o\n", "a.yaml:1: proxies[0]: trusted proxy 10.0.0.1/8 has bits beyond its length: want 10.0.0.0/8"},
		{"everyone", "proxies: [0.0.0.0/0]\naccount-header: X\noperation: o\n", "a.yaml:1: proxies[0]: trusted proxy 0.0.0.0/0 is everyone, who could then claim to be anyone: name the addresses of the proxies"},
		{"a rule without a path", least + "rules:\n- operation: o\n", "a.yaml:4: rules[0].path: is missing"},
		{"a rule's path", least + "rules:\n- operation: o\n  path: /a/../b\n", `a.yaml:5: rules[0].path: path "/a/../b" has a dot segment: want "/" or one such as /api/reports`},
		{"a rule's method", least + "rules:\n- operation: o\n  path: /\n  method: post\n", `a.yaml:6: rules[0].method: "post" is not in upper-case letters: want a method such as POST`},
		{"a rule's cost", least + "rules:\n- operation: o\n  path: /\n  cost: 1.5\n", `a.yaml:6: rules[0].cost: "1.5" is not whole: want a whole number of tokens`},
		{"a cost of 010", least + "rules:\n- operation: o\n  path: /\n  cost: 010\n", `a.yaml:6: rules[0].cost: "010" begins with a 0, which may be read as octal: want 10`},
		{"unmatched", least + "operation: o\nunmatched: pass\n", `a.yaml:4: unmatched: is "pass": want one of deny, allow`},
		{"a flag", least + "operation: o\ndeny-as-403: yes\n", `a.yaml:4: deny-as-403: is "yes": want true or false`},
		{"the header of anonymous", least + "operation: o\nanonymous: {header: X-Real-IP}\n", `a.yaml:4: anonymous.header: is "X-Real-IP": want one of X-Forwarded-For, Forwarded`},
		{"anonymous without a header", least + "operation: o\nanonymous: {max-keys: 5}\n", "a.yaml:4: anonymous.header: is missing"},
		{"a prefix length", least + "operation: o\nanonymous: {header: Forwarded, ipv4-prefix: 33}\n", "a.yaml:4: anonymous.ipv4-prefix: 33 is too large: want at most 32"},
		{"a time without a unit", least + "operation: o\nanonymous: {header: Forwarded, idle-after: 60}\n", `a.yaml:4: anonymous.idle-after: "60" has no unit: want 60s, 60m, 60h or 60d`},
		{"no operation", least, "a.yaml: forwardauth: want exactly one of an operation, an operation header and rules"},
		{"the same rule twice", least + "rules:\n- {operation: o, path: /}\n- {operation: p, path: /}\n", "a.yaml: forwardauth: rule 2: covers the same method and path as rule 1: remove one"},
		{"no account", "proxies: [10.0.0.0/8]\noperation: o\n", "a.yaml: forwardauth: no account header: name the one that the proxy puts the verified account into, or allow anonymous requests"},
		{"a second document", least + "operation: o\n---\n", "a.yaml:4: a second document begins here: want one document in a file"},
	} {
		cfg, err := forwardauth.ReadConfig("a.yaml", []byte(tc.in))
		if err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v\nwant %s", tc.name, err, tc.want)
		}
		if len(cfg.Proxies) != 0 || cfg.AccountHeader != "" {
			t.Errorf("%s: a configuration in spite of the fault: %v", tc.name, cfg)
		}
	}
}

func FuzzReadConfig(f *testing.F) {
	f.Add(wholeFile)
	f.Add("proxies: [10.0.0.0/8]\naccount-header: X\noperation: o\n")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := forwardauth.ReadConfig("a.yaml", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "a.yaml:") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		cfg.Decider = newFake()
		if _, err := forwardauth.New(cfg); err != nil {
			t.Errorf("what was read is not valid: %v", err)
		}
	})
}
