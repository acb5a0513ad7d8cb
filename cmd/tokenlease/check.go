package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// maxRepeat is the most checks that one command makes.
const maxRepeat = 10_000

// checkCommand asks a limiter for decisions.
func (p *program) checkCommand() *cobra.Command {
	settings := &clientSettings{server: limiterServer}
	flags := &checkFlags{}
	repeat := 1
	cmd := &cobra.Command{
		Use:   "check ACCOUNT OPERATION",
		Short: "Ask a limiter whether an operation may start",
		Long: `Ask a limiter whether an operation may start. What is admitted is spent. Where the
cost is not known yet, or a slot is to be held, see ` + "`tokenlease reserve --help`" + `.

Several budgets in one decision: each --also names a further one, as
ACCOUNT,OPERATION or ACCOUNT,OPERATION,COST. All are spent, or none. It is a line
of CSV: a name with a comma or a quote stands in double quotes, and a quote in it
is doubled, as in --also '"Smith, ""Jo""",report.create,5'.

A repeated --decision-id gets the recorded answer, and spends nothing again; with
another cost or operation it is invalid. With --policy-version a newer policy in
force answers refresh: nothing was decided, ask again with the version it tells.

NOTE, where there is one, says replayed (a recorded answer), shadow (admitted
whatever the reason), not strict (the policy lets more be admitted than its rule)
or what is owed. The reason fallback means that no authority was reached, and
that the policy's local allowance admitted it.

The exit code is 0 when every check was allowed, also by shadow mode or fallback;
1 when one was denied (exhausted, cost above capacity, disabled, no policy); 3
when no safe authority could be reached, or the limiter sheds load; 4 when the
request was not valid, or is to be refreshed. With -n the answer in JSON or YAML
is a list.`,
		Example: `  tokenlease check acme report.create
  tokenlease check acme report.create --cost 5
  tokenlease check acme report.create -n 10 -o json

  # The account's budget, that of all its operations, and that of everybody.
  tokenlease check acme report.create --also acme,all --also everybody,report.create,1

  # Up to 2 s in the queue; safe to repeat.
  tokenlease check acme report.create --max-wait 2s --decision-id order-4711`,
	}
	cmd.ValidArgsFunction = p.completeAtBroker(settings, p.accountNames, p.operationNames)
	flags.register(cmd.Flags())
	cmd.Flags().StringArrayVar(&flags.also, "also", nil, "`ACCOUNT,OPERATION[,COST]` of a further budget; repeat it for more")
	cmd.Flags().IntVarP(&repeat, "repeat", "n", repeat, "how many `times` to ask, one after the other")
	return clientCommand(cmd, settings, 2, func(ctx context.Context, args []string) error {
		if repeat < 1 || repeat > maxRepeat {
			return usageErrorf("--repeat %d must be 1 to %d", repeat, maxRepeat)
		}
		request, err := flags.request(cmd.Flags(), args)
		if err != nil {
			return err
		}
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		return p.check(ctx, flags.waiting(settings), request, repeat, cmd.Flags().Changed("repeat"))
	})
}

