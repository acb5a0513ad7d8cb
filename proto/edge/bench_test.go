package edge

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// BenchmarkUnmarshal compares what counting takes with what decoding takes. Requests
// of fewer than two bytes for each element that they may have are not counted.
func BenchmarkUnmarshal(b *testing.B) {
	batch := func(checks, parts int) proto.Message {
		m := largestBatch()
		m.Checks = m.GetChecks()[:checks]
		for i, c := range m.GetChecks() {
			c.Key.Account, c.DecisionId = fmt.Sprintf("account-%d", i), fmt.Sprintf("decision-0123456789abcdef-%d", i)
			c.Also = c.GetAlso()[:parts]
		}
		return m
	}
	sync := func(budgets, accounts int) proto.Message {
		m := largestSync()
		for i, r := range m.GetBudgets() {
			r.Key.Account, r.GrantId = fmt.Sprintf("account-%d", i), fmt.Sprintf("g1-000-%08d", i)
			r.SpentTokens, r.WantTokens, r.PolicyVersion, r.BoundNs = 1_000_000, 100, 12, 1_000_000_000
		}
		m.Budgets, m.Closes, m.Accounts = m.GetBudgets()[:budgets], nil, m.GetAccounts()[:accounts]
		return m
	}
	for _, test := range []struct {
		name string
		m    proto.Message
	}{
		{"check", batch(1, 0).(*tokenleasev1.CheckBatchRequest).GetChecks()[0]},
		{"1000 checks", batch(1000, 0)},
		{"1000 checks of 16 budgets", batch(1000, 15)},
		{"sync of 10 budgets", sync(10, 0)},
		{"sync of 1000 budgets", sync(1000, 0)},
		{"sync of 10000 grants", sync(0, 10)},
		{"sync of 100000 grants", sync(0, 100)},
	} {
		binary, text := encodings(b, test.m)
		for _, way := range []struct {
			name string
			data []byte
			read func(data []byte, m proto.Message) error
		}{
			{"binary", binary, proto.Unmarshal},
			{"binary count", binary, func(data []byte, m proto.Message) error {
				_, err := shapeOf(m.ProtoReflect().Descriptor()).count(data, unbounded, 0)
				return err
			}},
			{"json", text, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal},
			{"json count", text, func(data []byte, _ proto.Message) error {
				_, err := countJSON(data, unbounded)
				return err
			}},
		} {
			b.Run(test.name+"/"+way.name, func(b *testing.B) {
				b.SetBytes(int64(len(way.data)))
				for b.Loop() {
					if err := way.read(way.data, newMessage(test.m.ProtoReflect().Descriptor())); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
