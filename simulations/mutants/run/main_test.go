package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/tokenlease/tokenlease/simulations/explore"
	"github.com/tokenlease/tokenlease/simulations/mutants"
)

// Whatever the catalogue names is there.
func TestCatalogueIsKnown(t *testing.T) {
	used := map[string]bool{}
	for _, m := range mutants.All() {
		if m.Aim != "" && aims[m.Aim] == nil {
			t.Errorf("%s is aimed at %q, which nobody knows", m.Name, m.Aim)
		}
		if _, ok := explore.Preset(m.Scope); m.Scope != "" && !ok {
			t.Errorf("%s names the scope %q, which nobody knows", m.Name, m.Scope)
		}
		used[m.Aim] = true
	}
	for aim := range aims {
		if !used[aim] {
			t.Errorf("nothing is aimed at %q", aim)
		}
	}
}

// Built as it stands, the program runs honest worlds, and has no mutant.
func TestBareProgram(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-mutant", "no-guard"}, &out); !errors.Is(err, errBare) {
		t.Errorf("with a mutant: %v", err)
	}
	if err := run([]string{"-mutant", "no-such"}, &out); err == nil {
		t.Error("a mutant that nobody knows is run")
	}
	if err := run([]string{"-aim", "reopened", "-seeds", "2"}, &out); err != nil {
		t.Fatal(err)
	}
	var o mutants.Outcome
	if err := json.Unmarshal(out.Bytes(), &o); err != nil || o.Caught || o.Seeds != 2 || o.Events == 0 {
		t.Errorf("two honest worlds: %+v, %v", o, err)
	}
}
