package tally_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/tally"
)

// gathered are all values by name and labels.
func gathered(t *testing.T, table *tally.Table) map[string]float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(table)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "tokenlease_limiter_")
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			all[name] = m.GetCounter().GetValue()
		}
	}
	return all
}

func TestCase33OperationsAreBounded(t *testing.T) {
	table := tally.New()
	empty := len(gathered(t, table))
	for i := range 10_000 {
		table.Of(fmt.Sprintf("invented-%d", i), false).Decision(pb.Reason_REASON_NO_POLICY)
	}
	if got := gathered(t, table); len(got) != empty || got["decisions_total other no_policy"] != 10_000 {
		t.Errorf("operations that no policy names made %d series of %d", len(got), empty)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 2 * tally.MaxOperations {
				table.Of(fmt.Sprintf("operation-%d", i), true).Decision(pb.Reason_REASON_ALLOWED)
			}
		})
	}
	group.Wait()
	got := gathered(t, table)
	if want := empty * (tally.MaxOperations + 1); len(got) != want {
		t.Errorf("%d series, want %d", len(got), want)
	}
	var sum float64
	for name, n := range got {
		if strings.HasPrefix(name, "decisions_total") && strings.HasSuffix(name, " allowed") {
			sum += n
		}
	}
	if sum != 4*2*tally.MaxOperations || got["decisions_total other allowed"] != 4*tally.MaxOperations {
		t.Errorf("%v decisions are counted, %v of them as of others", sum, got["decisions_total other allowed"])
	}
}

// A policy may be called what the rest is called.
func TestAnOperationCalledOther(t *testing.T) {
	table := tally.New()
	table.Of(tally.Other, true).Decision(pb.Reason_REASON_ALLOWED)
	if got := gathered(t, table)["decisions_total other allowed"]; got != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestWhatIsCounted(t *testing.T) {
	one := tally.New()
	of := one.Of("op", true)
	of.Decision(pb.Reason_REASON_EXHAUSTED)
	of.Decision(pb.Reason_REASON_UNSPECIFIED)
	of.Decision(99)
	of.Shadow(pb.Reason_REASON_EXHAUSTED)
	of.Shadow(pb.Reason_REASON_ALLOWED) // is no admission in spite of anything
	of.Fallback()
	for name, n := range gathered(t, one) {
		want := 0.0
		switch name {
		case "decisions_total op exhausted", "shadow_admissions_total op exhausted", "fallback_admissions_total op":
			want = 1
		}
		if n != want {
			t.Errorf("%s is %v, want %v", name, n, want)
		}
	}
}

func BenchmarkDecision(b *testing.B) {
	of := tally.New().Of("op", true)
	b.ReportAllocs()
	for b.Loop() {
		of.Decision(pb.Reason_REASON_ALLOWED)
	}
}
