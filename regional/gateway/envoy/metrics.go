package envoy

import (
	"github.com/prometheus/client_golang/prometheus"
)

// outcome is what became of a request, as a label of a metric.
type outcome string

const (
	outcomeOK          outcome = "ok"
	outcomeFallback    outcome = "fallback"
	outcomeShadow      outcome = "shadow"
	outcomeDenied      outcome = "denied"
	outcomeUnmatched   outcome = "unmatched"
	outcomeRefused     outcome = "refused"
	outcomeUnavailable outcome = "unavailable"
	outcomeLatePaid    outcome = "late_paid"
	outcomeLateDebt    outcome = "late_debt"
	outcomeLateShort   outcome = "late_short"
)

// metrics of a service. A domain is a label only if the mapping names it, so the
// number of series is bounded by the configuration. No label names accounts or
// operations.
type metrics struct {
	requests    *prometheus.CounterVec
	unmatchedBy *prometheus.CounterVec
	refusedBy   *prometheus.CounterVec
	lateTokens  *prometheus.CounterVec
	unsettled   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "tokenlease", Subsystem: "envoy", Name: name, Help: help}
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(opts("requests_total",
			"Requests of Envoy by domain and outcome."), []string{"domain", "outcome"}),
		unmatchedBy: prometheus.NewCounterVec(opts("unmatched_descriptors_total",
			"Descriptors that match no rule, by domain and answer."), []string{"domain", "answer"}),
		refusedBy: prometheus.NewCounterVec(opts("refused_total",
			"Descriptors and requests that were refused, by why."), []string{"why"}),
		lateTokens: prometheus.NewCounterVec(opts("late_tokens_total",
			"Tokens of late costs: paid, owed as debt, or lost."), []string{"result"}),
		unsettled: prometheus.NewCounter(opts("unsettled_reservations_total",
			"Reservations of queries and late costs that could not be settled, and count as spent.")),
	}
	reg.MustRegister(m.requests, m.unmatchedBy, m.refusedBy, m.lateTokens, m.unsettled)
	for _, p := range problems() {
		m.refusedBy.WithLabelValues(string(p))
	}
	for _, result := range []string{"paid", "debt", "lost"} {
		m.lateTokens.WithLabelValues(result)
	}
	return m
}

func (m *metrics) request(domain string, o outcome) {
	m.requests.WithLabelValues(domain, string(o)).Inc()
}

func (m *metrics) unmatched(domain, answer string) {
	m.unmatchedBy.WithLabelValues(domain, answer).Inc()
}

func (m *metrics) refused(p problem) { m.refusedBy.WithLabelValues(string(p)).Inc() }

func (m *metrics) late(cost int64, c charged) {
	m.lateTokens.WithLabelValues("paid").Add(float64(c.paid))
	m.lateTokens.WithLabelValues("debt").Add(float64(c.debt))
	m.lateTokens.WithLabelValues("lost").Add(float64(cost - c.paid - c.debt))
}
