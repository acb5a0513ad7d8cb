package report

import (
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/tokenlease/tokenlease/simulations/measure"
)

// How many bins a plot shows at the most. More than that is finer than print,
// and rates over short bins show the arrivals of single checks.
const (
	mostBalances = 360
	mostRates    = 90
)

// timeline is a series in bins that are wide enough to be seen.
type timeline struct {
	series *measure.Series
	merge  int       // bins of the series that make one of these
	edges  []float64 // of the bins, in seconds; one more than there are bins
}

func newTimeline(s *measure.Series, most int) timeline {
	bins := len(s.Capacity)
	t := timeline{series: s, merge: max(1, (bins+most-1)/most)}
	for i := 0; i < bins; i += t.merge {
		t.edges = append(t.edges, seconds(time.Duration(i)*s.Step))
	}
	t.edges = append(t.edges, seconds(time.Duration(bins)*s.Step))
	return t
}

func seconds(d time.Duration) float64 { return d.Seconds() }

// end is how long the series is, in seconds.
func (t timeline) end() float64 { return t.edges[len(t.edges)-1] }

// width of a bin as told to readers.
func (t timeline) width() time.Duration { return time.Duration(t.merge) * t.series.Step }

// balances are those at the ends of the bins.
func (t timeline) balances(values []int64) []float64 {
	var merged []float64
	for part := range slices.Chunk(values, t.merge) {
		merged = append(merged, float64(part[len(part)-1]))
	}
	return merged
}

// rates are those over the bins, per second.
func (t timeline) rates(values []int64) []float64 {
	var merged []float64
	for part := range slices.Chunk(values, t.merge) {
		var sum int64
		for _, v := range part {
			sum += v
		}
		bin := len(merged)
		merged = append(merged, float64(sum)/(t.edges[bin+1]-t.edges[bin]))
	}
	return merged
}

// steps is a line that has each value over its whole bin.
func (t timeline) steps(values []float64) plotter.XYs {
	var points plotter.XYs
	for i, v := range values {
		if last := len(points) - 1; last >= 0 && points[last].Y == v {
			points[last].X = t.edges[i+1]
			continue
		}
		points = append(points, plotter.XY{X: t.edges[i], Y: v}, plotter.XY{X: t.edges[i+1], Y: v})
	}
	return points
}

// sums is the sum of series, bin by bin.
func sums(series [][]int64) []int64 {
	if len(series) == 0 {
		return nil
	}
	sum := make([]int64, len(series[0]))
	for _, values := range series {
		for i, v := range values {
			sum[i] += v
		}
	}
	return sum
}

// stacked adds each series to those below it.
func stacked(layers [][]float64) [][]float64 {
	tops := make([][]float64, len(layers))
	for i, layer := range layers {
		tops[i] = slices.Clone(layer)
		if i > 0 {
			for j := range layer {
				tops[i][j] += tops[i-1][j]
			}
		}
	}
	return tops
}
