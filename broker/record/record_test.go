package record

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// Keys are stored: this table must not change.
func TestLayout(t *testing.T) {
	l, h := NewLayout("/test"), lease.Holder{Region: "eu", Instance: "limiter-0"}
	id := lease.GrantID{Generation: 1, Shard: 42, Sequence: 255}
	for got, want := range map[string]string{
		l.Cluster():               "/test/cluster",
		l.Declaration(7):          "/test/declarations/0000000007",
		l.Policy("report.create"): "/test/policies/report.create",
		l.Policy("a/b c"):         "/test/policies/a%2Fb%20c",
		l.Holder(h):               "/test/holders/eu/limiter-0",
		l.Broker("b/1"):           "/test/brokers/b%2F1",
		l.Owner(42):               "/test/owners/02a",
		l.Owner(4095):             "/test/owners/fff",
		l.Head(42):                "/test/shards/02a/head",
		l.Budget(42, lease.Key{Account: "acme", Operation: "report.create"}): "/test/shards/02a/budgets/acme/report.create",
		l.Budget(42, lease.Key{Account: "Büro/1", Operation: "o"}):           "/test/shards/02a/budgets/B%C3%BCro%2F1/o",
		l.Grants(42) + GrantPath(h, 7, id):                                   "/test/shards/02a/grants/eu/limiter-0/0000000007/g1-02a-000000ff",
		l.GrantsOfEpoch(42, h, 7):                                            "/test/shards/02a/grants/eu/limiter-0/0000000007/",
		l.Fence(42, h):                                                       "/test/shards/02a/fences/eu/limiter-0",
		l.Template(42, "a/b"):                                                "/test/shards/02a/templates/a%2Fb",
		l.Audit(1796000000000, "grants.resolve-g1-02a-000000ff"):             "/test/audit/001796000000000-grants.resolve-g1-02a-000000ff",
	} {
		if got != want {
			t.Errorf("key %s, want %s", got, want)
		}
	}
}

func TestNewLayout(t *testing.T) {
	for prefix, want := range map[string]string{"": "/tokenlease/", "/a": "/a/", "/a/": "/a/", "a/b": "a/b/"} {
		if got := NewLayout(prefix).Prefix(); got != want {
			t.Errorf("prefix of %q is %q, want %q", prefix, got, want)
		}
	}
}

