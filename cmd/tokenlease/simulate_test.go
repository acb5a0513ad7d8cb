package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// interrupted runs the program after its context has ended: what is wrong with
// the command line is told, and nothing is run.
func interrupted(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	p := program{stdout: &out, stderr: &errs}
	code = p.run(ctx, args)
	return code, out.String(), errs.String()
}

// Every example of the help is a command that the program takes.
func TestSimulateExamples(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink(filepath.Join(root, "simulations"), "simulations"); err != nil {
		t.Fatal(err)
	}
	examples := 0
	for line := range strings.Lines(simulateExample) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "tokenlease ")
		if !ok {
			continue
		}
		examples++
		command, file, redirected := strings.Cut(command, " > ")
		var args []string
		for word := range strings.FieldsSeq(command) {
			if names, _ := filepath.Glob(word); names != nil {
				args = append(args, names...)
				continue
			}
			args = append(args, word)
		}
		code, stdout, stderr := interrupted(t, args...)
		if want := map[bool]int{false: exitUnreachable, true: exitYes}[redirected]; code != want {
			t.Errorf("%s: ended with %d, want %d: %s", command, code, want, stderr)
		}
		if redirected {
			if err := os.WriteFile(file, []byte(stdout), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if examples < 8 {
		t.Errorf("%d examples", examples)
	}
}

// An interrupt is told: in words, and in the document.
func TestSimulateInterrupted(t *testing.T) {
	for _, args := range []string{
		"worked-example", "mixed-faults", "worked-example mixed-faults", "worked-example --seeds 3",
		"--seeds 3", "--history seed=3", "--explore=small",
	} {
		words := append([]string{"simulate", "-o", "json"}, strings.Fields(args)...)
		code, stdout, stderr := interrupted(t, words...)
		if code != exitUnreachable || !strings.Contains(stderr, "interrupted") || strings.Contains(stderr, "context canceled") {
			t.Errorf("%s: ended with %d: %s", args, code, stderr)
		}
		var document struct {
			Interrupted bool `json:"interrupted"`
		}
		if err := json.Unmarshal([]byte(strings.Trim(stdout, "[]\n")), &document); err != nil || !document.Interrupted {
			t.Errorf("%s: %v, interrupted %v in %s", args, err, document.Interrupted, stdout)
		}
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{"a/b-1.yaml": "a/b-1.yaml", "my file.yaml": "'my file.yaml'", "it's": `'it'\''s'`} {
		if got := shellWord(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
