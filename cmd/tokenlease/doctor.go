package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const doctorLong = `Look at a cluster, and tell what is well, what is not, and what to do next:

    reachable     each broker that was named, and each that they know of
    access        who you are to it, and what you may look at
    clocks        of this machine and of the brokers: no credit depends on them,
                  but periods of a calendar and the times that are shown do
    versions      of the programs
    certificates  that end within 7 days: the brokers' and your own
    store         etcd: members, leader, quota, alarms
    restore       one that was declared and is not attested
    shards        without an owner, or whose owner has stopped committing: if any
                  seems so, it looks again 6 s later
    policies      shards that have not taken up the newest version, and limiters that
                  hold credit under an older one
    limits        budgets with more out than their capacity
    holders       that hold credit and have not been heard of for 2 minutes; to retire
                  one takes 1 minute of silence
    orphaned      credit that nobody has accounted for, and what would free it
    records       that cannot be read: what they hold is missing in what is told

Nothing is changed. ` + "`tokenlease verify`" + ` checks every invariant beside this, and
` + "`tokenlease doctor envoy`" + ` a configuration of Envoy.

Exit codes:
    0  healthy: nothing fails, whatever warnings there are; with --strict, none
    1  something fails, such as that you may not look; with --strict, or there are
       warnings
    3  no broker was reached`

// doctorSettings say which brokers to look at.
type doctorSettings struct {
	client clientSettings
	also   []string
	strict bool
}

// register adds the settings to flags.
func (s *doctorSettings) register(flags *pflag.FlagSet) {
	s.client.register(flags)
	flags.StringSliceVar(&s.also, "brokers", nil, "`URLs` of further brokers to look at, with commas between")
}

// validate checks the settings together.
func (s *doctorSettings) validate() error {
	for _, url := range s.also {
		if err := checkURL("brokers", url); err != nil {
			return err
		}
	}
	return s.client.validate()
}

// doctorCommand looks at a cluster, or at how gateways are set up.
func (p *program) doctorCommand() *cobra.Command {
	s := &doctorSettings{client: clientSettings{server: brokerServer}}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what is wrong with a cluster or a gateway, and what to do next",
		Long:  doctorLong,
		Example: `  tokenlease doctor
  tokenlease doctor --brokers http://10.0.0.5:7600,http://10.0.0.6:7600
  tokenlease doctor --strict -o json
  tokenlease doctor envoy envoy.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return group(cmd, args)
			}
			if err := s.validate(); err != nil {
				return err
			}
			return p.doctor(cmd.Context(), s)
		},
	}
	addSettings(cmd, s.register)
	cmd.Flags().BoolVar(&s.strict, "strict", false, "end with 1 for warnings as well")
	cmd.AddCommand(p.doctorEnvoyCommand())
	return cmd
}

// doctor looks, prints, and says in the exit code what came out.
func (p *program) doctor(ctx context.Context, s *doctorSettings) error {
	seen := p.examine(ctx, s)
	if ctx.Err() != nil {
		return exitError{code: exitUnreachable, text: "interrupted"}
	}
	diagnosis := diagnose(seen)
	if err := p.writeDiagnosis(s.client.output, diagnosis); err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "%s, %s, %d well\n", countOf(int64(diagnosis.count(statusFail)), "failure"),
		countOf(int64(diagnosis.count(statusWarn)), "warning"), diagnosis.count(statusOK))
	switch {
	case seen.answering() == nil && !seen.refused():
		return exitError{code: exitUnreachable}
	case diagnosis.count(statusFail) > 0 || s.strict && diagnosis.count(statusWarn) > 0:
		return exitError{code: exitNo}
	}
	return nil
}

// Statuses of findings.
const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
)

// finding is one thing that was looked at. Next is what to do, and empty where all
// is well.
type finding struct {
	Status string `json:"status"`
	Check  string `json:"check"`
	What   string `json:"what"`
	Next   string `json:"next"`
}

// diagnosis is all that was found.
type diagnosis struct {
	Healthy  bool      `json:"healthy"`
	Findings []finding `json:"findings"`
}

// count is how many findings have a status.
func (d *diagnosis) count(status string) int {
	n := 0
	for _, f := range d.Findings {
		if f.Status == status {
			n++
		}
	}
	return n
}

// ok adds that something is well.
func (d *diagnosis) ok(check, format string, args ...any) {
	d.Findings = append(d.Findings, finding{statusOK, check, fmt.Sprintf(format, args...), ""})
}

// warn adds what is worth a look, and what to do next.
func (d *diagnosis) warn(check, next, format string, args ...any) {
	d.Findings = append(d.Findings, finding{statusWarn, check, fmt.Sprintf(format, args...), next})
}

// fail adds what is wrong, and what to do next.
func (d *diagnosis) fail(check, next, format string, args ...any) {
	d.Findings = append(d.Findings, finding{statusFail, check, fmt.Sprintf(format, args...), next})
}

// writeDiagnosis prints the findings, those that fail first in capitals. There are
// one or two lines for each; nothing is cut.
func (p *program) writeDiagnosis(format outputFormat, d *diagnosis) error {
	if format != formatTable {
		data, err := encodePlain(format, d)
		if err != nil {
			return err
		}
		_, err = p.stdout.Write(data)
		return err
	}
	var b strings.Builder
	for _, f := range d.Findings {
		status := f.Status
		if status != statusOK {
			status = strings.ToUpper(status)
		}
		fmt.Fprintf(&b, "%-4s   %-12s   %s\n", status, f.Check, cell(f.What))
		if f.Next != "" {
			fmt.Fprintf(&b, "%22s   to do: %s\n", "", cell(f.Next))
		}
	}
	_, err := io.WriteString(p.stdout, b.String())
	return err
}

// encodePlain is a value that is no message as JSON or YAML.
func encodePlain(format outputFormat, value any) ([]byte, error) {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	if format == formatYAML {
		return toYAML(raw.Bytes())
	}
	return raw.Bytes(), nil
}
