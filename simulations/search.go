package simulations

import (
	"context"
	"sync"
	"time"
)

// Search runs many seeds, each a small world of its own with faults drawn anew.
type Search struct {
	First, Seeds uint64
	Workers      int // that run side by side; below 1 is read as 1
	// Draw makes the configuration of a seed; nil: [Draw].
	Draw func(seed uint64) Config
	// Progress, unless it is nil, is told after each seed, by one worker at a time.
	Progress func(Found)
}

// Found is what a search has come to. But for the failure it does not depend on
// how many workers there were.
type Found struct {
	Seeds  uint64 // that were run
	Events int64
	Stats  Stats
	Hash   uint64   // of all seeds and their events
	First  *Failure // that of the lowest seed, nil for none
}

// Run runs the seeds until all are done, one has failed or ctx has ended; then
// the seeds below a failing one are still run, so that it is the lowest.
func (s Search) Run(ctx context.Context) Found {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		found Found
		next  = s.First
		end   = s.First + s.Seeds
	)
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= end || ctx.Err() != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range max(1, s.Workers) {
		wg.Go(func() {
			for seed, ok := take(); ok; seed, ok = take() {
				w := s.world(seed)
				_ = w.Run() // its failure stays with it
				mu.Lock()
				found.add(seed, w)
				if w.fail != nil {
					end = min(end, seed)
				}
				if s.Progress != nil {
					s.Progress(found)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return found
}

// world is that of a seed.
func (s Search) world(seed uint64) *World {
	if s.Draw != nil {
		return New(s.Draw(seed))
	}
	return New(Draw(seed))
}

// add takes a world that has ended. The hash is a sum, so the order in which
// worlds end does not count.
func (f *Found) add(seed uint64, w *World) {
	f.Seeds++
	f.Events += int64(w.steps)
	f.Stats.add(w.stats)
	h := (w.hash ^ seed) * 0x9e3779b97f4a7c15
	f.Hash += h ^ h>>31
	if w.fail != nil && (f.First == nil || w.fail.Seed < f.First.Seed) {
		f.First = w.fail
	}
}

// shrinkFor bounds how often a failure is run again to make it smaller.
const shrinkFor = 2000

// Shrink looks for a smaller history that breaks the same rule: a smaller world,
// an earlier end, fewer faults. It runs the world some thousand times. change,
// unless it is nil, is made to the configuration of each run.
func Shrink(ctx context.Context, found *Failure, change func(*Config)) (History, *Failure) {
	s := &shrinking{ctx: ctx, rule: rule(found.What), best: History{Seed: found.Seed, Run: found.Seed}, failure: found, change: change}
	s.world()
	s.until()
	s.faults()
	s.until()
	return s.best, s.failure
}

// shrinking is a failure that is being made smaller.
type shrinking struct {
	ctx     context.Context //nolint:containedctx // one call
	rule    string
	best    History
	failure *Failure
	runs    int
	change  func(*Config)
}

// try keeps a history if it breaks the same rule.
func (s *shrinking) try(h History) bool {
	if s.runs >= shrinkFor || s.ctx.Err() != nil {
		return false
	}
	s.runs++
	cfg := h.Config()
	if s.change != nil {
		s.change(&cfg)
	}
	w := New(cfg)
	_ = w.Run()
	if w.fail == nil || rule(w.fail.What) != s.rule {
		return false
	}
	s.best, s.failure = h, w.fail
	return true
}

// world tries smaller worlds, each with some other runs: a smaller world draws
// other events.
func (s *shrinking) world() {
	const runs = 25
	for _, change := range []func(*History){
		func(h *History) { h.Sites, h.Budgets, h.Brokers = 1, 1, 1 },
		func(h *History) { h.Sites, h.Budgets = 1, 1 },
		func(h *History) { h.Budgets = 1 },
		func(h *History) { h.Sites = 1 },
		func(h *History) { h.Brokers = 1 },
		func(h *History) { h.Sites = 2 },
		func(h *History) { h.Brokers = 2 },
	} {
		h := s.best
		change(&h)
		if h.size() >= s.best.size() {
			continue
		}
		for run := range uint64(runs) {
			h.Run = s.best.Seed + run
			if s.try(h) {
				break
			}
		}
	}
}

// until tries to end the faults earlier.
func (s *shrinking) until() {
	h := s.best
	h.Until = s.failure.At + 1
	if h.Until < h.Config().Chaos {
		s.try(h)
	}
	for range 10 {
		h := s.best
		h.Until = h.Config().Chaos / 2
		if h.Until < time.Second || !s.try(h) {
			return
		}
	}
}

// faults leaves out as many faults as possible, in parts that get smaller (delta
// debugging: Zeller and Hildebrandt, 2002).
func (s *shrinking) faults() {
	keep := s.best.Keep
	if keep == nil {
		for i := range s.failure.Faults {
			keep = append(keep, i+1)
		}
	}
	for part := (len(keep) + 1) / 2; part > 0 && len(keep) > 0; {
		cut := false
		for from := 0; from < len(keep); {
			h := s.best
			h.Keep = append(append([]int{}, keep[:from]...), keep[min(len(keep), from+part):]...)
			if s.try(h) {
				keep, cut = h.Keep, true
				continue
			}
			from += part
		}
		if part == 1 && !cut || s.runs >= shrinkFor {
			return
		}
		part = max(1, part/2)
	}
}
