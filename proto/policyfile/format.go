package policyfile

import (
	"bytes"
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Format writes valid policies as a file that [Parse] reads back to the same
// policies, but for versions and times, which a file does not have.
//
// Optional fields are written out where they say something; without policies the
// list is empty, which Parse refuses.
func Format(policies []*tokenleasev1.Policy) []byte {
	var b bytes.Buffer
	if len(policies) == 0 {
		return []byte("policies: []\n")
	}
	b.WriteString("policies:\n")
	for _, p := range policies {
		formatPolicy(&b, p)
	}
	return b.Bytes()
}

// formatPolicy writes one element of the list.
func formatPolicy(b *bytes.Buffer, p *tokenleasev1.Policy) {
	fmt.Fprintf(b, "  - operation: %s\n", strictyaml.FormatName(p.GetOperation()))
	bucket := p.GetTokenBucket()
	fmt.Fprintf(b, "    token-bucket:\n      capacity: %d\n      refill: %s\n", bucket.GetCapacityTokens(), FormatRefill(bucket))
	fmt.Fprintf(b, "    cost: %d\n", p.GetDefaultCostTokens())
	if p.GetMaxCostTokens() > 0 {
		fmt.Fprintf(b, "    max-cost: %d\n", p.GetMaxCostTokens())
	}
	if p.GetAllowZeroCost() {
		b.WriteString("    allow-zero-cost: true\n")
	}
	share := p.GetMaxSharePercent()
	if share == 0 {
		share = tokenleasev1.MaxSharePercent
	}
	fmt.Fprintf(b, "    max-share: %d%%\n    reclaim: proof\n    on-unavailable: reject\n", share)
}

// FormatRefill writes the refill of a bucket as a file has it: "20 per 1s", or
// "0" for a fixed quota.
func FormatRefill(bucket *tokenleasev1.TokenBucket) string {
	return strictyaml.FormatRate(bucket.GetRefillTokens(), time.Duration(bucket.GetRefillIntervalNs()))
}
