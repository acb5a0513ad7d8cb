package main

import (
	"fmt"
	"slices"
	"strings"
)

// partial is an answer that says which records could not be read.
type partial interface {
	GetUnusable() []string
	GetUnusableCount() int64
}

// unusableNamed is how many faults are named of all pages of a list, as of one answer.
const unusableNamed = 5

// addUnusable adds the faults of a page to those of pages before, each once as far as
// it was named.
func addUnusable(named []string, count int64, page partial) ([]string, int64) {
	count += page.GetUnusableCount()
	for _, fault := range page.GetUnusable() {
		switch {
		case slices.Contains(named, fault):
			count--
		case len(named) < unusableNamed:
			named = append(named, fault)
		}
	}
	return named, count
}

// warnUnusable tells what is missing in what was printed, and what to do.
func (p *program) warnUnusable(answer partial) {
	count := answer.GetUnusableCount()
	if count == 0 {
		return
	}
	holds := "it holds, which stays reserved until it is mended"
	if count > 1 {
		holds = "they hold, which stays reserved until they are mended"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tokenlease: warning: %s cannot be read: figures are too low by what %s; see `tokenlease verify`\n", countOf(count, "record"), holds)
	for _, fault := range answer.GetUnusable() {
		fmt.Fprintf(&b, "  %s\n", cell(fault))
	}
	if more := count - int64(len(answer.GetUnusable())); more > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	fmt.Fprint(p.stderr, b.String())
}
