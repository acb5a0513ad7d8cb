package envoy

import (
	"context"
	"log/slog"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// Config of a service.
type Config struct {
	// Decider decides. If it is a [decision.Reserver] as well, queries and late costs
	// are exact. nil: nothing can be decided, and every request ends in an error.
	Decider decision.Decider
	// Mapping of descriptors to budgets. nil: nothing matches, and all is denied.
	Mapping *Mapping
	// Writer writes the response headers, where the mapping wants them.
	Writer httpanswer.Writer

	Now        func() time.Time      // bounds how often is logged; default time.Now
	Registerer prometheus.Registerer // nil: metrics go nowhere
	Logger     *slog.Logger          // nil discards
}

// Service is Envoy's rate limit service. Create it with [New].
type Service struct {
	ratelimit.UnimplementedRateLimitServiceServer

	decider decision.Decider
	mapping *Mapping
	writer  httpanswer.Writer
	metrics *metrics
	log     *seldom
	health  *health.Server
}

// New makes a service. It panics if the registerer has one already.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Registerer == nil {
		cfg.Registerer = prometheus.NewRegistry()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Decider == nil {
		cfg.Decider = nobody{}
	}
	s := &Service{
		decider: cfg.Decider, mapping: cfg.Mapping, writer: cfg.Writer,
		metrics: newMetrics(cfg.Registerer), log: newSeldom(cfg.Logger, cfg.Now), health: health.NewServer(),
	}
	s.SetServing(true)
	return s
}

// nobody is the decider where there is none.
type nobody struct{}

// Decide implements decision.Decider.
func (nobody) Decide(context.Context, decision.Request) decision.Answer {
	return decision.Unavailable("no limiter is configured")
}

// Register adds the service and gRPC's health service to a server, which should
// have been made with [ServerOptions].
func (s *Service) Register(server *grpc.Server) {
	ratelimit.RegisterRateLimitServiceServer(server, s)
	healthpb.RegisterHealthServer(server, s.health)
}

// SetServing sets what the health service says, of the server as a whole and of
// this service. It is true at first. Envoy's health checks take a limiter that is
// not serving out of use; requests are decided all the same.
func (s *Service) SetServing(serving bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", state)
	s.health.SetServingStatus(ratelimit.RateLimitService_ServiceDesc.ServiceName, state)
}

// ShouldRateLimit implements ratelimit.RateLimitServiceServer. The only error is
// codes.Unavailable: nobody could tell, or nobody was there to ask.
func (s *Service) ShouldRateLimit(ctx context.Context, req *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	p := s.mapping.plan(req)
	s.noteUnmatched(req, p)
	if refused := s.refuse(p); refused != nil {
		return refused, nil
	}
	var v verdict
	if p.late {
		v = s.charge(ctx, p)
	} else {
		v = s.decide(ctx, p)
	}
	s.metrics.request(p.domain, v.outcome)
	if v.outcome == outcomeUnavailable {
		return nil, status.Error(codes.Unavailable, "tokenlease: whether the budgets admit this could not be decided ("+httpanswer.Word(v.answer.Reason)+")")
	}
	return s.response(p, v), nil
}

// refuse answers a request that is not to be decided; nil if it is to be.
func (s *Service) refuse(p plan) *ratelimit.RateLimitResponse {
	resp := &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OVER_LIMIT}
	outcome, because := outcomeOK, ""
	for _, m := range p.marks {
		code := ratelimit.RateLimitResponse_UNKNOWN // it was not decided
		switch {
		case m.problem != "":
			s.metrics.refused(m.problem)
			outcome, because, code = outcomeRefused, "refused", ratelimit.RateLimitResponse_OVER_LIMIT
		case p.problem != "":
			code = ratelimit.RateLimitResponse_OVER_LIMIT
		case m.unmatched() && !s.mapping.allows():
			code = ratelimit.RateLimitResponse_OVER_LIMIT
			if outcome == outcomeOK {
				outcome, because = outcomeUnmatched, "unmatched"
			}
		}
		resp.Statuses = append(resp.Statuses, &ratelimit.RateLimitResponse_DescriptorStatus{Code: code})
	}
	if p.problem != "" {
		s.metrics.refused(p.problem)
		outcome, because = outcomeRefused, "refused"
	}
	if outcome == outcomeOK {
		return nil
	}
	s.metrics.request(p.domain, outcome)
	resp.DynamicMetadata = metadata(because, false)
	if outcome == outcomeRefused {
		s.log.warn("refused", "an Envoy request was refused: its descriptors cannot be told apart safely", "domain", p.domain, "why", string(p.why()))
	}
	return resp
}

// why is the first problem of a plan.
func (p plan) why() problem {
	if p.problem != "" {
		return p.problem
	}
	for _, m := range p.marks {
		if m.problem != "" {
			return m.problem
		}
	}
	return ""
}

// allows says whether what matches nothing passes.
func (m *Mapping) allows() bool { return m != nil && m.allowUnmatched }

// noteUnmatched counts and logs descriptors that match nothing.
func (s *Service) noteUnmatched(req *ratelimit.RateLimitRequest, p plan) {
	answer := "deny"
	if s.mapping.allows() {
		answer = "allow"
	}
	for i, m := range p.marks {
		if !m.unmatched() {
			continue
		}
		s.metrics.unmatched(p.domain, answer)
		s.log.warn("unmatched", "an Envoy descriptor matches no rule: add one, or take the descriptor out of Envoy's configuration",
			"domain", cut(req.GetDomain()), "keys", keys(req.GetDescriptors()[i]), "answer", answer)
	}
}
