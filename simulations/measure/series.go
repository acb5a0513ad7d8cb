package measure

import (
	"math"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/simulations/scenario"
)

const (
	// never is the time of what has not happened.
	never = time.Duration(math.MaxInt64)
	// maxBins of a series: a plot shows no more.
	maxBins = 300
)

// series fills a Series of the scenario's duration. What ends later is in the
// totals alone.
type series struct {
	*Series
	bins   int
	filled int // bins whose balance is known
}

func newSeries(sc *scenario.Scenario) series {
	step := stepFor(sc.Duration)
	s := series{bins: int((sc.Duration + step - 1) / step)}
	grid := func() [][]int64 {
		g := make([][]int64, len(sc.Regions))
		for i := range g {
			g[i] = make([]int64, s.bins)
		}
		return g
	}
	s.Series = &Series{
		Step: step, Faults: Spans(sc),
		Capacity: make([]int64, s.bins), Available: make([]int64, s.bins), Unknown: make([]int64, s.bins),
		Held: grid(), Admitted: grid(), Exhausted: grid(), Unavailable: grid(),
	}
	return s
}

// steps that are easy to read on an axis.
var steps = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// stepFor is the shortest step that needs no more than maxBins.
func stepFor(duration time.Duration) time.Duration {
	for _, step := range steps {
		if duration <= maxBins*step {
			return step
		}
	}
	const day = 24 * time.Hour
	return (duration/(maxBins*day) + 1) * day //nolint:durationcheck // a number of days
}

// next is the end of the first bin whose balance is not known yet.
func (s *series) next() time.Duration {
	if s.filled == s.bins {
		return never
	}
	return time.Duration(s.filled+1) * s.Step
}

// fill gives that bin its balance.
func (s *series) fill(b *Balance, capacity int64) {
	s.Capacity[s.filled] = capacity
	s.Available[s.filled], s.Unknown[s.filled] = b.Available, b.Unknown
	for i, held := range b.Held {
		s.Held[i][s.filled] = held
	}
	s.filled++
}

// ended counts a check that ended.
func (s *series) ended(at time.Duration, region int, o Outcome, cost int64) {
	bin := int(at / s.Step)
	if bin >= s.bins {
		return
	}
	switch o {
	case Admitted:
		s.Admitted[region][bin] += cost
	case Exhausted:
		s.Exhausted[region][bin]++
	case Unavailable:
		s.Unavailable[region][bin]++
	case Pending, Refused:
	}
}

// Due is when balances are sampled next. Whoever brings its balances up to date
// only when something happens does so with a Balance just before.
func (r *Recorder) Due() time.Duration { return r.due }

// moment is the balance that an expectation asks for, just before what happens
// at the moment itself.
type moment struct {
	at                 time.Duration
	available, unknown int64
	held               []int64
}

func momentsOf(sc *scenario.Scenario) []moment {
	var all []moment
	for i := range sc.Expect {
		if e := &sc.Expect[i]; isBalance(e.Quantity) && e.Until > 0 {
			all = append(all, moment{at: e.Until, held: make([]int64, len(sc.Regions))})
		}
	}
	slices.SortFunc(all, func(a, b moment) int { return int(a.at - b.at) })
	return all
}

func (m *moment) take(b *Balance) {
	m.available, m.unknown = b.Available, b.Unknown
	copy(m.held, b.Held)
}

// reach samples what is due before what happens at a moment. Mostly nothing is.
func (r *Recorder) reach(at time.Duration) {
	for at >= r.due {
		for r.sampled < len(r.moments) && r.moments[r.sampled].at == r.due {
			r.moments[r.sampled].take(&r.balance)
			r.sampled++
		}
		if r.series.next() == r.due {
			r.series.fill(&r.balance, r.capacity())
		}
		r.schedule()
	}
}

// schedule sets when the next sample is due.
func (r *Recorder) schedule() {
	r.due = r.series.next()
	if r.sampled < len(r.moments) {
		r.due = min(r.due, r.moments[r.sampled].at)
	}
}

// capacity in force, of all budgets.
func (r *Recorder) capacity() (sum int64) {
	for _, j := range r.judges {
		sum += j.Capacity()
	}
	return sum
}
