package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"

	"github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/cmd/tokenlease/monitoring"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/identity/tlsfiles"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/decisionlog"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
	"github.com/tokenlease/tokenlease/regional/gateway/forwardauth"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// recorder is a registerer that notes what is registered: also what has no series yet.
type recorder struct {
	*prometheus.Registry
	labels map[string][]string // by metric, in order
}

func newRecorder() *recorder {
	return &recorder{Registry: prometheus.NewRegistry(), labels: map[string][]string{}}
}

var (
	describedName   = regexp.MustCompile(`fqName: "([^"]+)"`)
	describedConst  = regexp.MustCompile(`constLabels: \{([^}]*)\}`)
	describedLabels = regexp.MustCompile(`variableLabels: \{([^}]*)\}`)
	constLabel      = regexp.MustCompile(`(\w+)="`)
)

// Register implements prometheus.Registerer.
func (r *recorder) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc)
	go func() {
		c.Describe(described)
		close(described)
	}()
	for desc := range described {
		text := desc.String()
		var labels []string
		for _, m := range constLabel.FindAllStringSubmatch(describedConst.FindStringSubmatch(text)[1], -1) {
			labels = append(labels, m[1])
		}
		if variable := describedLabels.FindStringSubmatch(text)[1]; variable != "" {
			labels = append(labels, strings.Split(variable, ",")...)
		}
		slices.Sort(labels)
		r.labels[describedName.FindStringSubmatch(text)[1]] = labels
	}
	return r.Registry.Register(c)
}

// MustRegister implements prometheus.Registerer.
func (r *recorder) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// registered is what a broker and a limiter with everything turned on register.
func registered(t *testing.T) *recorder {
	t.Helper()
	r := newRecorder()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := broker.New(t.Context(), broker.Config{
		Store: store.NewMemory(), AdvertiseURL: "http://broker", HTTPClient: http.DefaultClient, Registerer: r,
	})
	must(err)
	files, err := tlsfiles.Open(tlsfiles.Config{Use: "server", Registerer: r})
	must(err)
	identity.NewGuard(identity.Config{Trust: files.Trust, Registerer: r})
	identity.Limits(identity.LimitsConfig{Service: "service", Registerer: r})
	log, err := decisionlog.Open(decisionlog.Config{
		Path: filepath.Join(t.TempDir(), "log"), Region: "eu", Instance: "limiter-0", Sample: 1, Registerer: r,
	})
	must(err)
	t.Cleanup(func() { must(log.Close(context.Background())) })
	l, err := regional.New(regional.Config{
		Region: "eu", Instance: "limiter-0", Brokers: []string{"http://broker"}, HTTPClient: http.DefaultClient,
		JournalMode: holder.JournalOff, DecisionLog: log, Registerer: r,
	})
	must(err)
	envoy.New(envoy.Config{Decider: l, Registerer: r})
	_, err = forwardauth.New(forwardauth.Config{
		Decider: l, Registerer: r, Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, AccountHeader: "X-Account",
		Rules: []forwardauth.Rule{{Path: "/", Operation: "api"}},
	})
	must(err)
	if _, ok := r.labels["tokenlease_anonymous_keys"]; !ok { // forward-auth has its own for anonymous callers alone
		_, err = clientkey.New(clientkey.Config{Registerer: r})
		must(err)
	}
	return r
}

// documented is a row of the table of metrics.
type documented struct {
	kind   string
	labels []string
}

var tableRow = regexp.MustCompile("^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram) \\|\\s*([^|]*?)\\s*\\| ([^|]+) \\|$")

// table is the table of metrics.
func tableOfMetrics(t *testing.T, text string) map[string]documented {
	t.Helper()
	table := map[string]documented{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		row := tableRow.FindStringSubmatch(line)
		if row == nil {
			t.Errorf("no row of the table of metrics: %s", line)
			continue
		}
		var labels []string
		for label := range strings.SplitSeq(row[3], ",") {
			if label = strings.Trim(strings.TrimSpace(label), "`"); label != "" {
				labels = append(labels, label)
			}
		}
		slices.Sort(labels)
		if _, twice := table[row[1]]; twice {
			t.Errorf("%s is documented twice", row[1])
		}
		table[row[1]] = documented{kind: row[2], labels: labels}
	}
	return table
}

// Every metric that is registered is documented, with its labels, and every one that
// is documented is registered.
func TestEveryMetricIsDocumented(t *testing.T) {
	table, r := tableOfMetrics(t, monitoring.Metrics), registered(t)
	for _, name := range slices.Sorted(maps.Keys(r.labels)) {
		row, ok := table[name]
		if !ok {
			t.Errorf("%s %v is not documented", name, r.labels[name])
		} else if !slices.Equal(row.labels, r.labels[name]) {
			t.Errorf("%s has the labels %v, and %v are documented", name, r.labels[name], row.labels)
		}
	}
	for name := range table {
		if _, ok := r.labels[name]; !ok {
			t.Errorf("%s is documented, and there is no such metric", name)
		}
	}
}

