package record

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/tokenlease/tokenlease/broker/store"
)

var fullGrant = Grant{
	ID: "g1-02a-000000ff", Account: "acme", Operation: "report.create", Region: "eu", Instance: "limiter-0", Epoch: math.MaxUint64,
	Issued: math.MaxInt64, Spent: 2, Returned: 3, Owed: 4, Sequence: 9, OpenedNs: 10, Kept: true, OpenedUnixMs: 11, PolicyVersion: 12, LapsesAfterNs: 13,
}

// What is written is read the quick way, as the general decoder reads it, with every
// field that there is.
func TestQuickGrant(t *testing.T) {
	value := reflect.ValueOf(fullGrant)
	for i := range value.NumField() {
		if value.Field(i).IsZero() {
			t.Errorf("the test says nothing of %s", value.Type().Field(i).Name)
		}
	}
	for _, want := range []Grant{fullGrant, {}, {ID: "g1-000-00000001", Account: "a b"}} {
		var got Grant
		if !got.quick(Encode(want)) || got != want {
			t.Errorf("%s is read as %+v", Encode(want), got)
		}
	}
	for _, odd := range []Grant{{Account: "Büro"}, {Account: `a"b`}, {Issued: -1}} { // for the general decoder
		if got, err := Decode[Grant](store.KeyValue{Value: Encode(odd)}); err != nil || got != odd {
			t.Errorf("%s is read as %+v, %v", Encode(odd), got, err)
		}
	}
}

// FuzzQuickGrant compares with the general decoder whatever is taken the quick way.
func FuzzQuickGrant(f *testing.F) {
	f.Add(Encode(fullGrant))
	f.Add(Encode(Grant{}))
	for _, text := range []string{
		`{}`, `{"id":"a"}`, `{"ID":"a"}`, `{"id":"a","id":"b"}`, `{"id":"a",}`, `{"id":"a"} `, `{"id":"\u0041"}`, `{"epoch":01}`, `{"epoch":1.0}`,
		`{"epoch":18446744073709551616}`, `{"issued":9223372036854775808}`, `{"kept":false}`, `{"kept":true}x`, `{"kept":null}`, `{"issued":-0}`, `{"issued":}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want Grant
		if !got.quick(data) {
			return
		}
		if err := json.Unmarshal(data, &want); err != nil || got != want {
			t.Errorf("%q is read as %+v, want %+v, %v", data, got, want, err)
		}
	})
}

func BenchmarkDecodeGrant(b *testing.B) {
	kv := store.KeyValue{Value: Encode(Grant{
		ID: "g1-02a-000000ff", Account: "acme", Operation: "report.create", Region: "eu", Instance: "limiter-0", Epoch: 3,
		Issued: 100, Spent: 2, Sequence: 9, OpenedNs: 10_000_000, OpenedUnixMs: 1_700_000_000_000, PolicyVersion: 12,
	})}
	b.Run("quick", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode[Grant](kv); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("general", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var g Grant
			if err := json.Unmarshal(kv.Value, &g); err != nil {
				b.Fatal(err)
			}
		}
	})
}
