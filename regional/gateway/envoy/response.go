package envoy

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// response is the answer to a request that was decided.
func (s *Service) response(p plan, v verdict) *ratelimit.RateLimitResponse {
	resp := &ratelimit.RateLimitResponse{
		OverallCode: ratelimit.RateLimitResponse_OK,
		Statuses:    make([]*ratelimit.RateLimitResponse_DescriptorStatus, 0, len(p.marks)),
	}
	if v.outcome == outcomeDenied || v.outcome == outcomeLateShort {
		resp.OverallCode = ratelimit.RateLimitResponse_OVER_LIMIT
	}
	for _, m := range p.marks {
		if m.unmatched() { // and allowed
			resp.Statuses = append(resp.Statuses, &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK})
			continue
		}
		resp.Statuses = append(resp.Statuses, statusOf(p.budgets[m.budget], v.parts[m.budget]))
	}
	if v.outcome != outcomeOK && v.outcome != outcomeLatePaid {
		resp.DynamicMetadata = metadata(httpanswer.Word(v.answer.Reason), v.answer.Shadow)
	}
	if s.mapping.responseHeaders && !p.late {
		resp.ResponseHeadersToAdd = s.headers(p, v)
	}
	return resp
}

// statusOf is the status of a descriptor.
func statusOf(b budget, p part) *ratelimit.RateLimitResponse_DescriptorStatus {
	st := &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK}
	switch {
	case !p.decided:
		st.Code = ratelimit.RateLimitResponse_UNKNOWN
		return st
	case p.denied:
		st.Code = ratelimit.RateLimitResponse_OVER_LIMIT
	}
	a := p.answer
	if a.Limit > 0 || a.PolicyVersion > 0 {
		st.CurrentLimit = &ratelimit.RateLimitResponse_RateLimit{
			Name: plainName(b.key.Operation), RequestsPerUnit: capped(a.Limit), Unit: unitOf(a.Window),
		}
		st.LimitRemaining = capped(a.Remaining)
	}
	if p.denied && waits(a) {
		st.DurationUntilReset = durationpb.New(time.Duration(max(1, a.RetrySeconds())) * time.Second)
	}
	return st
}

// waits says whether waiting helps against a denial. Of permanent ones it does
// not, whatever the answer says.
func waits(a decision.Answer) bool { return a.HasRetry && a.Reason == pb.Reason_REASON_EXHAUSTED }

// capped is a number of tokens as Envoy can carry it.
func capped(n int64) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }

// unitOf is the unit that is exactly as long, as Envoy counts months and years.
func unitOf(window time.Duration) ratelimit.RateLimitResponse_RateLimit_Unit {
	const day = 24 * time.Hour
	switch window {
	case time.Second:
		return ratelimit.RateLimitResponse_RateLimit_SECOND
	case time.Minute:
		return ratelimit.RateLimitResponse_RateLimit_MINUTE
	case time.Hour:
		return ratelimit.RateLimitResponse_RateLimit_HOUR
	case day:
		return ratelimit.RateLimitResponse_RateLimit_DAY
	case 7 * day:
		return ratelimit.RateLimitResponse_RateLimit_WEEK
	case 30 * day:
		return ratelimit.RateLimitResponse_RateLimit_MONTH
	case 365 * day:
		return ratelimit.RateLimitResponse_RateLimit_YEAR
	}
	return ratelimit.RateLimitResponse_RateLimit_UNKNOWN
}

// plainName is a name that can stand between quotes in a header field, as Envoy
// puts it there without a look; empty if it cannot.
func plainName(name string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:"
	if strings.Trim(name, letters) != "" {
		return ""
	}
	return name
}

// metadata tells a reason to Envoy's access log and later filters.
func metadata(reason string, shadow bool) *structpb.Struct {
	fields := map[string]*structpb.Value{"reason": structpb.NewStringValue(reason)}
	if shadow {
		fields["shadow"] = structpb.NewBoolValue(true)
	}
	return &structpb.Struct{Fields: fields}
}

// headers are the fields that every HTTP form of a gateway shares. They tell the
// numbers of the caller's own budget, and of none that others share.
func (s *Service) headers(p plan, v verdict) []*corepb.HeaderValue {
	a := v.answer
	own := slices.IndexFunc(p.budgets, func(b budget) bool { return !b.shared })
	a.Parts, a.Limit, a.Remaining, a.Window = nil, 0, 0, 0
	if own >= 0 {
		mine := v.parts[own].answer
		a.Limit, a.Remaining, a.Window = mine.Limit, mine.Remaining, mine.Window
	}
	fields := http.Header{}
	s.writer.Headers(fields, a)
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	var all []*corepb.HeaderValue
	for _, name := range names {
		all = append(all, &corepb.HeaderValue{Key: strings.ToLower(name), Value: fields.Get(name)})
	}
	return all
}
