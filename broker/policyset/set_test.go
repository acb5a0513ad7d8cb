package policyset

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

var layout = record.NewLayout("/test")

func rule(operation string, version, capacity int64) lease.Policy {
	return lease.Policy{Operation: operation, DefaultCost: 1, Rule: lease.Rule{Kind: lease.TokenBucket, Version: version, Capacity: capacity, MaxSharePercent: 100}}
}

func setOf(t *testing.T, records map[string]any) (*Set, []error) {
	t.Helper()
	var kvs []store.KeyValue
	for key, r := range records {
		value, ok := r.([]byte)
		if !ok {
			value = record.Encode(r)
		}
		kvs = append(kvs, store.KeyValue{Key: key, Value: value, ModRevision: 5})
	}
	s, faults, err := Of(layout, kvs)
	if err != nil {
		t.Fatal(err)
	}
	return s, faults
}

// What goes before what, and under which version.
func TestRules(t *testing.T) {
	s, faults := setOf(t, map[string]any{
		layout.PolicySet():      record.PolicySet{Version: 20},
		layout.Policy("create"): rule("create", 1, 10),
		layout.Policy("read"):   rule("read", 2, 20),
		layout.Plan("free"):     record.Plan{Name: "free", Version: 4, Shrunk: 4, Policies: []lease.Policy{rule("create", 3, 30)}},
		layout.Plan("premium"):  record.Plan{Name: "premium", Version: 5, Policies: []lease.Policy{rule("create", 5, 50)}},
		layout.Defaults():       record.Defaults{Plan: "free", Version: 6},
		layout.Disable("read"):  record.Disabled{Operation: "read", Disabled: true, Because: "broken", Version: 7},
		layout.Disable("write"): record.Disabled{Operation: "write", Version: 8},
	})
	if len(faults) != 0 || s.Version != 20 || !s.Recorded {
		t.Fatalf("%+v, %v", s, faults)
	}
	own := record.Account{Account: "own", Policies: []lease.Policy{rule("create", 9, 90)}}
	for _, tc := range []struct {
		account   record.Account
		operation string
		want      string
	}{
		{record.Account{}, "create", "30 v6 plan free account "},
		{record.Account{}, "read", "20 v7 plan  account  disabled broken"},
		{record.Account{}, "write", "none"},
		{record.Account{Plan: "premium", Shrunk: 2}, "create", "50 v5 plan premium account "},
		{record.Account{Plan: "premium", Shrunk: 11}, "create", "50 v11 plan premium account "},
		{record.Account{Plan: "free"}, "create", "30 v4 plan free account "},
		{record.Account{Plan: "free"}, "read", "20 v7 plan  account  disabled broken"},
		{record.Account{Plan: "gold"}, "create", "none"},
		{own, "create", "90 v9 plan  account own"},
		{own, "read", "20 v7 plan  account  disabled broken"},
	} {
		got := "none"
		if r, ok := s.Rules(tc.account, tc.operation); ok {
			got = fmt.Sprintf("%d v%d plan %s account %s", r.Rule.Capacity, r.Rule.Version, r.Plan, r.Account)
			if r.Disabled {
				got += " disabled " + r.DisabledBecause
			}
		}
		if got != tc.want {
			t.Errorf("%+v, %s: %s, want %s", tc.account, tc.operation, got, tc.want)
		}
	}
}

