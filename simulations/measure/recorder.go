package measure

import (
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/judge"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

// Balance is where the credit of all budgets is, in tokens. A budget that was
// never used counts as full.
type Balance struct {
	Available int64   // at the broker
	Held      []int64 // by region, reserved for live epochs
	Unknown   int64   // reserved for dead epochs
	// Issued is what was handed out to holders since the beginning, whatever came
	// of it. It only grows. 0 where nothing is handed out.
	Issued int64
}

// out is what is out of the broker.
func (b *Balance) out() int64 {
	sum := b.Unknown
	for _, held := range b.Held {
		sum += held
	}
	return sum
}

// Recorder is told what happens in a run, in order of time, and makes its Result.
// It sits in the loop of the simulator: calls allocate nothing, but for arrays
// that double. It is not safe for concurrent use.
type Recorder struct {
	sc     *scenario.Scenario
	keys   []lease.Key
	judges []*judge.Judge
	rules  []lease.Rule // by key: the highest capacity and rate so far
	asked  []bool       // by key
	checks []check      // by index of the arrival
	result *Result

	balance     Balance
	since       time.Duration // of the balance
	outSeconds  float64       // integral of what is out, in token-seconds
	unknownTime float64       // integral of what is unknown

	series  series
	moments []moment
	sampled int // of moments
	due     time.Duration
}

// check is one arrival and how it ended.
type check struct {
	at, end time.Duration // end: never while pending
	cost    int64
	region  int32
	outcome Outcome
}

// NewRecorder records the run of a strategy.
func NewRecorder(sc *scenario.Scenario, strategy string, seed uint64) *Recorder {
	r := &Recorder{
		sc: sc, keys: workload.Keys(sc), moments: momentsOf(sc),
		balance: Balance{Held: make([]int64, len(sc.Regions))},
		result:  &Result{Strategy: strategy, Seed: seed, Regions: make([]Region, len(sc.Regions))},
	}
	for i := range sc.Regions {
		r.result.Regions[i].Name = sc.Regions[i].Name
	}
	for _, key := range r.keys {
		rule := firstRule(sc, key.Operation)
		r.rules = append(r.rules, rule)
		r.judges = append(r.judges, judge.New(rule))
		r.balance.Available += rule.Capacity
	}
	r.asked = make([]bool, len(r.keys))
	r.checks = make([]check, 0, expected(sc))
	r.series = newSeries(sc)
	r.schedule()
	return r
}

// expected is about how many checks will arrive.
func expected(sc *scenario.Scenario) int64 {
	var sum int64
	for i := range sc.Workloads {
		w := &sc.Workloads[i]
		until := w.Until
		if until == 0 {
			until = sc.Duration
		}
		mean := earned(w.Rate, until-w.From)
		sum += min(mean+mean/16, 1<<20) + int64(len(w.Times))
	}
	return sum
}

func firstRule(sc *scenario.Scenario, operation string) lease.Rule {
	for i := range sc.Policies {
		if sc.Policies[i].Operation == operation {
			return sc.Policies[i].Rule
		}
	}
	return lease.Rule{} // no policy: nothing may be admitted
}

// Judge judges the budget of this index into workload.Keys. It starts under the
// first version of its policy.
func (r *Recorder) Judge(key int) *judge.Judge { return r.judges[key] }

// Policy says that another version of a policy was written.
func (r *Recorder) Policy(at time.Duration, p lease.Policy) {
	r.reach(at)
	for i := range r.keys {
		if r.keys[i].Operation == p.Operation {
			r.judges[i].Written(at, p.Rule)
			r.rules[i] = highest(r.rules[i], p.Rule)
		}
	}
}

// Bind says that the newest versions bind from now on: for strategies that apply
// them at once. Those with ledgers show them to the judges instead.
func (r *Recorder) Bind(at time.Duration) {
	r.reach(at)
	for _, j := range r.judges {
		j.Bind(at)
	}
}

// Arrived says that a check arrives.
func (r *Recorder) Arrived(a workload.Arrival) {
	r.reach(a.At)
	for len(r.checks) <= a.Index {
		r.checks = append(r.checks, check{end: never})
	}
	r.checks[a.Index] = check{at: a.At, end: never, cost: a.Cost, region: int32(a.Region)}
	r.asked[a.Key] = true
	r.result.Checks++
	r.result.Offered += a.Cost
	r.result.Regions[a.Region].Checks++
}

// Ended says how a check ended, once. An admission goes to the judge of its
// budget, whose complaint is the error: it fails a run of ours. It is recorded
// all the same, and the others go on.
func (r *Recorder) Ended(a workload.Arrival, at time.Duration, o Outcome) error {
	if err := r.ended(a, at, o); err != nil || o != Admitted {
		return err
	}
	if err := r.judges[a.Key].Admit(at, a.Cost); err != nil {
		return fmt.Errorf("%s/%s: %w", r.keys[a.Key].Account, r.keys[a.Key].Operation, err)
	}
	return nil
}

// Holds is Ended for a check that was admitted to slots, of which the judge is told
// by whoever knows when they are free again.
func (r *Recorder) Holds(a workload.Arrival, at time.Duration) error { return r.ended(a, at, Admitted) }

func (r *Recorder) ended(a workload.Arrival, at time.Duration, o Outcome) error {
	r.reach(at)
	if a.Index >= len(r.checks) || r.checks[a.Index].end != never {
		return fmt.Errorf("check %d ended twice, or never arrived", a.Index)
	}
	c := &r.checks[a.Index]
	c.end, c.outcome = at, o
	region := &r.result.Regions[a.Region]
	r.series.ended(at, a.Region, o, a.Cost)
	switch o {
	case Admitted:
		r.result.Admitted += a.Cost
		region.Admitted += a.Cost
	case Exhausted:
		r.result.Exhausted++
		region.Exhausted++
	case Unavailable:
		r.result.Unavailable++
		region.Unavailable++
	case Refused:
		r.result.Refused++
	case Pending:
		return fmt.Errorf("check %d ended as pending", a.Index)
	}
	return nil
}

// Balance says that balances are these from now on. It copies what it is given.
func (r *Recorder) Balance(at time.Duration, b Balance) {
	r.reach(at)
	r.integrate(at)
	held := r.balance.Held
	copy(held, b.Held)
	r.balance, r.balance.Held = b, held
}

// integrate adds the time since the last change to the integrals.
func (r *Recorder) integrate(at time.Duration) {
	if at <= r.since {
		return
	}
	elapsed := at - r.since
	r.since = at
	r.outSeconds += float64(r.balance.out()) * elapsed.Seconds()
	if r.balance.Unknown > 0 {
		r.result.UnknownFor += elapsed
		r.unknownTime += float64(r.balance.Unknown) * elapsed.Seconds()
	}
}

// Synced counts n requests to a broker.
func (r *Recorder) Synced(n int64) { r.result.Syncs += n }
