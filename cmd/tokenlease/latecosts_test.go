package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	envoyratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	envoyservice "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
)

// chargeLate charges a cost that has happened as Envoy does, and says whether all
// of it was.
func chargeLate(ctx context.Context, s *stack, r *stackRegion, cost uint32) bool {
	s.t.Helper()
	mapping, err := envoy.ParseMapping("m", []byte("rules:\n  - domain: api\n    entries: [{key: account}]\n    account: {entry: account}\n    operation: op\n    late: true\n"))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := envoy.New(envoy.Config{Decider: r.Limiter, Mapping: mapping}).ShouldRateLimit(ctx, &envoyservice.RateLimitRequest{
		Domain: "api", HitsAddend: cost,
		Descriptors: []*envoyratelimit.RateLimitDescriptor{{Entries: []*envoyratelimit.RateLimitDescriptor_Entry{{Key: "account", Value: "acme"}}}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.GetOverallCode() == envoyservice.RateLimitResponse_OK
}

// A late cost above what is there is charged with what is there, wherever the
// broker has it, and the work of afterwards is denied.
func TestLateCostChargesWhatIsThere(t *testing.T) {
	for _, spent := range []int64{0, 300, 999, 1000} {
		t.Run(fmt.Sprintf("%d of 1000 spent", spent), func(t *testing.T) {
			onStack(t, bucketPolicy(1000, ""), func(s *stack) {
				eu, us := s.region("eu"), s.region("us")
				if a := eu.Decide(s.t.Context(), requestOf("acme", "op", spent/2)); !a.Allowed && spent > 1 {
					s.t.Fatalf("%+v", a)
				}
				s.pass(time.Minute) // eu gives back what it does not use
				if a := us.Decide(s.t.Context(), requestOf("acme", "op", spent-spent/2)); !a.Allowed && spent > 0 {
					s.t.Fatalf("%+v", a)
				}
				s.pass(time.Minute)
				if chargeLate(s.t.Context(), s, eu, 1000) != (spent == 0) {
					s.t.Errorf("the answer is wrong")
				}
				s.pass(time.Minute)
				for _, r := range []*stackRegion{eu, us} {
					if a := r.Decide(s.t.Context(), requestOf("acme", "op", 1)); a.Allowed {
						s.t.Errorf("some was left: %+v", a)
					}
				}
			})
		})
	}
}
