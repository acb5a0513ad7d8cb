package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/nearest"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/scenarios"
)

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
	s.register(cmd.Flags())
	return cmd
}

// simulate does what the flags ask for.
func (p *program) simulate(cmd *cobra.Command, s *simulateSettings, args []string) error {
	mode, err := s.check(cmd, args)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	switch mode {
	case modeList:
		return p.listScenarios(s.output)
	case modePrint:
		return p.printScenario(s.print)
	case modeExplore:
		return p.explore(ctx, s)
	case modeHistory:
		return p.replay(ctx, s)
	case modeSearch:
		return p.searchSwarm(ctx, s)
	default:
		return p.simulateScenarios(ctx, s, args)
	}
}

// simulateScenarios plays those that are named. It tells of all of them in the end,
// so that there is one document.
func (p *program) simulateScenarios(ctx context.Context, s *simulateSettings, names []string) error {
	chosen, err := readScenarios(names)
	if err != nil {
		return err
	}
	var mixed, own []*scenario.Scenario
	for _, sc := range chosen {
		if s.seed.value == 0 {
			if err := s.checkSeeds(sc.Seed); err != nil {
				return err
			}
		}
		if sc.Mixed {
			mixed = append(mixed, sc)
		} else {
			own = append(own, sc)
		}
	}
	if s.report != "" {
		if s.report, err = p.checkPage(s.report, names, mixed, own); err != nil {
			return err
		}
	}
	out := &outcome{}
	p.searchMixed(ctx, s, mixed, out)
	if err := p.playOwn(ctx, s, own, out); err != nil {
		return err
	}
	return p.tell(ctx, s, out)
}

// listed is a scenario of the program, in the form of -o json.
type listed struct {
	Name  string `json:"name"`
	Title string `json:"title"`
}

// listScenarios lists what comes with the program.
func (p *program) listScenarios(format outputFormat) error {
	t := &table{heading: []string{"NAME", "TITLE"}}
	var all []listed
	for _, name := range shipped() {
		sc, err := readScenario(name)
		if err != nil {
			return err
		}
		t.add(name, sc.Title)
		all = append(all, listed{name, sc.Title})
	}
	if format == formatJSON {
		return p.writeJSON(all)
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

const simulateLong = `Run the real broker and limiter code in one thread on simulated clocks, network,
disks and store, and check after every event that no budget is overspent. Nothing
is sent to anybody.

With scenarios, files or names of --list: play each, compare with what other
designs admit on the same checks and the same faults (a central bucket without
latency, full buckets per region, a static split, local counting with late sums,
leases that are used again when they expire), and hold the result against what
the scenario expects. With --seeds as well: with each of so many seeds.

With --seeds and no scenario: search. Each seed draws a small world, the faults
that happen in it, and when. The first seed that breaks a rule is made smaller and
told, with the command that runs it again. 1,000 seeds take about 10 s on two cores.

With --explore: go through every history of a small scope, any message delivered
any number of times or never. All scopes take about a minute on two cores; the
largest, standard, needs 1.8 GB of memory.

The same command with the same seed gives the same events, to the bit.

-o json writes one document. Its numbers are JSON numbers, unlike those of the
commands that talk to servers.`

const simulateExample = `  # A region is cut off, in numbers and as a page with plots.
  tokenlease simulate partition
  tokenlease simulate partition --report partition.html

  # Every scenario that comes with the project.
  tokenlease simulate simulations/scenarios/*.yaml

  # One of your own, and then with other seeds.
  tokenlease simulate --print partition > mine.yaml
  tokenlease simulate mine.yaml --verbose
  tokenlease simulate mine.yaml --seeds 20

  # Look for a history that breaks the cap.
  tokenlease simulate --seeds 1000
  tokenlease simulate --explore=small,returns`
