package regional

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/holder"
	"github.com/tokenlease/tokenlease/regional/tally"
)

// metrics of a limiter. Labels never name accounts or grants.
type metrics struct {
	tallies        *tally.Table
	syncSeconds    prometheus.Histogram
	waitSeconds    prometheus.Histogram
	journalSeconds prometheus.Histogram
	counters       map[string]prometheus.Counter
	orphans        prometheus.Gauge
	heard          atomic.Int64 // monotonic time of the newest word of a broker; at first, of the start
	policyVersion  atomic.Int64 // the newest that any answer has carried
}

func newMetrics(reg prometheus.Registerer) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "tokenlease", Subsystem: "limiter", Name: name, Help: help}
	}
	m := &metrics{counters: map[string]prometheus.Counter{}, tallies: tally.New()}
	reg.MustRegister(m.tallies)
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

		"replays_total":           "Requests that got the recorded answer of their decision ID.",
		"replays_forgotten_total": "Decision IDs that were forgotten early, or not recorded, because the table was full: raise the bound.",
		"shed_total":              "Requests that were shed to protect this limiter.",
		"queue_refusals_total":    "Checks that would have waited for their turn and found no place in line.",
	} {
		m.counters[name] = prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
		reg.MustRegister(m.counters[name])
	}
	m.orphans = prometheus.NewGauge(prometheus.GaugeOpts(opts("orphaned_grants", "Grants of earlier epochs of this limiter that no journal here proves.")))
	reg.MustRegister(m.orphans)
	return m
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
	gauge("debt_tokens", "Tokens used here beyond reservations that are owed, and that the broker is not known to have recorded.", func() float64 { return l.debtors.owed() })
	gauge("replays_recorded", "Decision IDs that are on record.", func() float64 { return float64(l.replays.Len()) })
	gauge("budgets", "Budgets that this limiter has in memory.", func() float64 { return float64(l.budgets.Size()) })
	gauge("waiting_checks", "Checks that wait for the broker's word.", func() float64 { return float64(l.waiters.Load()) })
	gauge("sync_age_seconds", "Time since a broker was last heard, or since the start.", func() float64 {
		return (l.cfg.Clock.Mono() - time.Duration(l.obs.heard.Load())).Seconds()
	})
	gauge("policy_version", "The newest policy version that this limiter has installed; 0: none.", func() float64 {
		return float64(l.obs.policyVersion.Load())
	})
	gauge("ready", "1 while the limiter is registered and runs; else 0.", func() float64 {
		if l.Ready() {
			return 1
		}
		return 0
	})
}

// answeredAt notes that a broker was heard, and which policy versions it told.
func (m *metrics) answeredAt(now time.Duration, resp *pb.SyncResponse) {
	raise(&m.heard, int64(now))
	for _, answer := range resp.GetBudgets() {
		raise(&m.policyVersion, answer.GetPolicy().GetVersion())
	}
}

// raise makes n at least value.
func raise(n *atomic.Int64, value int64) {
	for was := n.Load(); value > was; was = n.Load() {
		if n.CompareAndSwap(was, value) {
			return
		}
	}
}

// tally is where decisions on b are counted. Once a policy rules it, its budget
// remembers.
func (m *metrics) tally(b *holder.Budget) *tally.Tally {
	if t := b.Tally.Load(); t != nil {
		return t
	}
	o := b.Outlook()
	ruled := o != nil && o.Policy != nil
	t := m.tallies.Of(b.Key.Operation, ruled)
	if ruled {
		b.Tally.Store(t)
	}
	return t
}

// answered counts the answer to one request about the key, and perhaps others.
func (m *metrics) answered(key lease.Key, d *decision.Answer) {
	t := m.tallies.Of(key.Operation, d.PolicyVersion > 0)
	t.Decision(d.Reason)
	if d.Reason == pb.Reason_REASON_OVERLOADED {
		m.counters["shed_total"].Inc()
	}
	lenient(t, d)
}

// lenient counts what was admitted without credit.
func lenient(t *tally.Tally, d *decision.Answer) {
	if d.Shadow {
		t.Shadow(d.Reason)
	}
	borrowed := d.Reason == pb.Reason_REASON_FALLBACK
	for i := range d.Parts {
		borrowed = borrowed || d.Parts[i].Reason == pb.Reason_REASON_FALLBACK
	}
	if borrowed && d.Allowed {
		t.Fallback()
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
