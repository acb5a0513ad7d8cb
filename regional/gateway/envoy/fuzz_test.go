package envoy

import (
	"cmp"
	"strings"
	"testing"
	"unicode/utf8"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// fuzzed has rules whose accounts could be taken for one another, if anything could.
const fuzzed = `unmatched: allow
rules:
  - domain: d
    entries: [{key: a}]
    account: {entry: a}
    operation: o
  - domain: d
    entries: [{key: b}]
    account: {entry: b, prefix: "p"}
    operation: o
  - domain: d
    entries: [{key: c}]
    account: {entry: c, prefix: "p:"}
    operation: o
  - domain: d
    entries: [{key: e}]
    account: {fixed: "p:all"}
    operation: o
  - domain: d
    entries: [{key: a}, {key: o}]
    account: {entry: a}
    operation: {entry: o}
  - domain: d
    entries: [{key: x}, {key: a}]
    account: {entry: a}
    operation: late
    late: true
`

// FuzzOneAccountIsOneValue: two descriptors name the same budget only if the same
// value of the same entry names them, and one value names one account.
func FuzzOneAccountIsOneValue(f *testing.F) {
	for _, seed := range [][4]string{
		{"a", "p:x", "c", "x"}, {"b", ":x", "c", "x"}, {"a", "px", "b", "x"}, {"a", "p:all", "e", "z"}, {"c", "all", "e", "z"},
		{"a", "x", "a", "x "}, {"a", "", "b", ""}, {"a", "x\x00", "a", "x"}, {"a", "\xff", "a", "x"}, {"b", "x", "b", "x"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	m, err := ParseMapping("m.yaml", []byte(fuzzed))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		r1, one, p1 := m.match("d", []entry{{key1, value1}})
		r2, two, p2 := m.match("d", []entry{{key2, value2}})
		if r1 == nil || r2 == nil || p1 != "" || p2 != "" {
			return
		}
		for _, got := range []lease.Key{one, two} {
			if err := (&pb.BudgetKey{Account: got.Account, Operation: got.Operation}).Validate(); err != nil {
				t.Fatalf("%v: %v", got, err)
			}
		}
		same := r1 == r2 && (value1 == value2 || r1.account.isFixed())
		if (one == two) != same {
			t.Errorf("(%q, %q) is %v and (%q, %q) is %v", key1, value1, one, key2, value2, two)
		}
	})
}

// FuzzRequest: whatever a request says, it asks for whole budgets at costs that
// they could hold, and has a verdict on each descriptor.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{"", "\x0a\x01d\x12\x08\x0a\x06\x0a\x01a\x12\x01x", "\x0a\x01d\x12\x0b\x0a\x06\x0a\x01a\x12\x01x\x1a\x00\x20\x01"} {
		f.Add([]byte(text))
	}
	m, err := ParseMapping("m.yaml", []byte(fuzzed))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &ratelimit.RateLimitRequest{}
		if proto.Unmarshal(data, req) != nil {
			return
		}
		p := m.plan(req)
		if p.problem == problemRequest {
			return
		}
		if len(p.marks) != len(req.GetDescriptors()) {
			t.Fatalf("%d verdicts on %d descriptors", len(p.marks), len(req.GetDescriptors()))
		}
		for i, at := range p.marks {
			d := req.GetDescriptors()[i]
			if at.budget >= 0 && (d.GetIsNegativeHits() || d.GetLimit() != nil || at.problem != "") {
				t.Errorf("%v is decided", d)
			}
		}
		for _, b := range p.budgets {
			if c := b.cost; c.Tokens < 0 || c.Tokens > pb.MaxCapacityTokens || !c.Given || c.Tokens == 0 && !b.query {
				t.Errorf("cost %v", c)
			}
			if !utf8.ValidString(b.key.Account) || b.key.Account == "" || strings.TrimSpace(b.key.Account) != b.key.Account {
				t.Errorf("account %q", b.key.Account)
			}
		}
	})
}

// FuzzMapping: a file is read or refused, and what is read can be used.
func FuzzMapping(f *testing.F) {
	f.Add([]byte(fuzzed))
	f.Add([]byte("rules:\n  - {domain: d, entries: [{key: a, value: b}, {key: c}], account: {entry: c}, operation: {entry: c}, cost: policy}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMapping("m.yaml", data)
		if (m == nil) != (err != nil) {
			t.Fatalf("%v, %v", m, err)
		}
		if m == nil {
			return
		}
		for domain, rules := range m.domains {
			for _, r := range rules {
				var entries []entry
				for _, p := range r.entries {
					entries = append(entries, entry{p.key, cmp.Or(p.value, "v")})
				}
				if found, _, p := m.match(domain, entries); found == nil || p == problemForm {
					t.Errorf("nothing of %q matches %v", domain, entries)
				}
			}
		}
	})
}
