package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// waitPoll is how often `policy apply --wait` asks.
const waitPoll = 500 * time.Millisecond

// awaitPolicies waits until a version holds everywhere.
func (p *program) awaitPolicies(ctx context.Context, settings *clientSettings, version int64, timeout time.Duration) error {
	request := &tokenleasev1.ShowPolicyStatusRequest{Version: version}
	w := policyWait{p: p, version: version, timeout: timeout, look: func(ctx context.Context) (*tokenleasev1.ShowPolicyStatusResponse, error) {
		return ask(ctx, settings, settings.admin().ShowPolicyStatus, request)
	}}
	return w.run(ctx)
}

// policyWait waits until a version holds everywhere.
type policyWait struct {
	p       *program
	version int64
	timeout time.Duration
	look    func(context.Context) (*tokenleasev1.ShowPolicyStatusResponse, error)

	last   *tokenleasev1.ShowPolicyStatusResponse // nil: it was never told
	failed error                                  // of the last question
	said   string
}

// run asks again and again. A broker that cannot be reached for a while is waited for
// as well. At the time-out the error says who is missing.
func (w *policyWait) run(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	for {
		status, err := w.look(limited)
		switch {
		case ctx.Err() != nil:
			return exitError{code: exitNo, text: fmt.Sprintf("interrupted: version %d is in force, and was not waited for", w.version)}
		case err == nil && holds(status):
			fmt.Fprintf(w.p.stderr, "Version %d holds everywhere: no limiter holds credit under an older version, and no budget has more out than its capacity.\n", w.version)
			return nil
		case err == nil:
			w.last, w.failed = status, nil
			w.say(fmt.Sprintf("Waiting for version %d: %s.", w.version, strings.Join(missingInWords(status), ", ")))
		case limited.Err() != nil: // the question was cut off by the time-out
		case exitCode(err) != exitUnreachable:
			return err
		default:
			w.failed = err
			w.say("Waiting for the broker to answer again.")
		}
		if !waitFor(limited, waitPoll) && ctx.Err() == nil {
			return w.notEverywhere()
		}
	}
}

// say tells how far it is, when that has changed.
func (w *policyWait) say(text string) {
	if text != w.said {
		fmt.Fprintln(w.p.stderr, text)
		w.said = text
	}
}

// holds says whether a version holds everywhere.
func holds(status *tokenleasev1.ShowPolicyStatusResponse) bool {
	return status.GetInstalled() && status.GetSettled()
}

// missingInWords counts what is missing.
func missingInWords(status *tokenleasev1.ShowPolicyStatusResponse) []string {
	var all []string
	if n := len(status.GetShardsBehind()); n > 0 {
		all = append(all, countOf(int64(n), "shard")+" behind")
	}
	if n := len(status.GetHoldersBehind()); n > 0 {
		all = append(all, countOf(int64(n), "limiter")+" behind")
	}
	if n := status.GetBudgetsAboveCount(); n > 0 {
		all = append(all, countOf(n, "budget")+" with more out than the capacity")
	}
	if n := status.GetUnusableCount(); n > 0 {
		all = append(all, countOf(n, "record")+" that cannot be read")
	}
	if len(all) == 0 {
		all = append(all, "the brokers have not settled it")
	}
	return all
}

// notEverywhere is the end of waiting: who is missing, and what can be done.
func (w *policyWait) notEverywhere() error {
	text := fmt.Sprintf("version %d is in force, but does not hold everywhere after %v", w.version, w.timeout)
	switch {
	case w.failed != nil:
		return fmt.Errorf("%s, as far as is known: %w", text, w.failed)
	case w.last == nil:
		return exitError{code: exitNo, text: text + ", as far as is known: the broker has not told in time.\nAsk it with `tokenlease policy status`"}
	}
	lines := append([]string{text + ":"}, w.p.whoIsMissing(w.last)...)
	lines = append(lines, "Look again with `tokenlease policy status`. What a lost limiter holds comes back when it",
		"starts again, or when `tokenlease holders retire` attests that it is gone for good.")
	return exitError{code: exitNo, text: strings.Join(lines, "\n")}
}

// whoIsMissing names everyone and everything that keeps a version from holding.
func (p *program) whoIsMissing(status *tokenleasev1.ShowPolicyStatusResponse) []string {
	var lines []string
	if behind := status.GetShardsBehind(); len(behind) > 0 {
		lines = append(lines, "  shards behind: "+strings.Trim(fmt.Sprint(behind), "[]"))
	}
	for _, h := range status.GetHoldersBehind() {
		lines = append(lines, fmt.Sprintf("  %s holds %s in %s under version %d or older; last heard %s", cell(holderName(h.GetHolder())),
			countOf(h.GetOutstandingTokens(), "token"), countOf(h.GetGrants(), "grant"), h.GetPolicyVersion(), p.momentAndAge(h.GetLastHeardUnixMs())))
	}
	for _, b := range status.GetBudgetsAbove() {
		lines = append(lines, fmt.Sprintf("  %s %s has %d out, and a capacity of %d: %s", cell(b.GetKey().GetAccount()), cell(b.GetKey().GetOperation()),
			b.GetReservedTokens(), b.GetCapacityTokens(), strings.Join(holdingsInWords(b), ", ")))
	}
	if more := status.GetBudgetsAboveCount() - int64(len(status.GetBudgetsAbove())); more > 0 {
		lines = append(lines, "  and "+countOf(more, "more budget"))
	}
	for _, fault := range status.GetUnusable() {
		lines = append(lines, "  "+cell(fault))
	}
	return lines
}

// holdingsInWords tells who has what of a budget, the most first.
func holdingsInWords(b *tokenleasev1.BudgetAbove) []string {
	var all []string
	holders := slices.Clone(b.GetHolders())
	slices.SortStableFunc(holders, func(a, b *tokenleasev1.Holding) int {
		return int(min(1, max(-1, b.GetOutstandingTokens()-a.GetOutstandingTokens())))
	})
	for _, h := range holders {
		text := fmt.Sprintf("%s has %d", cell(holderName(h.GetHolder())), h.GetOutstandingTokens())
		if n := h.GetOrphanedTokens(); n > 0 {
			text += fmt.Sprintf(", %d of them unknown", n)
		}
		all = append(all, text)
	}
	return all
}
