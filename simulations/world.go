package simulations

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// traceLength is how many events a failure tells.
const traceLength = 30

// maxSteps is far above what any run takes: more means that something spins.
const maxSteps = 1_000_000

// World is one run. It belongs to one goroutine.
type World struct {
	cfg    Config
	rng    *rand.Rand
	now    time.Duration
	events eventHeap
	order  uint64
	steps  int
	hash   uint64
	trace  [traceLength]event
	fail   error
	healed bool // faults have stopped
	quiet  bool // no new demand

	store   *store.Memory
	layout  record.Layout
	mirror  *mirror
	brokers []*broker
	sites   []*site
	keys    []lease.Key
	judges  []*Judge
	stash   []func() // messages held back for long
	nonces  int
	disks   int
	stats   Stats
}

// Stats counts what happened in a run.
type Stats struct {
	Admitted, Denied, Unavailable   int64
	Messages, Lost, Repeated, Late  int64
	Commits, Elections              int64
	Crashes, Fresh, Restored, Stops int64
	Rivals, Attested, Policies      int64
}

// add sums up runs.
func (s *Stats) add(o Stats) {
	s.Admitted += o.Admitted
	s.Denied += o.Denied
	s.Unavailable += o.Unavailable
	s.Messages += o.Messages
	s.Lost += o.Lost
	s.Repeated += o.Repeated
	s.Late += o.Late
	s.Commits += o.Commits
	s.Elections += o.Elections
	s.Crashes += o.Crashes
	s.Fresh += o.Fresh
	s.Restored += o.Restored
	s.Stops += o.Stops
	s.Rivals += o.Rivals
	s.Attested += o.Attested
	s.Policies += o.Policies
}

// event is one thing that happens. What it is about is kept for the trace.
type event struct {
	at    time.Duration
	order uint64
	kind  string
	who   string
	n     int64
	run   func()
}

// New is a world at its first moment, with every process about to start.
func New(cfg Config) *World {
	cfg.defaults()
	w := &World{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x7031)), hash: 14695981039346656037,
		store: store.NewMemory(), layout: record.NewLayout(""),
	}
	if cfg.TxnOps > 0 {
		w.store.SetMaxTxnOps(cfg.TxnOps)
	}
	w.mirror = newMirror(w)
	for i, p := range cfg.Policies {
		w.keys = append(w.keys, lease.Key{Account: budgetKey(i).Account, Operation: p.Operation})
		w.judges = append(w.judges, NewJudge(p.Rule))
		w.putPolicy(p)
	}
	for i := range cfg.Brokers {
		w.brokers = append(w.brokers, newBroker(w, i))
	}
	for i := range cfg.Journals {
		w.sites = append(w.sites, newSite(w, i))
	}
	w.after(w.between(100*time.Millisecond, time.Second), "chaos", "", 0, w.chaos)
	return w
}

// Now is real time since the cluster was created.
func (w *World) Now() time.Duration { return w.now }

// Hash is a digest of all events so far: equal runs have equal hashes.
func (w *World) Hash() uint64 { return w.hash }

// Steps is the number of events so far.
func (w *World) Steps() int { return w.steps }

// Stats is a copy of the counters.
func (w *World) Stats() Stats { return w.stats }

// Err is the first rule that was broken, nil for none.
func (w *World) Err() error { return w.fail }

// Run goes through the faulty phase and the healing, and returns what was found
// broken.
func (w *World) Run() error {
	_ = w.RunUntil(w.cfg.Chaos) // likewise
	if w.fail == nil {
		w.heal()
	}
	return w.fail
}

// RunUntil runs all events up to a point of real time, or to the first failure.
func (w *World) RunUntil(end time.Duration) error {
	for w.fail == nil && len(w.events) > 0 && w.events[0].at <= end {
		w.step()
	}
	if w.fail == nil {
		w.now = max(w.now, end)
	}
	return w.fail
}

func (w *World) step() {
	e := heap.Pop(&w.events).(*event) //nolint:errcheck // the heap holds nothing else
	w.now = e.at
	w.trace[w.steps%traceLength] = *e
	w.steps++
	w.mix(uint64(e.at))
	w.mix(uint64(e.n))
	w.mixString(e.kind)
	w.mixString(e.who)
	e.run()
	if w.steps >= maxSteps {
		w.failf("no end in sight after %d events", w.steps)
	}
}

func (w *World) mix(v uint64) {
	for range 8 {
		w.hash = (w.hash ^ v&0xff) * 1099511628211
		v >>= 8
	}
}

func (w *World) mixString(s string) {
	for i := range len(s) {
		w.hash = (w.hash ^ uint64(s[i])) * 1099511628211
	}
}

// after schedules an event d from now. kind, who and n describe it.
func (w *World) after(d time.Duration, kind, who string, n int64, run func()) {
	w.order++
	heap.Push(&w.events, &event{at: w.now + max(0, d), order: w.order, kind: kind, who: who, n: n, run: run})
}

// note tells what is going on, to whoever listens.
func (w *World) note(format string, args ...any) {
	if w.cfg.Note != nil {
		w.cfg.Note(w.now, fmt.Sprintf(format, args...))
	}
}

// failf notes the first rule that is broken.
func (w *World) failf(format string, args ...any) {
	if w.fail == nil {
		w.fail = &Failure{
			Seed: w.cfg.Seed, Step: w.steps, At: w.now, Test: w.cfg.Test,
			What: fmt.Sprintf(format, args...), Trace: w.lastEvents(),
		}
	}
}

func (w *World) lastEvents() string {
	var b strings.Builder
	for i := max(0, w.steps-traceLength); i < w.steps; i++ {
		e := &w.trace[i%traceLength]
		fmt.Fprintf(&b, "%8d %12v  %-12s %s %d\n", i+1, e.at, e.kind, e.who, e.n)
	}
	return b.String()
}

// Failure is a rule that a run has broken.
type Failure struct {
	Seed  uint64
	Step  int
	At    time.Duration
	Test  string
	What  string
	Trace string // the last events
}

// Error tells what was broken, the events before, and how to see it again.
func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d, step %d, at %v: %s\nlast events:\n%sreplay: go test ./simulations -run '%s$' -seed %d",
		f.Seed, f.Step, f.At, f.What, f.Trace, f.Test, f.Seed)
}

// percent is true n times in a hundred, and never once faults have stopped.
func (w *World) percent(n int) bool {
	return n > 0 && !w.healed && w.rng.IntN(100) < n
}

// between draws from [least, most).
func (w *World) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)))
}

// latency is a common delay of a message, a disk or the store.
func (w *World) latency() time.Duration { return w.between(200*time.Microsecond, 20*time.Millisecond) }

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }

func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}

func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *eventHeap) Push(e any) { *h = append(*h, e.(*event)) } //nolint:errcheck // likewise

func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
