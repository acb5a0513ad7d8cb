package strictyaml

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	// File is the name that was given to New.
	File string
	// Line of the file, from 1.
	Line int
	// Field is the path of the field, such as "policies[0].token-bucket.refill";
	// empty when the file as a whole is meant.
	Field string
	// Problem says what is wrong and what would be right.
	Problem string
}

// String is "file:line: field: problem".
func (f Fault) String() string {
	if f.Field == "" {
		return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Problem)
	}
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Field, f.Problem)
}

// Faults is everything that is wrong with a file, in order of lines. It is the
// error of [Parser.Err] and is never empty there.
type Faults []Fault //nolint:errname // a list of faults, which happens to be an error

// maxShown is how many faults the text of Faults lists.
const maxShown = 50

// Error has one fault on each line.
func (f Faults) Error() string {
	lines := make([]string, 0, min(len(f), maxShown)+1)
	for _, fault := range f[:min(len(f), maxShown)] {
		lines = append(lines, fault.String())
	}
	if more := len(f) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("%s: and %d more", f[0].File, more))
	}
	return strings.Join(lines, "\n")
}

// sorted brings the faults into the order of their lines.
func (f Faults) sorted() Faults {
	slices.SortStableFunc(f, func(a, b Fault) int { return a.Line - b.Line })
	return f
}

// Quote shows a value from a file, in double quotes and at most 40 bytes of it.
func Quote(value string) string {
	const most = 40
	if len(value) <= most {
		return fmt.Sprintf("%q", value)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(value[cut]) {
		cut--
	}
	return fmt.Sprintf("%q...", value[:cut])
}
