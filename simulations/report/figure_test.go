package report

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/vg"

	"github.com/tokenlease/tokenlease/simulations/measure"
)

// drawn is what a figure of the run looks like.
func drawn(t *testing.T, run Run) []*element {
	t.Helper()
	f, ok := newFigure(run)
	if !ok {
		t.Fatal("the run has no figure")
	}
	return elements(t, f.svg("plots"))
}

// extent of a path, and whether it is filled.
type extent struct {
	left, right float64
	filled      bool
	style       string
}

func extents(t *testing.T, all []*element) []extent {
	t.Helper()
	var found []extent
	for _, e := range all {
		if e.name != "path" {
			continue
		}
		x := extent{left: math.Inf(1), right: math.Inf(-1), style: e.attributes["style"]}
		x.filled = !strings.Contains(x.style, "fill:none")
		for _, point := range strings.FieldsFunc(e.attributes["d"], func(r rune) bool { return strings.ContainsRune("MLZ", r) }) {
			var px, py float64
			if _, err := fmt.Sscanf(point, "%g,%g", &px, &py); err != nil {
				t.Fatalf("point %q: %v", point, err)
			}
			x.left, x.right = min(x.left, px), max(x.right, px)
		}
		found = append(found, x)
	}
	return found
}

// timeAxis is from where to where most layers go.
func timeAxis(all []extent) (left, right float64) {
	left = math.Inf(1)
	for _, x := range all {
		if x.filled && x.right-x.left > float64(figureWidth)/2 {
			left, right = min(left, x.left), max(right, x.right)
		}
	}
	return left, right
}

func near(a, b float64) bool { return math.Abs(a-b) < 0.1 }

func TestPlotsHaveALayerForEachSeries(t *testing.T) {
	for _, regions := range []int{1, 3, 6, 8} {
		paths := extents(t, drawn(t, invented(regions, 1000)))
		left, right := timeAxis(paths)
		layers := 0
		for _, x := range paths {
			if x.filled && near(x.left, left) && near(x.right, right) {
				layers++
			}
		}
		// Held by each, unknown and available; admitted by each; 503 and 429.
		if want := regions + 2 + regions + 2; layers != want {
			t.Errorf("%d regions: %d layers, want %d", regions, layers, want)
		}
	}
}

func TestPlotsNameEverything(t *testing.T) {
	var all []string
	for _, e := range drawn(t, invented(3, 40, flapping(30)...)) {
		if e.name == "text" {
			all = append(all, e.text)
		}
	}
	texts := "|" + strings.Join(all, "|") + "|"
	for _, want := range []string{
		"held by region-1", "held by region-3", "unknown", "available", "cap (capacity in force)", "region-2",
		"what the oracle admits, all regions", "tokens", "tokens/s", "checks/s", "time", "40s",
	} {
		if !strings.Contains(texts, "|"+want+"|") {
			t.Errorf("no text %q in %s", want, texts)
		}
	}
	if n := strings.Count(texts, "|cut region-2 - brokers|"); n != 1 {
		t.Errorf("the link that flaps is named %d times", n)
	}
}

func TestFaultsAreShadedWhereTheyAre(t *testing.T) {
	// The run takes 40 s. Two faults overlap, one is a moment, one outlasts the run.
	paths := extents(t, drawn(t, invented(3, 40,
		measure.Span{From: 10 * time.Second, Until: 15 * time.Second, Label: "crash eu"},
		measure.Span{From: 12 * time.Second, Until: 20 * time.Second, Label: "cut us - brokers"},
		measure.Span{From: 25 * time.Second, Until: 25 * time.Second, Label: "attest eu"},
		measure.Span{From: 30 * time.Second, Until: time.Hour, Label: "store outage"},
		measure.Span{From: 50 * time.Second, Until: time.Hour, Label: "too late"},
	)))
	left, right := timeAxis(paths)
	var shaded [][2]float64
	for _, x := range paths {
		if x.filled && strings.Contains(x.style, "fill-opacity") {
			scale := 40 / (right - left)
			shaded = append(shaded, [2]float64{math.Round((x.left - left) * scale * 100), math.Round((x.right - left) * scale * 100)})
		}
	}
	var want [][2]float64
	for range 4 { // panels
		want = append(want, [2]float64{1000, 2000}, [2]float64{3000, 4000})
	}
	if diff := cmp.Diff(want, shaded); diff != "" {
		t.Errorf("in hundredths of seconds: %s", diff)
	}
}

func TestLanesDoNotOverlap(t *testing.T) {
	spans := flapping(30)
	for i := range 40 {
		from := time.Duration(i) * time.Second
		spans = append(spans, measure.Span{From: from, Until: from + time.Duration(i%5)*time.Second, Label: fmt.Sprintf("mess region-%d - store", i)})
	}
	const wide = "cut between two ends with names that leave no room beside the first span or after the last one"
	spans = append(spans,
		measure.Span{Label: strings.Repeat("long ", 100)},
		measure.Span{From: time.Second, Until: 2 * time.Second, Label: wide},
		measure.Span{From: 38 * time.Second, Until: 39 * time.Second, Label: wide})
	const left, right = vg.Length(50), vg.Length(690)
	at := func(s float64) vg.Length { return left + (right-left)*vg.Length(s/40) }
	placed, rows := lanes(troubles(spans, 40), at, left, right)
	if rows > 20 || len(placed) != 43 {
		t.Errorf("%d faults in %d rows", len(placed), rows)
	}
	type box struct{ left, right vg.Length }
	taken := make([][]box, rows)
	for _, l := range placed {
		b := box{min(l.x, at(l.spans[0].from)), max(l.x+laneStyle.Width(l.text), at(l.last()))}
		if l.x < left || l.x+laneStyle.Width(l.text) > right {
			t.Errorf("%q is from %v to %v", l.text, l.x, l.x+laneStyle.Width(l.text))
		}
		for _, other := range taken[l.row] {
			if b.left < other.right && other.left < b.right {
				t.Errorf("%q covers another fault in row %d", l.text, l.row)
			}
		}
		taken[l.row] = append(taken[l.row], b)
	}
}

