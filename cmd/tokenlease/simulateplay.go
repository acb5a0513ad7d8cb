package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/simulations/compare"
	"github.com/tokenlease/tokenlease/simulations/report"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// outcome is what came of scenarios.
type outcome struct {
	runs     []report.Run
	seeds    []*tally   // of --seeds
	searches []searched // of mixed ones
}

// outcomeDocument is an outcome in the form of -o json.
type outcomeDocument struct {
	report.Document

	Seeds       []*tally   `json:"seeds,omitempty"`
	Searches    []searched `json:"searches,omitempty"`
	Interrupted bool       `json:"interrupted,omitempty"`
}

// tally is a scenario that was played with many seeds, in the form of -o json.
type tally struct {
	File      string `json:"file"`
	Title     string `json:"title"`
	FirstSeed uint64 `json:"first_seed"`
	Seeds     uint64 `json:"seeds"` // that were played
	OK        uint64 `json:"ok_seeds"`
	// Of all seeds, and of the real code.
	Events      int64        `json:"events"`
	Admitted    int64        `json:"admitted"`
	Exhausted   int64        `json:"exhausted"`
	Unavailable int64        `json:"unavailable"`
	Hash        string       `json:"hash"`
	Failed      []failedSeed `json:"failed"`
}

// failedSeed is a run that is not as expected.
type failedSeed struct {
	Seed     uint64   `json:"seed"`
	Problems []string `json:"problems"`
	Command  string   `json:"command"` // that repeats it
}

// ok says that nothing failed.
func (o *outcome) ok() bool {
	return !slices.ContainsFunc(o.runs, func(r report.Run) bool { return !r.OK() }) &&
		!slices.ContainsFunc(o.seeds, func(t *tally) bool { return len(t.Failed) > 0 }) &&
		!slices.ContainsFunc(o.searches, func(s searched) bool { return s.Failure != "" })
}

// playOwn plays the scenarios that have a world of their own.
func (p *program) playOwn(ctx context.Context, s *simulateSettings, own []*scenario.Scenario, out *outcome) error {
	if s.seeds.value > 0 {
		return p.playSeeds(ctx, s, own, out)
	}
	if len(own) == 0 {
		return nil
	}
	bar := p.progress("runs")
	if s.notes {
		bar = &progressLine{} // it would be among the notes
	}
	options := p.playing(s)
	options.Progress = func(done, of int, _, _ string) { bar.set(int64(done), int64(of), "") }
	runs, err := compare.Play(ctx, own, options)
	bar.done()
	out.runs = runs
	return broken(err)
}

// playing are the options of each run.
func (p *program) playing(s *simulateSettings) compare.Options {
	start := time.Now()
	options := compare.Options{
		Seed: s.seed.value, Alone: s.alone, Workers: int(s.workers.value), Clock: func() time.Duration { return time.Since(start) },
	}
	if s.notes {
		options.Note = p.note
	}
	return options
}

// broken is an error but for an interrupt, which is told with what there is.
func broken(err error) error {
	if err != nil && !errors.Is(err, context.Canceled) {
		return exitError{code: exitUnreachable, text: err.Error()}
	}
	return nil
}

// playSeeds plays each scenario with many seeds.
func (p *program) playSeeds(ctx context.Context, s *simulateSettings, own []*scenario.Scenario, out *outcome) error {
	bar := p.progress("seeds")
	defer bar.done()
	options := p.playing(s)
	options.Seed = 0 // each run has its own
	for _, sc := range own {
		t := &tally{File: sc.File, Title: sc.Title, FirstSeed: sc.Seed, Failed: []failedSeed{}}
		if s.seed.value > 0 {
			t.FirstSeed = s.seed.value
		}
		progress := func() { bar.set(int64(t.Seeds), int64(s.seeds.value), t.File) }
		if err := broken(t.play(ctx, sc, s.seeds.value, options, progress)); err != nil {
			return err
		}
		if t.Seeds > 0 {
			out.seeds = append(out.seeds, t)
		}
	}
	return nil
}

