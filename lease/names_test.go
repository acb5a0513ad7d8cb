package lease_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/lease"
)

func TestGrantIDText(t *testing.T) {
	for _, tc := range []struct {
		id   lease.GrantID
		text string
	}{
		{lease.GrantID{}, ""},
		{lease.GrantID{Generation: 1, Shard: 3, Sequence: 42}, "g1-003-0000002a"},
		{lease.GrantID{Generation: 1}, "g1-000-00000000"},
		{lease.GrantID{Sequence: 1}, "g0-000-00000001"},
		{lease.GrantID{Generation: 10, Shard: 0xabcd, Sequence: 0x1_2345_6789}, "g10-abcd-123456789"},
		{lease.GrantID{Generation: math.MaxUint32, Shard: math.MaxUint32, Sequence: math.MaxUint64}, "g4294967295-ffffffff-ffffffffffffffff"},
	} {
		if got := tc.id.String(); got != tc.text {
			t.Errorf("%#v reads %q, want %q", tc.id, got, tc.text)
		}
		if got, err := lease.ParseGrantID(tc.text); err != nil || got != tc.id {
			t.Errorf("%q parses as %#v, %v", tc.text, got, err)
		}
		if tc.id.IsZero() != (tc.text == "") {
			t.Errorf("%#v: zero is %v", tc.id, tc.id.IsZero())
		}
	}
}

func TestParseGrantIDRejects(t *testing.T) {
	for _, text := range []string{
		" ", "g", "g1", "g1-003", "1-003-0000002a", "h1-003-0000002a", "G1-003-0000002a",
		"g1-003-0000002a-1", "g1-003-0000002A", "g1-3-0000002a", "g1-0003-0000002a", "g1-003-2a", "g1-003-00000002a",
		"g01-003-0000002a", "g+1-003-0000002a", "g-1-003-0000002a", "g1-003-", "g-003-0000002a", "g1--0000002a",
		"g1-0x3-0000002a", "g1-003-0000_02a", "g4294967296-003-0000002a", "g1-100000000-0000002a",
		"g1-003-10000000000000000", " g1-003-0000002a", "g1-003-0000002a ", "g1-003-0000002a\n", "g0-000-00000000",
		"g１-003-0000002a", "g1-003-0000002a\x00", "\xff",
	} {
		if id, err := lease.ParseGrantID(text); err == nil {
			t.Errorf("%q parses as %#v", text, id)
		} else if !id.IsZero() || !strings.Contains(err.Error(), "g1-003-0000002a") {
			t.Errorf("%q: %#v, %v", text, id, err)
		}
	}
	if _, err := lease.ParseGrantID(strings.Repeat("x", 1_000_000)); len(err.Error()) > 200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func FuzzParseGrantID(f *testing.F) {
	for _, text := range []string{"", "g1-003-0000002a", "g0-000-00000000", "g4294967295-ffffffff-ffffffffffffffff", "g1-003-0000002A", "g01-003-0000002a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := lease.ParseGrantID(text)
		if err == nil && id.String() != text {
			t.Errorf("%q parses as %#v, which reads %q", text, id, id)
		}
		if err != nil && !id.IsZero() {
			t.Errorf("%q: %#v, %v", text, id, err)
		}
	})
}

func TestCompare(t *testing.T) {
	ids := []lease.GrantID{{}, {Sequence: 9}, {Shard: 1}, {Shard: 1, Sequence: 1}, {Generation: 1}, {Generation: 1, Shard: 2}, {Generation: 2}}
	keys := []lease.Key{{}, {Operation: "b"}, {Account: "A", Operation: "a"}, {Account: "a"}, {Account: "a", Operation: "b"}, {Account: "ab", Operation: "a"}}
	holders := []lease.Holder{{}, {Instance: "b"}, {Region: "eu", Instance: "a"}, {Region: "eu", Instance: "b"}, {Region: "us"}}
	if !slices.IsSortedFunc(ids, lease.GrantID.Compare) || !slices.IsSortedFunc(keys, lease.Key.Compare) ||
		!slices.IsSortedFunc(holders, lease.Holder.Compare) {
		t.Error("not in order")
	}
	for i := range ids {
		if got := ids[i].Compare(ids[max(0, i-1)]); got != min(i, 1) {
			t.Errorf("%v to the one before: %d", ids[i], got)
		}
	}
	for i := range keys {
		if got := keys[i].Compare(keys[max(0, i-1)]); got != min(i, 1) {
			t.Errorf("%v to the one before: %d", keys[i], got)
		}
	}
	for i := range holders {
		if got := holders[i].Compare(holders[max(0, i-1)]); got != min(i, 1) {
			t.Errorf("%v to the one before: %d", holders[i], got)
		}
	}
	if got := eu.String(); got != "eu/a" {
		t.Errorf("holder %q", got)
	}
}

// These values must never change: what is stored is placed by them.
func TestShardOfIsFixed(t *testing.T) {
	for _, tc := range []struct {
		account, operation string
		of16, of1000       uint32
	}{
		{"acme", "report.create", 13, 629},
		{"Acme", "report.create", 13, 141},
		{"acme", "report.delete", 14, 494},
		{"", "", 3, 995},
		{"a", "bc", 1, 585},
		{"ab", "c", 4, 364},
		{"bücher", "öffnen", 4, 564},
		{"tenant-000001", "*", 10, 522},
		{strings.Repeat("x", 300), "y", 0, 448},
	} {
		key := lease.Key{Account: tc.account, Operation: tc.operation}
		if got := lease.ShardOf(key, 16); got != tc.of16 {
			t.Errorf("%q of 16: shard %d, want %d", key, got, tc.of16)
		}
		if got := lease.ShardOf(key, 1000); got != tc.of1000 {
			t.Errorf("%q of 1000: shard %d, want %d", key, got, tc.of1000)
		}
		if got := lease.ShardOf(key, 1); got != 0 {
			t.Errorf("%q of 1: shard %d", key, got)
		}
	}
}

// Keys that differ in one number still spread evenly: within 15% of the mean,
// where the deviation by chance alone is 3%.
func TestShardOfSpreadsEvenly(t *testing.T) {
	for _, shards := range []uint32{2, 16, 60, 64} {
		for _, form := range []string{"account-%d", "%d", "tenant%08d/x"} {
			perShard := 1000
			counts := make([]int, shards)
			for i := range perShard * int(shards) {
				counts[lease.ShardOf(lease.Key{Account: fmt.Sprintf(form, i), Operation: "report.create"}, shards)]++
			}
			for shard, n := range counts {
				if n < perShard*85/100 || n > perShard*115/100 {
					t.Errorf("%s: shard %d of %d has %d keys, the mean is %d", form, shard, shards, n, perShard)
				}
			}
		}
	}
}
