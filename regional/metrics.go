package regional

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/puzpuzpuz/xsync/v4"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// reasons is the number of reasons, the unspecified one included.
const reasons = int(pb.Reason_REASON_OVERLOADED) + 1

// metrics of a limiter. Labels never name accounts or grants.
type metrics struct {
	decisions      [reasons]*xsync.Counter     // striped: the hot path of every core counts here
	shadows        [reasons]prometheus.Counter // nil for what shadow mode does not admit
	syncSeconds    prometheus.Histogram
	waitSeconds    prometheus.Histogram
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
		o := prometheus.CounterOpts(opts("decisions_total", "Decisions by reason, of shadow mode included. Budget.Allow and AllowN, and replayed answers, are not counted."))
		o.ConstLabels = reasonLabel(pb.Reason(number))
		if number != 0 {
			reg.MustRegister(prometheus.NewCounterFunc(o, func() float64 { return float64(counter.Value()) }))
		}
	}
	for _, reason := range []pb.Reason{pb.Reason_REASON_EXHAUSTED, pb.Reason_REASON_COST_ABOVE_CAPACITY, pb.Reason_REASON_UNAVAILABLE} {
		o := prometheus.CounterOpts(opts("shadow_admissions_total", "Checks that shadow mode admitted, by the reason for which they would have been denied."))
		o.ConstLabels = reasonLabel(reason)
		m.shadows[reason] = prometheus.NewCounter(o)
		reg.MustRegister(m.shadows[reason])
	}
	histogram := func(name, help string, buckets int) prometheus.Histogram {
		o := opts(name, help)
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: o.Namespace, Subsystem: o.Subsystem, Name: o.Name, Help: o.Help,
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, buckets),
		})
		reg.MustRegister(h)
		return h
	}
	m.syncSeconds = histogram("sync_seconds", "Time from a request to the broker to its answer, without those that wait there for credit.", 16)
	m.journalSeconds = histogram("journal_seconds", "Time to make a write of the journal durable.", 16)
	m.waitSeconds = histogram("wait_seconds", "Time that checks waited, for the broker's word or for their turn. Those that did not wait are not counted.", 23)
	for name, help := range map[string]string{ //nolint:gosec // these are no credentials
		"syncs_total":           "Requests to the broker that ended.",
		"sync_failures_total":   "Requests to the broker that failed.",
		"denials_total":         "Answers of the broker that a budget is used up.",
		"evidence_total":        "Contradictions with the broker's ledger: a store or a disk was set back, or this limiter cloned.",
		"grants_opened_total":   "Grants received.",
		"grants_closed_total":   "Grants closed.",
		"tokens_issued_total":   "Tokens received under grants.",
		"tokens_returned_total": "Tokens given back while their grant went on.",

		"replays_total":             "Requests that got the recorded answer of their decision ID.",
		"replays_forgotten_total":   "Decision IDs that were forgotten early, or not recorded, because the table was full: raise the bound.",
		"fallback_admissions_total": "Checks that a policy's local allowance admitted, since no authority was reached.",
		"shed_total":                "Requests that were shed to protect this limiter.",
		"queue_refusals_total":      "Checks that would have waited for their turn and found no place in line.",
	} {
		m.counters[name] = prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
		reg.MustRegister(m.counters[name])
	}
	m.orphans = prometheus.NewGauge(prometheus.GaugeOpts(opts("orphaned_grants", "Grants of earlier epochs of this limiter that no journal here proves.")))
	reg.MustRegister(m.orphans)
	return m
}

func reasonLabel(reason pb.Reason) prometheus.Labels {
	return prometheus.Labels{"reason": strings.ToLower(strings.TrimPrefix(reason.String(), "REASON_"))}
}

// observe adds what is read when metrics are gathered.
func (l *Limiter) observe() {
	gauge := func(name, help string, read func() float64) {
		l.cfg.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "tokenlease", Subsystem: "limiter", Name: name, Help: help,
		}, read))
	}
	gauge("queue_length", "Checks that wait for their turn.", func() float64 { return float64(l.lines.Waiting()) })
	gauge("held_tokens", "Tokens and slots that reservations hold.", func() float64 {
		return float64(l.reservations.held(l.cfg.Clock.Mono()))
	})
	gauge("debt_tokens", "Tokens that budgets owe here, from settlements above their reservations.", func() float64 { return l.debtors.owed() })
	gauge("replays_recorded", "Decision IDs that are on record.", func() float64 { return float64(l.replays.Len()) })
}

func (m *metrics) decision(reason pb.Reason) { m.decisions[reason].Inc() }

// answered counts the answer to one request.
func (m *metrics) answered(d *decision.Answer) {
	m.decision(d.Reason)
	if d.Reason == pb.Reason_REASON_OVERLOADED {
		m.counters["shed_total"].Inc()
	}
	m.lenient(d)
}

// lenient counts what was admitted without credit.
func (m *metrics) lenient(d *decision.Answer) {
	if d.Shadow && m.shadows[d.Reason] != nil {
		m.shadows[d.Reason].Inc()
	}
	borrowed := d.Reason == pb.Reason_REASON_FALLBACK
	for i := range d.Parts {
		borrowed = borrowed || d.Parts[i].Reason == pb.Reason_REASON_FALLBACK
	}
	if borrowed && d.Allowed {
		m.counters["fallback_admissions_total"].Inc()
	}
}

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
