package tally

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/puzpuzpuz/xsync/v4"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// MaxOperations is how many operations have counts of their own.
const MaxOperations = 200

// Other is the operation of what no policy names, and of operations beyond
// MaxOperations.
const Other = "other"

// reasons is the number of reasons, the unspecified one included.
const reasons = int(pb.Reason_REASON_OVERLOADED) + 1

// shadowed are the reasons in whose place shadow mode admits.
var shadowed = [...]pb.Reason{
	pb.Reason_REASON_EXHAUSTED, pb.Reason_REASON_COST_ABOVE_CAPACITY, pb.Reason_REASON_UNAVAILABLE,
}

// Tally is the counts of one operation.
type Tally struct {
	operation string
	decisions [reasons]counter
	shadows   [reasons]counter
	fallbacks counter
}

// counter is made at its first use: most are never used, and a striped one is large.
type counter struct{ at atomic.Pointer[xsync.Counter] }

func (c *counter) inc() {
	if n := c.at.Load(); n != nil {
		n.Inc()
		return
	}
	c.at.CompareAndSwap(nil, xsync.NewCounter())
	c.at.Load().Inc()
}

func (c *counter) value() float64 {
	if n := c.at.Load(); n != nil {
		return float64(n.Value())
	}
	return 0
}

// Decision counts one decision. A reason that is not known counts as none.
func (t *Tally) Decision(reason pb.Reason) {
	if reason > 0 && int(reason) < reasons {
		t.decisions[reason].inc()
	}
}

// Shadow counts an admission of shadow mode, by the reason for which it would have
// been a denial.
func (t *Tally) Shadow(reason pb.Reason) {
	if slices.Contains(shadowed[:], reason) {
		t.shadows[reason].inc()
	}
}

// Fallback counts an admission from a local allowance.
func (t *Tally) Fallback() { t.fallbacks.inc() }

// Table is the counts of all operations. It is a prometheus.Collector.
type Table struct {
	other       Tally
	byOperation *xsync.Map[string, *Tally]

	making sync.Mutex // held while one is added
	full   atomic.Bool

	decisions, shadows, fallbacks *prometheus.Desc
}

// New is an empty table.
func New() *Table {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tokenlease_limiter_"+name, help, labels, nil)
	}
	return &Table{
		other: Tally{operation: Other}, byOperation: xsync.NewMap[string, *Tally](),
		decisions: desc("decisions_total", "Decisions by operation and reason, of shadow mode included. Budget.Allow and AllowN, and replayed answers, are not counted.", "operation", "reason"),
		shadows:   desc("shadow_admissions_total", "Checks that shadow mode admitted, by operation and the reason for which they would have been denied.", "operation", "reason"),
		fallbacks: desc("fallback_admissions_total", "Checks that a policy's local allowance admitted, since no authority was reached, by operation.", "operation"),
	}
}

// Of is the tally of an operation. ruled says that a policy names it; only then may
// it get one of its own.
func (t *Table) Of(operation string, ruled bool) *Tally {
	if operation == Other { // a policy may be called so
		return &t.other
	}
	if own, ok := t.byOperation.Load(operation); ok {
		return own
	}
	if !ruled || t.full.Load() {
		return &t.other
	}
	t.making.Lock()
	defer t.making.Unlock()
	if own, ok := t.byOperation.Load(operation); ok {
		return own
	}
	if t.full.Load() {
		return &t.other
	}
	own := &Tally{operation: strings.Clone(operation)}
	t.byOperation.Store(own.operation, own)
	t.full.Store(t.byOperation.Size() >= MaxOperations)
	return own
}

// Describe implements prometheus.Collector.
func (t *Table) Describe(out chan<- *prometheus.Desc) {
	out <- t.decisions
	out <- t.shadows
	out <- t.fallbacks
}

// Collect implements prometheus.Collector. Every reason of a counted operation is
// told, those that never were as 0: a first one is an increase that can be seen.
func (t *Table) Collect(out chan<- prometheus.Metric) {
	t.other.collect(t, out)
	t.byOperation.Range(func(_ string, own *Tally) bool {
		own.collect(t, out)
		return true
	})
}

func (t *Tally) collect(table *Table, out chan<- prometheus.Metric) {
	count := func(desc *prometheus.Desc, c *counter, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, c.value(), labels...)
	}
	for number := 1; number < reasons; number++ {
		count(table.decisions, &t.decisions[number], t.operation, Label(pb.Reason(number)))
	}
	for _, reason := range shadowed {
		count(table.shadows, &t.shadows[reason], t.operation, Label(reason))
	}
	count(table.fallbacks, &t.fallbacks, t.operation)
}

// Label is a reason as metrics and logs name it, such as "cost_above_capacity".
func Label(reason pb.Reason) string {
	return strings.ToLower(strings.TrimPrefix(reason.String(), "REASON_"))
}
