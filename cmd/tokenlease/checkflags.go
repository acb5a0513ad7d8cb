package main

import (
	"encoding/csv"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// checkFlags are what is asked of a limiter, beside the budget.
type checkFlags struct {
	cost       tokens
	decisionID string
	version    number
	maxWait    time.Duration
	priority   choice
	also       []string
}

// register adds the flags that checks and reservations share.
func (f *checkFlags) register(flags *pflag.FlagSet) {
	flags.Var(&f.cost, "cost", "`tokens` that the operation costs (default: as the policy says)")
	flags.StringVar(&f.decisionID, "decision-id", "", "a repetition of this `ID` gets the recorded answer")
	numberVar(flags, &f.version, "policy-version", "the policy `version` that you know: a newer one answers refresh (default: any)", 0, math.MaxInt64)
	flags.DurationVar(&f.maxWait, "max-wait", 0, "how `long` to wait for its turn, at most 10m, beyond --timeout")
	choiceVar(flags, &f.priority, "priority", "who goes first among those that wait", "normal", "high")
}

// request is what the flags ask for. It is not validated.
func (f *checkFlags) request(set *pflag.FlagSet, args []string) (*tokenleasev1.CheckRequest, error) {
	const most = tokenleasev1.MaxCheckWaitMillis * time.Millisecond
	if f.maxWait < 0 || f.maxWait > most || f.maxWait%time.Millisecond != 0 {
		return nil, usageErrorf("--max-wait %v must be 0s to %v, in whole milliseconds", f.maxWait, most)
	}
	request := &tokenleasev1.CheckRequest{
		Key:        &tokenleasev1.BudgetKey{Account: args[0], Operation: args[1]},
		DecisionId: f.decisionID, PolicyVersion: int64(f.version.value), MaxWaitMs: uint32(f.maxWait / time.Millisecond),
	}
	if set.Changed("cost") {
		request.CostTokens = new(int64(f.cost))
	}
	if f.priority.value == "high" {
		request.Priority = tokenleasev1.Priority_PRIORITY_HIGH
	}
	for _, text := range f.also {
		part, err := parsePart(text)
		if err != nil {
			return nil, err
		}
		request.Also = append(request.Also, part)
	}
	return request, nil
}

// waiting are the settings with the time that a check may wait added to that in
// which an answer is expected.
func (f *checkFlags) waiting(settings *clientSettings) *clientSettings {
	longer := *settings
	longer.timeout += f.maxWait
	return &longer
}

// parsePart reads a further budget from a line of CSV, ACCOUNT,OPERATION[,COST]. So
// a name may have any character.
func parsePart(text string) (*tokenleasev1.CheckPart, error) {
	reader := csv.NewReader(strings.NewReader(text))
	fields, err := reader.Read()
	if err == nil && strings.ContainsAny(text, "\r\n") {
		err = errors.New("it has an end of a line")
	}
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		err = parse.Err // without the line, of which there is one
	}
	if errors.Is(err, io.EOF) || err == nil && (len(fields) < 2 || len(fields) > 3) {
		return nil, usageErrorf("--also %.80q must be ACCOUNT,OPERATION or ACCOUNT,OPERATION,COST; put a name with a comma in double quotes", text)
	}
	if err != nil {
		return nil, usageErrorf("--also %.80q is no line of CSV: %w", text, err)
	}
	part := &tokenleasev1.CheckPart{Key: &tokenleasev1.BudgetKey{Account: fields[0], Operation: fields[1]}}
	if len(fields) == 3 {
		var cost tokens
		if err := cost.Set(fields[2]); err != nil {
			return nil, usageErrorf("--also %.80q: the cost: %w", text, err)
		}
		part.CostTokens = new(int64(cost))
	}
	return part, nil
}
