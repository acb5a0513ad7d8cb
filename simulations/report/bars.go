package report

import (
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// bars draws the worst excess of each strategy, from the top down in the order
// of the results, with the number at the end of each bar.
func bars(run Run, description string) string {
	n := len(run.Results)
	names := make([]string, n)
	excess := make(plotter.Values, n)
	labels := plotter.XYLabels{XYs: make(plotter.XYs, n), Labels: make([]string, n)}
	highest := 0.0
	for i, result := range run.Results {
		at := n - 1 - i // the axis counts upwards
		names[at] = printable(result.Strategy)
		excess[at] = float64(result.Excess)
		labels.XYs[at] = plotter.XY{X: excess[at], Y: float64(at)}
		labels.Labels[at] = count(result.Excess)
		highest = max(highest, excess[at])
	}
	p := newPlot("worst excess, tokens", "", max(highest, 1), float64(n)-0.5)
	p.NominalY(names...)
	p.Y.Min = -0.5
	p.X.Tick.Marker = amountTicks{whole: true}
	p.Y.Tick.Label = textStyle(labelSize, draw.XRight, draw.YCenter)
	p.Y.Padding = 0
	chart := &plotter.BarChart{Values: excess, Width: 11, Color: unknownColor, Horizontal: true}
	style := textStyle(labelSize, draw.XLeft, draw.YCenter)
	styles := make([]draw.TextStyle, n)
	for i := range styles {
		styles[i] = style
	}
	p.Add(chart, &plotter.Labels{XYs: labels.XYs, Labels: labels.Labels, TextStyle: styles, Offset: vg.Point{X: 4, Y: 1}})
	p.X.Min, p.X.Max, p.Y.Max = 0, max(highest, 1), float64(n)-0.5

	canvas := vgsvg.New(figureWidth, vg.Length(n)*17+40)
	p.Draw(draw.New(canvas))
	return embedded(canvas, description)
}
