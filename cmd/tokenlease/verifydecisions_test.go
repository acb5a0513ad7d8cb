package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/decisionlog"
	"github.com/tokenlease/tokenlease/simulations/decisions"
)

// loggedRegion starts a limiter with a decision log, which end closes.
func loggedRegion(s *stack, dir, name string) (r *stackRegion, file string, end func()) {
	s.t.Helper()
	file = filepath.Join(dir, name+".log")
	log, err := decisionlog.Open(decisionlog.Config{Path: file, Region: name, Instance: "limiter-0", Sample: 1})
	if err != nil {
		s.t.Fatal(err)
	}
	r = s.region(name, func(c *regional.Config) { c.DecisionLog = log })
	return r, file, func() {
		r.stop()
		if err := log.Close(context.Background()); err != nil {
			s.t.Error(err)
		}
	}
}

// verifyLogs runs `verify decisions -o json`.
func verifyLogs(t *testing.T, files ...string) (code int, report decisions.Report, said string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	code = p.run(context.Background(), append([]string{"verify", "decisions", "-o", "json"}, files...))
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
	}
	return code, report, errs.String()
}

// What three regions admit of each kind of budget, through checks, reservations,
// several budgets at once and a lowered policy, is clean by their logs. One admission
// more than there was is found.
func TestLogsOfARunAreClean(t *testing.T) {
	dir := t.TempDir()
	var files []string
	onStack(t, devPolicies, func(s *stack) {
		var regions []*stackRegion
		for _, name := range []string{"eu", "us", "ap"} {
			r, file, end := loggedRegion(s, dir, name)
			regions, files = append(regions, r), append(files, file)
			defer end()
		}
		part := func(operation string, cost int64) decision.Part {
			return decision.Part{Key: lease.Key{Account: "acme", Operation: operation}, Cost: decision.Tokens(cost)}
		}
		admitted := 0
		for round := range 40 {
			for i, r := range regions {
				ctx := s.t.Context()
				for range 3 {
					if r.Decide(ctx, decision.Request{Part: part("report.create", 5), ID: fmt.Sprintf("%d-%d", round, i)}).Allowed {
						admitted++
					}
				}
				r.Decide(ctx, decision.Request{Part: part("login", 1)})
				r.Decide(ctx, decision.Request{Part: part("search", 700), Also: []decision.Part{part("mail.send", 20)}})
				if held, d := r.Reserve(ctx, decision.Request{Part: part("answer.tokens", 200)}); d.Allowed {
					held.Settle(ctx, 120)
				}
				if slot, d := r.Reserve(ctx, decision.Request{Part: part("export", 1)}); d.Allowed && round%2 == 0 {
					slot.Settle(ctx, 0)
				}
				r.CheckN(ctx, "beta", "report.create", 5)
			}
			if round == 20 {
				s.apply(strings.Replace(devPolicies, "capacity: 40\n", "capacity: 20\n", 1))
			}
			s.pass(700 * time.Millisecond)
		}
		if admitted < 20 {
			t.Errorf("only %d were admitted", admitted)
		}
	})
	code, report, said := verifyLogs(t, files...)
	if code != exitYes || !report.Complete || report.Violating != 0 || report.Budgets < 7 || len(report.Logs) != 3 || report.Admissions < 100 || report.Denials < 100 {
		t.Fatalf("ended with %d: %+v\n%s", code, report, said)
	}

	// The busiest moment of one budget, once more.
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var forged []byte
	for line := range strings.Lines(string(text)) {
		l, err := decisionlog.Parse([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if l.Operation == "login" && l.Allowed && forged == nil {
			for i := range 3 {
				l.Log, l.Region, l.Order = "0123456789abcdef", "forged", uint64(i+1)
				one, _ := json.Marshal(l)
				forged = append(append(forged, one...), '\n')
			}
		}
	}
	extra := filepath.Join(dir, "forged.log")
	if err := os.WriteFile(extra, forged, 0o600); err != nil {
		t.Fatal(err)
	}
	code, report, said = verifyLogs(t, append(files, extra)...)
	if code != exitNo || report.Violating != 1 || report.Violations[0].Operation != "login" || report.Violations[0].Rule != "3 in any 1m0s" ||
		!strings.Contains(said, "violated: more was admitted of 1 budgets than their policies allow") {
		t.Errorf("ended with %d: %+v\n%s", code, report.Violations, said)
	}
}

// Shadow mode and local allowances have their reasons in metrics and log alike, and
// are no violation.
func TestLenientAdmissionsAreTold(t *testing.T) {
	dir := t.TempDir()
	var files []string
	const policies = `policies:
  - operation: shadowed
    token-bucket:
      capacity: 1
    shadow: true
  - operation: allowed-locally
    token-bucket:
      capacity: 1
    on-unavailable: local
    local:
      capacity: 2
      for: 1h
`
	onStack(t, policies, func(s *stack) {
		r, file, end := loggedRegion(s, dir, "eu")
		defer end()
		files = append(files, file)
		ctx := s.t.Context()
		for range 3 {
			if !r.CheckN(ctx, "acme", "shadowed", 1).Allowed {
				s.t.Error("shadow mode denied")
			}
		}
		r.CheckN(ctx, "acme", "allowed-locally", 1)
		r.net.cut.Store(true)
		s.pass(5 * time.Second)
		reasons := map[pb.Reason]float64{}
		for range 4 {
			reasons[r.CheckN(ctx, "acme", "allowed-locally", 1).Reason]++
			s.pass(time.Second)
		}
		if reasons[pb.Reason_REASON_FALLBACK] != 2 {
			s.t.Errorf("%v", reasons)
		}
		for _, c := range []struct {
			want   float64
			name   string
			labels []string
		}{
			{1, "decisions_total", []string{"shadowed", "allowed"}}, {2, "decisions_total", []string{"shadowed", "exhausted"}},
			{2, "shadow_admissions_total", []string{"shadowed", "exhausted"}}, {2, "decisions_total", []string{"allowed-locally", "fallback"}},
			{2, "fallback_admissions_total", []string{"allowed-locally"}}, {0, "fallback_admissions_total", []string{"shadowed"}},
		} {
			if n := counter(s.t, r.reg, "tokenlease_limiter_"+c.name, c.labels...); n != c.want {
				s.t.Errorf("%s %v is %v, want %v", c.name, c.labels, n, c.want)
			}
		}
		r.net.cut.Store(false)
	})
	code, report, said := verifyLogs(t, files...)
	if code != exitYes || report.Beside != 4 || report.BesideTokens != 4 || report.Admissions != 2 {
		t.Errorf("ended with %d: %+v\n%s", code, report, said)
	}
}