// The operations read every record of a set, and nothing else.
func TestOpsReadAll(t *testing.T) {
	st := store.NewMemory()
	l := record.NewLayout("")
	wanted := []string{l.Policy("a"), l.Policy("\u00fc/x"), l.PolicySet(), l.Plan("free"), l.Defaults(), l.Disable("a"), l.Disable("z")}
	others := []string{
		l.Account("a"), l.Account("zoe"), l.History(1), l.Cluster(), l.Declaration(2), l.Owner(0), l.Head(0), l.Move(0),
		l.Holder(lease.Holder{Region: "eu", Instance: "a"}), l.Broker("b"), l.Audit(1, "x"),
	}
	for _, key := range append(wanted, others...) {
		if _, err := st.Apply(store.Txn{Then: []store.Op{{Kind: store.OpPut, Key: key, Value: []byte("{}")}}}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := st.Apply(store.Txn{Then: append(Ops(l), store.Op{Kind: store.OpGet, Key: "after"})})
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, r := range res.Results {
		for _, kv := range r.KVs {
			read[kv.Key] = true
		}
	}
	for _, key := range wanted {
		if !read[key] {
			t.Errorf("%s is not read", key)
		}
	}
	if len(read) != len(wanted) {
		t.Errorf("%v are read", read)
	}
	if _, rest, _, err := Take(l, res.Results); err != nil || len(rest) != 1 {
		t.Errorf("%d results are left, %v", len(rest), err)
	}
}

// What cannot be used rules nobody: nobody falls back to what may allow more.
func TestUnusableRecords(t *testing.T) {
	bad := rule("create", 3, 30)
	bad.Rule.MaxSharePercent = 0
	s, faults := setOf(t, map[string]any{
		layout.Policy("create"): rule("create", 1, 10),
		layout.Policy("read"):   []byte("{"),
		layout.Plan("bad"):      record.Plan{Name: "bad", Policies: []lease.Policy{bad, rule("read", 3, 1)}},
		layout.Plan("worse"):    []byte("["),
	})
	if len(faults) != 3 {
		t.Errorf("faults %v", faults)
	}
	for _, plan := range []string{"bad", "worse"} {
		for _, operation := range []string{"create", "read"} {
			if r, ok := s.Rules(record.Account{Plan: plan}, operation); ok {
				t.Errorf("plan %s rules %s by %+v", plan, operation, r)
			}
		}
	}
	if _, ok := s.Rules(record.Account{}, "create"); !ok {
		t.Error("the others lost their policy")
	}
	s, _ = setOf(t, map[string]any{layout.Policy("create"): rule("create", 1, 10), layout.Defaults(): []byte("x")})
	if r, ok := s.Rules(record.Account{}, "create"); ok {
		t.Errorf("without a default plan that can be read: %+v", r)
	}
	_, _, err := Of(layout, []store.KeyValue{{Key: layout.PolicySet(), Value: []byte("x")}})
	if !errors.Is(err, record.ErrUnreadable) || !strings.Contains(err.Error(), layout.PolicySet()) {
		t.Errorf("a policy version that cannot be read: %v", err)
	}
}

// An operation stays disabled where it cannot be read whether it is, under a version
// that no other has had, and until that is said anew.
func TestUnreadableDisabled(t *testing.T) {
	for name, damaged := range map[string]any{"no JSON": []byte("{"), "empty": []byte("{}"), "another operation's": record.Disabled{Operation: "read", Version: 3}} {
		s, faults := setOf(t, map[string]any{
			layout.PolicySet():         record.PolicySet{Version: 9},
			layout.Policy("create/x"):  rule("create/x", 1, 10),
			layout.Policy("read"):      rule("read", 1, 10),
			layout.Disable("create/x"): damaged,
		})
		r, ok := s.Rules(record.Account{}, "create/x")
		if !ok || !r.Disabled || !strings.Contains(r.DisabledBecause, "cannot be read") || r.Rule.Version != 9 {
			t.Errorf("%s: ruled by %+v, %v", name, r, ok)
		}
		if len(faults) != 1 || !errors.Is(faults[0], record.ErrUnreadable) || !strings.Contains(faults[0].Error(), layout.Disable("create/x")) {
			t.Errorf("%s: faults %v", name, faults)
		}
		if r, ok := s.Rules(record.Account{}, "read"); !ok || r.Disabled || r.Rule.Version != 1 {
			t.Errorf("%s: the other operation is ruled by %+v, %v", name, r, ok)
		}
		if d, ok := s.Disable("create/x"); !ok || !d.Disabled || d.Version != 9 {
			t.Errorf("%s: told as %+v, %v", name, d, ok)
		}
	}
	s, faults := setOf(t, map[string]any{layout.Disables() + "%zz": []byte("{")})
	if len(faults) != 1 || len(s.Disabled()) != 0 {
		t.Errorf("a key of no operation: %v, %v", faults, s.Disabled())
	}
}

// A delta names what has changed, and everything where that is not known any more.
func TestChangedSince(t *testing.T) {
	versions := record.PolicySet{Version: 4, TouchedSince: 1}.Next(5, 0, []string{"acme"}, nil).Next(6, 0, nil, []string{"gone"}).Next(7, 0, []string{"zoe"}, nil)
	s, _ := setOf(t, map[string]any{layout.PolicySet(): versions, layout.Policy("create"): rule("create", 6, 10), layout.Policy("read"): rule("read", 2, 10)})
	key := func(account, operation string) lease.Key { return lease.Key{Account: account, Operation: operation} }
	for _, tc := range []struct {
		version int64
		key     lease.Key
		want    bool
	}{
		{7, key("zoe", "create"), false},
		{6, key("zoe", "read"), true},
		{6, key("acme", "read"), false},
		{5, key("acme", "create"), true},
		{5, key("acme", "gone"), true},
		{4, key("acme", "read"), true},
		{4, key("other", "read"), false},
		{1, key("other", "read"), true}, // its policy is of version 2
		{0, key("other", "write"), true},
		{8, key("other", "write"), true}, // the store was set back
	} {
		if got := s.ChangedSince(tc.version).Concerns(tc.key); got != tc.want {
			t.Errorf("since version %d, %v: %v", tc.version, tc.key, got)
		}
	}
	for version, want := range map[int64]string{0: "acme zoe", 4: "acme zoe", 5: "zoe", 6: "zoe", 7: "", 8: "acme zoe"} {
		var got []string
		for _, name := range []string{"acme", "zoe"} {
			if s.ChangedSince(version).Outdates(name, nil) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("since version %d %v are outdated, want %s", version, got, want)
		}
	}
	if s.ChangedSince(4).Outdates("acme", &record.Account{Version: 5}) {
		t.Error("an account is outdated that was read as it is")
	}
	if !s.ChangedSince(7).Empty() || s.ChangedSince(6).Empty() {
		t.Error("emptiness")
	}
}

// The list of what was touched is bounded, by whole versions.
func TestTouchedIsBounded(t *testing.T) {
	var p record.PolicySet
	for version := int64(1); version <= 40; version++ {
		var accounts []string
		for i := range 50 {
			accounts = append(accounts, fmt.Sprintf("%d-%d-%s", version, i, strings.Repeat("x", int(version%7)*10)))
		}
		p = p.Next(version, 0, accounts, nil)
		bytes := 0
		for _, touched := range p.Touched {
			bytes += len(touched.Account)
			if touched.Version <= p.TouchedSince {
				t.Fatalf("version %d: %+v is of before %d", version, touched, p.TouchedSince)
			}
		}
		if len(p.Touched) > 256 || bytes > 16<<10 {
			t.Fatalf("version %d: %d names of %d bytes", version, len(p.Touched), bytes)
		}
		if touched, ok := p.TouchedAfter(version - 1); !ok || len(touched) != 50 {
			t.Fatalf("version %d names %d of its own accounts, %v", version, len(touched), ok)
		}
		if _, ok := p.TouchedAfter(p.TouchedSince - 1); ok {
			t.Fatalf("version %d tells what it does not know", version)
		}
	}
}
