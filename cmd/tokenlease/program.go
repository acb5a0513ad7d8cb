package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/nearest"
)

// program is one run of the command line. Tests run it in their own process.
type program struct {
	stdin  io.Reader
	stdout io.Writer // data
	stderr io.Writer // everything else

	screen console                                         // nil: what the files are
	clock  func() time.Time                                // nil: that of the machine
	wait   func(ctx context.Context, d time.Duration) bool // nil: pause
}

// run executes the command that the arguments name until it is done or ctx ends,
// and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	return p.execute(ctx, p.root(), args)
}

// execute runs a command tree.
func (p *program) execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	code := exitCode(err)
	if err != nil && !isSilent(err) {
		fmt.Fprintf(p.stderr, "tokenlease: %s\n", messageFor(ran, err))
	}
	if code == exitUsage && ran != nil && isUsage(err) {
		fmt.Fprintf(p.stderr, "Run '%s --help' for usage.\n", ran.CommandPath())
	}
	return code
}

// root is the whole command tree.
func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "tokenlease",
		Short:         "One budget, many regions, no overshoot",
		Long:          rootLong,
		Example:       rootExample,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          group,
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return loadSettings(cmd, p.stderr)
	}
	root.PersistentFlags().String(configFlag, "", "YAML `file` of settings, by the names of the flags [$"+environmentName(configFlag)+"]")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		p.devCommand(),
		p.demoCommand(),
		p.brokerCommand(),
		p.limiterCommand(),
		p.checkCommand(),
		p.reserveCommand(),
		p.settleCommand(),
		p.budgetsCommand(),
		p.grantsCommand(),
		p.holdersCommand(),
		p.shardsCommand(),
		p.auditCommand(),
		p.topCommand(),
		p.explainCommand(),
		p.supportBundleCommand(),
		p.policyCommand(),
		p.accountsCommand(),
		p.restoreCommand(),
		p.verifyCommand(),
		p.monitoringCommand(),
		p.doctorCommand(),
		p.certsCommand(),
		p.simulateCommand(),
	)
	root.SetHelpCommand(helpCommand())
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	p.keepWarningsOffStdout(root)
	return root
}

// keepWarningsOffStdout sends what the flag library has to say, such as that a
// flag is deprecated, to stderr: cobra would print it among the data.
func (p *program) keepWarningsOffStdout(cmd *cobra.Command) {
	cmd.Flags().SetOutput(p.stderr)
	for _, child := range cmd.Commands() {
		p.keepWarningsOffStdout(child)
	}
}

// groupCommand is a command that only has other commands below it.
func groupCommand(name, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs, RunE: group}
	cmd.AddCommand(children...)
	return cmd
}

// group says which commands there are below one.
func group(cmd *cobra.Command, args []string) error {
	var known []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			known = append(known, child.Name())
		}
	}
	if len(args) == 0 {
		return usageErrorf("%s needs one of the commands %s", cmd.CommandPath(), strings.Join(known, ", "))
	}
	if len(known) == 0 {
		return usageErrorf("%s has no command %q below it", cmd.CommandPath(), args[0])
	}
	if near := nearest.Word(args[0], known); near != "" {
		return usageErrorf("unknown command %q: did you mean %s?", args[0], near)
	}
	return usageErrorf("unknown command %q: want one of %s", args[0], strings.Join(known, ", "))
}

// version is that of the module the program was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}

const rootLong = `tokenlease shares budgets among regions without overshooting them.

A broker splits each budget into grants of bounded credit. Limiters in the
regions spend their grants at memory speed. What a lost region may still hold
stays reserved until it is accounted for, so that all regions together never
spend more than the one budget.

Settings: a flag goes before its environment variable, that before the file of
--config, that before the default. The variable of --log-level is
TOKENLEASE_LOG_LEVEL; an empty one counts as not set. The file is YAML with the
names of the flags:

    broker: https://broker.example:7600
    output: json

Output: data goes to stdout, everything else to stderr. -o json and -o yaml are
for programs: the fields are those of the API, 64-bit numbers are strings, as in
every JSON form of protocol buffers, so that none loses digits on the way.

Exit codes:
    0  yes, done
    1  the answer is no: denied, not found, an invariant is violated
    2  the command, a flag, a setting or a file is wrong; nothing was sent
    3  no server that could answer was reached in time, or this one cannot start
    4  the server refused the request`

const rootExample = `  # Everything in one process, to try it.
  tokenlease dev

  # May acme create a report? The exit code tells.
  tokenlease check acme report.create

  # Who holds what?
  tokenlease budgets list
  tokenlease grants list --state orphaned

  # Put policies in force.
  tokenlease policy apply policies.yaml

  # What is wrong, and what to do about it?
  tokenlease doctor
  tokenlease top

  # What does a partition do to a budget?
  tokenlease simulate partition`
