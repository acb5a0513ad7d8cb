package regional

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/puzpuzpuz/xsync/v4"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// reasons is the number of reasons, the unspecified one included.
const reasons = 7

// metrics of a limiter. Labels never name accounts or grants.
type metrics struct {
	decisions      [reasons]*xsync.Counter // striped: the hot path of every core counts here
	syncSeconds    prometheus.Histogram
	journalSeconds prometheus.Histogram
	counters       map[string]prometheus.Counter
	orphans        prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "tokenlease", Subsystem: "limiter", Name: name, Help: help}
	}
	m := &metrics{counters: map[string]prometheus.Counter{}}
	for number := range m.decisions {
		counter := xsync.NewCounter()
		m.decisions[number] = counter
		o := prometheus.CounterOpts(opts("decisions_total", "Decisions by reason. Budget.Allow and AllowN are not counted."))
		o.ConstLabels = prometheus.Labels{"reason": strings.ToLower(strings.TrimPrefix(pb.Reason_name[int32(number)], "REASON_"))}
		if number != 0 {
			reg.MustRegister(prometheus.NewCounterFunc(o, func() float64 { return float64(counter.Value()) }))
		}
	}
	histogram := func(name, help string) prometheus.Histogram {
		o := opts(name, help)
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: o.Namespace, Subsystem: o.Subsystem, Name: o.Name, Help: o.Help,
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 16),
		})
		reg.MustRegister(h)
		return h
	}
	m.syncSeconds = histogram("sync_seconds", "Time from a request to the broker to its answer, without those that wait there for credit.")
	m.journalSeconds = histogram("journal_seconds", "Time to make a write of the journal durable.")
	for name, help := range map[string]string{ //nolint:gosec // these are no credentials
		"syncs_total":           "Requests to the broker that ended.",
		"sync_failures_total":   "Requests to the broker that failed.",
		"denials_total":         "Answers of the broker that a budget is used up.",
		"evidence_total":        "Contradictions with the broker's ledger: a store or a disk was set back, or this limiter cloned.",
		"grants_opened_total":   "Grants received.",
		"grants_closed_total":   "Grants closed.",
		"tokens_issued_total":   "Tokens received under grants.",
		"tokens_returned_total": "Tokens given back while their grant went on.",
	} {
		m.counters[name] = prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
		reg.MustRegister(m.counters[name])
	}
	m.orphans = prometheus.NewGauge(prometheus.GaugeOpts(opts("orphaned_grants", "Grants of earlier epochs of this limiter that no journal here proves.")))
	reg.MustRegister(m.orphans)
	return m
}

func (m *metrics) decision(reason pb.Reason) { m.decisions[reason].Inc() }

// manager adds what the manager has done since seen.
func (m *metrics) manager(seen *holder.Stats, now holder.Stats) {
	// Sums of tokens may wrap around; their differences are right all the same.
	add := func(name string, before, after int64) { m.counters[name].Add(float64(uint64(after) - uint64(before))) }
	add("syncs_total", seen.Syncs, now.Syncs)
	add("sync_failures_total", seen.SyncFailures, now.SyncFailures)
	add("denials_total", seen.Denials, now.Denials)
	add("evidence_total", seen.Evidence, now.Evidence)
	add("grants_opened_total", seen.GrantsOpened, now.GrantsOpened)
	add("grants_closed_total", seen.GrantsClosed, now.GrantsClosed)
	add("tokens_issued_total", seen.TokensIssued, now.TokensIssued)
	add("tokens_returned_total", seen.TokensReturned, now.TokensReturned)
	m.orphans.Set(float64(now.Orphans))
	*seen = now
}

// retryAt is the point in time of a wait from now.
func retryAt(now time.Time, wait time.Duration) int64 { return now.Add(wait).UnixMilli() }
