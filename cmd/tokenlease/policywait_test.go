package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// behind is a version that eu has not, and that recalls what it holds.
func behind() *tokenleasev1.ShowPolicyStatusResponse {
	eu := &tokenleasev1.Holder{Region: "eu", Instance: "limiter-0"}
	return &tokenleasev1.ShowPolicyStatusResponse{
		Version: 7, VersionInForce: 7, ShardsBehind: []uint32{3, 5},
		HoldersBehind: []*tokenleasev1.HolderLag{{Holder: eu, PolicyVersion: 5, Grants: 2, OutstandingTokens: 60, LastHeardUnixMs: 946_684_800_000 - 180_000}},
		BudgetsAbove: []*tokenleasev1.BudgetAbove{{
			Key: &tokenleasev1.BudgetKey{Account: "Acme", Operation: "report.create"}, CapacityTokens: 10, ReservedTokens: 65,
			Holders: []*tokenleasev1.Holding{{Holder: &tokenleasev1.Holder{Region: "us", Instance: "l"}, OutstandingTokens: 5, OrphanedTokens: 5}, {Holder: eu, OutstandingTokens: 60}},
		}},
		BudgetsAboveCount: 3,
	}
}

// TestWaiting plays what a broker says, one answer after the other, each half a second
// later. The last one stays.
func TestWaiting(t *testing.T) {
	type answer struct {
		status *tokenleasev1.ShowPolicyStatusResponse
		err    error
	}
	done := answer{status: &tokenleasev1.ShowPolicyStatusResponse{Installed: true, Settled: true}}
	gone := answer{err: serverError{who: "broker", where: "http://b", err: connect.NewError(connect.CodeUnavailable, errors.New("refused"))}}
	for _, test := range []struct {
		name    string
		answers []answer
		code    int
		stderr  string
		text    string
	}{
		{"at once", []answer{done}, 0, "Version 7 holds everywhere: no limiter holds credit under an older version, and no budget has more out than its capacity.\n", ""},
		{"after a while", []answer{{status: behind()}, {status: behind()}, {status: &tokenleasev1.ShowPolicyStatusResponse{Installed: true, BudgetsAboveCount: 1}}, gone, done}, 0,
			`Waiting for version 7: 2 shards behind, 1 limiter behind, 3 budgets with more out than the capacity.
Waiting for version 7: 1 budget with more out than the capacity.
Waiting for the broker to answer again.
Version 7 holds everywhere: no limiter holds credit under an older version, and no budget has more out than its capacity.
`, ""},
		{"never", []answer{gone, {status: behind()}}, exitNo,
			"Waiting for the broker to answer again.\nWaiting for version 7: 2 shards behind, 1 limiter behind, 3 budgets with more out than the capacity.\n",
			`version 7 is in force, but does not hold everywhere after 2s:
  shards behind: 3 5
  eu/limiter-0 holds 60 tokens in 2 grants under version 5 or older; last heard 1999-12-31T23:57:00.000Z (3m ago)
  Acme report.create has 65 out, and a capacity of 10: eu/limiter-0 has 60, us/l has 5, 5 of them unknown
  and 2 more budgets
Look again with ` + "`tokenlease policy status`" + `. What a lost limiter holds comes back when it
starts again, or when ` + "`tokenlease holders retire`" + ` attests that it is gone for good.`},
		{"lost", []answer{{status: behind()}, gone}, exitUnreachable,
			"Waiting for version 7: 2 shards behind, 1 limiter behind, 3 budgets with more out than the capacity.\nWaiting for the broker to answer again.\n",
			"version 7 is in force, but does not hold everywhere after 2s, as far as is known: cannot reach the broker at http://b: refused.\nIs it running? Name another with --broker URL or TOKENLEASE_BROKER"},
		{"damaged", []answer{{status: &tokenleasev1.ShowPolicyStatusResponse{Unusable: []string{"a cannot be read"}, UnusableCount: 1}}}, exitNo,
			"Waiting for version 7: 1 record that cannot be read.\n",
			"version 7 is in force, but does not hold everywhere after 2s:\n  a cannot be read\nLook again with `tokenlease policy status`. What a lost limiter holds comes back when it\nstarts again, or when `tokenlease holders retire` attests that it is gone for good."},
		{"refused", []answer{{err: serverError{who: "broker", where: "http://b", err: connect.NewError(connect.CodePermissionDenied, errors.New("not for you"))}}}, exitRefused,
			"", "the broker at http://b refused (permission_denied): not for you"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, stderr := newProgram()
				p.clock = func() time.Time { return time.UnixMilli(946_684_800_000) }
				asked := 0
				w := policyWait{p: p, version: 7, timeout: 2 * time.Second, look: func(context.Context) (*tokenleasev1.ShowPolicyStatusResponse, error) {
					a := test.answers[min(asked, len(test.answers)-1)]
					asked++
					return a.status, a.err
				}}
				err := w.run(t.Context())
				text := ""
				if err != nil {
					text = err.Error()
				}
				if code := exitCode(err); code != test.code || text != test.text || stderr.String() != test.stderr {
					t.Errorf("ended with %d\n%s\nwant %d\n%s\nstderr\n%s\nwant\n%s", code, text, test.code, test.text, stderr, test.stderr)
				}
			})
		})
	}
}

// TestWaitingIsInterrupted: the version is in force all the same, which is said.
func TestWaitingIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := newProgram()
		ctx, cancel := context.WithCancel(t.Context())
		w := policyWait{p: p, version: 7, timeout: time.Hour, look: func(context.Context) (*tokenleasev1.ShowPolicyStatusResponse, error) {
			return behind(), nil
		}}
		time.AfterFunc(10*time.Second, cancel)
		err := w.run(ctx)
		if exitCode(err) != exitNo || !strings.Contains(err.Error(), "interrupted: version 7 is in force, and was not waited for") {
			t.Errorf("ended with %v", err)
		}
	})
}
