package strategies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/workload"
)

// The strategies.
const (
	Oracle         = "oracle"
	Independent    = "independent"
	Static         = "static"
	LocalAsync     = "local-async"
	ExpiringLeases = "expiring-leases"
)

// Names are all strategies, in the order in which they are shown.
var Names = []string{Oracle, Independent, Static, LocalAsync, ExpiringLeases}

// Run runs a strategy through a complete scenario, as Parse makes it. Admitting
// too much is a result, not an error; the one error is a name that is not known.
func Run(sc *scenario.Scenario, seed uint64, name string) (*measure.Result, error) {
	if !slices.Contains(Names, name) {
		return nil, fmt.Errorf("strategy %q is not known: want one of %s", name, strings.Join(Names, ", "))
	}
	if kind, ok := models(sc, name); !ok {
		return nil, fmt.Errorf("strategy %s has no model of a %s: leave it out", name, kind)
	}
	w := newWorld(sc, seed, name)
	switch name {
	case Oracle:
		w.ideal = true
		w.strategy = newOracle(w)
	case Independent:
		w.strategy = newSplit(w, 1)
	case Static:
		w.strategy = newSplit(w, w.net.limiters)
	case LocalAsync:
		w.strategy = newLocalAsync(w)
	case ExpiringLeases:
		w.strategy = newExpiring(w)
	}
	w.run()
	return w.rec.Result(sc.Duration), nil
}

// Models says that the strategy has a model of every kind of rule in the scenario.
// The oracle has one of each. What limiters do alone, each for itself, is known of
// buckets and of rolling windows; of the others only buckets are modelled.
func Models(sc *scenario.Scenario, name string) bool {
	_, ok := models(sc, name)
	return ok
}

func models(sc *scenario.Scenario, name string) (missing lease.Kind, ok bool) {
	has := func(kind lease.Kind) bool {
		switch name {
		case Oracle:
			return true
		case Independent, Static:
			return kind == lease.TokenBucket || kind == lease.RollingWindow
		}
		return kind == lease.TokenBucket
	}
	for i := range sc.Policies {
		if kind := sc.Policies[i].Rule.Kind; !has(kind) {
			return kind, false
		}
	}
	for i := range sc.Faults {
		if f := &sc.Faults[i]; f.Kind == scenario.Policy && !has(f.Policy.Rule.Kind) {
			return f.Policy.Rule.Kind, false
		}
	}
	return "", true
}

// strategy is how limiters decide, and what they keep. Whatever it does, it does
// at world.now.
type strategy interface {
	// check decides a check at a living process that is not paused, now or later.
	// The oracle gets no process.
	check(p *process, a workload.Arrival)
	// started and ended tell of processes. One that ends in order may still send.
	started(p *process)
	ended(p *process, orderly bool)
	// ruled says that the rule of a budget has changed from what it was before.
	ruled(key int, before lease.Rule)
	// elected says that a broker is the central place from now on, knowing nothing.
	elected(broker int)
	// backup copies the central state; restore puts the copy back.
	backup() (restore func())
	// balance says where credit is: Available, Held, Unknown and Issued.
	balance(b *measure.Balance)
}

// alone is the part of strategies that keep nothing in a central place.
type alone struct{}

func (alone) elected(int)    {}
func (alone) backup() func() { return func() {} }