// play plays a scenario with so many seeds, some at a time: what a run has
// measured is large.
func (t *tally) play(ctx context.Context, sc *scenario.Scenario, seeds uint64, options compare.Options, progress func()) error {
	sum := fnv.New64a()
	for t.Seeds < seeds {
		var some []*scenario.Scenario
		for i := range min(2*uint64(options.Workers), seeds-t.Seeds) {
			played := *sc
			played.Seed = t.FirstSeed + t.Seeds + i
			some = append(some, &played)
		}
		runs, err := compare.Play(ctx, some, options)
		for _, run := range runs {
			t.add(run, sum)
		}
		t.Hash = fmt.Sprintf("%016x", sum.Sum64())
		if err != nil {
			return err
		}
		progress()
	}
	return nil
}

// add counts a run.
func (t *tally) add(run report.Run, sum io.Writer) {
	r := run.Results[0]
	t.Seeds++
	t.Events += int64(r.Events)
	t.Admitted += r.Admitted
	t.Exhausted += r.Exhausted
	t.Unavailable += r.Unavailable
	fmt.Fprintln(sum, r.Seed, r.Hash) // a hash takes everything
	if run.OK() {
		t.OK++
		return
	}
	failed := failedSeed{Seed: r.Seed, Command: fmt.Sprintf("tokenlease simulate %s --seed %d", shellWord(t.File), r.Seed)}
	for _, f := range run.Findings {
		if !f.OK {
			failed.Problems = append(failed.Problems, f.Text)
		}
	}
	if text := run.Broken(); text != "" {
		failed.Problems = append(failed.Problems, text)
	}
	t.Failed = append(t.Failed, failed)
}

// shellWord is a text as a shell takes it.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-"
	if strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// tell reports what came of scenarios, and ends accordingly.
func (p *program) tell(ctx context.Context, s *simulateSettings, out *outcome) error {
	interrupted := ctx.Err() != nil
	if s.report != "" && !interrupted {
		if err := p.writePage(s.report, out.runs); err != nil {
			return err
		}
	}
	if err := p.writeOutcome(s, out, interrupted); err != nil {
		return err
	}
	switch {
	case !out.ok():
		return exitError{code: exitNo}
	case interrupted:
		text := "interrupted while scenarios were played: what was finished before is told above"
		if len(out.runs)+len(out.seeds)+len(out.searches) == 0 {
			text = "interrupted while scenarios were played: none was finished before"
		}
		return exitError{code: exitUnreachable, text: text}
	}
	return nil
}

// writeOutcome writes the table or the document.
func (p *program) writeOutcome(s *simulateSettings, out *outcome, interrupted bool) error {
	if s.output == formatJSON {
		document := outcomeDocument{
			Document: report.NewDocument(out.runs, s.series), Seeds: out.seeds, Searches: out.searches, Interrupted: interrupted,
		}
		document.OK = out.ok() && !interrupted
		return p.writeJSON(document)
	}
	for _, one := range out.searches {
		p.writeSearched(one, s.workers.value)
	}
	for _, t := range out.seeds {
		p.writeTally(t)
	}
	if len(out.runs) == 0 {
		return nil
	}
	if len(out.searches) > 0 {
		fmt.Fprintln(p.stdout)
	}
	return report.Text(p.stdout, out.runs, s.verbose)
}

// writeTally writes what came of the seeds of a scenario.
func (p *program) writeTally(t *tally) {
	fmt.Fprintf(p.stdout, "%s: %s from %d on: %s ok, %s FAILED\n", cell(t.File), countOf(int64(t.Seeds), "seed"), t.FirstSeed,
		grouped(int64(t.OK)), grouped(int64(len(t.Failed))))
	fmt.Fprintf(p.stdout, "%s events; %s tokens admitted, %s checks exhausted, %s unavailable; hash %s\n", grouped(t.Events),
		grouped(t.Admitted), grouped(t.Exhausted), grouped(t.Unavailable), t.Hash)
	for _, failed := range t.Failed {
		fmt.Fprintf(p.stdout, "\nFAILED with seed %d; again: %s\n", failed.Seed, failed.Command)
		for _, problem := range failed.Problems {
			for line := range strings.Lines(problem) {
				fmt.Fprintf(p.stdout, "  %s\n", strings.TrimRight(line, "\n"))
			}
		}
	}
}

// writeJSON writes one document.
func (p *program) writeJSON(document any) error {
	encoder := json.NewEncoder(p.stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

// note tells one message or transaction.
func (p *program) note(at time.Duration, text string) { fmt.Fprintln(p.stderr, at, text) }
