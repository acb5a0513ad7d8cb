package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func encoded(t *testing.T, runs []Run, series bool) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := JSON(&b, runs, series); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestJSONHasTheDocumentedFields(t *testing.T) {
	failed := invented(2, 100)
	failed.Findings[0].OK = false
	data := encoded(t, []Run{invented(3, 40), failed}, false)
	var document struct {
		OK        bool             `json:"ok"`
		Scenarios []map[string]any `json:"scenarios"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	if document.OK || len(document.Scenarios) != 2 {
		t.Fatalf("ok %v and %d scenarios", document.OK, len(document.Scenarios))
	}
	want := []string{
		"duration_ns", "events_per_second", "expectations", "file", "lesson", "ok", "seed", "strategies", "title", "wall_ns",
	}
	first := document.Scenarios[0]
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(first))); diff != "" {
		t.Error(diff)
	}
	if first["ok"] != true || document.Scenarios[1]["ok"] != false {
		t.Error("the verdicts are wrong")
	}
	if got := first["duration_ns"]; got != float64(40*time.Second) {
		t.Errorf("duration %v", got)
	}
	if got := first["events_per_second"]; got != 617250.0 {
		t.Errorf("%v events a second", got)
	}
	if diff := cmp.Diff([]any{
		map[string]any{"text": "line 40: worst excess at most 0: 0", "ok": true},
		map[string]any{"text": "line 41: recovery at most 2: 1.25", "ok": true},
	}, first["expectations"]); diff != "" {
		t.Error(diff)
	}
}

func TestJSONKeepsOrderAndSeriesOnlyIfAsked(t *testing.T) {
	run := invented(3, 40)
	for _, series := range []bool{false, true} {
		var document Document
		if err := json.Unmarshal(encoded(t, []Run{run}, series), &document); err != nil {
			t.Fatal(err)
		}
		for i, r := range document.Scenarios[0].Strategies {
			if r.Strategy != run.Results[i].Strategy || r.Admitted != run.Results[i].Admitted {
				t.Errorf("result %d is that of %s", i, r.Strategy)
			}
		}
		if got := document.Scenarios[0].Strategies[0].Series != nil; got != series {
			t.Errorf("series %v, want %v", got, series)
		}
	}
	if run.Results[0].Series == nil {
		t.Error("the caller's result lost its series")
	}
}

func TestJSONOfNothing(t *testing.T) {
	if got := string(encoded(t, nil, false)); got != "{\n  \"ok\": true,\n  \"scenarios\": []\n}\n" {
		t.Errorf("got %s", got)
	}
}
