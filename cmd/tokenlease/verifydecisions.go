package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenlease/tokenlease/simulations/decisions"
)

// verifyDecisionsSettings are what `verify decisions` is to do.
type verifyDecisionsSettings struct {
	output        outputFormat
	maxClockError time.Duration
	incomplete    bool
}

// verifyDecisionsCommand judges decision logs.
func (p *program) verifyDecisionsCommand() *cobra.Command {
	s := &verifyDecisionsSettings{output: formatTable}
	cmd := &cobra.Command{
		Use:     "decisions FILE...",
		Short:   "Judge the decision logs of all regions against the policies",
		Long:    verifyDecisionsLong,
		Example: verifyDecisionsExample,
		Args:    exactArgs(-1),
		RunE: func(_ *cobra.Command, args []string) error {
			if s.maxClockError < 0 || s.maxClockError > time.Hour {
				return usageErrorf("--max-clock-error %v must be 0 to 1h", s.maxClockError)
			}
			return p.verifyDecisions(s, args)
		},
	}
	addSettings(cmd, func(flags *pflag.FlagSet) {
		flags.VarP(&s.output, "output", "o", "table, json or yaml")
	})
	cmd.Flags().DurationVar(&s.maxClockError, "max-clock-error", 0, "by how much the wall clock of any region may have been off")
	cmd.Flags().BoolVar(&s.incomplete, "incomplete", false, "end with 0 for logs without a violation that are sampled or lack lines, and so prove nothing")
	return cmd
}

func (p *program) verifyDecisions(s *verifyDecisionsSettings, files []string) (err error) {
	j := decisions.New(decisions.Options{MaxClockError: s.maxClockError})
	defer func() { err = errors.Join(err, j.Close()) }()
	for _, file := range files {
		if err := p.readDecisions(j, file); err != nil {
			return err
		}
	}
	report, err := j.Judge()
	if err != nil {
		return err
	}
	if err := p.writeDecisions(s.output, report); err != nil {
		return err
	}
	for _, note := range report.Notes {
		fmt.Fprintln(p.stderr, note)
	}
	return decisionsVerdict(s, report)
}

func (p *program) readDecisions(j *decisions.Judgement, file string) error {
	if file == "-" {
		return j.Read("standard input", p.stdin)
	}
	opened, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("cannot read the decision log: %w", err)
	}
	defer opened.Close()
	return j.Read(file, opened)
}

// decisionsVerdict is the exit code. A violation that is proven is one, whatever is
// missing.
func decisionsVerdict(s *verifyDecisionsSettings, r *decisions.Report) error {
	switch {
	case r.Violating > 0:
		return exitError{code: exitNo, text: fmt.Sprintf("violated: more was admitted of %d budgets than their policies allow", r.Violating)}
	case len(r.Logs) == 0:
		return exitError{code: exitUsage, text: "the files have no line of a decision log: there is nothing to judge"}
	case !r.Complete && !s.incomplete:
		return exitError{code: exitUsage, text: "cannot prove: no violation was found, and the logs are sampled or lack lines.\nAdd the files that are missing, or take that for an answer with --incomplete"}
	}
	return nil
}

// writeDecisions prints the report.
func (p *program) writeDecisions(format outputFormat, r *decisions.Report) error {
	if format == formatTable {
		_, err := io.WriteString(p.stdout, decisionsText(r))
		return err
	}
	data, err := encodePlain(format, r)
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(data)
	return err
}

// decisionsText is the report for people: what was read, and what is violated.
func decisionsText(r *decisions.Report) string {
	var b strings.Builder
	logs := &table{heading: []string{"REGION", "INSTANCE", "EPOCH", "LOG", "SAMPLE", "FIRST", "LAST", "MISSING"}}
	for _, l := range r.Logs {
		logs.add(l.Region, l.Instance, l.Epoch, l.ID, l.Sample, preciseTime(l.First), preciseTime(l.Last), l.Missing)
	}
	_ = logs.write(&b) // a builder takes everything
	verdict := "clean"
	switch {
	case r.Violating > 0:
		verdict = "VIOLATED"
	case !r.Complete:
		verdict = "cannot prove"
	case r.Lines == 0:
		verdict = "no decisions"
	}
	fmt.Fprintln(&b)
	sum := &table{heading: []string{"VERDICT", "LINES", "ADMITTED", "DENIED", "BESIDE", "BESIDE-TOKENS", "BUDGETS", "VIOLATED"}}
	sum.add(verdict, r.Lines, r.Admissions, r.Denials, r.Beside, r.BesideTokens, r.Budgets, r.Violating)
	_ = sum.write(&b)
	if len(r.Violations) == 0 {
		return b.String()
	}
	fmt.Fprintln(&b)
	worst := &table{heading: []string{"FIRST", "ACCOUNT", "OPERATION", "EXCESS", "WORST", "WORST-AT", "RULE", "VERSION", "LOG", "LINE-ORDER"}}
	for _, v := range r.Violations {
		worst.add(preciseTime(v.First), v.Account, v.Operation, v.Tokens, v.Worst, preciseTime(v.WorstAt), v.Rule, v.Version, v.Log, v.Order)
	}
	_ = worst.write(&b)
	return b.String()
}

// preciseTime is a point in time as logs have it, in UTC.
func preciseTime(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

const verifyDecisionsLong = `Judge decision logs: whether what all regions admitted together of each budget
conforms to its policy, bucket or window, exactly. Limiters write such logs with
--decision-log. Give the files of all regions, with the ".1" of those that were put
aside, in any order; - is standard input. No server is asked.

A violation is reported only if it is proven. Whatever is not known counts in favour
of the budget:

  Clocks. Lines are ordered by the wall clocks of their limiters. With
  --max-clock-error 50ms, each may have been off by 50 ms, ahead or behind: a bucket
  may have refilled for 100 ms longer, a window be 100 ms shorter, and what lies
  within 100 ms of the end of a period is not judged. The default of 0 is right for
  limiters on one machine; elsewhere say what your time service guarantees.

  Policies. Where a policy changed within the logs, the more generous version counts
  until the newer one is in force for sure and no more can be out than it allows.
  What was out of a version before the logs begin is not known: begin them before
  you lower a capacity.

  What is missing. A log that is sampled or lacks lines can prove that there was a
  violation, and never that there was none. What was decided after the last line of
  a log is not judged, as nothing tells that it is missing. A log without a decision
  is named; where there is none at all, the verdict is "no decisions".

BESIDE is what was admitted without credit, by shadow mode or a local allowance: the
policies permit it beyond their rule. What a postpaid policy let be used beyond
reservations is not judged, nor reservations that were never settled.

Exit codes:
    0  clean: nothing is missing from the logs that were given, and all conforms, or
       they have no decisions;
       with --incomplete also: no violation was found
    1  violated: more was admitted than the policies allow, which is proven
    2  a file or a line cannot be read, or nothing can be proven: lines are missing`

const verifyDecisionsExample = `  tokenlease verify decisions eu.log eu.log.1 us.log ap.log

  # Regions whose clocks are within 20 ms of the true time.
  tokenlease verify decisions --max-clock-error 20ms logs/*.log*

  # For programs.
  tokenlease verify decisions -o json logs/*.log* | jq .violations`
