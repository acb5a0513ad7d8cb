package mutants

import (
	"fmt"
	"strconv"
	"strings"
)

// Outcome is what became of a mutant. The program prints it as JSON.
type Outcome struct {
	Mutant string `json:"mutant"`
	Caught bool   `json:"caught"`
	// Panicked: the code fell over instead of doing wrong, which shows nothing.
	Panicked bool    `json:"panicked,omitempty"`
	By       string  `json:"by,omitempty"`     // the seed, or the scope
	Seeds    uint64  `json:"seeds,omitempty"`  // worlds that were gone through
	Events   int     `json:"events"`           // in all of them, or transitions of a scope
	States   int64   `json:"states,omitempty"` // of a scope
	Steps    int     `json:"steps,omitempty"`  // of the shortest history of a scope that fails
	Seconds  float64 `json:"seconds"`
	Said     string  `json:"said,omitempty"` // the first line of the failure
}

// String is a line for logs.
func (o Outcome) String() string {
	switch {
	case o.Panicked:
		return fmt.Sprintf("%-32s falls over, by %s: %s", o.Mutant, o.By, o.Said)
	case !o.Caught && o.States > 0:
		return fmt.Sprintf("%-32s lives after %d states, %d transitions, %.1f s", o.Mutant, o.States, o.Events, o.Seconds)
	case !o.Caught:
		return fmt.Sprintf("%-32s lives after %d worlds, %d events, %.1f s", o.Mutant, o.Seeds, o.Events, o.Seconds)
	}
	return fmt.Sprintf("%-32s caught by %-18s %7d events %4.1f s  %.140s", o.Mutant, o.how(), o.Events, o.Seconds, o.Said)
}

// how is what caught it, in a few words.
func (o Outcome) how() string {
	if o.Steps > 0 {
		return fmt.Sprintf("%s, %d steps", o.By, o.Steps)
	}
	return o.By
}

// Table is the documentation of the mutants: what each breaks, and what caught
// it, in worlds and in scopes; an outcome that has no mutant stands for none.
func Table(mutants []Mutant, worlds, scopes []Outcome) string {
	var b strings.Builder
	broken := 0
	for _, m := range mutants {
		if m.Harmless == "" {
			broken++
		}
	}
	fmt.Fprintf(&b, tableHead, broken)
	area := Area("")
	for i, m := range mutants {
		if m.Area != area {
			area = m.Area
			fmt.Fprintf(&b, "\n## %s\n\n", title(area))
			b.WriteString(columns(m))
		}
		b.WriteString(row(m, worlds[i], scopes[i]))
	}
	return b.String()
}

const tableHead = `# Mutants

%d breakages of the code, each of which the simulations catch, and some that are harmless. Worlds are drawn
from seed 1 on until a check fails; events are those of all of them. Where it says so, the search of all
histories of a small scope finds the breakage too: with so many steps, and none with fewer. Breakages with *
are of the simulated world, which stands in for code that it does not run.

Written by ` + "`go test ./simulations/mutants -run TestMutantsAreCaught -update`" + `; the same code gives the same table.
`

// columns is the head of an area's table.
func columns(m Mutant) string {
	if m.Harmless != "" {
		return "| change | rule | what is different | why nothing goes wrong |\n| --- | --- | --- | --- |\n"
	}
	return "| mutant | rule | what is wrong | caught by | events | scope, steps | what was said |\n" +
		"| --- | --- | --- | --- | ---: | --- | --- |\n"
}

func row(m Mutant, world, scope Outcome) string {
	if m.Harmless != "" {
		return fmt.Sprintf("| %s | %s | %s | %s |\n", m.Name, m.Rule, m.Breaks, m.Harmless)
	}
	name, by, events, said := m.Name, "", "", scope.Said
	if m.Stands != "" {
		name += "*"
	}
	if world.Caught {
		by, events, said = world.By, strconv.Itoa(world.Events), world.Said
	}
	how := ""
	if scope.Caught {
		how = scope.how()
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |\n", name, m.Rule, m.Breaks, by, events, how, cell(said))
}

func title(a Area) string { return strings.ToUpper(string(a[:1])) + string(a[1:]) }

// cell is a text that a table can hold.
func cell(text string) string {
	const most = 100
	text = strings.Join(strings.Fields(text), " ") // messages print with one blank or two, at random
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return strings.ReplaceAll(text, "|", "\\|")
}
