package report

import (
	"cmp"
	"slices"
	"sort"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tokenlease/tokenlease/simulations/measure"
)

// trouble is all spans of one label: a link that flaps is one of them.
type trouble struct {
	label string
	spans []interval
}

// interval of a run, in seconds. A moment begins where it ends.
type interval struct{ from, until float64 }

// troubles are the faults by label, in order of their first beginning, cut to
// the length of the run.
func troubles(spans []measure.Span, end float64) []trouble {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b measure.Span) int { return cmp.Compare(a.From, b.From) })
	var all []trouble
	for _, span := range spans {
		part := interval{from: seconds(span.From), until: min(seconds(span.Until), end)}
		if part.from > end {
			continue
		}
		label := printable(span.Label)
		i := slices.IndexFunc(all, func(t trouble) bool { return t.label == label })
		if i < 0 {
			i = len(all)
			all = append(all, trouble{label: label})
		}
		all[i].spans = append(all[i].spans, part)
	}
	return all
}

// shades is when anything was wrong: intervals that do not touch, so that no
// part is shaded twice.
func shades(all []trouble) []interval {
	var parts []interval
	for _, t := range all {
		parts = append(parts, t.spans...)
	}
	slices.SortFunc(parts, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	var merged []interval
	for _, part := range parts {
		if last := len(merged) - 1; last >= 0 && part.from <= merged[last].until {
			merged[last].until = max(merged[last].until, part.until)
			continue
		}
		merged = append(merged, part)
	}
	return merged
}

// addShades shades the faults over the whole height of a plot, between lines at
// their ends. A moment is one line.
func addShades(p *plot.Plot, parts []interval) {
	for _, part := range parts {
		if part.from < part.until {
			p.Add(&plotter.Polygon{
				XYs: []plotter.XYs{{
					{X: part.from, Y: p.Y.Min},
					{X: part.from, Y: p.Y.Max},
					{X: part.until, Y: p.Y.Max},
					{X: part.until, Y: p.Y.Min},
				}},
				Color: shade,
			})
			p.Add(upright(p, part.until))
		}
		p.Add(upright(p, part.from))
	}
}

// upright is a line where a fault begins or ends.
func upright(p *plot.Plot, x float64) *plotter.Line {
	return line(plotter.XYs{{X: x, Y: p.Y.Min}, {X: x, Y: p.Y.Max}}, shadeEdge)
}

// lane is where a trouble is drawn above the plots: a row, and where its label
// begins.
type lane struct {
	trouble
	row  int
	text string
	x    vg.Length // of the text
}

// Measures of the lanes.
const (
	laneHeight vg.Length = 13
	lanePad    vg.Length = 6 // between troubles in one row
)

// lanes gives each trouble a place where its label covers nothing of another
// one, in as few rows as that takes. at maps seconds to the canvas; labels stay
// between left and right.
func lanes(all []trouble, at func(float64) vg.Length, left, right vg.Length) ([]lane, int) {
	var placed []lane
	var rows []vg.Length // up to where each is taken
	for _, t := range all {
		l := lane{trouble: t, text: fitted(t.label, right-left-2*laneText)}
		from, until := at(t.spans[0].from), at(t.last())
		x := labelled(from, at(t.spans[0].until), until, laneStyle.Width(l.text)+2*laneText, left, right)
		l.x = x + laneText
		begin := min(x, from)
		l.row = slices.IndexFunc(rows, func(taken vg.Length) bool { return taken+lanePad <= begin })
		if l.row < 0 {
			l.row = len(rows)
			rows = append(rows, 0)
		}
		rows[l.row] = max(until, x+laneStyle.Width(l.text)+2*laneText)
		placed = append(placed, l)
	}
	return placed, len(rows)
}

// labelled is where the label of a trouble begins, whose first span ends at
// first: in that span where it fits, else before it or after the last one, and
// over them where there is no room.
func labelled(from, first, until, width, left, right vg.Length) vg.Length {
	switch {
	case width <= first-from:
		return from
	case from-width >= left:
		return from - width
	case until+width <= right:
		return until
	}
	return max(left, min(from, right-width))
}

// last is when the trouble is over for good.
func (t trouble) last() float64 {
	last := 0.0
	for _, span := range t.spans {
		last = max(last, span.until)
	}
	return last
}

// laneText is the space around a label.
const laneText vg.Length = 2

var laneStyle = textStyle(labelSize, draw.XLeft, draw.YCenter)

// fitted is the text, cut if it is wider than all there is: the page lists the
// faults in full.
func fitted(text string, width vg.Length) string {
	runes := []rune(text)
	if laneStyle.Width(text) <= width {
		return text
	}
	n := sort.Search(len(runes), func(n int) bool { return laneStyle.Width(string(runes[:n])+"…") > width })
	return string(runes[:max(0, n-1)]) + "…"
}
