package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/tokenlease/tokenlease/simulations/explore"
	"github.com/tokenlease/tokenlease/simulations/mutants"
)

// explore enumerates the histories of a scope until one breaks a rule.
func (o *options) explore() (mutants.Outcome, error) {
	scope, ok := explore.Preset(o.scope)
	if !ok {
		return mutants.Outcome{}, fmt.Errorf("there is no scope %q", o.scope)
	}
	scope.MaxStates = o.states
	start := stopwatch()
	outcome := mutants.Outcome{Mutant: o.mutant}
	res, err := o.search(scope, &outcome)
	if err != nil {
		return mutants.Outcome{}, err
	}
	outcome.Events, outcome.States, outcome.Seconds = int(res.Transitions), res.States, start()
	if res.Violation == "" {
		return outcome, nil
	}
	if o.verbose {
		fmt.Fprintln(os.Stderr, strings.Join(res.History, "\n"))
	}
	outcome.Caught = !outcome.Panicked
	outcome.By, outcome.Steps = o.scope, len(res.History)
	outcome.Said, _, _ = strings.Cut(res.Violation, "\n")
	return outcome, nil
}

// search runs one scope. A mutant that falls over is noted as such.
func (o *options) search(scope explore.Scope, outcome *mutants.Outcome) (res explore.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			outcome.Panicked = true
			res.Violation = fmt.Sprintf("panic: %v", p)
		}
	}()
	return explore.Run(context.Background(), scope, nil)
}
