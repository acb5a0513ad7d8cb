// Command run goes through simulated worlds with one mutant switched on, and
// prints what became of it, as JSON. Package mutants builds it, with the mutants
// in it, and runs it. Built as it stands it has none, and says so.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/simulations"
	"github.com/tokenlease/tokenlease/simulations/mutants"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options say what to go through.
type options struct {
	mutant  string
	with    string
	aim     string
	scope   string
	states  int
	hash    bool
	verbose bool
	first   uint64
	seeds   uint64
}

func run(args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.StringVar(&o.mutant, "mutant", "", "switch this `name` on; without it, everything is as it should be")
	flags.StringVar(&o.with, "with", "", "switch this variation on, instead of the one that the mutant goes with")
	flags.StringVar(&o.aim, "aim", "", "aim the worlds like this, instead of as the mutant has it")
	flags.StringVar(&o.scope, "scope", "", "enumerate this scope, instead of drawing worlds")
	flags.IntVar(&o.states, "states", 0, "the most states of a scope; 0: all")
	flags.BoolVar(&o.hash, "hash", false, "print the digest of each world's events")
	flags.BoolVar(&o.verbose, "notes", false, "tell all messages and transactions")
	flags.Uint64Var(&o.first, "first", 1, "the first seed")
	flags.Uint64Var(&o.seeds, "seeds", 0, "how many seeds; 0: as many as the mutant has, or 1")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := o.complete(); err != nil {
		return err
	}
	outcome, err := o.outcome(out)
	if err != nil || o.hash {
		return err
	}
	return json.NewEncoder(out).Encode(outcome)
}

// outcome searches for a failure.
func (o *options) outcome(out io.Writer) (mutants.Outcome, error) {
	if o.scope != "" {
		return o.explore()
	}
	return o.worlds(out)
}

// complete fills in what the catalogue says of the mutant, and switches it on.
func (o *options) complete() error {
	if o.mutant == "" {
		o.seeds = max(1, o.seeds)
		return use("", o.with)
	}
	m, ok := mutants.Find(o.mutant)
	if !ok {
		return fmt.Errorf("there is no mutant %q", o.mutant)
	}
	if o.aim == "" {
		o.aim = m.Aim
	}
	if o.seeds == 0 {
		o.seeds = max(1, m.Seeds)
	}
	if o.with == "" {
		o.with = m.With
	}
	return use(o.mutant, o.with)
}

// worlds goes through worlds until one fails.
func (o *options) worlds(out io.Writer) (mutants.Outcome, error) {
	aim, ok := aims[o.aim]
	if o.aim != "" && !ok {
		return mutants.Outcome{}, fmt.Errorf("there is no aim %q", o.aim)
	}
	outcome := mutants.Outcome{Mutant: o.mutant}
	start := stopwatch()
	for seed := o.first; seed < o.first+o.seeds; seed++ {
		cfg := simulations.Draw(seed)
		if aim != nil {
			cfg.Chaos /= time.Duration(max(1, cfg.Pace)) // seconds, not hours
			cfg.Pace = 1
			aim(&cfg)
		}
		if o.verbose {
			cfg.Note = func(at time.Duration, text string) { fmt.Fprintln(os.Stderr, at, text) }
		}
		w := simulations.New(cfg)
		err := o.world(w, &outcome)
		outcome.Seeds++
		outcome.Events += w.Steps()
		if o.hash {
			fmt.Fprintf(out, "%d %x\n", seed, w.Hash())
		}
		if err != nil {
			if o.verbose {
				fmt.Fprintln(os.Stderr, err)
			}
			outcome.Caught = !outcome.Panicked
			outcome.By, outcome.Said = fmt.Sprintf("seed %d", seed), said(err)
			break
		}
	}
	outcome.Seconds = start()
	return outcome, nil
}

// world runs one world. A mutant that falls over is noted as such.
func (o *options) world(w *simulations.World, outcome *mutants.Outcome) (err error) {
	defer func() {
		if p := recover(); p != nil {
			outcome.Panicked = true
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return w.Run()
}

// said is the first line of what was found, without the seed and the step.
func said(err error) string {
	text := err.Error()
	if f, ok := err.(*simulations.Failure); ok { //nolint:errorlint // never wrapped
		text = f.What
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// stopwatch returns the seconds since it was called.
func stopwatch() func() float64 {
	start := time.Now() //nolint:forbidigo // shown, never decided by
	return func() float64 {
		return time.Since(start).Seconds() //nolint:forbidigo // likewise
	}
}
