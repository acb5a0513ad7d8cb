package mutants

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tokenlease/tokenlease/simulations"
	"github.com/tokenlease/tokenlease/simulations/explore"
)

var (
	update = flag.Bool("update", false, "write TABLE.md")
	search = flag.Bool("search", false, "tell which scopes show each mutant")
)

// root is the directory of the module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// scratch is the directory that the program is built in; empty before that.
var scratch string

// built is the program with all mutants in it, made once.
var built = sync.OnceValues(func() (string, error) {
	module, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	if scratch, err = os.MkdirTemp("", "mutants"); err != nil {
		return "", err
	}
	return Build(context.Background(), module, scratch, All())
})

func TestMain(m *testing.M) {
	code := m.Run()
	if scratch != "" {
		_ = os.RemoveAll(scratch) // which lies where such things may be left
	}
	os.Exit(code)
}

// run runs the program with the mutants in it.
func run(t *testing.T, args ...string) []byte {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if end, ok := t.Deadline(); ok { // a mutant that goes round in circles is told by its name
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Minute))
		defer cancel()
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%v: %v\n%s", args, err, errs.String())
	}
	return out.Bytes()
}

// outcome is what the program says, as far as it says it.
func outcome(t *testing.T, args ...string) (o Outcome) {
	t.Helper()
	if err := json.Unmarshal(run(t, args...), &o); err != nil {
		t.Errorf("%v: %v", args, err)
	}
	return o
}

// Each edit finds its place in the code as it is.
func TestEditsApply(t *testing.T) {
	if _, err := Apply(os.DirFS(root(t)), All()); err != nil {
		t.Error(err)
	}
}