// check asks and prints.
func (p *program) check(ctx context.Context, settings *clientSettings, request *tokenleasev1.CheckRequest, repeat int, list bool) error {
	var answers []*tokenleasev1.CheckResponse
	var failed error
	for range repeat {
		answer, err := ask(ctx, settings, settings.limiter().Check, request)
		if err != nil {
			failed = err // what was decided before has been spent, so it is shown
			break
		}
		answers = append(answers, answer)
	}
	if len(answers) > 0 {
		if err := p.writeChecks(settings.output, list, answers); err != nil {
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
		t.add(answerWord(a), enumWord(a.GetReason(), "REASON_"), a.GetRemainingTokens(), a.GetLimitTokens(),
			retryIn(a.GetHasRetry(), a.GetRetryInNs()), a.GetPolicyVersion(), a.GetGrantId())
		batch.Results = append(batch.Results, &tokenleasev1.CheckResult{Response: a})
		if detail := a.GetDetail(); detail != said && detail != "" {
			fmt.Fprintf(p.stderr, "%s\n", cell(detail))
			said = detail
		}
	}
	addNotes(t, answers)
	if format == formatTable {
		return p.writeTables(t, partsTable(list, answers))
	}
	if list {
		return p.write(format, batch, t)
	}
	return p.write(format, answers[0], t)
}

// writeTables prints tables that have rows, with a line between them.
func (p *program) writeTables(tables ...*table) error {
	for i, t := range tables {
		if len(t.rows) == 0 {
			continue
		}
		if i > 0 {
			fmt.Fprintln(p.stdout)
		}
		if err := t.write(p.stdout); err != nil {
			return err
		}
	}
	return nil
}

// addNotes adds a column to a table of answers, if any of them has something to
// note.
func addNotes(t *table, answers []*tokenleasev1.CheckResponse) {
	var notes []string
	for _, a := range answers {
		notes = append(notes, note(a))
	}
	if strings.Join(notes, "") == "" {
		return
	}
	t.heading = append(t.heading, "NOTE")
	for i, text := range notes {
		t.rows[i] = append(t.rows[i], cell(text))
	}
}

// note is what is to be known of an answer beside its reason.
func note(a *tokenleasev1.CheckResponse) string {
	var all []string
	if a.GetReplayed() {
		all = append(all, "replayed")
	}
	if a.GetShadow() {
		all = append(all, "shadow")
	}
	if a.GetNotStrict() && !a.GetShadow() {
		all = append(all, "not strict")
	}
	if a.GetDebtTokens() > 0 {
		all = append(all, fmt.Sprintf("owes %d", a.GetDebtTokens()))
	}
	return strings.Join(all, ", ")
}

// partsTable is what each of several budgets says. In a list each row has the
// number of its check, from 1.
func partsTable(list bool, answers []*tokenleasev1.CheckResponse) *table {
	t := &table{heading: []string{"ACCOUNT", "OPERATION", "REASON", "REMAINING", "LIMIT", "RETRY-IN", "POLICY", "GRANT"}}
	if list {
		t.heading = append([]string{"CHECK"}, t.heading...)
	}
	for i, a := range answers {
		for _, part := range a.GetParts() {
			row := []any{
				part.GetKey().GetAccount(), part.GetKey().GetOperation(), enumWord(part.GetReason(), "REASON_"), part.GetRemainingTokens(),
				part.GetLimitTokens(), retryIn(part.GetHasRetry(), part.GetRetryInNs()), part.GetPolicyVersion(), part.GetGrantId(),
			}
			if list {
				row = append([]any{i + 1}, row...)
			}
			t.add(row...)
		}
	}
	return t
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

// answerCode is the exit code for one answer. One without a reason is none, and a
// missing answer is no permission.
func answerCode(a *tokenleasev1.CheckResponse) int {
	switch {
	case a.GetReason() == tokenleasev1.Reason_REASON_UNSPECIFIED:
		return exitUnreachable
	case a.GetAllowed():
		return exitYes
	}
	switch a.GetReason() {
	case tokenleasev1.Reason_REASON_INVALID, tokenleasev1.Reason_REASON_REFRESH:
		return exitRefused
	case tokenleasev1.Reason_REASON_UNAVAILABLE, tokenleasev1.Reason_REASON_OVERLOADED:
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
		return enumWord(a.GetReason(), "REASON_") // invalid or refresh
	}
	return "denied"
}

// retryIn is how long to wait, when waiting can help.
func retryIn(hasRetry bool, ns int64) string {
	if !hasRetry {
		return ""
	}
	return waitInWords(time.Duration(ns))
}

// waitInWords is a wait as people read it, rounded up: to milliseconds below 10 s,
// and to seconds from there on.
func waitInWords(wait time.Duration) string {
	unit := coarseness(wait)
	if rest := wait % unit; rest > 0 {
		wait = wait - rest + min(unit, math.MaxInt64-(wait-rest))
	}
	return wait.String()
}

// timeLeftInWords is what is left of a time, rounded down alike: it is never told
// as more than it is.
func timeLeftInWords(left time.Duration) string { return left.Truncate(coarseness(left)).String() }

func coarseness(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return time.Millisecond
	}
	return time.Second
}

// enumWord is the name of an enumeration's value without its prefix, as words.
func enumWord(value fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(value.String(), prefix), "_", "-"))
}
