package main

import (
	"fmt"
	"strings"
	"testing"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Pages may tell of the same record, which counts once; however many there are, some
// are named, and all are counted.
func TestUnusableOfPages(t *testing.T) {
	page := func(count int64, named ...string) *tokenleasev1.ListGrantsResponse {
		return &tokenleasev1.ListGrantsResponse{Unusable: named, UnusableCount: count}
	}
	all := &tokenleasev1.ListGrantsResponse{}
	for i, p := range []*tokenleasev1.ListGrantsResponse{page(0), page(2, "a", "b"), page(2, "b", "c"), page(9, "d", "e", "f", "g", "h")} {
		all.Unusable, all.UnusableCount = addUnusable(all.GetUnusable(), all.GetUnusableCount(), p)
		if want := []int64{0, 2, 3, 12}[i]; all.GetUnusableCount() != want {
			t.Errorf("after page %d: %d, want %d", i, all.GetUnusableCount(), want)
		}
	}
	if got := fmt.Sprint(all.GetUnusable()); got != "[a b c d e]" {
		t.Errorf("named %s", got)
	}
	p, _, stderr := newProgram()
	p.warnUnusable(all)
	if got := stderr.String(); !strings.Contains(got, "12 records cannot be read: figures are too low by what they hold, which stays reserved until they are mended;") || !strings.HasSuffix(got, "\n  e\n  and 7 more\n") {
		t.Errorf("told %q", got)
	}
}
