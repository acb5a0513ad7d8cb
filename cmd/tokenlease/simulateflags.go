package main

import (
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// simulateSettings are the flags of simulate.
type simulateSettings struct {
	seed    number
	seeds   number
	explore string
	states  number
	history string
	list    bool
	print   string
	notes   bool
	report  string
	series  bool
	alone   bool
	verbose bool
	workers number
	output  outputFormat
}

// maxSeed is the largest seed: that of a scenario file is no larger.
const maxSeed = math.MaxInt64

// register adds the settings to flags.
func (s *simulateSettings) register(flags *pflag.FlagSet) {
	numberVar(flags, &s.seed, "seed", "the `seed`, or the first one, instead of the scenario's", 0, maxSeed)
	numberVar(flags, &s.seeds, "seeds", "run so many seeds: of each scenario, or of random worlds and faults if none is named", 0, maxSeed)
	flags.StringVar(&s.explore, "explore", "", "go through every history of small `scopes`, by name, or all of them; list tells what they are")
	flags.Lookup("explore").NoOptDefVal = "all"
	numberVar(flags, &s.states, "states", "with --explore: stop a scope after so many `states`", 0, math.MaxInt32)
	flags.StringVar(&s.history, "history", "", "run a shrunk `history` again, as a failure prints it")
	flags.BoolVar(&s.list, "list", false, "list the scenarios that come with the program")
	flags.StringVar(&s.print, "print", "", "print the scenario of this `name`, to start from")
	flags.BoolVar(&s.notes, "notes", false, "tell every message and every transaction, on stderr (one run alone)")
	flags.StringVar(&s.report, "report", "", "write a page with plots to this HTML `file`")
	flags.BoolVar(&s.series, "series", false, "with -o json: the figures over time as well")
	flags.BoolVar(&s.alone, "alone", false, "leave out the other strategies, but for the oracle")
	flags.BoolVarP(&s.verbose, "verbose", "v", false, "the full account of each scenario")
	numberVar(flags, &s.workers, "workers", "runs side by side; results do not depend on it", uint64(runtime.GOMAXPROCS(0)), 1024)
	flags.VarP(&s.output, "output", "o", "table or json")
}

// mode is what a command line asks for.
type mode struct {
	name  string   // as messages have it
	flags []string // that mean something
}

// The modes. A flag that would mean nothing is refused.
var (
	modeList      = &mode{"--list", []string{"list", "output"}}
	modePrint     = &mode{"--print", []string{"print"}}
	modeExplore   = &mode{"--explore", []string{"explore", "states", "workers", "output"}}
	modeHistory   = &mode{"--history", []string{"history", "notes", "output"}}
	modeSearch    = &mode{"a search without scenarios", []string{"seed", "seeds", "notes", "workers", "output"}}
	modeSeeds     = &mode{"--seeds", []string{"seed", "seeds", "notes", "alone", "workers", "output"}}
	modeScenarios = &mode{"scenarios", []string{"seed", "notes", "report", "series", "alone", "verbose", "workers", "output"}}
)

// check holds the flags against one another, and says what is asked for.
func (s *simulateSettings) check(cmd *cobra.Command, args []string) (*mode, error) {
	m, err := s.mode(cmd, args)
	if err != nil {
		return nil, err
	}
	var idle []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != configFlag && !slices.Contains(m.flags, f.Name) {
			idle = append(idle, "--"+f.Name)
		}
	})
	switch {
	case len(idle) > 0:
		return nil, usageErrorf("leave out %s: no use with %s", strings.Join(idle, " and "), m.name)
	case s.output == formatYAML:
		return nil, usageErrorf("-o yaml is not available here: want table or json")
	case s.series && s.output != formatJSON:
		return nil, usageErrorf("--series means nothing without -o json: it is not in the table")
	case s.verbose && s.output == formatJSON:
		return nil, usageErrorf("--verbose means nothing with -o json, which tells all: leave it out")
	case s.notes && (s.seeds.value > 1 || len(args) > 1):
		return nil, usageErrorf("--notes tells of one run: give one scenario or one seed")
	}
	return m, s.checkSeeds(s.seed.value)
}

// checkSeeds checks that from the first seed on there are as many as are asked for.
func (s *simulateSettings) checkSeeds(first uint64) error {
	if s.seeds.value > 0 && first > maxSeed-s.seeds.value+1 {
		return usageErrorf("--seeds %d from %d on go beyond the last seed, %d", s.seeds.value, first, uint64(maxSeed))
	}
	return nil
}

// mode is what is asked for.
func (s *simulateSettings) mode(cmd *cobra.Command, args []string) (*mode, error) {
	var chosen []*mode
	var names []string
	for _, m := range []*mode{modeList, modePrint, modeExplore, modeHistory} {
		f := cmd.Flags().Lookup(m.flags[0])
		switch {
		case !f.Changed || f.Value.String() == "false":
		case f.Value.String() == "":
			return nil, usageErrorf("%s is empty: %s", m.name, f.Usage)
		default:
			chosen, names = append(chosen, m), append(names, m.name)
		}
	}
	switch {
	case len(chosen) > 1:
		return nil, usageErrorf("%s do not go together: choose one", strings.Join(names, " and "))
	case len(chosen) == 1 && len(args) > 0 && chosen[0] == modeExplore:
		return nil, usageErrorf("--explore takes its scope with =, such as --explore=%s", args[0])
	case len(chosen) == 1 && len(args) > 0:
		return nil, usageErrorf("%s takes no scenario", names[0])
	case len(chosen) == 1:
		return chosen[0], nil
	case cmd.Flags().Changed("report") && (len(args) == 0 || s.seeds.value > 0):
		return nil, usageErrorf("--report needs scenarios, and one seed: it shows single runs")
	case cmd.Flags().Changed("report") && s.report == "":
		return nil, usageErrorf("--report is empty: want a file, such as page.html")
	case len(args) > 0 && s.seeds.value > 0:
		return modeSeeds, nil
	case len(args) > 0:
		return modeScenarios, nil
	case s.seeds.value == 0 && s.seed.value == 0:
		return nil, usageErrorf("nothing to simulate: name a scenario file, or a scenario that comes with the program (--list), or give --seeds 1000 or --explore")
	}
	return modeSearch, nil
}
