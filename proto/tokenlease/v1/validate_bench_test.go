package tokenleasev1

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

func BenchmarkValidate(b *testing.B) {
	cases := []struct {
		name string
		in   validator
	}{
		{"check", &CheckRequest{Key: validKey(), CostTokens: proto.Int64(5)}},
		{"check of 16 budgets", manyParts(MaxCheckParts)},
		{"sync of 2 reports", syncWith(func(*SyncRequest) {})},
		{"sync of 1000 reports", manyReports(MaxSyncBudgets)},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.in.Validate(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
