package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// maxRepeat is the most checks that one command makes.
const maxRepeat = 10_000

// checkFlags are what one check command is to do.
type checkFlags struct {
	cost     tokens
	hasCost  bool
	repeat   int
	repeated bool
}

// checkCommand asks a limiter for decisions.
func (p *program) checkCommand() *cobra.Command {
	settings := &clientSettings{server: limiterServer}
	flags := &checkFlags{}
	cmd := &cobra.Command{
		Use:   "check ACCOUNT OPERATION",
		Short: "Ask a limiter whether an operation may start",
		Long: `Ask a limiter whether an operation may start. What is admitted is spent.

The exit code is 0 when every check was allowed, 1 when the budget denied one,
3 when no safe authority could be reached, and 4 when the request was not valid.
With -n the answer in JSON or YAML is a list.`,
		Example: `  tokenlease check acme report.create
  tokenlease check acme report.create --cost 5
  tokenlease check acme report.create -n 10 -o json`,
	}
	cmd.Flags().Var(&flags.cost, "cost", "`tokens` that the operation costs (default: as the policy says)")
	cmd.Flags().IntVarP(&flags.repeat, "repeat", "n", 1, "how many `times` to ask, one after the other")
	return clientCommand(cmd, settings, 2, func(ctx context.Context, args []string) error {
		flags.hasCost, flags.repeated = cmd.Flags().Changed("cost"), cmd.Flags().Changed("repeat")
		if flags.repeat < 1 || flags.repeat > maxRepeat {
			return usageErrorf("--repeat %d must be 1 to %d", flags.repeat, maxRepeat)
		}
		return p.check(ctx, settings, flags, args)
	})
}

// check asks and prints.
func (p *program) check(ctx context.Context, settings *clientSettings, flags *checkFlags, args []string) error {
	request := &tokenleasev1.CheckRequest{Key: &tokenleasev1.BudgetKey{Account: args[0], Operation: args[1]}}
	if flags.hasCost {
		request.CostTokens = new(int64(flags.cost))
	}
	if err := request.Validate(); err != nil {
		return usageError{err}
	}
	var answers []*tokenleasev1.CheckResponse
	var failed error
	for range flags.repeat {
		answer, err := ask(ctx, settings, settings.limiter().Check, request)
		if err != nil {
			failed = err // what was decided before has been spent, so it is shown
			break
		}
		answers = append(answers, answer)
	}
	if len(answers) > 0 {
		if err := p.writeChecks(settings.output, flags.repeated, answers); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	return checkVerdict(answers)
}

// writeChecks prints the answers, and what they advise on stderr.
func (p *program) writeChecks(format outputFormat, list bool, answers []*tokenleasev1.CheckResponse) error {
	t := &table{heading: []string{"ANSWER", "REASON", "REMAINING", "LIMIT", "RETRY-IN", "POLICY", "GRANT"}}
	batch := &tokenleasev1.CheckBatchResponse{}
	said := ""
	for _, a := range answers {
		t.add(answerWord(a), enumWord(a.GetReason(), "REASON_"), a.GetRemainingTokens(), a.GetLimitTokens(), retryIn(a),
			a.GetPolicyVersion(), a.GetGrantId())
		batch.Results = append(batch.Results, &tokenleasev1.CheckResult{Response: a})
		if detail := a.GetDetail(); detail != said && detail != "" {
			fmt.Fprintf(p.stderr, "%s\n", cell(detail))
			said = detail
		}
	}
	if list {
		return p.write(format, batch, t)
	}
	return p.write(format, answers[0], t)
}

// checkVerdict is the error that tells the exit code of some answers, nil when
// all are allowed. What says least about the budget goes first: a wrong request,
// then a missing authority, then a denial.
func checkVerdict(answers []*tokenleasev1.CheckResponse) error {
	code := exitYes
	for _, a := range answers {
		code = max(code, answerCode(a))
	}
	if code == exitYes {
		return nil
	}
	return exitError{code: code}
}

// answerCode is the exit code for one answer.
func answerCode(a *tokenleasev1.CheckResponse) int {
	switch {
	case a.GetAllowed():
		return exitYes
	case a.GetReason() == tokenleasev1.Reason_REASON_INVALID:
		return exitRefused
	case a.GetReason() == tokenleasev1.Reason_REASON_UNAVAILABLE:
		return exitUnreachable
	}
	return exitNo
}

// answerWord is an answer in one word.
func answerWord(a *tokenleasev1.CheckResponse) string {
	switch answerCode(a) {
	case exitYes:
		return "allowed"
	case exitUnreachable:
		return "unavailable"
	case exitRefused:
		return "invalid"
	}
	return "denied"
}

// retryIn is how long to wait, when waiting can help.
func retryIn(a *tokenleasev1.CheckResponse) string {
	if !a.GetHasRetry() {
		return ""
	}
	return time.Duration(a.GetRetryInNs()).String()
}

// enumWord is the name of an enumeration's value without its prefix, as words.
func enumWord(value fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(value.String(), prefix), "_", "-"))
}
