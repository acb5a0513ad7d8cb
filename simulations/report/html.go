package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
)

//go:embed page.html
var pageSource string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// HTML writes one page about the runs, with all that it needs inside: no scripts
// and nothing from a network. The same results give the same page, since it has
// no date and no real time.
func HTML(w io.Writer, runs []Run) error {
	view := pageView{
		//nolint:gosec // the style sheet is a file of this package
		Style:     template.CSS(pageStyle),
		Legend:    quantities,
		Strategy:  ours,
		Overview:  overviewTable(runs),
		Scenarios: make([]scenarioView, 0, len(runs)),
	}
	for i, run := range runs {
		if !run.OK() {
			view.Failed++
		}
		view.Scenarios = append(view.Scenarios, newScenarioView(fmt.Sprintf("scenario-%d", i+1), run))
	}
	return pageTemplate.Execute(w, view)
}

// pageView is what the template shows.
type pageView struct {
	Style     template.CSS
	Strategy  string
	Failed    int
	Overview  tableView
	Scenarios []scenarioView
	Legend    []quantity
}

// tableView is a table whose first column is text and whose others are numbers.
type tableView struct {
	Heading []string
	Rows    [][]string
}

// scenarioView is a section of the page.
type scenarioView struct {
	ID, Title, File, Name, Verdict string
	OK                             bool
	Lesson                         []string // paragraphs
	Facts                          []factView
	Comparison, Regions            tableView
	Findings                       []findingView
	Broken                         []string // lines
	Figure, Bars                   template.HTML
	Faults                         []string
}

type factView struct{ Name, Value string }

type findingView struct{ Verdict, Text string }

// Name is that of the row of the quantity.
func (q quantity) Name() string { return q.name }

// Meaning explains the row to readers.
func (q quantity) Meaning() string { return q.meaning }

func newScenarioView(id string, run Run) scenarioView {
	view := scenarioView{
		ID:         id,
		Title:      printable(run.Scenario.Title),
		File:       printable(run.Scenario.File),
		Name:       printable(run.name()),
		Verdict:    verdict(run.OK()),
		OK:         run.OK(),
		Lesson:     paragraphs(run.Scenario.Lesson),
		Facts:      facts(run),
		Comparison: comparison(run),
		Regions:    regionTable(run.main()),
		Bars:       drawing(bars(run, "Bars: worst excess by strategy, as in the table")),
	}
	for _, f := range run.Findings {
		view.Findings = append(view.Findings, findingView{verdict(f.OK), printable(f.Text)})
	}
	for line := range strings.Lines(run.broken()) {
		view.Broken = append(view.Broken, printable(line))
	}
	if f, ok := newFigure(run); ok {
		view.Figure = drawing(f.svg("Plots over time: credit by region under the cap, admitted by region, balances, denials"))
		view.Faults = faultList(f.faults)
	}
	return view
}

// drawing is a drawing of this package, whose texts are escaped already.
func drawing(svg string) template.HTML {
	return template.HTML(svg) //nolint:gosec // see above
}

// paragraphs are parted by empty lines.
func paragraphs(text string) []string {
	var all []string
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n") {
		if part = printable(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// facts are what a reader needs to know of the world, and to run it again.
func facts(run Run) []factView {
	result := run.main()
	all := []factView{
		{"File", printable(run.Scenario.File)},
		{"Seed", strconv.FormatUint(result.Seed, 10)},
	}
	if result.Hash != "" {
		all = append(all, factView{"Hash of all events", printable(result.Hash)})
	}
	all = append(all,
		factView{"Simulated", brief(run.Scenario.Duration) + ", " + count(int64(result.Events)) + " events"},
		factView{"Asked for", count(result.Checks) + " checks, " + count(result.Offered) + " tokens"},
		factView{"Cap", capInWords(result) + ", in the whole run"})
	if out := notCompared(run); out != "" {
		all = append(all, factView{"Not compared", out})
	}
	if out := deadlines(run); out != "" {
		all = append(all, factView{"Reclaim by deadline", out})
	}
	for _, p := range run.Scenario.Policies {
		all = append(all, factView{"Policy", printable(p.Operation) + ": " + terms(p.Rule)})
	}
	return all
}

// terms are B and R in words, or what there is instead.
func terms(r lease.Rule) string {
	switch r.Kind {
	case lease.RollingWindow:
		return "limit L " + count(r.Capacity) + " tokens in any window of " + brief(r.Window)
	case lease.FixedWindow:
		return "limit L " + count(r.Capacity) + " tokens per " + string(r.Period) + ", " + printable(r.Zone)
	case lease.Concurrency:
		return count(r.Capacity) + " slots"
	case lease.TokenBucket:
	}
	text := "capacity B " + count(r.Capacity) + " tokens"
	if r.Refill.Tokens == 0 {
		return text + ", no refill"
	}
	interval := brief(r.Refill.Interval)
	if r.Refill.Interval == time.Second {
		interval = "s"
	}
	return text + ", refill R " + count(r.Refill.Tokens) + "/" + interval
}

func comparison(run Run) tableView {
	table := tableView{Heading: []string{""}}
	for _, r := range run.Results {
		table.Heading = append(table.Heading, printable(r.Strategy))
	}
	for _, q := range shown(run) {
		row := []string{q.name}
		for _, r := range run.Results {
			row = append(row, q.cell(r))
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

func regionTable(r *measure.Result) tableView {
	table := tableView{Heading: []string{"Region", "checks", "admitted, tokens", "exhausted (429)", "unavailable (503)"}}
	for _, region := range r.Regions {
		table.Rows = append(table.Rows, []string{
			printable(region.Name), count(region.Checks), count(region.Admitted), count(region.Exhausted), count(region.Unavailable),
		})
	}
	return table
}

// overviewTable has no names in its rows: the template makes them links.
func overviewTable(runs []Run) tableView {
	table := tableView{Heading: []string{"admitted", "worst excess", "utilisation", "its bound"}}
	others := weak(runs)
	for _, strategy := range others {
		table.Heading = append(table.Heading, printable(strategy))
	}
	for _, run := range runs {
		table.Rows = append(table.Rows, overview(run, others))
	}
	return table
}

// faultList tells the faults in words.
func faultList(all []trouble) []string {
	var lines []string
	for _, t := range all {
		first, last := t.spans[0], t.spans[len(t.spans)-1]
		at := func(s float64) string { return duration(time.Duration(s * float64(time.Second))) }
		when := at(first.from) + " to " + at(last.until)
		if len(t.spans) > 1 {
			when += fmt.Sprintf(", %d times", len(t.spans))
		} else if first.from == first.until {
			when = at(first.from)
		}
		lines = append(lines, t.label+": "+when)
	}
	return lines
}
