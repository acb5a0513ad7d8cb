package report

import (
	"fmt"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/tokenlease/tokenlease/simulations/measure"
)

// figureWidth is that of a page of print, and of a column on a screen.
const figureWidth vg.Length = 700

// figure is panels under one another that have the same time axis, under lanes
// that name the faults.
type figure struct {
	panels []panel
	faults []trouble
	end    float64
}

// newFigure is a run of the real code over time, or false if none was recorded.
func newFigure(run Run) (figure, bool) {
	result := run.main()
	s := result.Series
	if s == nil || len(s.Capacity) == 0 {
		return figure{}, false
	}
	var ideal *measure.Series
	if o := run.result(oracle); o != nil {
		ideal = o.Series
	}
	names := regionNames(result, len(s.Held))
	balances, rates := newTimeline(s, mostBalances), newTimeline(s, mostRates)
	f := figure{end: balances.end()}
	f.faults = troubles(s.Faults, f.end)
	shaded := shades(f.faults)
	f.panels = []panel{
		creditPanel(balances, names, shaded),
		admittedPanel(rates, names, ideal, shaded),
		balancePanel(balances, shaded),
		deniedPanel(rates, shaded),
	}
	return f, true
}

// regionNames are those of the first n regions, as long as legends can have them.
func regionNames(result *measure.Result, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("region %d", i+1)
		if i < len(result.Regions) {
			names[i] = fitted(printable(result.Regions[i].Name), figureWidth/3)
		}
	}
	return names
}

// Measures of a figure.
const (
	titleHeight  vg.Length = 19
	legendHeight vg.Length = 14
	panelGap     vg.Length = 14
	swatch       vg.Length = 16 // the width of a sample in a legend
	legendPad    vg.Length = 14 // between entries of a legend
)

// svg draws the figure, and is the same for the same figure.
func (f figure) svg(description string) string {
	left, right := f.sides()
	placed, rows := lanes(f.faults, f.at(left, right), left, right)
	height := f.height(rows)
	canvas := vgsvg.New(figureWidth, height)
	c := draw.New(canvas)
	top := height
	if rows > 0 {
		c.FillText(textStyle(titleSize, draw.XLeft, draw.YTop), vg.Point{Y: top}, "Faults")
		top -= titleHeight
		drawLanes(c, placed, top, f.at(left, right))
		top -= vg.Length(rows)*laneHeight + panelGap
	}
	for _, p := range f.panels {
		c.FillText(textStyle(titleSize, draw.XLeft, draw.YTop), vg.Point{Y: top}, p.title)
		top -= titleHeight
		for _, row := range flow(p.legend) {
			drawLegend(c, row, top)
			top -= legendHeight
		}
		p.plot.Draw(p.inset(c, left, top))
		top -= p.height + panelGap
	}
	return embedded(canvas, description)
}

// height of all that is drawn.
func (f figure) height(rows int) vg.Length {
	height := vg.Length(0)
	if rows > 0 {
		height += titleHeight + vg.Length(rows)*laneHeight + panelGap
	}
	for _, p := range f.panels {
		height += titleHeight + legendHeight*vg.Length(len(flow(p.legend))) + p.height + panelGap
	}
	return height
}

// sides are where the time axes begin and end, the same in all panels: the
// widest numbers decide.
func (f figure) sides() (left, right vg.Length) {
	page := draw.Canvas{Rectangle: vg.Rectangle{Max: vg.Point{X: figureWidth}}}
	for _, p := range f.panels {
		left = max(left, p.axis())
	}
	first := f.panels[0]
	return left, first.plot.DataCanvas(first.inset(page, left, first.height)).Max.X
}

// at maps seconds to the time axis.
func (f figure) at(left, right vg.Length) func(float64) vg.Length {
	return func(s float64) vg.Length { return left + (right-left)*vg.Length(s/f.end) }
}

// axis is how much room a panel's vertical axis takes.
func (p panel) axis() vg.Length {
	page := draw.Canvas{Rectangle: vg.Rectangle{Max: vg.Point{X: figureWidth, Y: p.height}}}
	return p.plot.DataCanvas(page).Min.X
}

// inset is the part of the canvas in which the plot is drawn, so that its time
// axis begins at left.
func (p panel) inset(c draw.Canvas, left, top vg.Length) draw.Canvas {
	c.Min.X, c.Min.Y, c.Max.Y = left-p.axis(), top-p.height, top
	return c
}

// flow breaks a legend into rows that are not too wide.
func flow(marks []mark) [][]mark {
	style := textStyle(labelSize, draw.XLeft, draw.YCenter)
	var rows [][]mark
	width := vg.Length(0)
	for _, m := range marks {
		entry := swatch + 4 + style.Width(m.label) + legendPad
		if len(rows) == 0 || width+entry > figureWidth {
			rows, width = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], m)
		width += entry
	}
	return rows
}

// drawLegend draws one row of a legend under top.
func drawLegend(c draw.Canvas, marks []mark, top vg.Length) {
	style := textStyle(labelSize, draw.XLeft, draw.YCenter)
	x, y := vg.Length(0), top-legendHeight/2
	for _, m := range marks {
		if m.fill != nil {
			box := vg.Rectangle{Min: vg.Point{X: x, Y: y - 4}, Max: vg.Point{X: x + swatch, Y: y + 4}}
			c.SetColor(m.fill)
			c.Fill(box.Path())
			for at := x + hatchStep; m.hatch && at < x+swatch; at += hatchStep {
				c.StrokeLine2(hatchLine, at, y-4, at, y+4)
			}
		} else {
			c.StrokeLine2(m.line, x, y, x+swatch, y)
		}
		c.FillText(style, vg.Point{X: x + swatch + 4, Y: y}, m.label)
		x += swatch + 4 + style.Width(m.label) + legendPad
	}
}

// drawLanes draws the faults under top, each with its label.
func drawLanes(c draw.Canvas, placed []lane, top vg.Length, at func(float64) vg.Length) {
	for _, l := range placed {
		y := top - vg.Length(l.row)*laneHeight
		c.SetColor(laneColor)
		for _, span := range l.spans {
			from, until := at(span.from), at(span.until)
			box := vg.Rectangle{Min: vg.Point{X: from, Y: y - laneHeight + 2}, Max: vg.Point{X: max(until, from+1.5), Y: y}}
			c.Fill(box.Path())
		}
		c.FillText(laneStyle, vg.Point{X: l.x, Y: y - (laneHeight-2)/2 + 1}, l.text)
	}
}
