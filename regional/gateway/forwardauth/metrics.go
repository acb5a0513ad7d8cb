package forwardauth

import "github.com/prometheus/client_golang/prometheus"

// outcome of a request, a label of the metrics.
type outcome string

const (
	allowed          outcome = "allowed"
	denied           outcome = "denied"
	undecided        outcome = "undecided"
	untrusted        outcome = "untrusted-peer"
	noAccount        outcome = "no-account"
	ambiguous        outcome = "refused"
	unmatchedDenied  outcome = "unmatched-denied"
	unmatchedAllowed outcome = "unmatched-allowed"
)

// metrics count requests by outcome.
type metrics struct {
	requests map[outcome]prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "tokenlease", Subsystem: "forward_auth", Name: "requests_total",
		Help: "Requests of proxies by outcome. Of a peer that is not trusted, of no account, refused as ambiguous, and of no rule: none of them was decided.",
	}, []string{"outcome"})
	if reg != nil {
		reg.MustRegister(requests)
	}
	m := &metrics{requests: map[outcome]prometheus.Counter{}}
	for _, o := range []outcome{allowed, denied, undecided, untrusted, noAccount, ambiguous, unmatchedDenied, unmatchedAllowed} {
		m.requests[o] = requests.WithLabelValues(string(o))
	}
	return m
}

func (m *metrics) count(o outcome) { m.requests[o].Inc() }
