package scenario

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// Bounds of a scenario. Within them a run ends in reasonable time, and nothing
// that is counted in it overflows.
const (
	MinDuration = time.Second
	MaxDuration = 24 * time.Hour
	MaxLimiters = 50 // in all regions
	MaxBrokers  = 20
	MaxShards   = 64
	MaxBudgets  = 2000      // over all operations
	MaxArrivals = 5_000_000 // checks, estimated from the rates

	maxCounted = 1 << 62 // tokens
	maxRate    = 1_000_000
	maxDelay   = 10 * time.Minute
	maxClock   = 366 * 24 * time.Hour
	maxSlow    = 50
	maxName    = 64
)

// budgets checks how many there are. Workloads of one operation share accounts.
func (r *reader) budgets() {
	accounts := map[string]int{}
	sum := 0
	for i, w := range r.sc.Workloads {
		more := max(0, w.Accounts-accounts[w.Operation])
		accounts[w.Operation] += more
		sum += more
		if sum > MaxBudgets && sum-more <= MaxBudgets {
			r.fieldf(r.workloadNodes[i], strictyaml.Index("workload", i), "accounts", "makes %d budgets in all: want at most %d", sum, MaxBudgets)
		}
	}
}

// arrivals checks how many checks there are.
func (r *reader) arrivals() {
	sum := 0.0
	for i, w := range r.sc.Workloads {
		more := w.estimate()
		sum += more
		if sum > MaxArrivals && sum-more <= MaxArrivals {
			r.fieldf(r.workloadNodes[i], strictyaml.Index("workload", i), w.amount(), "makes about %.0f checks in all: want at most %d", sum, MaxArrivals)
		}
	}
}

// amount is the field that says how many checks there are.
func (w Workload) amount() string {
	if w.Arrivals == Times {
		return "at"
	}
	return "rate"
}

// estimate is how many checks there are at the most, on average.
func (w Workload) estimate() float64 {
	if w.Arrivals == Times {
		return float64(len(w.Times))
	}
	return over(w.Rate, w.Until-w.From)
}

// over is what a rate makes of a time.
func over(rate lease.Rate, d time.Duration) float64 {
	if rate.Tokens == 0 || rate.Interval <= 0 {
		return 0
	}
	return float64(rate.Tokens) * (float64(d) / float64(rate.Interval))
}

// tokens checks that sums of tokens over all budgets can be counted: of what is
// asked for, since strategies that overshoot admit that, and of what all versions
// of the policies admit.
func (r *reader) tokens() {
	asked, admitted := 0.0, 0.0
	for i, w := range r.sc.Workloads {
		more := (2*w.estimate() + 100) * float64(w.MaxCost) // arrivals are random
		asked += more
		if asked > maxCounted && asked-more <= maxCounted {
			r.fieldf(r.workloadNodes[i], strictyaml.Index("workload", i), "cost", "asks for more tokens than can be counted: want a lower cost or rate")
		}
	}
	for _, v := range r.versions() {
		more := (float64(v.rule.Capacity) + over(v.rule.Refill, r.sc.Duration)) * r.accounts(v.operation)
		admitted += more
		if admitted > maxCounted && admitted-more <= maxCounted {
			r.Faultf(v.line, v.path, "admits more tokens in %s than can be counted: want a lower capacity or refill", long(r.sc.Duration))
		}
	}
}

// version is one version of a policy, and where it stands.
type version struct {
	operation string
	rule      lease.Rule
	line      int
	path      string
}

// versions are all that there are in the course of the scenario.
func (r *reader) versions() []version {
	var all []version
	for i, p := range r.sc.Policies {
		all = append(all, version{p.Operation, p.Rule, r.policyNodes[i].Line, strictyaml.Index("policies", i)})
	}
	for i, f := range r.sc.Faults {
		if f.Kind == Policy {
			all = append(all, version{f.Policy.Operation, f.Policy.Rule, f.Line, strictyaml.Index("faults", i) + ".policy"})
		}
	}
	return all
}

// accounts is how many an operation has, and at least one.
func (r *reader) accounts(operation string) float64 {
	n := 1
	for _, w := range r.sc.Workloads {
		if w.Operation == operation {
			n = max(n, w.Accounts)
		}
	}
	return float64(n)
}
