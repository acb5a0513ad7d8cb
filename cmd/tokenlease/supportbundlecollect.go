package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const (
	// bundleAudit is how many entries of the audit go in, and bundlePage how many
	// budgets, grants and accounts.
	bundleAudit = 1000
	bundlePage  = 1000
	// bundleMetricsBytes bounds what is read of a broker's metrics.
	bundleMetricsBytes = 8 << 20
)

// bundle is what goes into a support bundle.
type bundle struct {
	p        *program
	settings *doctorSettings
	hide     *concealer

	files    []bundled
	problems []string
}

// bundled is a file of it.
type bundled struct {
	name string
	data []byte
}

// collect asks for everything, and tells what the doctor has seen.
func (b *bundle) collect(ctx context.Context) *examination {
	seen, reached := b.p.examine(ctx, b.settings), false
	at := b.settings.client
	if first := seen.answering(); first != nil {
		reached = true
		at.url = first.url
		if err := at.validate(); err != nil {
			b.problem("the client", err)
		}
	}
	pages := b.pages(ctx, &at, reached)
	for _, m := range pages { // every name has to be known before the first is hidden
		b.hide.learn(m.message)
	}
	var audit []*tokenleasev1.AuditEntry
	if reached {
		audit = b.audit(ctx, &at)
	}
	b.addPlain("versions.json", b.versions())
	b.addDiagnosis(diagnose(seen))
	b.addExamined(seen)
	for _, m := range pages {
		b.addMessage(m.name, m.message)
	}
	if reached {
		b.addAudit(audit)
		b.addMetrics(ctx, &at)
	}
	b.addProblems()
	return seen
}

// addProblems adds what could not be had, once every name is known.
func (b *bundle) addProblems() {
	for i, text := range b.problems {
		b.problems[i] = b.hide.text(text)
	}
	slices.Sort(b.problems)
	b.add("problems.txt", []byte(strings.Join(append(b.problems, ""), "\n")))
}

// versions are those of this program and its surroundings. Of variables there are
// names alone.
func (b *bundle) versions() any {
	var variables []string
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, environmentPrefix) {
			variables = append(variables, name)
		}
	}
	slices.Sort(variables)
	var also []string
	for _, url := range b.settings.also {
		also = append(also, shownURL(url))
	}
	return map[string]any{
		"program": version(), "go": runtime.Version(), "system": runtime.GOOS + "/" + runtime.GOARCH,
		"time": moment(b.p.now().UnixMilli()), "variables_that_are_set": variables, "broker": shownURL(b.settings.client.url), "brokers": also,
	}
}

// addExamined adds what the doctor was told.
func (b *bundle) addExamined(seen *examination) {
	for i, broker := range seen.brokers {
		if broker.err != nil {
			b.problem(broker.shown(), broker.err)
			continue
		}
		b.addMessage(fmt.Sprintf("broker-%d/cluster.json", i+1), broker.cluster)
		if broker.whoErr != nil {
			b.problem("who you are to "+broker.shown(), broker.whoErr)
			continue
		}
		b.addMessage(fmt.Sprintf("broker-%d/who-am-i.json", i+1), broker.who)
	}
	if seen.answering() == nil {
		return
	}
	for _, one := range []struct {
		name    string
		message proto.Message
		err     error
	}{
		{"shards.json", seen.shards, seen.shardsErr},
		{"holders.json", seen.holders, seen.holdersErr},
		{"policy-status.json", seen.policy, seen.policyErr},
		{"restore.json", seen.restore, seen.restoreErr},
	} {
		if one.err != nil {
			b.problem(one.name, one.err)
			continue
		}
		b.addMessage(one.name, one.message)
	}
}

// page is an answer that goes in as it is.
type page struct {
	name    string
	message proto.Message
}

