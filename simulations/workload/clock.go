package workload

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// clock gives the moments at which a workload's checks arrive, in order, and
// then never.
type clock interface {
	next() time.Duration
}

func newClock(sc *scenario.Scenario, w *scenario.Workload, rng *rand.Rand) clock {
	until := w.Until
	if until == 0 {
		until = sc.Duration
	}
	if w.Arrivals == scenario.Times {
		return &times{from: w.From, until: until, at: w.Times}
	}
	if w.Rate.Tokens <= 0 {
		return &times{}
	}
	switch w.Arrivals {
	case scenario.Steady:
		return newSteps(w, until, 1)
	case scenario.Bursts:
		return newSteps(w, until, max(1, w.Burst))
	case scenario.Diurnal:
		return &diurnal{w: w, poisson: newPoisson(w, until, rng)}
	}
	return newPoisson(w, until, rng)
}

// times are given moments.
type times struct {
	from, until time.Duration
	at          []time.Duration
}

func (c *times) next() time.Duration {
	for len(c.at) > 0 {
		at := c.at[0]
		c.at = c.at[1:]
		if at >= c.from && at < c.until {
			return at
		}
	}
	return never
}

// steps are bursts in equal intervals, the first one at once. A burst of 1 is
// steady. The gap is kept as a fraction, so that the rate is exact in the long
// run.
type steps struct {
	at, until time.Duration
	burst     int
	left      int // of the present burst
	gap       time.Duration
	part, sum int64 // what is left of the gap, and of all gaps so far, by per
	per       int64
}

func newSteps(w *scenario.Workload, until time.Duration, burst int) *steps {
	apart := int64(w.Rate.Interval) * int64(burst)
	return &steps{
		at: w.From, until: until, burst: burst, left: burst,
		gap: time.Duration(apart / w.Rate.Tokens), part: apart % w.Rate.Tokens, per: w.Rate.Tokens,
	}
}

func (c *steps) next() time.Duration {
	if c.left == 0 {
		c.left = c.burst
		c.at += c.gap
		if c.sum += c.part; c.sum >= c.per {
			c.sum -= c.per
			c.at++
		}
	}
	c.left--
	if c.at >= c.until {
		return never
	}
	return c.at
}

// poisson has independent, exponentially distributed gaps.
type poisson struct {
	at, until time.Duration
	mean      float64 // gap, in nanoseconds
	rng       *rand.Rand
}

func newPoisson(w *scenario.Workload, until time.Duration, rng *rand.Rand) *poisson {
	return &poisson{at: w.From, until: until, rng: rng,
		mean: float64(w.Rate.Interval) / float64(w.Rate.Tokens)}
}

func (c *poisson) next() time.Duration {
	gap := c.rng.ExpFloat64() * c.mean
	if gap >= float64(c.until-c.at) {
		c.at = c.until
		return never
	}
	c.at += time.Duration(gap)
	return c.at
}

// diurnal thins a Poisson process of the highest rate. The rate is lowest when
// the workload begins, and highest half a period later.
type diurnal struct {
	w       *scenario.Workload
	poisson *poisson
}

func (c *diurnal) next() time.Duration {
	low := float64(c.w.LowPercent) / 100
	for {
		at := c.poisson.next()
		if at == never || c.w.Period <= 0 {
			return at
		}
		turn := float64((at-c.w.From)%c.w.Period) / float64(c.w.Period)
		swing := (1 - math.Cos(2*math.Pi*turn)) / 2
		if c.poisson.rng.Float64() < low+(1-low)*swing {
			return at
		}
	}
}
