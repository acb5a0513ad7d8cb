package report

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tokenlease/tokenlease/simulations/measure"
)

// panel is one plot of a figure, under its title and its legend.
type panel struct {
	title  string
	legend []mark
	plot   *plot.Plot
	height vg.Length // of the plot with its axes
}

// mark explains one layer or line of a panel.
type mark struct {
	label string
	fill  color.Color    // of a layer
	hatch bool           // of a layer
	line  draw.LineStyle // of a line
}

// layer is a series in a stack.
type layer struct {
	label   string
	color   color.Color
	hatched bool // told apart by more than its colour
	values  []float64
}

// Lines, which grey print tells apart by their dashes.
var (
	capLine       = draw.LineStyle{Color: ink, Width: 1.4, Dashes: []vg.Length{5, 3}}
	oracleLine    = draw.LineStyle{Color: ink, Width: 1.2}
	heldLine      = draw.LineStyle{Color: regionColors[1], Width: 1.6}
	availableLine = draw.LineStyle{Color: regionColors[3], Width: 1.4, Dashes: []vg.Length{7, 3}}
	unknownLine   = draw.LineStyle{Color: unknownColor, Width: 2, Dashes: []vg.Length{2, 2}}
	shadeEdge     = draw.LineStyle{Color: color.NRGBA{A: 0x80}, Width: 0.5, Dashes: []vg.Length{1.5, 1.5}}
	seam          = draw.LineStyle{Color: paper, Width: 0.25}
)

// creditPanel is where the credit is: out in the regions, unknown, and available
// on top, under the cap.
func creditPanel(t timeline, regions []string, faults []interval) panel {
	s := t.series
	var layers []layer
	for i, held := range s.Held {
		layers = append(layers, layer{label: "held by " + regions[i], color: regionColor(i), values: t.balances(held)})
	}
	layers = append(layers,
		layer{label: "unknown", color: unknownColor, hatched: true, values: t.balances(s.Unknown)},
		layer{label: "available", color: availableColor, values: t.balances(s.Available)})
	limit := t.balances(s.Capacity)
	p := stack(t, layers, limit, faults, tokens)
	p.plot.Add(line(t.steps(limit), capLine))
	p.title = "Credit: where the tokens of all budgets are"
	p.legend = append(p.legend, mark{label: "cap (capacity in force)", line: capLine})
	return p
}

// admittedPanel is what was admitted, by region, and what the oracle admits.
func admittedPanel(t timeline, regions []string, ideal *measure.Series, faults []interval) panel {
	var layers []layer
	for i, admitted := range t.series.Admitted {
		layers = append(layers, layer{label: regions[i], color: regionColor(i), values: t.rates(admitted)})
	}
	var oracles []float64
	if ideal != nil && ideal.Step == t.series.Step && len(ideal.Capacity) == len(t.series.Capacity) {
		oracles = t.rates(sums(ideal.Admitted))
	}
	p := stack(t, layers, oracles, faults, "tokens/s")
	p.title = "Admitted by region, average over " + duration(t.width())
	if oracles != nil {
		p.plot.Add(line(t.steps(oracles), oracleLine))
		p.legend = append(p.legend, mark{label: "what the oracle admits, all regions", line: oracleLine})
	}
	return p
}

// balancePanel is the same credit as lines from zero, so that each can be read.
func balancePanel(t timeline, faults []interval) panel {
	s := t.series
	lines := []struct {
		label  string
		style  draw.LineStyle
		values []float64
	}{
		{"available", availableLine, t.balances(s.Available)},
		{"held by live processes", heldLine, t.balances(sums(s.Held))},
		{"unknown", unknownLine, t.balances(s.Unknown)},
	}
	highest := 0.0
	for _, l := range lines {
		highest = max(highest, slices.Max(l.values))
	}
	p := panel{
		title:  "Available, held and unknown (held and unknown together are reserved)",
		plot:   newPlot("time", tokens, t.end(), room(highest)),
		height: 130,
	}
	p.plot.Add(grid{})
	addShades(p.plot, faults)
	for _, l := range lines {
		p.plot.Add(line(t.steps(l.values), l.style))
		p.legend = append(p.legend, mark{label: l.label, line: l.style})
	}
	return p
}

// deniedPanel is the checks that were turned away, and whether for want of
// budget or of somebody to ask.
func deniedPanel(t timeline, faults []interval) panel {
	exhausted, unavailable := t.rates(sums(t.series.Exhausted)), t.rates(sums(t.series.Unavailable))
	p := stack(t, []layer{
		{label: "503: nobody safe to ask", color: unknownColor, hatched: true, values: unavailable},
		{label: "429: budget used up", color: regionColors[0], values: exhausted},
	}, nil, faults, "checks/s")
	p.title = "Denied, all regions, average over " + duration(t.width())
	p.height = 105
	return p
}

// stack is a panel of layers on top of one another. Room is left for a line that
// goes over them.
func stack(t timeline, layers []layer, over []float64, faults []interval, unit string) panel {
	var values [][]float64
	for _, l := range layers {
		values = append(values, l.values)
	}
	tops := stacked(values)
	highest := 0.0
	for _, series := range append(tops, over) {
		for _, v := range series {
			highest = max(highest, v)
		}
	}
	p := panel{plot: newPlot("time", unit, t.end(), room(highest)), height: 170}
	p.plot.Add(grid{})
	// From the top down, each to the ground: so no gap shows between two of them.
	for i, l := range slices.Backward(layers) {
		area := line(t.steps(tops[i]), seam)
		area.FillColor = l.color
		p.plot.Add(area)
	}
	for i, l := range layers {
		if l.hatched {
			p.plot.Add(hatch{t: t, height: l.values, top: tops[i]})
		}
		p.legend = append(p.legend, mark{label: l.label, fill: l.color, hatch: l.hatched})
	}
	addShades(p.plot, faults)
	return p
}

// hatch draws upright strokes over a layer.
type hatch struct {
	t           timeline
	height, top []float64
}

// hatchStep is the distance between strokes.
const hatchStep vg.Length = 3

var hatchLine = draw.LineStyle{Color: paper, Width: 0.7}

// Plot draws the strokes, as one path.
func (h hatch) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var path vg.Path
	bin := 0
	for at := c.Min.X + hatchStep; at < c.Max.X; at += hatchStep {
		for bin < len(h.top)-1 && x(h.t.edges[bin+1]) <= at {
			bin++
		}
		if h.height[bin] > 0 {
			path.Move(vg.Point{X: at, Y: y(h.top[bin] - h.height[bin])})
			path.Line(vg.Point{X: at, Y: y(h.top[bin])})
		}
	}
	if len(path) > 0 {
		c.SetLineStyle(hatchLine)
		c.Stroke(path)
	}
}

func line(points plotter.XYs, style draw.LineStyle) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: style}
}