// Edits whose snippets are not there, or there twice, or in each other's way, are
// refused, and the message names the mutant.
func TestEditsThatDoNotApply(t *testing.T) {
	source := fstest.MapFS{"a.go": {Data: []byte("package a\n\nfunc f() { one(); two(); two() }\n")}}
	for _, c := range []struct {
		edits []Edit
		want  string
	}{
		{[]Edit{swap("a.go", "three", "")}, "bring the edit of mutant broken up to date. This occurs 0 times in a.go"},
		{[]Edit{swap("a.go", "two()", "")}, "This occurs 2 times in a.go"},
		{[]Edit{swap("a.go", "one(); two()", ""), swap("a.go", "{ one()", "")}, "edit the same place of a.go"},
		{[]Edit{swap("b.go", "one", "")}, "b.go"},
	} {
		_, err := Apply(source, []Mutant{{Name: "broken", Edits: c.edits}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("edits %q: %v, want %q", c.edits, err, c.want)
		}
	}
	got, err := Apply(source, []Mutant{{Name: "broken", Edits: []Edit{instead("a.go", "one()", "three()"), swap("a.go", "f()", "f(bool)")}}})
	if err != nil || !strings.Contains(string(got["a.go"]), `f(bool) { if mutation.Is("broken") {`) {
		t.Errorf("%v: %s", err, got["a.go"])
	}
}

// The code that ships knows nothing of mutants.
func TestNoTraceInTheCode(t *testing.T) {
	dir := root(t)
	own := filepath.Join(dir, "simulations", "mutants")
	if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(switchFile))); err == nil {
		t.Errorf("%s is there: it belongs into overlays alone", switchFile)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == own, d.IsDir() && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		source, err := os.ReadFile(path)
		if err == nil && bytes.Contains(source, []byte(Switch)) {
			t.Errorf("%s knows of mutants", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// The catalogue is in order: names, rules, and enough of them.
func TestCatalogue(t *testing.T) {
	const least = 40
	rule := regexp.MustCompile(`^C[1-8](\.\d)?$`)
	seen := map[string]bool{}
	breaking := 0
	for _, m := range All() {
		switch {
		case seen[m.Name], !regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`).MatchString(m.Name):
			t.Errorf("%q: the name", m.Name)
		case !rule.MatchString(m.Rule) && m.Harmless == "":
			t.Errorf("%s: rule %q", m.Name, m.Rule)
		case !strings.HasSuffix(m.Breaks, "."), len(m.Edits) == 0, m.Seeds == 0 && m.Scope == "":
			t.Errorf("%s lacks something", m.Name)
		}
		if with, ok := Find(m.With); m.With != "" && (!ok || with.Harmless == "") {
			t.Errorf("%s goes with %q, which is no variation", m.Name, m.With)
		}
		seen[m.Name] = true
		if m.Harmless == "" {
			breaking++
		}
		if !slices.ContainsFunc(m.Edits, func(e Edit) bool { return strings.Contains(e.New, on) }) {
			t.Errorf("%s is never switched on", m.Name)
		}
	}
	if breaking < least {
		t.Errorf("%d mutants, want %d", breaking, least)
	}
}

// With no mutant switched on, the program with all of them in it does what the
// code does that ships, event for event.
func TestSwitchedOffNothingChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	const seeds = 8
	var want strings.Builder
	for seed := uint64(1); seed <= seeds; seed++ {
		w := simulations.New(simulations.Draw(seed))
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "%d %x\n", seed, w.Hash())
	}
	if got := run(t, "-hash", "-seeds", fmt.Sprint(seeds)); string(got) != want.String() {
		t.Errorf("digests are\n%swant\n%s", got, want.String())
	}
}

// Each mutant is caught, within its seeds, and in its scope. One that lives means
// that a check, or what leads there, is too weak. Those that are harmless are
// not.
func TestMutantsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	if _, err := built(); err != nil {
		t.Fatal(err) // in this goroutine, not in one of those below
	}
	mutants := All()
	worlds, scopes := make([]Outcome, len(mutants)), make([]Outcome, len(mutants))
	parallel(2*len(mutants), func(i int) {
		switch m := mutants[i/2]; {
		case i%2 == 0 && m.Seeds > 0:
			worlds[i/2] = outcome(t, "-mutant", m.Name)
		case i%2 == 1 && m.Scope != "":
			scopes[i/2] = outcome(t, "-mutant", m.Name, "-scope", m.Scope, "-states", fmt.Sprint(maxStates))
		}
	})
	seconds := 0.0
	for i, m := range mutants {
		for _, o := range []Outcome{worlds[i], scopes[i]} {
			if o.Mutant != "" {
				seconds += o.Seconds
				judged(t, m, o)
			}
		}
	}
	t.Logf("%d mutants, %.0f s of work", len(mutants), seconds)
	if *update && !t.Failed() {
		if err := os.WriteFile("TABLE.md", []byte(Table(mutants, worlds, scopes)), 0o600); err != nil {
			t.Error(err)
		}
	}
	t.Run("control", func(t *testing.T) { control(t, mutants, worlds, scopes) })
}

// maxStates is how many states of a scope are looked at.
const maxStates = 400_000

// judged holds the outcome against what is expected of the mutant.
func judged(t *testing.T, m Mutant, o Outcome) {
	t.Helper()
	t.Log(o)
	switch {
	case m.Harmless == "" && !o.Caught:
		t.Errorf("%s (%s) lives: %s", m.Name, m.Rule, m.Breaks)
	case m.Harmless != "" && (o.Caught || o.Panicked):
		t.Errorf("%s was harmless: %s That holds no more: %s", m.Name, m.Harmless, o.Said)
	}
}

// control goes through everything in which mutants were caught, with none
// switched on: it is the mutant that fails there, and not the aim.
func control(t *testing.T, mutants []Mutant, worlds, scopes []Outcome) {
	type ground struct{ aim, with, scope string }
	most := map[ground]int64{} // seeds, or states
	for i, m := range mutants {
		if m.Harmless != "" {
			continue
		}
		if at := (ground{aim: m.Aim, with: m.With}); m.Seeds > 0 {
			most[at] = max(most[at], int64(worlds[i].Seeds))
		}
		if at := (ground{scope: m.Scope, with: m.With}); m.Scope != "" {
			most[at] = max(most[at], scopes[i].States)
		}
	}
	all := slices.SortedFunc(maps.Keys(most), func(a, b ground) int {
		return cmp.Compare(a.scope+a.aim+a.with, b.scope+b.aim+b.with)
	})
	parallel(len(all), func(i int) {
		at, n := all[i], fmt.Sprint(most[all[i]])
		args := []string{"-with", at.with, "-aim", at.aim, "-seeds", n}
		if at.scope != "" {
			args = []string{"-with", at.with, "-scope", at.scope, "-states", n}
		}
		o := outcome(t, args...)
		if o.Caught || o.Panicked {
			t.Errorf("with no mutant switched on, %v fails, by %s: %s", args, o.By, o.Said)
		}
		t.Logf("nothing found by %v in %.1f s", args, o.Seconds)
	})
}

// Which scopes show a mutant, in how many steps: for who brings the catalogue up
// to date.
func TestScopes(t *testing.T) {
	if !*search {
		t.Skip("it takes many minutes: ask for it with -search")
	}
	mutants, scopes := All(), explore.Presets()
	found := make([]Outcome, len(mutants)*len(scopes))
	parallel(len(found), func(i int) {
		m, scope := mutants[i/len(scopes)], scopes[i%len(scopes)]
		found[i] = outcome(t, "-mutant", m.Name, "-scope", scope.Name, "-states", fmt.Sprint(maxStates))
	})
	for _, o := range found {
		if o.By != "" {
			t.Logf("%v, %d states", o, o.States)
		}
	}
}

// parallel does n things on all processors.
func parallel(n int, do func(i int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}
