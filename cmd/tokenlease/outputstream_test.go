package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// TestStreamPrintsWhatWritePrints holds the two ways of printing together: whoever
// reads the output cannot tell which it was.
func TestStreamPrintsWhatWritePrints(t *testing.T) {
	for count := range 4 {
		all := &tokenleasev1.ListGrantsResponse{Revision: 7}
		for i := range count {
			all.Grants = append(all.Grants, &tokenleasev1.Grant{
				GrantId: fmt.Sprintf("g1-000-%08x", i), Budget: &tokenleasev1.BudgetKey{Account: "a: {}\n# " + strings.Repeat("x", i)}, IssuedTokens: 9_007_199_254_740_993,
			})
		}
		for _, format := range []outputFormat{formatTable, formatJSON, formatYAML} {
			whole, stdout, _ := newProgram()
			if err := whole.write(format, all, grantTable(all.GetGrants())); err != nil {
				t.Fatal(err)
			}
			streaming, streamed, _ := newProgram()
			s := streaming.newListStream(format, "grants", grantHeading)
			for _, g := range all.GetGrants() {
				if err := s.add(g, grantRow(g)...); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.finish(&tokenleasev1.ListGrantsResponse{Revision: 7}); err != nil {
				t.Fatal(err)
			}
			if streamed.String() != stdout.String() {
				t.Errorf("%d as %s:\n got %s\nwant %s", count, format, streamed, stdout)
			}
		}
	}
}

// TestStreamHoldsLittle: rows leave in the course of a long list, and columns never
// become narrower.
func TestStreamHoldsLittle(t *testing.T) {
	p, stdout, _ := newProgram()
	s := p.newListStream(formatTable, "grants", []string{"A", "B"})
	for i := range 2*streamRows + 1 {
		if err := s.add(nil, strings.Repeat("x", 1+i/streamRows*4), i); err != nil {
			t.Fatal(err)
		}
		if len(s.pending.rows) >= streamRows {
			t.Fatalf("%d rows wait", len(s.pending.rows))
		}
	}
	if lines := bytes.Count(stdout.Bytes(), []byte("\n")); lines != 2*streamRows+1 {
		t.Errorf("%d lines are out", lines)
	}
	if err := s.finish(nil); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if lines[0] != "A   B" || lines[1] != "x   0" || lines[streamRows+1] != fmt.Sprintf("xxxxx   %d", streamRows) || lines[2*streamRows+1] != fmt.Sprintf("xxxxxxxxx   %d", 2*streamRows) {
		t.Errorf("lines are %q, %q, %q, %q", lines[0], lines[1], lines[streamRows+1], lines[2*streamRows+1])
	}
}

func TestCountLine(t *testing.T) {
	p, stdout, stderr := newProgram()
	silent := p.counting("grants")
	silent.set(5)
	silent.done()
	if stderr.Len() > 0 {
		t.Errorf("without a terminal: %q", stderr)
	}
	p.screen = &fakeConsole{tells: true}
	line := p.counting("grants")
	line.set(12_000)
	line.done()
	if want := "\r12,000 grants" + ansiEndOfLine + "\r" + ansiEndOfLine; stderr.String() != want || stdout.Len() > 0 {
		t.Errorf("stderr is %q, want %q; stdout %q", stderr, want, stdout)
	}
}
