package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/tokenlease/tokenlease/simulations"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// searched is what a search came to, in the form of -o json.
type searched struct {
	What      string            `json:"what"` // seeds, a scenario, a scope
	FirstSeed uint64            `json:"first_seed"`
	Seeds     uint64            `json:"seeds"` // that were run
	Events    int64             `json:"events"`
	Hash      string            `json:"hash"`
	Seconds   float64           `json:"seconds"`
	PerSecond int64             `json:"events_per_second"`
	Stats     simulations.Stats `json:"stats"`
	// Not all seeds were run.
	Interrupted bool   `json:"interrupted,omitempty"`
	Failure     string `json:"failure,omitempty"`
	Shrunk      string `json:"shrunk,omitempty"` // the history, made smaller
}

// searchSwarm runs random worlds.
func (p *program) searchSwarm(ctx context.Context, s *simulateSettings) error {
	search := simulations.Search{First: max(1, s.seed.value), Seeds: max(1, s.seeds.value), Draw: p.draw(s)}
	return p.tellSearch(ctx, s, p.search(ctx, s, "random worlds", search, true))
}

// draw makes the worlds of seeds.
func (p *program) draw(s *simulateSettings) func(seed uint64) simulations.Config {
	return func(seed uint64) simulations.Config {
		cfg := simulations.Draw(seed)
		if s.notes {
			cfg.Note = p.note
		}
		return cfg
	}
}

// replay runs a shrunk history.
func (p *program) replay(ctx context.Context, s *simulateSettings) error {
	h, err := simulations.ParseHistory(s.history)
	if err != nil {
		return usageErrorf("--history: %w", err)
	}
	s.workers.value = 1
	search := simulations.Search{First: h.Seed, Seeds: 1, Draw: func(uint64) simulations.Config {
		cfg := h.Config()
		if s.notes {
			cfg.Note = p.note
		}
		return cfg
	}}
	return p.tellSearch(ctx, s, p.search(ctx, s, "history", search, false))
}

// mixedSeeds is how many worlds a mixed scenario runs unless told otherwise.
const mixedSeeds = 100

// searchMixed searches the worlds of mixed scenarios; with notes, one of them.
func (p *program) searchMixed(ctx context.Context, s *simulateSettings, mixed []*scenario.Scenario, out *outcome) {
	for _, sc := range mixed {
		if ctx.Err() != nil {
			return
		}
		search := simulations.Search{First: sc.Seed, Seeds: mixedSeeds, Draw: p.draw(s)}
		if s.seed.value > 0 {
			search.First = s.seed.value
		}
		switch {
		case s.seeds.value > 0:
			search.Seeds = s.seeds.value
		case s.notes:
			search.Seeds = 1
		}
		out.searches = append(out.searches, p.search(ctx, s, sc.File, search, true))
	}
}

// search runs a search and shrinks a failure if it can.
func (p *program) search(ctx context.Context, s *simulateSettings, what string, search simulations.Search, shrinks bool) searched {
	// Worlds are small and make much garbage: collecting less often is faster.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	bar := p.progress("seeds")
	if s.notes {
		bar = &progressLine{} // it would be among the notes
	}
	start := time.Now()
	search.Workers = int(s.workers.value)
	search.Progress = func(f simulations.Found) {
		bar.set(int64(f.Seeds), int64(search.Seeds), grouped(perSecond(f.Events, time.Since(start)))+" events/s")
	}
	found := search.Run(ctx)
	took := time.Since(start)
	bar.done()
	out := searched{
		What: what, FirstSeed: search.First, Seeds: found.Seeds, Events: found.Events, Hash: fmt.Sprintf("%016x", found.Hash),
		Seconds: took.Seconds(), PerSecond: perSecond(found.Events, took), Stats: found.Stats,
		Interrupted: ctx.Err() != nil && found.Seeds < search.Seeds,
	}
	if found.First != nil {
		out.Failure = found.First.Error()
		if shrinks && !s.notes {
			out.Shrunk = p.shrink(ctx, found.First)
		}
	}
	return out
}

// tellSearch reports a search, and ends accordingly.
func (p *program) tellSearch(ctx context.Context, s *simulateSettings, out searched) error {
	if s.output == formatJSON {
		if err := p.writeJSON(out); err != nil {
			return err
		}
	} else {
		p.writeSearched(out, s.workers.value)
	}
	switch {
	case out.Failure != "":
		return exitError{code: exitNo}
	case ctx.Err() != nil:
		return exitError{code: exitUnreachable, text: "interrupted: the seeds that were run are told above"}
	}
	return nil
}

func (p *program) shrink(ctx context.Context, failure *simulations.Failure) string {
	fmt.Fprintf(p.stderr, "seed %d breaks a rule; making its history smaller...\n", failure.Seed)
	smaller, at := simulations.Shrink(ctx, failure, nil)
	return fmt.Sprintf("%d events instead of %d, and %s of %d faults:\n%v --notes", at.Step, failure.Step, kept(smaller.Keep), failure.Faults, at)
}

// kept is how many faults a shrunk history has.
func kept(keep []int) string {
	if keep == nil {
		return "all"
	}
	return strconv.Itoa(len(keep))
}

// writeSearched writes what a search came to.
func (p *program) writeSearched(out searched, workers uint64) {
	verdict := "no rule was broken"
	if out.Failure != "" {
		verdict = "a rule was broken"
	}
	fmt.Fprintf(p.stdout, "%s: %s from %d on: %s\n", cell(out.What), countOf(int64(out.Seeds), "seed"), out.FirstSeed, verdict)
	fmt.Fprintf(p.stdout, "%s events in %.1f s: %s events/s with %d workers; hash %s\n", grouped(out.Events), out.Seconds, grouped(out.PerSecond), workers, out.Hash)
	st := out.Stats
	fmt.Fprintf(p.stdout, "%s tokens admitted, %s checks denied, %s unavailable; %s commits, %s elections, %s crashes\n",
		grouped(st.Admitted), grouped(st.Denied), grouped(st.Unavailable), grouped(st.Commits), grouped(st.Elections), grouped(st.Crashes))
	fmt.Fprintf(p.stdout, "%s messages, of which %s lost, %s repeated, %s late\n", grouped(st.Messages), grouped(st.Lost), grouped(st.Repeated), grouped(st.Late))
	if out.Failure != "" {
		fmt.Fprintf(p.stdout, "\n%s\n", out.Failure)
	}
	if out.Shrunk != "" {
		fmt.Fprintf(p.stdout, "\nSmaller: %s\n", out.Shrunk)
	}
}

// perSecond is a rate, 0 before any time has passed.
func perSecond(n int64, took time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(n) / took.Seconds())
}
