package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tokenlease/tokenlease/simulations/report"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// checkPage sees before a run whether the page can be written, and gives the file
// to be replaced: a link is followed.
func (p *program) checkPage(name string, inputs []string, mixed, own []*scenario.Scenario) (target string, err error) {
	if len(own) == 0 {
		return "", usageErrorf("--report shows single runs, and mixed scenarios are many: name another scenario as well")
	}
	if target, err = pageTarget(name, inputs); err != nil {
		return "", err
	}
	probe, err := os.CreateTemp(filepath.Dir(target), ".report-*")
	if err != nil {
		return "", cannotWrite(name, err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return "", cannotWrite(name, err)
	}
	if len(mixed) > 0 {
		var names []string
		for _, sc := range mixed {
			names = append(names, sc.File)
		}
		fmt.Fprintf(p.stderr, "not on the page, since they are searches: %s\n", strings.Join(names, ", "))
	}
	return target, nil
}

// pageTarget is the file that a name stands for.
func pageTarget(name string, inputs []string) (string, error) {
	if name == "-" {
		return "", usageErrorf("--report wants a file, such as page.html: stdout has the summary")
	}
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return name, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return "", cannotWrite(name, err)
	}
	if !info.Mode().IsRegular() {
		return "", usageErrorf("--report %s is there and no regular file: want another name", name)
	}
	for _, input := range inputs {
		if other, err := os.Stat(input); err == nil && os.SameFile(info, other) {
			return "", usageErrorf("--report %s would replace a scenario that is read: want another name", name)
		}
	}
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", cannotWrite(name, err)
	}
	return target, nil
}

// cannotWrite names the page, and not what stands for it meanwhile.
func cannotWrite(name string, err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	}
	return usageErrorf("cannot write the report %s: %w", name, err)
}

// writePage writes the page to a new file, which takes the place of an old one
// when it is complete.
func (p *program) writePage(name string, runs []report.Run) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".report-*")
	if err != nil {
		return cannotWrite(name, err)
	}
	mode := fs.FileMode(0o644)
	if old, err := os.Stat(name); err == nil {
		mode = old.Mode().Perm()
	}
	if err = errors.Join(report.HTML(f, runs), f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return cannotWrite(name, err)
	}
	fmt.Fprintf(p.stderr, "wrote %s\n", name)
	return nil
}
