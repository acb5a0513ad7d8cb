package mutants

import (
	"cmp"
	"slices"
	"strings"
)

// Area is what a mutant is about.
type Area string

// The areas.
const (
	Accounts  Area = "accounts"
	Unknown   Area = "unknown credit"
	Deadlines Area = "deadlines"
	Journal   Area = "journal"
	Time      Area = "time and policy"
	Commits   Area = "commits"
	Sharing   Area = "sharing"
	Restores  Area = "restores"
	Windows   Area = "windows"
	Slots     Area = "slots and reservations"
	Spared    Area = "harmless"
)

// Mutant breaks one rule.
type Mutant struct {
	Name string // lower case, with dashes
	Area Area
	Rule string // of the contract, such as C5.1
	// Breaks says in one sentence what is wrong about the code.
	Breaks string
	// Stands says where the rule is kept in a program, for a mutant that edits the
	// simulated world in its stead; empty for one that edits the real code.
	Stands string
	Edits  []Edit
	// With names a variation that is switched on as well: one that is allowed, and
	// leads to where the rule matters.
	With string
	// Harmless says what makes up for the breakage, so that nothing goes wrong. It
	// must not be caught.
	Harmless string
	// Aim names an adjustment of the worlds that are drawn, which leads to where
	// the rule matters; empty for none. Package run has them.
	Aim string
	// Seeds is in how many worlds it must be caught, from seed 1 on, or, where it is
	// harmless, how many it must pass; 0 where only Scope shows it.
	Seeds uint64
	// Scope names what is explored exhaustively; empty for nothing.
	Scope string
}

// Edit is a change of one place in one file.
type Edit struct {
	File string // below the root of the module
	Old  string // occurs once in it
	New  string // with on for the question whether the mutant is switched on
}

// on stands in a New for mutation.Is of the mutant's name.
const on = "$on"

// swap puts a text with on in it in the place of another.
func swap(file, was, is string) Edit { return Edit{File: file, Old: was, New: is} }

// before runs statements before the text.
func before(file, text, broken string) Edit {
	return Edit{File: file, Old: text, New: "if " + on + " {\n" + broken + "\n}\n" + text}
}

// after runs statements after the text.
func after(file, text, broken string) Edit {
	return Edit{File: file, Old: text, New: text + "\nif " + on + " {\n" + broken + "\n}\n"}
}

// instead runs other statements.
func instead(file, text, broken string) Edit {
	return Edit{File: file, Old: text, New: "if " + on + " {\n" + broken + "\n} else {\n" + text + "\n}\n"}
}

// without leaves statements out.
func without(file, text string) Edit {
	return Edit{File: file, Old: text, New: "if !" + on + " {\n" + text + "\n}\n"}
}

// text is New for the mutant.
func (e Edit) text(m Mutant) string {
	return strings.ReplaceAll(e.New, on, "mutation.Is(\""+m.Name+"\")")
}

// areas in the order of the table.
var areas = []Area{Accounts, Unknown, Deadlines, Journal, Time, Commits, Sharing, Restores, Windows, Slots, Spared}

// All is the catalogue, in order of area.
func All() []Mutant {
	all := slices.Concat(accounts, unknown, deadlines, journal, timeAndPolicy, commits, sharing, restores, windows, slots, harmless)
	slices.SortStableFunc(all, func(a, b Mutant) int {
		return cmp.Compare(slices.Index(areas, a.Area), slices.Index(areas, b.Area))
	})
	return all
}

// Find is the mutant of a name.
func Find(name string) (m Mutant, ok bool) {
	for _, m := range All() {
		if m.Name == name {
			return m, true
		}
	}
	return Mutant{}, false
}
