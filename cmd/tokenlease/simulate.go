package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/nearest"
	"github.com/tokenlease/tokenlease/simulations"
	"github.com/tokenlease/tokenlease/simulations/compare"
	"github.com/tokenlease/tokenlease/simulations/report"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/scenarios"
)

// simulateSettings are the flags of simulate.
type simulateSettings struct {
	seed    uint64
	seeds   uint64
	explore string
	states  int
	history string
	list    bool
	print   string
	notes   bool
	report  string
	series  bool
	alone   bool
	verbose bool
	workers int
	output  outputFormat
}

// simulateCommand runs the real code on simulated time.
func (p *program) simulateCommand() *cobra.Command {
	s := &simulateSettings{output: formatTable}
	cmd := &cobra.Command{
		Use:     "simulate [FILE|NAME...]",
		Short:   "See what partitions, crashes and restores do, on simulated time",
		Long:    simulateLong,
		Example: simulateExample,
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.simulate(cmd, s, args) },
	}
	flags := cmd.Flags()
	flags.Uint64Var(&s.seed, "seed", 0, "the `seed`, or the first one; 0: that of each scenario")
	flags.Uint64Var(&s.seeds, "seeds", 0, "run so many seeds: of each scenario, or of random worlds and faults if none is named")
	flags.StringVar(&s.explore, "explore", "", "go through every history of small `scopes`, by name, or all of them; list tells what they are")
	flags.Lookup("explore").NoOptDefVal = "all"
	flags.IntVar(&s.states, "states", 0, "with --explore: stop a scope after so many `states`; 0: at its own bound")
	flags.StringVar(&s.history, "history", "", "run a shrunk `history` again, as a failure prints it")
	flags.BoolVar(&s.list, "list", false, "list the scenarios that come with the program")
	flags.StringVar(&s.print, "print", "", "print the scenario of this `name`, to start from")
	flags.BoolVar(&s.notes, "notes", false, "tell every message and every transaction, on stderr (one run alone)")
	flags.StringVar(&s.report, "report", "", "write a page with plots to this HTML `file`")
	flags.BoolVar(&s.series, "series", false, "with -o json: the figures over time as well")
	flags.BoolVar(&s.alone, "alone", false, "leave out the other strategies, but for the oracle")
	flags.BoolVarP(&s.verbose, "verbose", "v", false, "the full account of each scenario")
	flags.IntVar(&s.workers, "workers", runtime.GOMAXPROCS(0), "runs side by side; results do not depend on it")
	flags.VarP(&s.output, "output", "o", "table or json")
	return cmd
}

// simulate does what the flags ask for.
func (p *program) simulate(cmd *cobra.Command, s *simulateSettings, args []string) error {
	if err := s.check(cmd, args); err != nil {
		return err
	}
	ctx := cmd.Context()
	switch {
	case s.list:
		return p.listScenarios()
	case s.print != "":
		return p.printScenario(s.print)
	case s.explore != "":
		return p.explore(ctx, s)
	case s.history != "":
		return p.replay(ctx, s)
	case len(args) == 0:
		return p.searchSwarm(ctx, s)
	}
	chosen, err := readScenarios(args)
	if err != nil {
		return err
	}
	if s.notes {
		return p.playOne(s, chosen)
	}
	if s.seeds > 0 {
		return p.searchScenarios(ctx, s, chosen)
	}
	var mixed, own []*scenario.Scenario
	for _, sc := range chosen {
		if sc.Mixed {
			mixed = append(mixed, sc)
		} else {
			own = append(own, sc)
		}
	}
	failed := p.searchScenarios(ctx, s, mixed)
	if len(own) == 0 {
		return failed
	}
	if err := p.playScenarios(ctx, s, own); err != nil {
		return err
	}
	return failed
}

// check holds the flags against one another.
func (s *simulateSettings) check(cmd *cobra.Command, args []string) error {
	var modes []string
	for _, mode := range []string{"list", "print", "explore", "history"} {
		if cmd.Flags().Changed(mode) {
			modes = append(modes, "--"+mode)
		}
	}
	switch {
	case len(modes) > 1:
		return usageErrorf("%s do not go together: choose one", strings.Join(modes, " and "))
	case len(modes) == 1 && len(args) > 0 && modes[0] == "--explore":
		return usageErrorf("--explore takes its scope with =, such as --explore=%s", args[0])
	case len(modes) == 1 && len(args) > 0:
		return usageErrorf("%s takes no scenario", modes[0])
	case len(modes) == 0 && len(args) == 0 && s.seeds == 0 && s.seed == 0:
		return usageErrorf("nothing to simulate: name a scenario file, or a scenario that comes with the program (--list), or give --seeds 1000 or --explore")
	case s.workers < 1:
		return usageErrorf("--workers %d is below 1", s.workers)
	case s.output == formatYAML:
		return usageErrorf("-o yaml is not available here: want table or json")
	case s.report != "" && (len(args) == 0 || s.seeds > 0):
		return usageErrorf("--report needs scenarios, and one seed: it shows single runs")
	case s.notes && (s.seeds > 1 || len(args) > 1):
		return usageErrorf("--notes tells of one run: give one scenario or one seed")
	}
	return nil
}

