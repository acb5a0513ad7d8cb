package simulations

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/judge"
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
	fail   *Failure
	healed bool // faults have stopped
	stalls bool // a check stands still
	quiet  bool // no new demand
	faults int  // that were decided on

	store    *store.Memory
	trouble  trouble
	era      era
	restored bool // the store was set back, undeclared
	layout   record.Layout
	mirror   *mirror
	net      *network
	brokers  []*broker
	sessions []store.SessionID // all that ever were
	sites    []*site
	keys     []lease.Key
	rules    []int // by key: its policy, in cfg.Policies
	judges   []*judge.Judge
	stash    []func()                     // messages held back for long
	works    []*work                      // that go on
	holds    uint64                       // that were ever asked for
	slotted  []bool                       // by key: its policy has had slots
	stops    []func()                     // of coroutines that may still wait
	starts   map[lease.GrantHolder]string // nonces, by the epoch that they got
	served   map[string]uint64            // epochs, by the nonce and the epoch that it was to replace
	nonces   int
	disks    int
	stats    Stats
	stage    *stage // of a scenario; nil in a swarm
}

// Stats counts what happened in a run.
type Stats struct {
	Admitted    int64 `json:"admitted_tokens"`
	Holds       int64 `json:"holds"` // slots that work took, and reservations
	Denied      int64 `json:"exhausted_checks"`
	Unavailable int64 `json:"unavailable_checks"`
	Messages    int64 `json:"messages"`
	Lost        int64 `json:"lost_messages"`
	Repeated    int64 `json:"repeated_messages"`
	Late        int64 `json:"late_messages"`
	Commits     int64 `json:"commits"`
	Elections   int64 `json:"elections"`
	Crashes     int64 `json:"crashes"`        // of limiters
	Fresh       int64 `json:"fresh_disks"`    // that limiters started on
	Restored    int64 `json:"restored_disks"` // older copies of journals
	Stops       int64 `json:"stops"`          // limiters that ended in order
	Rivals      int64 `json:"rivals"`         // limiters started beside an old one
	Attested    int64 `json:"attestations"`
	Policies    int64 `json:"policy_changes"`
	SetBack     int64 `json:"declared_restores"`
	Lapsed      int64 `json:"lapsed_grants"` // by deadline
	LapsedOf    int64 `json:"lapsed_tokens"` // that counted as spent by that
	Stale       int64 `json:"stale_checks"`  // that found credit which was too old to be spent
	Stalls      int64 `json:"stalls"`        // of checks, between a look at the clocks and the spend
}

// add sums up runs.
func (s *Stats) add(o Stats) {
	s.Admitted += o.Admitted
	s.Holds += o.Holds
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
	s.SetBack += o.SetBack
	s.Lapsed += o.Lapsed
	s.LapsedOf += o.LapsedOf
	s.Stale += o.Stale
	s.Stalls += o.Stalls
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

// New is the world of a swarm at its first moment, with every process about to
// start.
func New(cfg Config) *World {
	cfg.defaults()
	w := newWorld(cfg)
	for i, p := range cfg.Policies {
		w.addKey(lease.Key{Account: budgetKey(i).Account, Operation: p.Operation}, i, judge.New(p.Rule))
		w.putPolicy(p)
	}
	w.net = newNetwork(w, len(cfg.Journals), cfg.Brokers)
	for i := range cfg.Brokers {
		w.brokers = append(w.brokers, newBroker(w, i, fmt.Sprintf("broker-%d", i), w.drawClock()))
	}
	for i := range cfg.Journals {
		h := lease.Holder{Region: fmt.Sprintf("region-%d", i), Instance: "limiter"}
		w.sites = append(w.sites, newSite(w, i, h, cfg.Journals[i], cfg.Greedy[i]))
		w.drawClocks(w.sites[i])
	}
	w.after(w.between(100*time.Millisecond, time.Second), "chaos", "", 0, w.chaos)
	return w
}

// newWorld is an empty world.
func newWorld(cfg Config) *World {
	w := &World{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x7031)), hash: 14695981039346656037,
		store: store.NewMemory(), layout: record.NewLayout(""), starts: map[lease.GrantHolder]string{}, served: map[string]uint64{},
	}
	if cfg.TxnOps > 0 {
		w.store.SetMaxTxnOps(cfg.TxnOps)
	}
	w.mirror = newMirror(w)
	w.found()
	return w
}

// addKey adds a budget, which the policy at this place rules.
func (w *World) addKey(key lease.Key, rule int, j *judge.Judge) {
	w.keys = append(w.keys, key)
	w.rules = append(w.rules, rule)
	w.slotted = append(w.slotted, w.cfg.Policies[rule].Rule.Kind == lease.Concurrency)
	w.judges = append(w.judges, j)
}

