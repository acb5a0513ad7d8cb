package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/simulations/explore"
)

// explored is what the search of a scope came to, in the form of -o json.
type explored struct {
	Scope       string   `json:"scope"`
	About       string   `json:"about"`
	States      int64    `json:"states"`
	Transitions int64    `json:"transitions"`
	Depth       int      `json:"depth"`           // events of the longest history
	Exhausted   bool     `json:"exhausted"`       // every history of the scope was gone through
	Bound       string   `json:"bound,omitempty"` // what stopped it otherwise
	Interrupted bool     `json:"interrupted,omitempty"`
	Seconds     float64  `json:"seconds"`
	Violation   string   `json:"violation,omitempty"`
	History     []string `json:"history,omitempty"` // the shortest that leads there
}

// explore goes through every history of scopes.
func (p *program) explore(ctx context.Context, s *simulateSettings) error {
	if s.explore == "list" {
		return p.listScopes(s)
	}
	scopes, err := chooseScopes(s.explore)
	if err != nil {
		return err
	}
	all := []explored{}
	violated := false
	for _, scope := range scopes {
		e, err := p.exploreOne(ctx, s, scope)
		if err != nil {
			return err
		}
		all = append(all, e)
		violated = violated || e.Violation != ""
		if ctx.Err() != nil {
			break
		}
	}
	if err := p.writeExplored(s.output, all); err != nil {
		return err
	}
	switch {
	case violated:
		return exitError{code: exitNo}
	case ctx.Err() != nil:
		return exitError{code: exitUnreachable, text: "interrupted: what was gone through is told above"}
	}
	return nil
}

// scopeAbout is a scope in the form of -o json.
type scopeAbout struct {
	Scope string `json:"scope"`
	About string `json:"about"`
}

// listScopes tells which scopes there are.
func (p *program) listScopes(s *simulateSettings) error {
	if s.states.value > 0 {
		return usageErrorf("--states means nothing with --explore=list: leave it out")
	}
	t := &table{heading: []string{"SCOPE", "ABOUT"}}
	var all []scopeAbout
	for _, scope := range explore.Presets() {
		t.add(scope.Name, scope.About)
		all = append(all, scopeAbout{scope.Name, scope.About})
	}
	if s.output == formatJSON {
		return p.writeJSON(all)
	}
	return t.write(p.stdout)
}

// chooseScopes are those that are named, with commas between them.
func chooseScopes(names string) ([]explore.Scope, error) {
	if names == "all" {
		return explore.Presets(), nil
	}
	var scopes []explore.Scope
	for name := range strings.SplitSeq(names, ",") {
		scope, ok := explore.Preset(name)
		switch {
		case slices.ContainsFunc(scopes, func(s explore.Scope) bool { return s.Name == name }):
			return nil, usageErrorf("--explore: %s stands twice: remove one", name)
		case !ok:
			return nil, usageErrorf("--explore: there is no scope %q: --explore=list names them", name)
		}
		scopes = append(scopes, scope)
	}
	return scopes, nil
}

func (p *program) exploreOne(ctx context.Context, s *simulateSettings, scope explore.Scope) (explored, error) {
	start := time.Now()
	scope.Cores, scope.Clock = int(s.workers.value), func() time.Duration { return time.Since(start) }
	if s.states.value > 0 {
		scope.MaxStates = int(s.states.value)
	}
	bar := p.progress("states")
	r, err := explore.Run(ctx, scope, func(now explore.Progress) {
		bar.set(now.States, now.States+now.Frontier, fmt.Sprintf("%s, depth %d", scope.Name, now.Depth))
	})
	bar.done()
	if err != nil && ctx.Err() == nil {
		return explored{}, err
	}
	return explored{
		Interrupted: ctx.Err() != nil && !r.Exhausted,
		Scope:       scope.Name, About: scope.About, States: r.States, Transitions: r.Transitions, Depth: r.Depth,
		Exhausted: r.Exhausted, Bound: r.Bound, Seconds: time.Since(start).Seconds(), Violation: r.Violation, History: r.History,
	}, nil
}

func (p *program) writeExplored(format outputFormat, all []explored) error {
	if format == formatJSON {
		return p.writeJSON(all)
	}
	t := &table{heading: []string{"SCOPE", "STATES", "TRANSITIONS", "DEPTH", "SECONDS", "RESULT"}}
	for _, e := range all {
		result := "every history: no rule was broken"
		switch {
		case e.Violation != "":
			result = "a rule was broken"
		case !e.Exhausted:
			result = "no rule was broken up to " + e.Bound
		}
		t.add(e.Scope, grouped(e.States), grouped(e.Transitions), e.Depth, fmt.Sprintf("%.1f", e.Seconds), result)
	}
	if err := t.write(p.stdout); err != nil {
		return err
	}
	for _, e := range all {
		if e.Violation != "" {
			fmt.Fprintf(p.stdout, "\n%s: %s\n%s\n", e.Scope, e.Violation, strings.Join(e.History, "\n"))
		}
	}
	return nil
}
