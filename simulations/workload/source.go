package workload

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// source makes the arrivals of one workload.
type source struct {
	w     *scenario.Workload
	rng   *rand.Rand
	next  time.Duration // of the next arrival, or never
	clock clock

	regions  table   // over the regions' weights
	count    int     // of regions
	limiters []int   // by region, how many there are
	turn     []int   // by region, whose turn it is
	keys     []int32 // by account, place in Keys
	accounts table
	cost     int64
	spread   int64 // the cost is drawn from cost to cost+spread
}

// stream sets the workloads' sources apart from others of the same seed.
const stream = 0x776f_726b_6c6f_6164

func newSource(sc *scenario.Scenario, index int, seed uint64, places map[lease.Key]int) *source {
	w := &sc.Workloads[index]
	s := &source{
		w:        w,
		rng:      rand.New(rand.NewPCG(seed, stream+uint64(index))),
		regions:  regionTable(sc, w),
		count:    len(sc.Regions),
		turn:     make([]int, len(sc.Regions)),
		accounts: zipfTable(accounts(w), w.Zipf),
	}
	for i := range sc.Regions {
		s.limiters = append(s.limiters, max(1, sc.Regions[i].Limiters))
	}
	for account := range accounts(w) {
		s.keys = append(s.keys, int32(places[keyOf(w, account)]))
	}
	s.cost = w.Cost
	if s.cost == 0 {
		s.cost = defaultCost(sc, w.Operation)
	}
	s.spread = max(0, w.MaxCost-s.cost)
	s.clock = newClock(sc, w, s.rng)
	s.next = s.clock.next()
	return s
}

// take is the next arrival, but for its index.
func (s *source) take() Arrival {
	at := s.next
	a := Arrival{At: at, Region: s.region(at), Key: int(s.keys[s.accounts.draw(s.rng)]), Cost: s.cost, Work: s.w.Work}
	if s.spread > 0 {
		a.Cost += s.rng.Int64N(s.spread + 1)
	}
	a.Limiter = s.turn[a.Region]
	s.turn[a.Region] = (a.Limiter + 1) % s.limiters[a.Region]
	s.next = s.clock.next()
	return a
}

func (s *source) region(at time.Duration) int {
	region := s.regions.draw(s.rng)
	if s.w.Rotate > 0 {
		region = (region + int((at-s.w.From)/s.w.Rotate)) % s.count
	}
	return region
}

func regionTable(sc *scenario.Scenario, w *scenario.Workload) table {
	weights := make([]uint64, len(sc.Regions))
	for i := range weights {
		if len(w.Regions) == 0 {
			weights[i] = 1
		}
	}
	for _, rw := range w.Regions {
		weights[rw.Region] += uint64(rw.Weight)
	}
	return newTable(weights)
}

// defaultCost is that of the first version of the operation's policy: gateways
// do not follow its changes within a run.
func defaultCost(sc *scenario.Scenario, operation string) int64 {
	at := slices.IndexFunc(sc.Policies, func(p lease.Policy) bool { return p.Operation == operation })
	if at < 0 {
		return 1
	}
	return sc.Policies[at].DefaultCost
}
