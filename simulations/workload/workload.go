package workload

import (
	"fmt"
	"math"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// Arrival is one check.
type Arrival struct {
	Index   int           // counts arrivals from 0, in order of time
	At      time.Duration // since the scenario began
	Region  int           // index into the scenario's regions
	Limiter int           // index within the region
	Key     int           // index into Keys
	Cost    int64         // tokens
	Work    time.Duration // for how long it holds slots, where it does
}

// Stream makes arrivals one after another. It holds one arrival per workload,
// whatever the length of the run. It is not safe for concurrent use.
type Stream struct {
	sources []*source
	index   int
}

// New is the stream of a scenario's arrivals from a seed.
func New(sc *scenario.Scenario, seed uint64) *Stream {
	s := &Stream{}
	_, places := keys(sc)
	for i := range sc.Workloads {
		s.sources = append(s.sources, newSource(sc, i, seed, places))
	}
	return s
}

// Next is the next arrival in order of time; those of one moment are in the
// order of their workloads. ok is false after the last one.
func (s *Stream) Next() (a Arrival, ok bool) {
	var first *source
	for _, src := range s.sources {
		if src.next != never && (first == nil || src.next < first.next) {
			first = src
		}
	}
	if first == nil {
		return Arrival{}, false
	}
	a = first.take()
	a.Index = s.index
	s.index++
	return a, true
}

// All is every arrival of the scenario, in the order of Next.
func All(sc *scenario.Scenario, seed uint64) []Arrival {
	var all []Arrival
	s := New(sc, seed)
	for a, ok := s.Next(); ok; a, ok = s.Next() {
		all = append(all, a)
	}
	return all
}

// Keys are the budgets that the scenario's workloads ask for: in the order of
// the workloads, then of their accounts, each once. Workloads of one operation
// share the accounts that they have in common.
func Keys(sc *scenario.Scenario) []lease.Key {
	all, _ := keys(sc)
	return all
}

func keys(sc *scenario.Scenario) (all []lease.Key, places map[lease.Key]int) {
	places = map[lease.Key]int{}
	for i := range sc.Workloads {
		w := &sc.Workloads[i]
		for account := range accounts(w) {
			key := keyOf(w, account)
			if _, known := places[key]; !known {
				places[key] = len(all)
				all = append(all, key)
			}
		}
	}
	return all, places
}

func accounts(w *scenario.Workload) int { return max(1, w.Accounts) }

// keyOf names the account: acme, or acme-0000 and so on where there are several.
func keyOf(w *scenario.Workload, account int) lease.Key {
	name := "acme"
	if w.Accounts > 1 {
		name = fmt.Sprintf("acme-%04d", account)
	}
	return lease.Key{Account: name, Operation: w.Operation}
}

// never is the time of an arrival that there is not.
const never = time.Duration(math.MaxInt64)