// What a broker and a limiter at work tell is of the documented types, and labels
// name neither accounts nor grants (case 33).
func TestCase33MetricsOfARunAreAsDocumented(t *testing.T) {
	onStack(t, devPolicies, func(s *stack) {
		t, r := s.t, s.region("eu")
		for range 12 {
			r.Decide(t.Context(), decision.Request{Part: decision.Part{Key: lease.Key{Account: "a-secret", Operation: "report.create"}}})
		}
		table := tableOfMetrics(t, monitoring.Metrics)
		for _, reg := range []*prometheus.Registry{s.reg, r.reg} {
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			if len(families) < 20 {
				t.Errorf("only %d metrics are told", len(families))
			}
			for _, f := range families {
				if kind := strings.ToLower(f.GetType().String()); table[f.GetName()].kind != kind {
					t.Errorf("%s is a %s, and a %q is documented", f.GetName(), kind, table[f.GetName()].kind)
				}
				for _, m := range f.GetMetric() {
					for _, label := range m.GetLabel() {
						if strings.Contains(label.GetValue(), "secret") || strings.HasPrefix(label.GetValue(), "g1-") {
							t.Errorf("%s has the label %v", f.GetName(), label)
						}
					}
				}
			}
		}
		if n := counter(t, r.reg, "tokenlease_limiter_decisions_total", "report.create", "allowed"); n != 8 {
			t.Errorf("%v admissions are counted of 8", n)
		}
		if n := counter(t, r.reg, "tokenlease_limiter_decisions_total", "report.create", "exhausted"); n != 4 {
			t.Errorf("%v denials are counted of 4", n)
		}
	})
}

// counter is the value of a counter with these values of labels, in order.
func counter(t *testing.T, reg *prometheus.Registry, name string, values ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if slices.EqualFunc(m.GetLabel(), values, func(l *dto.LabelPair, v string) bool { return l.GetValue() == v }) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no %s of %v", name, values)
	return 0
}

// alertRules is the form of a file of rules.
type alertRules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// readRules reads rules strictly.
func readRules(t *testing.T, text string) alertRules {
	t.Helper()
	var rules alertRules
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&rules); err != nil {
		t.Fatal(err)
	}
	return rules
}

// dashboardExprs are all expressions of a dashboard, by the titles of their panels.
func dashboardExprs(t *testing.T, text string) map[string][]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Type    string `json:"type"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	exprs := map[string][]string{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			exprs[p.Title] = append(exprs[p.Title], target.Expr)
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
	}
	return exprs
}

var (
	exprMetric   = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	exprSelector = regexp.MustCompile(`([a-z0-9_]+)\{([^}]*)\}`)
	exprMatcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	exprGrouping = regexp.MustCompile(`(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	exprString   = regexp.MustCompile(`"[^"]*"`)
)

// scraped are the labels that Prometheus adds.
var scraped = []string{"job", "instance"}

// exprFaults is what an expression names that there is not.
func exprFaults(expr string, table map[string]documented) (faults []string) {
	base := func(name string) string {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if cut, ok := strings.CutSuffix(name, suffix); ok && table[cut].kind == "histogram" {
				return cut
			}
		}
		return name
	}
	var known []string
	for _, name := range exprMetric.FindAllString(exprString.ReplaceAllString(expr, ""), -1) {
		if !strings.HasPrefix(name, "tokenlease") {
			continue
		}
		row, ok := table[base(name)]
		if !ok {
			faults = append(faults, "no metric "+name)
		}
		known = append(known, row.labels...)
	}
	known = append(known, scraped...)
	if strings.Contains(expr, "_bucket") {
		known = append(known, "le")
	}
	for _, s := range exprSelector.FindAllStringSubmatch(expr, -1) {
		own := append(slices.Clone(table[base(s[1])].labels), scraped...)
		for _, m := range exprMatcher.FindAllStringSubmatch(s[2], -1) {
			if !slices.Contains(own, m[1]) {
				faults = append(faults, fmt.Sprintf("%s has no label %s", s[1], m[1]))
			}
		}
	}
	for _, g := range exprGrouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(known, label) {
				faults = append(faults, "no label "+label)
			}
		}
	}
	return faults
}

// monitoringFaults is what alerts and dashboard name that there is not.
func monitoringFaults(t *testing.T, alerts, dashboard string, table map[string]documented) (faults []string) {
	t.Helper()
	for _, g := range readRules(t, alerts).Groups {
		for _, r := range g.Rules {
			for _, fault := range exprFaults(r.Expr, table) {
				faults = append(faults, r.Alert+": "+fault)
			}
		}
	}
	exprs := dashboardExprs(t, dashboard)
	for _, title := range slices.Sorted(maps.Keys(exprs)) {
		for _, expr := range exprs[title] {
			for _, fault := range exprFaults(expr, table) {
				faults = append(faults, title+": "+fault)
			}
		}
	}
	return faults
}