// pages are a page each of what there may be much of.
func (b *bundle) pages(ctx context.Context, at *clientSettings, reached bool) []page {
	if !reached {
		return nil
	}
	var all []page
	keep := func(name string, m proto.Message, err error) {
		if err != nil {
			b.problem(name, err)
			return
		}
		all = append(all, page{name, m})
	}
	admin := at.admin()
	policies, err := ask(ctx, at, admin.ListPolicies, &tokenleasev1.ListPoliciesRequest{})
	keep("policies.json", policies, err)
	accounts, err := ask(ctx, at, admin.ListAccounts, &tokenleasev1.ListAccountsRequest{PageSize: bundlePage})
	keep("accounts.json", accounts, err)
	history, err := ask(ctx, at, admin.ListPolicyHistory, &tokenleasev1.ListPolicyHistoryRequest{PageSize: 100})
	keep("policy-history.json", history, err)
	budgets, err := ask(ctx, at, admin.ListBudgets, &tokenleasev1.ListBudgetsRequest{PageSize: bundlePage})
	keep("budgets.json", budgets, err)
	grants, err := ask(ctx, at, admin.ListGrants, &tokenleasev1.ListGrantsRequest{PageSize: bundlePage})
	keep("grants.json", grants, err)
	busiest, err := ask(ctx, at, admin.TopBudgets, topRequest(orderBusiest, topMost))
	keep("top-busiest.json", busiest, err)
	starved, err := ask(ctx, at, admin.TopBudgets, topRequest(orderStarved, topMost))
	keep("top-starved.json", starved, err)
	return all
}

// audit are the newest entries, whose names are known then.
func (b *bundle) audit(ctx context.Context, at *clientSettings) []*tokenleasev1.AuditEntry {
	var entries []*tokenleasev1.AuditEntry
	request := &tokenleasev1.ListAuditRequest{PageSize: bundleAudit}
	_, err := auditEntries(ctx, at, request, bundleAudit, false, func(e *tokenleasev1.AuditEntry) error {
		entries = append(entries, e)
		b.hide.learnAudit(e)
		return nil
	})
	if err != nil {
		b.problem("audit.jsonl", err)
	}
	return entries
}

// addDiagnosis adds what the doctor finds, which may tell of accounts.
func (b *bundle) addDiagnosis(d *diagnosis) {
	for i, f := range d.Findings {
		d.Findings[i].What, d.Findings[i].Next = b.hide.text(f.What), b.hide.text(f.Next)
	}
	b.addPlain("doctor.json", d)
}

// addAudit adds entries, a line each.
func (b *bundle) addAudit(entries []*tokenleasev1.AuditEntry) {
	var lines bytes.Buffer
	for _, e := range entries {
		line, err := auditLine(b.hide.audit(e))
		if err != nil {
			b.problem("audit.jsonl", err)
			continue
		}
		lines.Write(line)
	}
	b.add("audit.jsonl", lines.Bytes())
}

// addMetrics adds what the broker tells a collector of metrics.
func (b *bundle) addMetrics(ctx context.Context, at *clientSettings) {
	ctx, cancel := context.WithTimeout(ctx, at.timeout)
	defer cancel()
	data, err := func() ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(at.url, "/")+"/metrics", nil)
		if err != nil {
			return nil, err
		}
		response, err := at.httpClient().Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the broker answers with %s", response.Status)
		}
		return io.ReadAll(io.LimitReader(response.Body, bundleMetricsBytes))
	}()
	if err != nil {
		b.problem("metrics.txt", err)
		return
	}
	b.add("metrics.txt", data)
}

// addMessage adds a message as JSON, with its account names hidden.
func (b *bundle) addMessage(name string, m proto.Message) {
	data, err := encode(formatJSON, b.hide.message(m))
	if err != nil {
		b.problem(name, err)
		return
	}
	b.add(name, data)
}

// addPlain adds a value that is no message as JSON.
func (b *bundle) addPlain(name string, value any) {
	data, err := encodePlain(formatJSON, value)
	if err != nil {
		b.problem(name, err)
		return
	}
	b.add(name, data)
}

// add adds a file. Whatever looks like a secret is taken out of it.
func (b *bundle) add(name string, data []byte) {
	b.files = append(b.files, bundled{name: name, data: withoutSecrets(data)})
}

// problem notes what could not be had.
func (b *bundle) problem(what string, err error) {
	b.problems = append(b.problems, what+": "+oneLine(err.Error()))
}
