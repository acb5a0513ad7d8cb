package mutants

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// program is the package that runs worlds with a mutant switched on.
const program = "./simulations/mutants/run"

// Build makes the program that has all the mutants in it, from the sources below
// root, the directory of the module. It writes to dir alone, and returns the path
// of the program.
func Build(ctx context.Context, root, dir string, mutants []Mutant) (string, error) {
	sources, err := Apply(os.DirFS(root), mutants)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, source := range sources {
		to := filepath.Join(dir, "overlay", filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			return "", err
		}
		if err := os.WriteFile(to, source, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	listFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(listFile, list, 0o600); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "run")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", listFile, "-o", binary, program)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("a mutant does not compile: %w\n%s", err, out)
	}
	return binary, nil
}
