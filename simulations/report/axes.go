package report

import (
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// timeTicks marks an axis of seconds with the times that people count in.
type timeTicks struct{}

// timeSteps are the distances between marks, beyond which days are counted.
var timeSteps = []time.Duration{
	time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond,
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// Ticks are the marks from min, which is 0, to max.
func (timeTicks) Ticks(_, highest float64) []plot.Tick {
	const most = 12
	end := time.Duration(math.Round(highest * float64(time.Second)))
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if end/s <= most {
			step = s
			break
		}
	}
	for end/step > most {
		step *= 2
	}
	var ticks []plot.Tick
	for at := time.Duration(0); at <= end; at += step {
		ticks = append(ticks, plot.Tick{Value: seconds(at), Label: brief(at)})
	}
	return ticks
}

// amountTicks marks an axis of tokens, from 0, with round numbers.
type amountTicks struct {
	whole bool // fractions make no sense
}

// Ticks are the marks from 0 to highest.
func (t amountTicks) Ticks(_, highest float64) []plot.Tick {
	step := roundStep(highest / 5)
	if t.whole {
		step = max(step, 1)
	}
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= highest; i++ {
		ticks = append(ticks, plot.Tick{Value: float64(i) * step, Label: amount(float64(i)*step, highest)})
	}
	return ticks
}

// roundStep is the lowest of 1, 2 and 5 times a power of ten that is at least x.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, digit := range []float64{1, 2, 5} {
		if digit*power >= x*(1-1e-9) {
			return digit * power
		}
	}
	return 10 * power
}

// amount is a number on an axis that ends at highest, with the prefix of a unit
// that all numbers there share.
func amount(x, highest float64) string {
	unit, prefix := 1.0, ""
	for _, u := range []struct {
		unit   float64
		prefix string
	}{{1e4, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}, {1e15, "P"}, {1e18, "E"}} {
		if highest >= u.unit {
			unit, prefix = u.unit, u.prefix
		}
	}
	if prefix == "k" {
		unit = 1e3
	}
	if x == 0 {
		return "0"
	}
	return strconv.FormatFloat(x/unit, 'g', 6, 64) + prefix
}

// tokens is the unit of balances, which are whole.
const tokens = "tokens"

// newPlot has axes from 0, in this package's style.
func newPlot(xLabel, yLabel string, xMax, yMax float64) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // the page's
	p.X.Tick.Marker, p.Y.Tick.Marker = timeTicks{}, amountTicks{whole: yLabel == tokens}
	p.X.Label.Text, p.Y.Label.Text = xLabel, yLabel
	p.X.Label.TextStyle = textStyle(labelSize, draw.XCenter, draw.YBottom)
	p.Y.Label.TextStyle = textStyle(labelSize, draw.XCenter, draw.YBottom)
	p.X.Tick.Label = textStyle(labelSize, draw.XCenter, draw.YTop)
	p.Y.Tick.Label = textStyle(labelSize, draw.XRight, draw.YCenter)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Min, axis.Padding, axis.Label.Padding = 0, 0, 3
		axis.Width, axis.Tick.Width, axis.Tick.Length = 0.6, 0.6, 4
		axis.Color, axis.Tick.Color = ink, ink
	}
	p.X.Max, p.Y.Max = xMax, yMax
	return p
}

// room is how high an axis has to be for a highest value.
func room(highest float64) float64 {
	if highest <= 0 {
		return 1
	}
	return highest * 1.06
}

// grid is light lines across a plot at the marks of its vertical axis.
type grid struct{}

// Plot draws them.
func (grid) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if tick.Value > 0 {
			c.StrokeLine2(draw.LineStyle{Color: faint, Width: vg.Length(0.5)}, c.Min.X, y(tick.Value), c.Max.X, y(tick.Value))
		}
	}
}
