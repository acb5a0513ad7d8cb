package main

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// TestCase49PartsAreTakenAsTheyStand: names of further budgets keep their case, their
// blanks and whatever else they have.
func TestCase49PartsAreTakenAsTheyStand(t *testing.T) {
	tests := []struct {
		text string
		want *tokenleasev1.CheckPart
	}{
		{"acme,all", &tokenleasev1.CheckPart{Key: &tokenleasev1.BudgetKey{Account: "acme", Operation: "all"}}},
		{"Acme,all,0", &tokenleasev1.CheckPart{Key: &tokenleasev1.BudgetKey{Account: "Acme", Operation: "all"}, CostTokens: proto.Int64(0)}},
		{" a , b ", &tokenleasev1.CheckPart{Key: &tokenleasev1.BudgetKey{Account: " a ", Operation: " b "}}},
		{"a=b/c:d;e,#x", &tokenleasev1.CheckPart{Key: &tokenleasev1.BudgetKey{Account: "a=b/c:d;e", Operation: "#x"}}},
		{`"a,b","c""d",5`, &tokenleasev1.CheckPart{Key: &tokenleasev1.BudgetKey{Account: "a,b", Operation: `c"d`}, CostTokens: proto.Int64(5)}},
	}
	for _, test := range tests {
		got, err := parsePart(test.text)
		if err != nil || !proto.Equal(got, test.want) {
			t.Errorf("%q: got %v and %v, want %v", test.text, got, err, test.want)
		}
	}
	for _, text := range []string{"a,b\r", "a,b\n", "a,\"b\nc\"", "\na,b", "a,b\nc,d"} {
		if got, err := parsePart(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// FuzzParsePart writes two names as CSV and reads them.
func FuzzParsePart(f *testing.F) {
	f.Add("acme", "report.create")
	f.Add(`"`, ",")
	f.Add(" a", "#b\\")
	f.Fuzz(func(t *testing.T, account, operation string) {
		if strings.ContainsAny(account+operation, "\r\n") {
			return // which no name may have
		}
		var line strings.Builder
		writer := csv.NewWriter(&line)
		if err := writer.Write([]string{account, operation}); err != nil {
			t.Fatal(err)
		}
		writer.Flush()
		part, err := parsePart(strings.TrimSuffix(line.String(), "\n"))
		if err != nil || part.GetKey().GetAccount() != account || part.GetKey().GetOperation() != operation {
			t.Errorf("%q became %v, %v", line.String(), part, err)
		}
	})
}

// TestWaitingIsBeyondTheTimeout: the deadline of a call is that of the answer, which
// comes when the wait is over.
func TestWaitingIsBeyondTheTimeout(t *testing.T) {
	var f checkFlags
	var settings clientSettings
	set := pflag.NewFlagSet("check", pflag.ContinueOnError)
	f.register(set)
	settings.server = limiterServer
	settings.register(set)
	if err := set.Parse([]string{"--max-wait", "2s", "--timeout", "3s"}); err != nil {
		t.Fatal(err)
	}
	if got := f.waiting(&settings).timeout.String(); got != "5s" {
		t.Errorf("the call may take %s, want 5s", got)
	}
	if settings.timeout.String() != "3s" {
		t.Errorf("the settings have become %v", settings.timeout)
	}
}

func TestAnswerCodes(t *testing.T) {
	want := map[tokenleasev1.Reason]int{
		tokenleasev1.Reason_REASON_UNSPECIFIED:         exitUnreachable,
		tokenleasev1.Reason_REASON_EXHAUSTED:           exitNo,
		tokenleasev1.Reason_REASON_COST_ABOVE_CAPACITY: exitNo,
		tokenleasev1.Reason_REASON_UNAVAILABLE:         exitUnreachable,
		tokenleasev1.Reason_REASON_NO_POLICY:           exitNo,
		tokenleasev1.Reason_REASON_INVALID:             exitRefused,
		tokenleasev1.Reason_REASON_DISABLED:            exitNo,
		tokenleasev1.Reason_REASON_REFRESH:             exitRefused,
		tokenleasev1.Reason_REASON_OVERLOADED:          exitUnreachable,
	}
	for value, name := range tokenleasev1.Reason_name {
		reason := tokenleasev1.Reason(value)
		allowed := reason == tokenleasev1.Reason_REASON_ALLOWED || reason == tokenleasev1.Reason_REASON_FALLBACK
		if code, ok := want[reason]; !allowed && (!ok || answerCode(&tokenleasev1.CheckResponse{Reason: reason}) != code) {
			t.Errorf("the exit code of %s is %d, want %d", name, answerCode(&tokenleasev1.CheckResponse{Reason: reason}), code)
		}
		// Shadow mode allows whatever the reason; no reason is no answer.
		code := answerCode(&tokenleasev1.CheckResponse{Reason: reason, Allowed: true, Shadow: true})
		if reason == tokenleasev1.Reason_REASON_UNSPECIFIED && code != exitUnreachable || reason != tokenleasev1.Reason_REASON_UNSPECIFIED && code != exitYes {
			t.Errorf("the exit code of %s, allowed, is %d", name, code)
		}
	}
}