// Different names have different keys, and no key of one list is in the range of
// another.
func TestLayoutIsUnambiguous(t *testing.T) {
	l := NewLayout("")
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-c/%. ]{1,4}`)
		a := lease.Key{Account: name.Draw(t, "account"), Operation: name.Draw(t, "operation")}
		b := lease.Key{Account: name.Draw(t, "other account"), Operation: name.Draw(t, "other operation")}
		if a != b && l.Budget(1, a) == l.Budget(1, b) {
			t.Fatalf("%q and %q are both stored at %s", a, b, l.Budget(1, a))
		}
		g := lease.Holder{Region: a.Account, Instance: a.Operation}
		h := lease.Holder{Region: b.Account, Instance: b.Operation}
		from, end := All(l.GrantsOf(1, h))
		at := l.Grants(1) + GrantPath(g, 1, lease.GrantID{Generation: 1, Shard: 1, Sequence: 1})
		if in := at >= from && at < end; in != (g == h) {
			t.Fatalf("a grant of %q in the list of %q: %v", g, h, in)
		}
	})
}

// Epochs and times are in order among the keys.
func TestLayoutOrder(t *testing.T) {
	l, h := NewLayout(""), lease.Holder{Region: "eu", Instance: "limiter-0"}
	var epochs, times []string
	for _, n := range []uint64{1, 2, 9, 10, 99, 100, 4_000_000_000} {
		epochs = append(epochs, l.GrantsOfEpoch(1, h, n))
		times = append(times, l.Audit(int64(n), "x"))
	}
	if !slices.IsSorted(epochs) || !slices.IsSorted(times) {
		t.Errorf("not in order: %v, %v", epochs, times)
	}
}

func rule() lease.Rule {
	return lease.Rule{
		Kind: lease.TokenBucket, Version: 3, Capacity: 40, MaxSharePercent: 100,
		Refill: lease.Rate{Tokens: 20, Interval: time.Second},
	}
}

// ledger has two grants, and something in every field.
func ledger(t *testing.T) lease.Ledger {
	t.Helper()
	l := lease.NewLedger(lease.Key{Account: "acme", Operation: "report.create"}, rule(), 10)
	for i, instance := range []string{"limiter-1", "limiter-0"} {
		id := lease.GrantID{Generation: 1, Shard: 2, Sequence: uint64(i) + 1}
		if err := l.Open(20, id, lease.Holder{Region: "eu", Instance: instance}, 4, 10); err != nil {
			t.Fatal(err)
		}
		if err := l.Account(25_000_021, id, 3, 2, 4); err != nil {
			t.Fatal(err)
		}
		l.Grant(id).Sequence = 9
	}
	l.Advance(30_000_033)
	return l
}

// stored is a ledger as it is read back.
func stored(t *testing.T, l *lease.Ledger) (Budget, []Grant) {
	t.Helper()
	budget, err := Decode[Budget](store.KeyValue{Value: Encode(FromLedger(l))})
	if err != nil {
		t.Fatal(err)
	}
	var grants []Grant
	for _, g := range l.Grants {
		r, err := Decode[Grant](store.KeyValue{Value: Encode(FromGrant(l.Key, g, 7))})
		if err != nil {
			t.Fatal(err)
		}
		grants = append(grants, r)
	}
	return budget, grants
}

// A ledger is the same after it was stored, whatever the order of its grants.
func TestLedgerRoundTrip(t *testing.T) {
	l := ledger(t)
	budget, grants := stored(t, &l)
	for range 2 {
		got, err := budget.Ledger(grants)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != l.String() || !slices.Equal(got.Grants, l.Grants) || got.Remainder == 0 {
			t.Errorf("%v %+v, want %v %+v", &got, got.Grants, &l, l.Grants)
		}
		slices.Reverse(grants)
	}
}

// What cannot be one ledger is refused.
func TestLedgerRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(b *Budget, grants []Grant) []Grant
		want   string
	}{
		{"a grant is missing", func(_ *Budget, g []Grant) []Grant { return g[1:] }, "lists 2 grants, 1 are stored"},
		{"a grant too many", func(b *Budget, g []Grant) []Grant { b.Grants = b.Grants[1:]; return g }, "lists 1 grants, 2 are stored"},
		{"a grant of another budget", func(_ *Budget, g []Grant) []Grant { g[0].Account = "beta"; return g }, "is of budget beta/report.create"},
		{"a grant without a proper ID", func(_ *Budget, g []Grant) []Grant { g[0].ID = "1"; return g }, "is not a grant ID"},
		{"a sum that is off", func(b *Budget, g []Grant) []Grant { b.Reserved++; return g }, "records 11 reserved, its grants have 10"},
		{"a broken invariant", func(b *Budget, g []Grant) []Grant { b.Available = 31; return g }, "exceed the capacity"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := ledger(t)
			budget, grants := stored(t, &l)
			if _, err := budget.Ledger(tc.change(&budget, grants)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestFenceRoundTrip(t *testing.T) {
	f := lease.Fence{Holder: lease.Holder{Region: "eu", Instance: "limiter-0"}, MinEpoch: 4, Told: []lease.Told{{Epoch: 3, Counter: 9}}}
	r, err := Decode[Fence](store.KeyValue{Value: Encode(FromFence(&f, 77))})
	if err != nil || r.HeardUnixMs != 77 {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := r.Fence(); got.Holder != f.Holder || got.MinEpoch != f.MinEpoch || !slices.Equal(got.Told, f.Told) {
		t.Errorf("%+v, want %+v", got, f)
	}
}

func TestRegistrationServes(t *testing.T) {
	for _, tc := range []struct {
		reg  Registration
		want uint64
	}{{Registration{}, 0}, {Registration{Epoch: 3}, 3}, {Registration{Epoch: 3, Retired: true}, 4}} {
		if got := tc.reg.Serves(); got != tc.want {
			t.Errorf("%+v serves %d, want %d", tc.reg, got, tc.want)
		}
	}
}

func TestDecodeNamesTheKey(t *testing.T) {
	for _, value := range []string{"", "{", "[]", `{"available":1.5}`, `{"available":9223372036854775808}`} {
		_, err := Decode[Budget](store.KeyValue{Key: "/test/x", Value: []byte(value)})
		if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "/test/x") || !strings.Contains(err.Error(), "tokenlease verify") {
			t.Errorf("%q: %v", value, err)
		}
	}
}
