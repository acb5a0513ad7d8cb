package mutants

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Switch is the import path of the package that knows which mutant is switched
// on. It exists in the overlay alone.
const Switch = "github.com/tokenlease/tokenlease/lease/mutation"

// Files of the overlay that no mutant edits.
const (
	switchFile = "lease/mutation/mutation.go"
	useFile    = "simulations/mutants/run/use.go"
)

const switchSource = `// Package mutation knows which mutants are switched on.
package mutation

var first, second string

// Use switches a mutant on, and another one with it; the empty name is none.
func Use(name, with string) { first, second = name, with }

// Is says that the mutant is switched on.
func Is(name string) bool { return first == name || second == name }
`

const useSource = `package main

import "` + Switch + `"

func use(name, with string) error {
	mutation.Use(name, with)
	return nil
}
`

// packageClause is the first line of a file that declares anything.
var packageClause = regexp.MustCompile(`(?m)^package \w+$`)

// place is an edit's place in a file.
type place struct {
	from, to int
	text     string
	mutant   string
}

// Apply makes the edits of all the mutants to files below root, and returns the
// new sources of those that change, with the package that switches. The lines of
// a file keep their numbers up to its first edit.
func Apply(root fs.FS, mutants []Mutant) (map[string][]byte, error) {
	sources := map[string]string{}
	places := map[string][]place{}
	var problems []error
	for _, m := range mutants {
		for _, e := range m.Edits {
			if _, read := sources[e.File]; !read {
				source, err := fs.ReadFile(root, e.File)
				if err != nil {
					return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
				}
				sources[e.File] = string(source)
			}
			p, err := find(sources[e.File], e, m)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			places[e.File] = append(places[e.File], p)
		}
	}
	result := map[string][]byte{switchFile: []byte(switchSource), useFile: []byte(useSource)}
	for file, source := range sources {
		changed, err := change(file, source, places[file])
		if err != nil {
			problems = append(problems, err)
		}
		result[file] = []byte(changed)
	}
	return result, errors.Join(problems...)
}

// find is where the edit goes.
func find(source string, e Edit, m Mutant) (place, error) {
	if n := strings.Count(source, e.Old); n != 1 {
		return place{}, fmt.Errorf("the code has changed: bring the edit of mutant %s up to date. This occurs %d times in %s, not once:\n%s",
			m.Name, n, e.File, e.Old)
	}
	from := strings.Index(source, e.Old)
	return place{from: from, to: from + len(e.Old), text: e.text(m), mutant: m.Name}, nil
}

// change makes the edits of one file, and imports the package that switches.
func change(file, source string, places []place) (string, error) {
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.from, b.from) })
	clause := packageClause.FindStringIndex(source)
	if clause == nil {
		return "", fmt.Errorf("%s has no package clause", file)
	}
	var b strings.Builder
	b.WriteString(source[:clause[1]])
	b.WriteString("; import \"" + Switch + "\"")
	done, last := clause[1], ""
	for _, p := range places {
		if p.from < done {
			return "", fmt.Errorf("mutants %s and %s edit the same place of %s: choose shorter snippets", last, p.mutant, file)
		}
		b.WriteString(source[done:p.from])
		b.WriteString(p.text)
		done, last = p.to, p.mutant
	}
	b.WriteString(source[done:])
	return b.String(), nil
}