func TestStackedLayersAddUp(t *testing.T) {
	got := stacked([][]float64{{1, 2}, {3, 0}, {0, 5}})
	if diff := cmp.Diff([][]float64{{1, 2}, {4, 2}, {4, 7}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTimelineMergesBins(t *testing.T) {
	s := &measure.Series{Step: 500 * time.Millisecond, Capacity: make([]int64, 5)}
	fine, wide := newTimeline(s, 5), newTimeline(s, 3)
	values := []int64{1, 1, 4, 0, 6}
	for _, c := range []struct {
		name      string
		got, want []float64
	}{
		{"edges", fine.edges, []float64{0, 0.5, 1, 1.5, 2, 2.5}},
		{"wide edges", wide.edges, []float64{0, 1, 2, 2.5}},
		{"balances", fine.balances(values), []float64{1, 1, 4, 0, 6}},
		{"wide balances", wide.balances(values), []float64{1, 0, 6}},
		{"rates", fine.rates(values), []float64{2, 2, 8, 0, 12}},
		{"wide rates", wide.rates(values), []float64{2, 4, 12}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	if n := len(fine.steps([]float64{1, 1, 4, 4, 4})); n != 4 {
		t.Errorf("two levels take %d points", n)
	}
}

func TestTimeTicksAreRound(t *testing.T) {
	for end, want := range map[time.Duration]string{
		40 * time.Second:       "0s 5s 10s 15s 20s 25s 30s 35s 40s",
		90 * time.Second:       "0s 10s 20s 30s 40s 50s 1m 1m10s 1m20s 1m30s",
		3 * time.Hour:          "0s 20m 40m 1h 1h20m 1h40m 2h 2h20m 2h40m 3h",
		30 * time.Millisecond:  "0s 5ms 10ms 15ms 20ms 25ms 30ms",
		100 * 24 * time.Hour:   "0s 192h 384h 576h 768h 960h 1152h 1344h 1536h 1728h 1920h 2112h 2304h",
		2500 * time.Nanosecond: "0s 1µs 2µs",
	} {
		var labels []string
		for _, tick := range (timeTicks{}).Ticks(0, end.Seconds()) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != want {
			t.Errorf("%v: %s, want %s", end, got, want)
		}
	}
}

func TestBarsAreAsLongAsTheExcess(t *testing.T) {
	run := invented(3, 40)
	var lengths []float64
	for _, x := range extents(t, elements(t, bars(run, "bars"))) {
		if x.filled {
			lengths = append(lengths, x.right-x.left)
		}
	}
	if len(lengths) != len(run.Results) {
		t.Fatalf("%d bars", len(lengths))
	}
	// From the axis' end, which is at the bottom: the order of results, reversed.
	longest := lengths[3]
	for i, length := range lengths {
		want := float64(run.Results[len(lengths)-1-i].Excess) / 80
		if math.Abs(length/longest-want) > 0.01 {
			t.Errorf("bar %d is %.2f of the longest, want %.2f", i, length/longest, want)
		}
	}
}

func TestDrawingsNameFontsThatAllHave(t *testing.T) {
	f, _ := newFigure(invented(3, 40))
	for _, svg := range []string{f.svg("plots"), bars(invented(3, 40), "bars")} {
		if strings.Contains(svg, "font-family:") || !strings.Contains(svg, "sans-serif") {
			t.Error("a text has a font of its own")
		}
	}
}

func TestNothingIsDrawnBesideTheFigure(t *testing.T) {
	for _, capacity := range []int64{1, 1000, 123_456_789, 1_000_000_000_000} {
		all := drawn(t, invented(6, capacity, flapping(30)...))
		for _, x := range extents(t, all) {
			if x.left < 0 || x.right > float64(figureWidth) {
				t.Errorf("capacity %d: a path from %v to %v", capacity, x.left, x.right)
			}
		}
		style := textStyle(labelSize, 0, 0)
		for _, e := range all {
			if e.name != "text" {
				continue
			}
			var x, y float64
			if _, err := fmt.Sscan(e.attributes["x"]+" "+e.attributes["y"], &x, &y); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(e.text, tokens) || e.text == "checks/s" {
				// Units are turned: they stand on their y, and reach to the left.
				if y-float64(labelSize)/2 < 0 {
					t.Errorf("capacity %d: %q stands at %v", capacity, e.text, y)
				}
				continue
			}
			if x < 0 || x+float64(style.Width(e.text)) > float64(figureWidth)+0.1 {
				t.Errorf("capacity %d: text %q begins at %v", capacity, e.text, x)
			}
		}
	}
}
