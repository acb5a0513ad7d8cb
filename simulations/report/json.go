package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/tokenlease/tokenlease/simulations/measure"
)

// Document is what JSON writes. Fields are added to it, and keep their names and
// meanings. Durations are in nanoseconds.
type Document struct {
	OK        bool       `json:"ok"` // of all scenarios
	Scenarios []Scenario `json:"scenarios"`
}

// Scenario is one run in a Document.
type Scenario struct {
	File     string        `json:"file"`
	Title    string        `json:"title"`
	Lesson   string        `json:"lesson"`
	Seed     uint64        `json:"seed"`
	Duration time.Duration `json:"duration_ns"` // simulated
	OK       bool          `json:"ok"`          // expectations met, no rule broken
	// Real time that the run of tokenlease took, and its events by that. They are
	// the only fields that differ from run to run.
	Wall            time.Duration `json:"wall_ns"`
	EventsPerSecond float64       `json:"events_per_second"`
	Expectations    []Expectation `json:"expectations"`
	// LeftOut are strategies that have no model of the scenario's kinds of rules.
	LeftOut []string `json:"left_out,omitempty"`
	// Strategies in order: tokenlease, oracle, then the others.
	Strategies []*measure.Result `json:"strategies"`
}

// Expectation is a finding in a Document.
type Expectation struct {
	Text string `json:"text"`
	OK   bool   `json:"ok"`
}

// NewDocument makes a Document of the runs, and the series over time in it only if
// asked to: they are long.
func NewDocument(runs []Run, series bool) Document {
	document := Document{OK: true, Scenarios: []Scenario{}}
	for _, run := range runs {
		document.OK = document.OK && run.OK()
		document.Scenarios = append(document.Scenarios, run.document(series))
	}
	return document
}

// JSON writes the runs as a Document.
func JSON(w io.Writer, runs []Run, series bool) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(NewDocument(runs, series))
}

func (r Run) document(series bool) Scenario {
	s := Scenario{
		File:            r.Scenario.File,
		Title:           r.Scenario.Title,
		Lesson:          r.Scenario.Lesson,
		Seed:            r.main().Seed,
		Duration:        r.Scenario.Duration,
		OK:              r.OK(),
		Wall:            r.Wall,
		EventsPerSecond: r.eventsPerSecond(),
		Expectations:    []Expectation{},
	}
	for _, f := range r.Findings {
		s.Expectations = append(s.Expectations, Expectation(f))
	}
	for _, result := range r.Results {
		shown := *result
		if !series {
			shown.Series = nil
		}
		s.Strategies = append(s.Strategies, &shown)
	}
	return s
}