// listScenarios lists what comes with the program.
func (p *program) listScenarios() error {
	t := &table{heading: []string{"NAME", "TITLE"}}
	for _, name := range shipped() {
		sc, err := readScenario(name)
		if err != nil {
			return err
		}
		t.add(name, sc.Title)
	}
	return t.write(p.stdout)
}

func (p *program) printScenario(name string) error {
	data, err := scenarios.Files.ReadFile(name + ".yaml")
	if err != nil {
		return unknownScenario(name)
	}
	_, err = p.stdout.Write(data)
	return err
}

// shipped are the names of the scenarios in the program.
func shipped() []string {
	files, err := fs.Glob(scenarios.Files, "*.yaml")
	if err != nil {
		panic(err) // a constant pattern
	}
	for i := range files {
		files[i] = strings.TrimSuffix(files[i], ".yaml")
	}
	return files
}

// readScenarios reads all that are named. Every fault of every file is told.
func readScenarios(names []string) ([]*scenario.Scenario, error) {
	var chosen []*scenario.Scenario
	var failed []error
	for _, name := range names {
		sc, err := readScenario(name)
		chosen, failed = append(chosen, sc), append(failed, err)
	}
	return chosen, errors.Join(failed...)
}

// readScenario reads a file, or a scenario of the program by its name.
func readScenario(name string) (*scenario.Scenario, error) {
	data, err := os.ReadFile(name)
	switch {
	case err == nil:
	case slices.Contains(shipped(), name):
		if data, err = scenarios.Files.ReadFile(name + ".yaml"); err != nil {
			return nil, err
		}
	case errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, `/\.`):
		return nil, unknownScenario(name)
	default:
		return nil, fmt.Errorf("cannot read the scenario: %w", err)
	}
	return scenario.Parse(name, data)
}

func unknownScenario(name string) error {
	if near := nearest.Word(path.Base(name), shipped()); near != "" {
		return fmt.Errorf("there is no file and no scenario %q: did you mean %s?", name, near)
	}
	return fmt.Errorf("there is no file and no scenario %q: --list names those that come with the program", name)
}

// playScenarios plays each with all strategies and reports.
func (p *program) playScenarios(ctx context.Context, s *simulateSettings, chosen []*scenario.Scenario) error {
	bar := p.progress("runs")
	start := time.Now()
	runs, err := compare.Play(ctx, chosen, compare.Options{
		Seed: s.seed, Alone: s.alone, Workers: s.workers, Clock: func() time.Duration { return time.Since(start) },
		Progress: func(done, of int, _, _ string) { bar.set(int64(done), int64(of), "") },
	})
	bar.done()
	if err != nil {
		return exitError{code: exitUnreachable, text: err.Error()}
	}
	if s.report != "" {
		if err := writePage(s.report, runs); err != nil {
			return err
		}
	}
	if s.output == formatJSON {
		err = report.JSON(p.stdout, runs, s.series)
	} else {
		err = report.Text(p.stdout, runs, s.verbose)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(runs, func(r report.Run) bool { return !r.OK() }) {
		return exitError{code: exitNo}
	}
	return nil
}

// writePage writes the page to a new file, which takes the place of an old one
// when it is complete.
func writePage(name string, runs []report.Run) (err error) {
	f, err := os.CreateTemp(path.Dir(name), ".report-*")
	if err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err = errors.Join(report.HTML(f, runs), f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	return os.Rename(f.Name(), name)
}

// playOne plays one scenario and tells everything.
func (p *program) playOne(s *simulateSettings, chosen []*scenario.Scenario) error {
	result, err := simulations.Play(chosen[0], simulations.Playing{Seed: s.seed, Note: p.note})
	fmt.Fprintf(p.stdout, "%d events, hash %s, %d tokens admitted, worst excess %d\n", result.Events, result.Hash, result.Admitted, result.Excess)
	if err != nil {
		return exitError{code: exitNo, text: err.Error()}
	}
	return nil
}

// note tells one message or transaction.
func (p *program) note(at time.Duration, text string) { fmt.Fprintln(p.stderr, at, text) }

const simulateLong = `Run the real broker and limiter code in one thread on simulated clocks, network,
disks and store, and check after every event that no budget is overspent. Nothing
is sent to anybody.

With scenarios, files or names of --list: play each, compare with what other
designs admit on the same checks and the same faults (a central bucket without
latency, full buckets per region, a static split, local counting with late sums,
leases that are used again when they expire), and hold the result against what
the scenario expects.

With --seeds and no scenario: search. Each seed draws a small world, the faults
that happen in it, and when. The first seed that breaks a rule is made smaller and
told, with the command that runs it again.

With --explore: go through every history of a small scope, any message delivered
any number of times or never.

The same command with the same seed gives the same events, to the bit.`

const simulateExample = `  # A region goes dark, in numbers and as a page with plots.
  tokenlease simulate lost-region
  tokenlease simulate lost-region --report lost-region.html

  # Every scenario that comes with the project.
  tokenlease simulate simulations/scenarios/*.yaml

  # One of your own.
  tokenlease simulate --print lost-region > mine.yaml
  tokenlease simulate mine.yaml --verbose

  # Look for a history that breaks the cap.
  tokenlease simulate --seeds 10000
  tokenlease simulate --explore=basic,returns`