// drawClock is a clock of a machine in a swarm: most are true, some are slow.
func (w *World) drawClock() clock {
	c := w.newClock()
	skew := w.cfg.Faults.Skew
	if skew == 0 {
		skew = 100_000 * time.Hour
	}
	c.wall = w.between(0, skew)
	if w.rng.IntN(4) == 0 {
		c.slow = 1 + w.rng.IntN(30)
	}
	return c
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
func (w *World) Err() error {
	if w.fail == nil {
		return nil
	}
	return w.fail
}

// Run goes through the faulty phase and the healing, and returns what was found
// broken.
func (w *World) Run() error {
	_ = w.RunUntil(w.cfg.Chaos) // a failure stays with the world
	if w.stage != nil {
		w.stage.over()
	}
	if undeclared := w.stage != nil && w.restored; w.fail == nil && !undeclared {
		w.heal()
	}
	for _, stop := range w.stops {
		stop()
	}
	w.stops = nil
	return w.Err()
}

// RunUntil runs all events up to a point of real time, or to the first failure.
func (w *World) RunUntil(end time.Duration) error {
	for w.fail == nil && len(w.events) > 0 && w.events[0].at <= end {
		w.step()
	}
	if w.fail == nil {
		w.now = max(w.now, end)
	}
	return w.Err()
}

func (w *World) step() {
	e := w.events.pop()
	w.now = e.at
	w.trace[w.steps%traceLength] = e
	w.steps++
	w.mix(uint64(e.at))
	w.mix(uint64(e.n))
	w.mixString(e.kind)
	w.mixString(e.who)
	e.run()
	if w.steps >= w.mostSteps() {
		w.failf("no end in sight after %d events", w.steps)
	}
}

// mostSteps is how many events the world may have had by now. A scenario has as
// many as its checks and its time ask for.
func (w *World) mostSteps() int {
	if w.stage == nil {
		return maxSteps
	}
	const perCheck, perSecond = 100, 1000 // of a node
	nodes := len(w.sites) + len(w.brokers)
	return maxSteps + perCheck*w.stage.arrived + perSecond*nodes*int(w.now/time.Second)
}

func (w *World) mix(v uint64) {
	h := (w.hash ^ v) * 0x9e3779b97f4a7c15
	w.hash = h ^ h>>29
}

func (w *World) mixString(s string) { w.mix(xxhash.Sum64String(s)) }

// after schedules an event d from now. kind, who and n describe it.
func (w *World) after(d time.Duration, kind, who string, n int64, run func()) {
	w.order++
	w.events.push(event{at: w.now + max(0, d), order: w.order, kind: kind, who: who, n: n, run: run})
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
			Seed: w.cfg.Seed, Step: w.steps, At: w.now, Replay: w.cfg.Replay, Faults: w.faults,
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
	Seed   uint64
	Step   int
	At     time.Duration
	Faults int    // how many were decided on before
	Replay string // the command that runs it again
	What   string
	Trace  string // the last events
}

// Error tells what was broken, the events before, and how to see it again.
func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d, step %d, at %v: %s\nlast events:\n%sreplay: %s",
		f.Seed, f.Step, f.At, f.What, f.Trace, f.Replay)
}

// percent is true n times in a hundred, and never once faults have stopped.
func (w *World) percent(n int) bool {
	return n > 0 && !w.healed && w.rng.IntN(100) < n && w.fault()
}

// fault numbers one thing that goes wrong, and says false where a shrunk history
// leaves it out.
func (w *World) fault() bool {
	w.faults++
	if w.cfg.Keep == nil {
		return true
	}
	_, keeps := slices.BinarySearch(w.cfg.Keep, w.faults)
	return keeps
}

// between draws from [least, most).
func (w *World) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)))
}

// paced is between at the run's pace, but at most this many times as slow as
// usual.
func (w *World) paced(least, most time.Duration, slowest int) time.Duration {
	return w.between(least, most) * time.Duration(min(w.cfg.Pace, slowest))
}

// latency is a common delay of a message, a disk or the store.
func (w *World) latency() time.Duration { return w.between(200*time.Microsecond, 20*time.Millisecond) }

// eventHeap has the next event first.
type eventHeap []event

func (h eventHeap) before(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.before(i, up) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *eventHeap) pop() event {
	s := *h
	top, last := s[0], len(s)-1
	s[0], s[last] = s[last], event{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return top
		}
		if down+1 < last && s.before(down+1, down) {
			down++
		}
		if !s.before(down, i) {
			return top
		}
		s[i], s[down] = s[down], s[i]
		i = down
	}
}
