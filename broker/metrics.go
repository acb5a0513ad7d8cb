package broker

import (
	"context"
	"path"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/broker/shard"
)

// metrics of a broker. Labels never name accounts or grants. Holders are named where
// their number is bounded, see observer.
type metrics struct {
	commitSeconds prometheus.Histogram
	commitOps     prometheus.Histogram
	batch         prometheus.Histogram
	commits       *prometheus.CounterVec // outcome
	opened        prometheus.Counter
	ended         prometheus.Counter
	issued        prometheus.Counter
	lapsed        prometheus.Counter
	lapsedTokens  prometheus.Counter
	evidence      prometheus.Counter
	retired       prometheus.Counter
	owned         prometheus.Gauge
	unowned       prometheus.Gauge
	acquired      prometheus.Counter
	released      prometheus.Counter
	lost          prometheus.Counter
	requests      *prometheus.CounterVec // method, code
	forwarded     prometheus.Counter
	resolved      atomic.Bool // a grant was resolved since the store was read for metrics
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tokenlease", Subsystem: "broker", Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tokenlease", Subsystem: "broker", Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "tokenlease", Subsystem: "broker", Name: name, Help: help, Buckets: buckets})
		reg.MustRegister(h)
		return h
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tokenlease", Subsystem: "broker", Name: name, Help: help})
		reg.MustRegister(g)
		return g
	}
	return &metrics{
		commitSeconds: histogram("commit_seconds", "Time from a transaction's start to its answer.", prometheus.ExponentialBuckets(0.0002, 2, 16)),
		commitOps:     histogram("commit_operations", "Operations in a transaction.", prometheus.ExponentialBuckets(1, 2, 11)),
		batch:         histogram("commit_requests", "Requests answered by one transaction.", prometheus.ExponentialBuckets(1, 2, 13)),
		commits:       vec("commits_total", "Transactions by outcome: applied, read, refused, unknown.", "outcome"),
		opened:        counter("grants_opened_total", "Grants opened."),
		ended:         counter("grants_ended_total", "Grants closed, accounted for, resolved or lapsed."),
		issued:        counter("tokens_issued_total", "Tokens handed out under grants."),
		lapsed:        counter("grants_lapsed_total", "Grants that ended by the deadline of their policy, since nothing was heard of their limiter."),
		lapsedTokens:  counter("tokens_lapsed_total", "Tokens of those that count as spent by that, whether they were or not."),
		retired:       counter("retired_epoch_requests_total", "Requests of epochs that an operator had attested to be gone: whoever sent them may have spent what counted as spent already."),
		evidence:      counter("evidence_total", "Reports that contradicted the ledger: a store or a disk was set back, or a holder cloned."),
		owned:         gauge("shards_owned", "Shards that this broker owns."),
		unowned:       gauge("shards_unowned", "Shards that no broker owns, as this one sees it."),
		acquired:      counter("shards_acquired_total", "Shards acquired."),
		released:      counter("shards_released_total", "Shards given up in order."),
		lost:          counter("shards_lost_total", "Shards lost to another broker."),
		requests:      vec("requests_total", "Requests by method and code.", "method", "code"),
		forwarded:     counter("forwarded_total", "Requests passed to the broker that owns their shard."),
	}
}

// commit records one transaction.
func (m *metrics) commit(took time.Duration, ops int, before, after shard.Stats, err error) {
	m.commitSeconds.Observe(took.Seconds())
	m.commitOps.Observe(float64(ops))
	switch {
	case err != nil:
		m.commits.WithLabelValues("unknown").Inc()
	case after.Refused > before.Refused:
		m.commits.WithLabelValues("refused").Inc()
	case after.Commits > before.Commits:
		m.commits.WithLabelValues("applied").Inc()
	default:
		m.commits.WithLabelValues("read").Inc()
	}
	if n := after.Requests - before.Requests; n > 0 {
		m.batch.Observe(float64(n))
	}
	m.opened.Add(float64(after.GrantsOpened - before.GrantsOpened))
	m.ended.Add(float64(after.GrantsEnded - before.GrantsEnded))
	m.issued.Add(float64(uint64(after.TokensIssued) - uint64(before.TokensIssued))) // the sums of tokens may wrap around
	m.lapsed.Add(float64(after.GrantsLapsed - before.GrantsLapsed))
	m.lapsedTokens.Add(float64(uint64(after.TokensLapsed) - uint64(before.TokensLapsed)))
	m.retired.Add(float64(after.RetiredHeard - before.RetiredHeard))
	m.evidence.Add(float64(after.Evidence - before.Evidence))
}

// interceptor counts requests by method and code.
func (m *metrics) interceptor() connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			resp, err := next(ctx, req)
			code := "ok"
			if err != nil {
				code = connect.CodeOf(err).String()
			}
			m.requests.WithLabelValues(path.Base(req.Spec().Procedure), code).Inc()
			return resp, err
		}
	})
}