// Alerts and dashboard name only metrics and labels that there are; with one renamed
// they fail.
func TestCase56AlertsAndDashboardNameWhatThereIs(t *testing.T) {
	table := tableOfMetrics(t, monitoring.Metrics)
	if faults := monitoringFaults(t, monitoring.Alerts, monitoring.Dashboard, table); len(faults) > 0 {
		t.Errorf("%s", strings.Join(faults, "\n"))
	}
	for _, renamed := range []struct{ metric, alert, panel string }{
		{"tokenlease_broker_orphaned_tokens", "TokenleaseOrphanedCredit: no metric tokenlease_broker_orphaned_tokens", "Orphaned, by region: no metric tokenlease_broker_orphaned_tokens"},
		{"tokenlease_limiter_journal_seconds", "TokenleaseJournalSlow: no metric tokenlease_limiter_journal_seconds_bucket", "Journal: no metric tokenlease_limiter_journal_seconds_bucket"},
	} {
		others := maps.Clone(table)
		others[renamed.metric+"_new"] = others[renamed.metric]
		delete(others, renamed.metric)
		faults := monitoringFaults(t, monitoring.Alerts, monitoring.Dashboard, others)
		if !slices.Contains(faults, renamed.alert) || !slices.Contains(faults, renamed.panel) {
			t.Errorf("%s was renamed, and only this fails: %q", renamed.metric, faults)
		}
	}
	others := maps.Clone(table)
	others["tokenlease_limiter_decisions_total"] = documented{kind: "counter", labels: []string{"operation", "why"}}
	if faults := monitoringFaults(t, monitoring.Alerts, monitoring.Dashboard, others); !slices.Contains(faults, "TokenleaseUnavailable: tokenlease_limiter_decisions_total has no label reason") ||
		!slices.Contains(faults, "Decisions by reason: no label reason") {
		t.Errorf("a label was renamed, and only this fails: %q", faults)
	}
}

// Each alert has what whoever is woken by it needs, and what must be watched is.
func TestAlertsAreUsable(t *testing.T) {
	rules := readRules(t, monitoring.Alerts)
	seen := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] {
				t.Errorf("%s is there twice", r.Alert)
			}
			seen[r.Alert] = true
			if !strings.HasPrefix(r.Alert, "Tokenlease") || r.Annotations["summary"] == "" || len(r.Annotations["runbook"]) < 40 {
				t.Errorf("%s lacks a summary or a runbook", r.Alert)
			}
			if s := r.Labels["severity"]; s != "warning" && s != "critical" {
				t.Errorf("%s has severity %q", r.Alert, s)
			}
		}
	}
	for _, name := range []string{
		"ShardWithoutOwner", "OrphanedCredit", "RetiredEpochSpeaks", "GrantsLapsed", "SyncAge", "Evidence", "EtcdQuota", "CertificateExpiry", "FallbackInUse", "PolicyLag",
		"DecisionLogDropping", "JournalSlow", "BrokerDown",
	} {
		if !seen["Tokenlease"+name] {
			t.Errorf("no alert %s", name)
		}
	}
}

// Prometheus takes the rules.
func TestPrometheusTakesTheRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: it comes with the Debian package prometheus")
	}
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(file, []byte(monitoring.Alerts), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	// The expressions of the dashboard are checked as rules.
	var b strings.Builder
	b.WriteString("groups:\n- name: dashboard\n  rules:\n")
	exprs := dashboardExprs(t, monitoring.Dashboard)
	for _, title := range slices.Sorted(maps.Keys(exprs)) {
		for i, expr := range exprs[title] {
			fmt.Fprintf(&b, "  - record: panel:%d_%x\n    expr: %q\n", i, title, strings.ReplaceAll(expr, "$__rate_interval", "5m"))
		}
	}
	file = filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// One request of an epoch that was attested to be gone wakes somebody, and where there
// was none nobody is woken.
func TestRetiredEpochAlert(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: it comes with the Debian package prometheus")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"alerts.yaml": monitoring.Alerts, "test.yaml": `
rule_files: [alerts.yaml]
evaluation_interval: 1m
tests:
- interval: 1m
  input_series:
  - {series: 'tokenlease_broker_retired_epoch_requests_total{instance="a"}', values: '0x10 1x100'}
  - {series: 'tokenlease_broker_retired_epoch_requests_total{instance="b"}', values: '7x110'}
  - {series: 'tokenlease_broker_shards_owned{instance="a"}', values: '4x110'}
  promql_expr_test:
  - expr: count(ALERTS{alertname="TokenleaseRetiredEpochSpeaks", alertstate="firing", severity="critical"}) or vector(0)
    eval_time: 10m
    exp_samples: [{value: 0}]
  - expr: count(ALERTS{alertname="TokenleaseRetiredEpochSpeaks", alertstate="firing", severity="critical"}) or vector(0)
    eval_time: 12m
    exp_samples: [{value: 1}]
  - expr: count(ALERTS{alertname="TokenleaseRetiredEpochSpeaks", alertstate="firing", severity="critical"}) or vector(0)
    eval_time: 80m
    exp_samples: [{value: 0}]
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", filepath.Join(dir, "test.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
