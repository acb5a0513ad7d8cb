package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	"github.com/tokenlease/tokenlease/simulations/measure"
)

// textWidth is how many columns a terminal is taken to have. Nothing is cut:
// only a single long text is wider.
const textWidth = 100

// Text prints the summary of runs for a terminal. One scenario is shown in
// full. Of many, there is a table with a line each, and the full account of
// those that failed, or of all of them when verbose.
func Text(w io.Writer, runs []Run, verbose bool) error {
	var b bytes.Buffer
	for _, run := range runs {
		if len(runs) == 1 || verbose || !run.OK() {
			block(&b, run)
			b.WriteByte('\n')
		}
	}
	if len(runs) > 1 {
		summary(&b, runs)
		b.WriteByte('\n')
	}
	total(&b, runs)
	_, err := w.Write(b.Bytes())
	return err
}

// capInWords is what can be admitted in all.
func capInWords(r *measure.Result) string {
	if r.Cap == 0 {
		return "and slots, which are used again, have no cap on that"
	}
	return "the cap is " + count(r.Cap) + " tokens"
}

// notCompared says which strategies are left out, and why.
func notCompared(run Run) string {
	if len(run.LeftOut) == 0 {
		return ""
	}
	return plain(strings.Join(run.LeftOut, ", ")) + ", of which there is no model for rules of this kind"
}

// block is the full account of one scenario.
func block(b *bytes.Buffer, run Run) {
	result := run.main()
	fmt.Fprintln(b, plain(run.Scenario.Title))
	fmt.Fprintf(b, "file %s, seed %d, hash %s\n", plain(run.Scenario.File), result.Seed, cmp.Or(result.Hash, none))
	fmt.Fprintf(b, "%s simulated: %s checks ask for %s tokens, %s\n\n", strictyaml.FormatDuration(run.Scenario.Duration),
		count(result.Checks), count(result.Offered), capInWords(result))

	heading := []string{""}
	for _, r := range run.Results {
		heading = append(heading, plain(r.Strategy))
	}
	rows := [][]string{heading}
	for _, q := range shown(run) {
		row := []string{q.name}
		for _, r := range run.Results {
			row = append(row, q.cell(r))
		}
		rows = append(rows, row)
	}
	columns(b, rows)
	if out := notCompared(run); out != "" {
		fmt.Fprintf(b, "\nnot compared: %s\n", out)
	}
	if out := deadlines(run); out != "" {
		fmt.Fprintf(b, "\nreclaim by deadline: %s\n", out)
	}

	if len(run.Findings) > 0 {
		b.WriteByte('\n')
	}
	for _, f := range run.Findings {
		fmt.Fprintf(b, "%-6s  %s\n", verdict(f.OK), plain(f.Text))
	}
	if broken := run.broken(); broken != "" {
		fmt.Fprintln(b, "\nFAILED: a rule was found broken")
		for line := range strings.Lines(broken) {
			fmt.Fprintf(b, "  %s\n", plain(line))
		}
	}
}

// summary is a line for each scenario: how ours did, and the worst excess of the
// others.
func summary(b *bytes.Buffer, runs []Run) {
	others := weak(runs)
	top := []string{"", "", "", "", "", ""}
	heading := []string{"scenario", "result", "admitted", "excess", "used", "bound"}
	for _, strategy := range others {
		first, second := twoLines(plain(strategy))
		top, heading = append(top, first), append(heading, second)
	}
	rows := [][]string{top, heading}
	for _, run := range runs {
		row := []string{plain(run.name()), verdict(run.OK())}
		rows = append(rows, append(row, overview(run, others)...))
	}
	columns(b, rows)
	b.WriteString("\nadmitted, excess, used (utilisation) and bound are those of tokenlease: tokens, tokens above the\n" +
		"cap in the worst interval, share of what the oracle admits, and what that share can be at the\n" +
		"most, min(1, B/(R*tau)). The columns after them are the worst excess of other strategies, tokens.\n")
}

// twoLines breaks a long name, after its hyphen if it has one, so that its column
// is narrow.
func twoLines(name string) (first, second string) {
	if i := strings.IndexByte(name, '-'); i >= 0 && i < len(name)-1 {
		return name[:i+1], name[i+1:]
	}
	if runes := []rune(name); len(runes) > 9 {
		return string(runes[:len(runes)/2-1]) + "-", string(runes[len(runes)/2-1:])
	}
	return "", name
}

// total is the last line: what ran, how it ended and how fast it was.
func total(b *bytes.Buffer, runs []Run) {
	var failed, events int
	var wall time.Duration
	for _, run := range runs {
		if !run.OK() {
			failed++
		}
		events += run.main().Events
		wall += run.Wall
	}
	noun := "scenarios"
	if len(runs) == 1 {
		noun = "scenario"
	}
	fmt.Fprintf(b, "%d %s, %d ok, %d FAILED", len(runs), noun, len(runs)-failed, failed)
	if wall > 0 {
		fmt.Fprintf(b, "; %s events in %s, %s events/s", count(int64(events)), duration(wall),
			count(int64(float64(events)/wall.Seconds())))
	}
	b.WriteByte('\n')
}

// columns prints a table whose first column is text and whose others are
// numbers. Where a table is too wide, its columns stand closer together. What
// does not fit even so comes below, under the first column again.
func columns(b *bytes.Buffer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	gap := 2
	if fitting(widths, 1, gap) < len(widths) && fitting(widths, 1, 1) == len(widths) {
		gap = 1
	}
	for from := 1; from < len(widths); {
		until := fitting(widths, from, gap)
		if from > 1 {
			b.WriteByte('\n')
		}
		printColumns(b, rows, widths[0], from, until, gap)
		from = until
	}
}

// fitting is how far the columns from one on fit beside the first one: one at
// the least.
func fitting(widths []int, from, gap int) (until int) {
	width := widths[0] + gap + widths[from]
	for until = from + 1; until < len(widths); until++ {
		if width += gap + widths[until]; width > textWidth {
			break
		}
	}
	return until
}

func printColumns(b *bytes.Buffer, rows [][]string, first, from, until, gap int) {
	var aligned bytes.Buffer
	tabs := tabwriter.NewWriter(&aligned, 0, 0, gap, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		name := row[0] + strings.Repeat(" ", first-utf8.RuneCountInString(row[0]))
		fmt.Fprintf(tabs, "%s\t%s\t\n", name, strings.Join(row[from:until], "\t"))
	}
	_ = tabs.Flush() // a buffer takes everything
	for line := range strings.Lines(aligned.String()) {
		b.WriteString(strings.TrimRight(line[gap:], " \n")) // the first column has a gap before it
		b.WriteByte('\n')
	}
}
