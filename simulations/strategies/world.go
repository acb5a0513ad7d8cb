package strategies

import (
	"math/rand/v2"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

// world is one run: machines, what lies between them, and what is to happen.
type world struct {
	sc       *scenario.Scenario
	rec      *measure.Recorder
	stream   *workload.Stream
	strategy strategy
	ideal    bool // checks are asked of no process
	rng      *rand.Rand
	keys     []lease.Key
	rules    []lease.Rule    // by key, the newest
	holds    []time.Duration // by key: how long slots are held at the most

	now    time.Duration
	events events

	net       network
	limiters  [][]*limiter // by region
	processes int          // that were ever started
	brokers   []*broker
	leader    int // the broker that was elected last
	outages   int // of the store, that are in force
	out       measure.Balance
}

// stream of random numbers, apart from the workloads'.
const stream = 0x7374_7261_7465_6779

func newWorld(sc *scenario.Scenario, seed uint64, name string) *world {
	w := &world{
		sc: sc, rec: measure.NewRecorder(sc, name, seed), stream: workload.New(sc, seed),
		rng: rand.New(rand.NewPCG(seed, stream)), keys: workload.Keys(sc),
		out: measure.Balance{Held: make([]int64, len(sc.Regions))},
	}
	for _, key := range w.keys {
		var rule lease.Rule // of no policy: nothing fits
		var hold time.Duration
		for i := range sc.Policies {
			if sc.Policies[i].Operation == key.Operation {
				rule, hold = sc.Policies[i].Rule, sc.Policies[i].HoldTime()
				break
			}
		}
		w.rules, w.holds = append(w.rules, rule), append(w.holds, hold)
	}
	w.build()
	return w
}

// run goes through the scenario. What happens at a moment goes before the checks
// that arrive at it.
func (w *world) run() {
	for _, region := range w.limiters {
		for _, l := range region {
			w.start(l)
		}
	}
	if len(w.brokers) > 0 && !w.ideal {
		w.brokers[0].serving = true
		w.strategy.elected(0)
		w.keepAlive()
	}
	for i := range w.sc.Faults {
		w.plan(&w.sc.Faults[i])
	}
	next, more := w.stream.Next()
	for {
		due := w.events.next()
		switch {
		case more && next.At < due:
			w.reach(next.At)
			w.rec.Arrived(next)
			w.ask(next)
			next, more = w.stream.Next()
		case due <= w.sc.Duration:
			w.reach(due)
			w.events.pop()()
		default:
			w.reach(w.sc.Duration)
			return
		}
	}
}

// reach moves time on. Samples of balances that fall due on the way are taken
// just before.
func (w *world) reach(at time.Duration) {
	for due := w.rec.Due(); due <= at; due = w.rec.Due() {
		w.now = max(w.now, due-1)
		held := w.out.Held
		clear(held)
		w.out = measure.Balance{Held: held}
		w.strategy.balance(&w.out)
		w.rec.Balance(w.now, w.out)
		w.rec.Balance(due, w.out)
	}
	w.now = at
}

// ask brings a check to the limiter that it arrives at.
func (w *world) ask(a workload.Arrival) {
	if a.Cost > w.rules[a.Key].Capacity {
		w.end(a, measure.Refused)
		return
	}
	if w.ideal {
		w.strategy.check(nil, a)
		return
	}
	l := w.limiters[a.Region][a.Limiter]
	switch {
	case len(l.living) == 0:
		w.end(a, measure.Unavailable)
	case w.paused(&l.machine):
		w.at(l.resumes, func() { w.ask(a) })
	default:
		w.strategy.check(l.living[a.Index%len(l.living)], a)
	}
}

// end tells how a check ended. What the judge says of admissions is in the
// result.
func (w *world) end(a workload.Arrival, o measure.Outcome) { _ = w.rec.Ended(a, w.now, o) }

// after lets something happen after a while. What would be after the end of the
// run does not.
func (w *world) after(d time.Duration, do func()) { w.at(w.now+d, do) }

func (w *world) at(at time.Duration, do func()) {
	if at <= w.sc.Duration {
		w.events.push(max(at, w.now), do)
	}
}

// setPolicy puts another version of a policy in force.
func (w *world) setPolicy(p lease.Policy) {
	w.rec.Policy(w.now, p)
	for i := range w.keys {
		if w.keys[i].Operation == p.Operation {
			before := w.rules[i]
			w.rules[i], w.holds[i] = p.Rule, p.HoldTime()
			w.strategy.ruled(i, before)
		}
	}
}
