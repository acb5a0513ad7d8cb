package policyfile_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func TestFormat(t *testing.T) {
	policies := []*tokenleasev1.Policy{
		policy(func(p *tokenleasev1.Policy) { p.Version, p.UpdatedUnixMs = 3, 1_790_000_000_000 }),
		policy(func(p *tokenleasev1.Policy) {
			p.Operation = "true"
			bucket(p, 100, 0, 0)
			p.DefaultCostTokens, p.MaxCostTokens, p.AllowZeroCost = 0, 0, true
			p.MaxSharePercent, p.Reclaim, p.OnUnavailable = 0, 0, 0
		}),
		policy(func(p *tokenleasev1.Policy) {
			p.Operation = `a "b": #ü`
			bucket(p, 1, 3, 90e9)
			p.MaxSharePercent = 60
		}),
	}
	const want = `policies:
  - operation: report.create
    token-bucket:
      capacity: 40
      refill: 20 per 1s
    cost: 5
    max-cost: 40
    max-share: 100%
    reclaim: proof
    on-unavailable: reject
  - operation: "true"
    token-bucket:
      capacity: 100
      refill: 0
    cost: 0
    allow-zero-cost: true
    max-share: 100%
    reclaim: proof
    on-unavailable: reject
  - operation: "a \"b\": #ü"
    token-bucket:
      capacity: 1
      refill: 3 per 90s
    cost: 5
    max-cost: 40
    max-share: 60%
    reclaim: proof
    on-unavailable: reject
`
	if got := string(policyfile.Format(policies)); got != want {
		t.Errorf("Format:\n%s\nwant\n%s", got, want)
	}
	if _, err := policyfile.Parse("p.yaml", []byte(want)); err != nil {
		t.Errorf("what was written is not read: %v", err)
	}
	if got := string(policyfile.Format(nil)); got != "policies: []\n" {
		t.Errorf("Format(nil) = %q", got)
	}
}

// FuzzParse holds that no file makes Parse panic, that what it accepts is valid,
// and that it survives being written and read again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{full, least(), least("    refill: 1 per 366d", "  max-share: 1%"), least("  cost: 010"),
		"policies: [{operation: \"\\u2028\", token-bucket: {capacity: 0}}]", least() + "---\n", "a: &a [*a]", "\t", "- - -", "{[}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		policies, err := policyfile.Parse("p.yaml", data)
		if err != nil {
			if policies != nil || err.Error() == "" {
				t.Fatalf("policies %v with error %q", policies, err)
			}
			return
		}
		for _, p := range policies {
			if err := p.Validate(); err != nil {
				t.Fatalf("accepted an invalid policy: %v", err)
			}
		}
		written := policyfile.Format(policies)
		again, err := policyfile.Parse("again.yaml", written)
		if err != nil {
			t.Fatalf("Parse(Format) = %v\n%s", err, written)
		}
		if len(again) != len(policies) {
			t.Fatalf("%d policies became %d", len(policies), len(again))
		}
		for i := range again {
			if !proto.Equal(again[i], policies[i]) {
				t.Fatalf("%v became %v", policies[i], again[i])
			}
		}
		if twice := policyfile.Format(again); !bytes.Equal(twice, written) {
			t.Fatalf("Format changed:\n%s\n%s", written, twice)
		}
	})
}
