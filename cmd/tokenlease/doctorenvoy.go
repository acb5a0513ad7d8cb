package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenlease/tokenlease/regional/gateway/envoydoctor"
)

// doctorEnvoySettings are what the doctor of Envoy is to do.
type doctorEnvoySettings struct {
	output outputFormat
	strict bool
}

// doctorEnvoyCommand reads a configuration of Envoy.
func (p *program) doctorEnvoyCommand() *cobra.Command {
	s := &doctorEnvoySettings{output: formatTable}
	cmd := &cobra.Command{
		Use:     "envoy FILE",
		Short:   "Name every place where an error of the limiter would be permission",
		Long:    doctorEnvoyLong,
		Example: doctorEnvoyExample,
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageErrorf("want one FILE, a configuration of Envoy or - for standard input, and not %d", len(args))
			}
			return p.doctorEnvoy(s, args[0])
		},
	}
	addSettings(cmd, func(flags *pflag.FlagSet) {
		flags.VarP(&s.output, "output", "o", "table, json or yaml")
	})
	cmd.Flags().BoolVar(&s.strict, "strict", false, "end with 1 for warnings as well")
	return cmd
}

// doctorEnvoy reads, prints, and says in the exit code what came out.
func (p *program) doctorEnvoy(s *doctorEnvoySettings, file string) error {
	data, err := p.readConfiguration(file)
	if err != nil {
		return err
	}
	report, err := envoydoctor.Read(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := p.writeReport(s.output, report); err != nil {
		return err
	}
	open, warnings := report.Count(envoydoctor.FailsOpen), report.Count(envoydoctor.Warning)
	fmt.Fprintf(p.stderr, "%d fail open, %d warnings; looked at %d listeners, %d rate limit filters and %d routes\n",
		open, warnings, report.Listeners, report.Limiters, report.Routes)
	if open > 0 || s.strict && warnings > 0 {
		return exitError{code: exitNo}
	}
	return nil
}

// writeReport prints the findings. There is one paragraph for each, as they are
// long; nothing is cut.
func (p *program) writeReport(format outputFormat, report envoydoctor.Report) error {
	if format == formatTable {
		var b strings.Builder
		for i, f := range report.Findings {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s  %s\n    %s\n    %s\n    to do: %s\n", strings.ToUpper(string(f.Severity)), f.Rule, cell(f.Path), cell(f.Problem), cell(f.Change))
			for _, route := range f.Routes {
				fmt.Fprintf(&b, "    concerns: %s\n", cell(route))
			}
		}
		_, err := io.WriteString(p.stdout, b.String())
		return err
	}
	data, err := encodePlain(format, report)
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(data)
	return err
}

// readConfiguration reads a file, or standard input for "-", but no more than is
// looked at.
func (p *program) readConfiguration(file string) ([]byte, error) {
	source := p.stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("cannot read the configuration: %w", err)
		}
		defer opened.Close()
		source = opened
	}
	data, err := io.ReadAll(io.LimitReader(source, envoydoctor.MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return data, nil
}

const doctorEnvoyLong = `Read a configuration of Envoy, and list every place where requests pass that no
limiter has admitted. - is standard input.

Envoy's rate limit filter admits a request when the limiter is down, slow or
answers with an error, unless failure_mode_deny is true. It does not ask at all
on routes without rate limit actions, or when an action does not apply, such as
one on a header that the client leaves out.

FILE is a bootstrap file in YAML or JSON, or what Envoy's admin endpoint says
under /config_dump, which has what a management server sent as well. Nothing is
sent anywhere.

FAILS-OPEN is a place where an error of the limiter is permission, or where only
a share of requests is asked about. WARNING is worth a look: a route on which no
limiter is asked, a time-out that fails under load, and whatever could not be
read, such as a filter of an unknown type.

Warnings are listed, and end with 0 without --strict: it may be meant that a route
is not limited, also where the filter is disabled on it.

Exit codes:
    0  nothing fails open, whatever warnings there are; with --strict, none
    1  something does; with --strict, or there are warnings
    2  the file is no configuration of Envoy, or could not be read`

const doctorEnvoyExample = `  tokenlease doctor envoy envoy.yaml

  # What runs, with everything that a management server sent.
  curl -s http://127.0.0.1:9901/config_dump | tokenlease doctor envoy -

  # In a pipeline: no place fails open, and none is worth a look.
  tokenlease doctor envoy --strict envoy.yaml

  # The routes of each filter that fails open.
  tokenlease doctor envoy envoy.yaml -o json`
